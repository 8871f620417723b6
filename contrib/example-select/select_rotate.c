/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/rotate: whole nodes, those first that have been idle the longest. Jobs don't share nodes,
 * and memory is not counted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <stepd/select.h>

STEPD_EXPORT const char plugin_type[] = "select/rotate";
STEPD_EXPORT const char plugin_name[] = "Whole nodes, in turn";
STEPD_EXPORT const uint32_t plugin_version = STEPD_API_VERSION;

/* How often a job has begun: it is kept with the job, and shown by "jobctl show". */
struct select_jobinfo {
	uint32_t begun;
};

/* By the number of a node. */
static struct seen {
	const job_record_t *job; /* NULL: it is idle */
	uint64_t last_use;       /* larger: later */
} * nodes;
static int nodes_count;
static uint64_t uses;

static int refuse(int error)
{
	errno = error;
	return SLURM_ERROR;
}

STEPD_EXPORT int init(void)
{
	return SLURM_SUCCESS;
}

STEPD_EXPORT void fini(void)
{
	xfree(nodes);
}

/* ---- what is idle ------------------------------------------------------------------------------
 */

int select_p_node_init(node_record_t *node_ptr, int node_cnt)
{
	(void)node_ptr;
	xfree(nodes);
	nodes = xmalloc((size_t)node_cnt * sizeof(*nodes));
	nodes_count = node_cnt;
	return SLURM_SUCCESS;
}

static void set_job(const job_record_t *job, const job_record_t *now)
{
	bitoff_t i = 0;

	for (; job->job_resrcs && (i = bit_ffs_from_bit(job->job_resrcs->node_bitmap, i)) >= 0; i++)
		nodes[i] = (struct seen){.job = now, .last_use = ++uses};
}

static int add_job(void *item, void *unused)
{
	const job_record_t *job = item;
	uint32_t state = job->job_state & JOB_STATE_BASE;

	(void)unused;
	if (state == JOB_RUNNING || state == JOB_SUSPENDED)
		set_job(job, job);
	return 0;
}

int select_p_job_init(List jobs)
{
	(void)list_for_each(jobs, add_job, NULL);
	return SLURM_SUCCESS;
}

int select_p_job_begin(job_record_t *job)
{
	if (!job->job_resrcs)
		return refuse(EINVAL);
	set_job(job, job);
	job->select_jobinfo->begun++;
	return SLURM_SUCCESS;
}

int select_p_job_fini(job_record_t *job)
{
	set_job(job, NULL);
	return SLURM_SUCCESS;
}

/* ---- the choice --------------------------------------------------------------------------------
 */

/* Whether the node is idle then; 0: on a cluster without jobs. */
static bool is_idle(bitoff_t i, time_t when)
{
	const job_record_t *job = nodes[i].job;

	return when == 0 || !job || (job->end_time && job->end_time <= when);
}

static bitoff_t find_rested(const bitstr_t *left, time_t when)
{
	bitoff_t i = 0, best = -1;

	for (; (i = bit_ffs_from_bit(left, i)) >= 0; i++) {
		if (is_idle(i, when) && (best < 0 || nodes[i].last_use < nodes[best].last_use))
			best = i;
	}
	return best;
}

/* Takes required nodes, then rested ones, until they suffice. */
static bool choose(const job_record_t *job, bitstr_t *bitmap, uint32_t least, uint32_t most,
	uint32_t wanted, time_t when)
{
	const bitstr_t *required = job->details->req_node_bitmap;
	bitstr_t *left = bit_copy(bitmap), *taken = bit_alloc(bit_size(bitmap));
	uint32_t n = 0, cpus = 0;
	bitoff_t i = -1;
	bool enough = false;

	while (!enough && n < most) {
		i = required ? bit_ffs_from_bit(required, i + 1) : -1;
		if (i < 0) {
			required = NULL;
			i = find_rested(left, when);
		}
		if (i < 0 || !bit_test(left, i) || !is_idle(i, when))
			break;
		bit_clear(left, i);
		bit_set(taken, i);
		n++;
		cpus += node_record_table_ptr[i].cpus;
		enough = !required && n >= wanted && cpus >= job->details->min_cpus;
	}
	enough = n >= least && cpus >= job->details->min_cpus &&
		(!job->details->req_node_bitmap ||
			bit_super_set(job->details->req_node_bitmap, taken));
	if (enough)
		bit_copybits(bitmap, taken);
	bit_free(left);
	bit_free(taken);
	return enough;
}

static job_resources_t *make_resources(const bitstr_t *bitmap)
{
	job_resources_t *r = xmalloc(sizeof(*r));
	bitoff_t i = 0;
	uint32_t k = 0;

	r->node_bitmap = bit_copy(bitmap);
	r->nhosts = (uint32_t)bit_set_count(bitmap);
	r->cpus = xmalloc(r->nhosts * sizeof(*r->cpus));
	r->memory_allocated = xmalloc(r->nhosts * sizeof(*r->memory_allocated));
	for (; (i = bit_ffs_from_bit(bitmap, i)) >= 0; i++, k++) {
		r->cpus[k] = node_record_table_ptr[i].cpus;
		r->ncpus += r->cpus[k];
	}
	r->node_req = NODE_CR_RESERVED;
	r->whole_node = 1;
	return r;
}

static int by_time(const void *a, const void *b)
{
	time_t x = *(const time_t *)a, y = *(const time_t *)b;

	return (x > y) - (x < y);
}

/* The first moment at which it can run: now, or when a job ends. */
static bool find_start(const job_record_t *job, bitstr_t *bitmap, uint32_t least, uint32_t most,
	uint32_t wanted, time_t *ret_start)
{
	time_t *ends = xmalloc(((size_t)nodes_count + 1) * sizeof(*ends));
	bool found = false;
	int i, n = 0;

	ends[n++] = slurm_now();
	for (i = 0; i < nodes_count; i++) {
		if (nodes[i].job && nodes[i].job->end_time > slurm_now())
			ends[n++] = nodes[i].job->end_time;
	}
	qsort(ends, (size_t)n, sizeof(*ends), by_time);
	for (i = 0; i < n && !found; i++) {
		found = (i == 0 || ends[i] > ends[i - 1]) &&
			choose(job, bitmap, least, most, wanted, ends[i]);
		if (found)
			*ret_start = ends[i];
	}
	xfree(ends);
	return found;
}

static void free_resources(job_resources_t *r)
{
	if (!r)
		return;
	bit_free(r->node_bitmap);
	bit_free(r->core_bitmap);
	xfree(r->cpus);
	xfree(r->memory_allocated);
	xfree(r);
}

int select_p_job_test(job_record_t *job, bitstr_t *bitmap, uint32_t min_nodes, uint32_t max_nodes,
	uint32_t req_nodes, uint32_t mode, List preemptee_candidates, List *preemptee_job_list,
	bitstr_t *exc_core_bitmap)
{
	(void)preemptee_candidates; /* nobody is preempted */
	(void)exc_core_bitmap;      /* of whole nodes there is nothing to except */
	if (preemptee_job_list)
		*preemptee_job_list = NULL;
	if (job->details->contiguous && max_nodes > 1)
		return refuse(EINVAL); /* nodes in turn are not neighbours */
	if (mode == SELECT_MODE_WILL_RUN)
		return find_start(job, bitmap, min_nodes, max_nodes, req_nodes, &job->start_time)
			? SLURM_SUCCESS
			: refuse(EBUSY);
	if (!choose(job, bitmap, min_nodes, max_nodes, req_nodes,
		    mode == SELECT_MODE_TEST_ONLY ? 0 : slurm_now()))
		return refuse(mode == SELECT_MODE_TEST_ONLY ? EINVAL : EBUSY);
	if (mode == SELECT_MODE_RUN_NOW) {
		free_resources(job->job_resrcs);
		job->job_resrcs = make_resources(bitmap);
	}
	return SLURM_SUCCESS;
}

bitstr_t *select_p_resv_test(resv_desc_msg_t *resv_desc_ptr, uint32_t node_cnt,
	bitstr_t *avail_bitmap, bitstr_t **core_bitmap)
{
	bitstr_t *picked = bit_alloc(bit_size(avail_bitmap));
	bitoff_t i = 0;
	uint32_t n = 0;

	(void)core_bitmap;
	for (; !resv_desc_ptr->core_cnt && n < node_cnt &&
		(i = bit_ffs_from_bit(avail_bitmap, i)) >= 0;
		i++, n++)
		bit_set(picked, i);
	if (n == node_cnt)
		return picked;
	bit_free(picked);
	errno = resv_desc_ptr->core_cnt ? EOPNOTSUPP : EBUSY;
	return NULL;
}

/* ---- information on nodes ----------------------------------------------------------------------
 */

struct select_nodeinfo {
	uint16_t alloc_cpus;
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
	(void)protocol_version;
	pack16(nodeinfo->alloc_cpus, buffer);
	return SLURM_SUCCESS;
}

int select_p_select_nodeinfo_unpack(
	select_nodeinfo_t **nodeinfo, Buf buffer, uint16_t protocol_version)
{
	(void)protocol_version;
	*nodeinfo = select_p_select_nodeinfo_alloc();
	if (unpack16(&(*nodeinfo)->alloc_cpus, buffer) == SLURM_SUCCESS)
		return SLURM_SUCCESS;
	xfree(*nodeinfo);
	return refuse(EBADMSG);
}

int select_p_select_nodeinfo_set_all(void)
{
	int i;

	for (i = 0; i < nodes_count; i++) {
		if (node_record_table_ptr[i].select_nodeinfo)
			node_record_table_ptr[i].select_nodeinfo->alloc_cpus =
				nodes[i].job ? node_record_table_ptr[i].cpus : 0;
	}
	return SLURM_SUCCESS;
}

int select_p_select_nodeinfo_set(job_record_t *job)
{
	(void)job;
	return select_p_select_nodeinfo_set_all();
}

int select_p_select_nodeinfo_get(select_nodeinfo_t *nodeinfo, enum select_nodedata_type dinfo,
	enum node_states state, void *data)
{
	bool is_used = state == NODE_STATE_ALLOCATED || state == NODE_STATE_MIXED;

	if (dinfo == SELECT_NODEDATA_SUBCNT)
		*(uint16_t *)data = is_used ? nodeinfo->alloc_cpus : 0;
	else if (dinfo == SELECT_NODEDATA_MEM_ALLOC)
		*(uint64_t *)data = 0;
	else
		*(select_nodeinfo_t **)data = nodeinfo;
	return SLURM_SUCCESS;
}

int select_p_get_info_from_plugin(
	enum select_plugindata_info dinfo, job_record_t *job_ptr, void *data)
{
	(void)job_ptr;
	if (dinfo == SELECT_CONFIG_INFO) {
		*(List *)data = list_create(free);
		(void)list_append(*(List *)data, xstrdup("Order=LongestIdle"));
	} else {
		*(uint32_t *)data = 0;
	}
	return SLURM_SUCCESS;
}

/* ---- a job that changes: it keeps its nodes ----------------------------------------------------
 */

bool select_p_job_expand_allow(void)
{
	return false;
}

int select_p_job_expand(job_record_t *from_job_ptr, job_record_t *to_job_ptr)
{
	(void)from_job_ptr;
	(void)to_job_ptr;
	return refuse(EOPNOTSUPP);
}

int select_p_job_resized(job_record_t *job_ptr, node_record_t *node_ptr)
{
	(void)job_ptr;
	(void)node_ptr;
	return refuse(EOPNOTSUPP);
}

int select_p_job_ready(job_record_t *job_ptr)
{
	(void)job_ptr;
	return 1;
}

/* ---- functions without work --------------------------------------------------------------------
 */

int select_p_state_save(char *dir_name)
{
	(void)dir_name;
	return SLURM_SUCCESS;
}

int select_p_state_restore(char *dir_name)
{
	(void)dir_name;
	return SLURM_SUCCESS;
}

int select_p_reconfigure(void)
{
	return SLURM_SUCCESS;
}

int select_p_update_node_config(int index)
{
	(void)index;
	return SLURM_SUCCESS;
}

bool select_p_node_ranking(node_record_t *node_ptr, int node_cnt)
{
	(void)node_ptr;
	(void)node_cnt;
	return false;
}

int select_p_update_node_state(node_record_t *node_ptr)
{
	(void)node_ptr;
	return SLURM_SUCCESS;
}

int select_p_job_signal(job_record_t *job_ptr, int signal)
{
	(void)job_ptr;
	(void)signal;
	return SLURM_SUCCESS;
}

int select_p_job_mem_confirm(job_record_t *job_ptr)
{
	(void)job_ptr;
	return SLURM_SUCCESS;
}

int select_p_job_suspend(job_record_t *job_ptr, bool indf_susp)
{
	(void)job_ptr;
	(void)indf_susp;
	return SLURM_SUCCESS;
}

int select_p_job_resume(job_record_t *job_ptr, bool indf_susp)
{
	(void)job_ptr;
	(void)indf_susp;
	return SLURM_SUCCESS;
}

bitstr_t *select_p_step_pick_nodes(
	job_record_t *job_ptr, select_jobinfo_t *step_jobinfo, uint32_t node_count)
{
	(void)job_ptr;
	(void)step_jobinfo;
	(void)node_count;
	return NULL;
}

int select_p_step_finish(step_record_t *step_ptr, bool killing_step)
{
	(void)step_ptr;
	(void)killing_step;
	return SLURM_SUCCESS;
}

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
	(void)protocol_version;
	pack32(jobinfo->begun, buffer);
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_unpack(
	select_jobinfo_t **jobinfo_pptr, Buf buffer, uint16_t protocol_version)
{
	(void)protocol_version;
	*jobinfo_pptr = select_p_select_jobinfo_alloc();
	if (unpack32(&(*jobinfo_pptr)->begun, buffer) == SLURM_SUCCESS)
		return SLURM_SUCCESS;
	xfree(*jobinfo_pptr);
	return refuse(EBADMSG);
}

int select_p_select_jobinfo_get(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data)
{
	if (data_type != SELECT_JOBDATA_PTR)
		return refuse(EINVAL);
	*(select_jobinfo_t **)data = jobinfo;
	return SLURM_SUCCESS;
}

int select_p_select_jobinfo_set(
	select_jobinfo_t *jobinfo, enum select_jobdata_type data_type, void *data)
{
	(void)jobinfo;
	(void)data_type;
	(void)data;
	return refuse(EINVAL);
}

char *select_p_select_jobinfo_sprint(select_jobinfo_t *jobinfo, char *buf, size_t size, int mode)
{
	(void)mode;
	if (size == 0)
		return NULL;
	(void)snprintf(buf, size, "Begun=%u", (unsigned)jobinfo->begun);
	return buf;
}

char *select_p_select_jobinfo_xstrdup(select_jobinfo_t *jobinfo, int mode)
{
	char buf[32];

	return xstrdup(select_p_select_jobinfo_sprint(jobinfo, buf, sizeof(buf), mode));
}

void select_p_ba_init(node_info_msg_t *node_info_ptr, bool sanity_check)
{
	(void)node_info_ptr;
	(void)sanity_check;
}

int *select_p_ba_get_dims(void)
{
	return NULL;
}
