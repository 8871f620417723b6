/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The functions of the select ABI that linear and cons_res have in common: they update use_now as
 * jobs come and go, and report it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "contrib/jobd/select/use.h"

#define STATE_MAGIC   0x6a6f6264u
#define STATE_VERSION 1u

/* ---- beginning and end -------------------------------------------------------------------------
 */

/* The host saves the resources of jobs; the plugin's file only has its name and version. */
int select_p_state_save(char *dir_name)
{
	char path[4096];
	FILE *f;
	int r;

	(void)snprintf(path, sizeof(path), "%s/select_state", dir_name);
	f = fopen(path, "we");
	if (!f)
		return SLURM_ERROR;
	r = fprintf(f, "%x %u %s\n", STATE_MAGIC, STATE_VERSION, plugin_type) < 0;
	return fclose(f) != 0 || r ? SLURM_ERROR : SLURM_SUCCESS;
}

int select_p_state_restore(char *dir_name)
{
	char path[4096], type[64] = "";
	unsigned magic = 0, version = 0;
	FILE *f;
	int n;

	(void)snprintf(path, sizeof(path), "%s/select_state", dir_name);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? SLURM_SUCCESS : SLURM_ERROR;
	n = fscanf(f, "%x %u %63s", &magic, &version, type);
	(void)fclose(f); /* read only */
	if (n == 3 && magic == STATE_MAGIC && version == STATE_VERSION)
		return SLURM_SUCCESS;
	errno = EBADMSG;
	return SLURM_ERROR;
}

int select_p_node_init(node_record_t *node_ptr, int node_cnt)
{
	(void)node_ptr; /* node_record_table_ptr */
	use_clear(&use_now);
	use_make(&use_now, (uint32_t)node_cnt);
	return SLURM_SUCCESS;
}

static int add_found_job(void *item, void *unused)
{
	const job_record_t *job = item;
	uint32_t state = job->job_state & JOB_STATE_BASE;

	(void)unused;
	if (job->job_resrcs && (state == JOB_RUNNING || state == JOB_SUSPENDED))
		use_add_job(&use_now, job);
	return 0;
}

int select_p_job_init(List jobs)
{
	(void)list_for_each(jobs, add_found_job, NULL); /* none stops it */
	use_note_sharing(&use_now);
	return SLURM_SUCCESS;
}

/* Memory is read when a job is tested. */
int select_p_reconfigure(void)
{
	use_note_nodes(&use_now);
	use_note_sharing(&use_now);
	return SLURM_SUCCESS;
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

static int without_resources(void)
{
	errno = EINVAL;
	return SLURM_ERROR;
}

int (*use_get_cleaning)(const select_jobinfo_t *info, uint16_t *ret_cleaning);

int use_begin_job(job_record_t *job)
{
	if (!job->job_resrcs)
		return without_resources();
	use_add_job(&use_now, job);
	return SLURM_SUCCESS;
}

int use_end_job(job_record_t *job)
{
	if (job->select_jobinfo)
		job->select_jobinfo->job_id = job->job_id;
	use_remove_job(&use_now, job);
	return SLURM_SUCCESS;
}

/* A suspended job has all that it had, its memory included. */
int select_p_job_suspend(job_record_t *job, bool indf_susp)
{
	(void)indf_susp;
	return job->job_resrcs ? SLURM_SUCCESS : without_resources();
}

int select_p_job_resume(job_record_t *job, bool indf_susp)
{
	(void)indf_susp;
	return job->job_resrcs ? SLURM_SUCCESS : without_resources();
}

/* jobd signals by the agents. */
int select_p_job_signal(job_record_t *job, int signal)
{
	(void)job;
	(void)signal;
	return SLURM_SUCCESS;
}

int select_p_job_mem_confirm(job_record_t *job)
{
	const job_resources_t *r = job->job_resrcs;
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; r && (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		if (r->memory_allocated[k] <= use_memory_limit(&node_record_table_ptr[i]))
			continue;
		errno = ENOMEM;
		return SLURM_ERROR;
	}
	return SLURM_SUCCESS;
}

bool select_p_job_expand_allow(void)
{
	return true;
}

/* The index of a node in a job's arrays. */
static uint32_t place_of(const job_resources_t *r, bitoff_t node)
{
	return (uint32_t)bit_set_count_range(r->node_bitmap, 0, node);
}

/* The resources of both, by node; each core is taken from the one that has it. */
static job_resources_t *add_up(const job_resources_t *a, const job_resources_t *b)
{
	const job_resources_t *both[] = {a, b};
	bitstr_t *nodes = bit_copy(a->node_bitmap);
	job_resources_t *sum;
	size_t k;

	bit_or(nodes, b->node_bitmap);
	sum = use_resources_new(nodes);
	sum->node_req = a->node_req;
	sum->whole_node = a->whole_node;
	for (k = 0; k < 2; k++) {
		const job_resources_t *one = both[k];
		bitoff_t i = 0;

		for (; (i = bit_ffs_from_bit(one->node_bitmap, i)) >= 0; i++) {
			sum->cpus[place_of(sum, i)] += one->cpus[place_of(one, i)];
			sum->memory_allocated[place_of(sum, i)] +=
				one->memory_allocated[place_of(one, i)];
		}
		sum->ncpus += one->ncpus;
		if (one->core_bitmap && !sum->core_bitmap)
			sum->core_bitmap = bit_copy(one->core_bitmap);
		else if (one->core_bitmap)
			bit_or(sum->core_bitmap, one->core_bitmap);
	}
	bit_free(nodes);
	return sum;
}

int select_p_job_expand(job_record_t *from, job_record_t *to)
{
	job_resources_t *sum;

	if (!from->job_resrcs || !to->job_resrcs || from == to)
		return without_resources();
	sum = add_up(to->job_resrcs, from->job_resrcs);
	use_remove_job(&use_now, from);
	use_remove_job(&use_now, to);
	use_resources_free(from->job_resrcs);
	use_resources_free(to->job_resrcs);
	from->job_resrcs = NULL;
	to->job_resrcs = sum;
	use_add_job(&use_now, to);
	return SLURM_SUCCESS;
}

int select_p_job_resized(job_record_t *job, node_record_t *node)
{
	job_resources_t *r = job->job_resrcs;
	uint32_t at;

	if (!r || !bit_test(r->node_bitmap, node->index))
		return without_resources();
	use_remove_job_from(&use_now, job, node->index);
	at = place_of(r, node->index);
	r->nhosts--;
	r->ncpus -= r->cpus[at];
	memmove(&r->cpus[at], &r->cpus[at + 1], (r->nhosts - at) * sizeof(*r->cpus));
	memmove(&r->memory_allocated[at], &r->memory_allocated[at + 1],
		(r->nhosts - at) * sizeof(*r->memory_allocated));
	bit_clear(r->node_bitmap, node->index);
	if (r->core_bitmap)
		bit_nclear(r->core_bitmap, node->core_offset,
			(bitoff_t)node->core_offset + node->tot_cores - 1);
	return SLURM_SUCCESS;
}

/* ---- steps: jobd chooses -----------------------------------------------------------------------
 */

bitstr_t *select_p_step_pick_nodes(
	job_record_t *job, select_jobinfo_t *step_jobinfo, uint32_t node_count)
{
	(void)job;
	(void)step_jobinfo;
	(void)node_count;
	return NULL;
}

int select_p_step_finish(step_record_t *step, bool killing_step)
{
	(void)step;
	(void)killing_step;
	return SLURM_SUCCESS;
}

/* ---- information on nodes ----------------------------------------------------------------------
 */

struct select_nodeinfo {
	uint16_t alloc_cpus;
	uint64_t alloc_memory;
};

select_nodeinfo_t *select_p_select_nodeinfo_alloc(void)
{
	return xmalloc(sizeof(select_nodeinfo_t));
}

int select_p_select_nodeinfo_free(select_nodeinfo_t *nodeinfo)
{
	xfree(nodeinfo);
	return SLURM_SUCCESS;
}

int select_p_select_nodeinfo_pack(
	select_nodeinfo_t *nodeinfo, Buf buffer, uint16_t protocol_version)
{
	(void)protocol_version; /* there is one */
	if (!nodeinfo || !buffer) {
		errno = EINVAL;
		return SLURM_ERROR;
	}
	pack16(nodeinfo->alloc_cpus, buffer);
	pack64(nodeinfo->alloc_memory, buffer);
	return SLURM_SUCCESS;
}

int select_p_select_nodeinfo_unpack(
	select_nodeinfo_t **nodeinfo, Buf buffer, uint16_t protocol_version)
{
	select_nodeinfo_t info;

	(void)protocol_version;
	*nodeinfo = NULL;
	if (unpack16(&info.alloc_cpus, buffer) != SLURM_SUCCESS ||
		unpack64(&info.alloc_memory, buffer) != SLURM_SUCCESS) {
		errno = EBADMSG;
		return SLURM_ERROR;
	}
	*nodeinfo = select_p_select_nodeinfo_alloc();
	**nodeinfo = info;
	return SLURM_SUCCESS;
}

static void set_info(node_record_t *node)
{
	const struct use_node *use = &use_now.nodes[node->index];
	uint32_t cpus = 0, i;

	if (!node->select_nodeinfo)
		return;
	for (i = 0; i < use->count; i++)
		cpus += use->jobs[i].cpus;
	node->select_nodeinfo->alloc_cpus = (uint16_t)(cpus < node->cpus ? cpus : node->cpus);
	node->select_nodeinfo->alloc_memory = use_memory(&use_now, node->index);
}

int select_p_select_nodeinfo_set(job_record_t *job)
{
	bitoff_t i = 0;

	for (; job->job_resrcs && (i = bit_ffs_from_bit(job->job_resrcs->node_bitmap, i)) >= 0; i++)
		set_info(&node_record_table_ptr[i]);
	return SLURM_SUCCESS;
}

int select_p_select_nodeinfo_set_all(void)
{
	uint32_t i;

	for (i = 0; i < use_now.nodes_count; i++)
		set_info(&node_record_table_ptr[i]);
	return SLURM_SUCCESS;
}

int select_p_select_nodeinfo_get(select_nodeinfo_t *nodeinfo, enum select_nodedata_type dinfo,
	enum node_states state, void *data)
{
	bool is_used = state == NODE_STATE_ALLOCATED || state == NODE_STATE_MIXED;

	if (!nodeinfo) {
		errno = EINVAL;
		return SLURM_ERROR;
	}
	switch (dinfo) {
	case SELECT_NODEDATA_SUBCNT:
		*(uint16_t *)data = is_used ? nodeinfo->alloc_cpus : 0;
		return SLURM_SUCCESS;
	case SELECT_NODEDATA_MEM_ALLOC:
		*(uint64_t *)data = nodeinfo->alloc_memory;
		return SLURM_SUCCESS;
	case SELECT_NODEDATA_PTR:
		*(select_nodeinfo_t **)data = nodeinfo;
		return SLURM_SUCCESS;
	}
	errno = EINVAL;
	return SLURM_ERROR;
}

/* Nodes are read when a job is tested. */
int select_p_update_node_config(int index)
{
	if (index < 0 || index >= node_record_count) {
		errno = EINVAL;
		return SLURM_ERROR;
	}
	use_note_nodes(&use_now);
	return SLURM_SUCCESS;
}

int select_p_update_node_state(node_record_t *node)
{
	(void)node;
	return SLURM_SUCCESS;
}

bool select_p_node_ranking(node_record_t *node_ptr, int node_cnt)
{
	(void)node_ptr;
	(void)node_cnt;
	return false;
}

/* ---- information on jobs: their numbers --------------------------------------------------------
 */

select_jobinfo_t *select_p_select_jobinfo_alloc(void)
{
	return xmalloc(sizeof(select_jobinfo_t));
}

select_jobinfo_t *select_p_select_jobinfo_copy(select_jobinfo_t *jobinfo)
{
	select_jobinfo_t *copy = jobinfo ? select_p_select_jobinfo_alloc() : NULL;

	if (copy)
		*copy = *jobinfo;
	return copy;
}

int select_p_select_jobinfo_free(select_jobinfo_t *jobinfo)
{
	xfree(jobinfo);
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_pack(select_jobinfo_t *jobinfo, Buf buffer, uint16_t protocol_version)
{
	(void)jobinfo;
	(void)buffer;
	(void)protocol_version;
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_unpack(
	select_jobinfo_t **jobinfo, Buf buffer, uint16_t protocol_version)
{
	(void)buffer;
	(void)protocol_version;
	*jobinfo = select_p_select_jobinfo_alloc();
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_get(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data)
{
	if (data_type == SELECT_JOBDATA_PTR) {
		*(select_jobinfo_t **)data = jobinfo;
		return SLURM_SUCCESS;
	}
	if (data_type == SELECT_JOBDATA_CLEANING && use_get_cleaning)
		return use_get_cleaning(jobinfo, data);
	errno = EINVAL;
	return SLURM_ERROR;
}

int select_p_select_jobinfo_set(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data)
{
	(void)jobinfo;
	(void)data_type;
	(void)data;
	errno = EINVAL;
	return SLURM_ERROR;
}

char *select_p_select_jobinfo_sprint(select_jobinfo_t *jobinfo, char *buf, size_t size, int mode)
{
	(void)jobinfo;
	(void)mode;
	if (!buf || size == 0)
		return NULL;
	buf[0] = '\0';
	return buf;
}

char *select_p_select_jobinfo_xstrdup(select_jobinfo_t *jobinfo, int mode)
{
	(void)jobinfo;
	(void)mode;
	return xstrdup("");
}

/* ---- the block allocator of machines with dimensions: none has any -----------------------------
 */

void select_p_ba_init(node_info_msg_t *node_info_ptr, bool sanity_check)
{
	(void)node_info_ptr;
	(void)sanity_check;
}

int *select_p_ba_get_dims(void)
{
	return NULL;
}
