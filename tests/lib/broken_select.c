/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/broken: the example plugin, and one breach of its contract, or of what may happen without
 * one, that BROKEN_SELECT names. The calls for steps are in BROKEN_SELECT_STEPS.
 */
#include <stepd/select.h>

/* The example's functions get other names, and have no prototypes then. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define plugin_type                    example_type
#define select_p_job_test              example_job_test
#define select_p_job_begin             example_job_begin
#define select_p_job_ready             example_job_ready
#define select_p_job_fini              example_job_fini
#define select_p_select_nodeinfo_alloc example_nodeinfo_alloc
#define select_p_step_pick_nodes       example_step_pick_nodes
#define select_p_resv_test             example_resv_test
#define select_p_job_expand_allow      example_job_expand_allow
#define select_p_job_expand            example_job_expand
#define select_p_job_resized           example_job_resized
#define select_p_select_jobinfo_copy   example_jobinfo_copy
#define select_p_select_jobinfo_alloc  example_jobinfo_alloc
#define select_p_select_jobinfo_get    example_jobinfo_get
#define select_p_node_ranking          example_node_ranking
#define select_p_step_finish           example_step_finish
#include "contrib/example-select/select_rotate.c"
#pragma GCC diagnostic pop
#undef plugin_type
#undef select_p_job_test
#undef select_p_job_begin
#undef select_p_job_ready
#undef select_p_job_fini
#undef select_p_select_nodeinfo_alloc
#undef select_p_step_pick_nodes
#undef select_p_resv_test
#undef select_p_job_expand_allow
#undef select_p_job_expand
#undef select_p_job_resized
#undef select_p_select_jobinfo_copy
#undef select_p_select_jobinfo_alloc
#undef select_p_select_jobinfo_get
#undef select_p_node_ranking
#undef select_p_step_finish

#include <string.h>

STEPD_EXPORT const char plugin_type[] = "select/broken";

static bool is_broken(const char *how)
{
	const char *wanted = getenv("BROKEN_SELECT");

	return wanted && strcmp(wanted, how) == 0;
}

static void spoil_nodes(const job_record_t *job, const bitstr_t *given, bitstr_t *bitmap)
{
	bitoff_t i;

	if (is_broken("bits"))
		bit_copybits(bitmap, given), bit_not(bitmap);
	if (is_broken("many"))
		bit_copybits(bitmap, given);
	if (is_broken("few"))
		bit_clear_all(bitmap);
	if (is_broken("required")) {
		i = bit_ffs(job->details->req_node_bitmap);
		bit_clear(bitmap, i);
		bit_set(bitmap, i + 1);
	}
}

static bitoff_t all_cores(void)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];

	return (bitoff_t)last->core_offset + last->tot_cores;
}

static void spoil_resources(job_record_t *job)
{
	job_resources_t *r = job->job_resrcs;

	if (is_broken("none")) {
		free_resources(r);
		job->job_resrcs = NULL;
	}
	if (is_broken("others"))
		bit_not(r->node_bitmap);
	if (is_broken("count"))
		r->nhosts++;
	if (is_broken("cores"))
		r->core_bitmap = bit_alloc(1);
	if (is_broken("memory"))
		r->memory_allocated[0] = UINT64_MAX;
}

static int test_job(job_record_t *job, bitstr_t *bitmap, uint32_t min_nodes, uint32_t max_nodes,
	uint32_t req_nodes, uint32_t mode, List candidates, List *preempted)
{
	bitstr_t *given = bit_copy(bitmap);
	int r;

	if (is_broken("twice"))
		(void)select_p_node_init(node_record_table_ptr, node_record_count);
	r = example_job_test(
		job, bitmap, min_nodes, max_nodes, req_nodes, mode, candidates, preempted, NULL);
	if (r == SLURM_SUCCESS)
		spoil_nodes(job, given, bitmap);
	if (r == SLURM_SUCCESS && mode == SELECT_MODE_RUN_NOW)
		spoil_resources(job);
	if (is_broken("plan"))
		job->job_resrcs = make_resources(given);
	if (is_broken("held")) {
		job->job_resrcs = make_resources(bitmap);
		job->job_resrcs->core_bitmap = bit_alloc(all_cores());
		bit_nset(job->job_resrcs->core_bitmap, 0, all_cores() - 1);
	}
	if (is_broken("early"))
		job->start_time = slurm_now() - 1;
	if (is_broken("preempted") && preempted) {
		*preempted = list_create(NULL);
		(void)list_append(*preempted, job);
	}
	bit_free(given);
	return r;
}

STEPD_EXPORT int select_p_job_test(job_record_t *job, bitstr_t *bitmap, uint32_t min_nodes,
	uint32_t max_nodes, uint32_t req_nodes, uint32_t mode, List candidates, List *preempted,
	bitstr_t *exc_cores)
{
	(void)exc_cores;
	if (is_broken("errno")) {
		errno = 0;
		return SLURM_ERROR;
	}
	if (is_broken("value"))
		return 1;
	return test_job(job, bitmap, min_nodes, max_nodes, req_nodes, mode, candidates, preempted);
}

STEPD_EXPORT int select_p_job_begin(job_record_t *job)
{
	if (is_broken("begin")) {
		errno = 0;
		return SLURM_ERROR;
	}
	return example_job_begin(job);
}

STEPD_EXPORT int select_p_job_ready(job_record_t *job)
{
	if (is_broken("unready"))
		return refuse(EIO);
	return is_broken("ready") ? 2 : example_job_ready(job);
}

STEPD_EXPORT int select_p_job_fini(job_record_t *job)
{
	return is_broken("fini") ? -2 : example_job_fini(job);
}

STEPD_EXPORT select_nodeinfo_t *select_p_select_nodeinfo_alloc(void)
{
	return is_broken("nodeinfo") ? NULL : example_nodeinfo_alloc();
}

STEPD_EXPORT select_jobinfo_t *select_p_select_jobinfo_alloc(void)
{
	return is_broken("jobinfo") ? NULL : example_jobinfo_alloc();
}

/* The first three times it is busy. */
static int clean(uint16_t *ret_cleaning)
{
	static int calls;

	*ret_cleaning = calls++ < 3;
	if (*ret_cleaning)
		return SLURM_SUCCESS;
	calls = 0;
	return is_broken("unclean") ? refuse(EIO) : SLURM_SUCCESS;
}

STEPD_EXPORT int select_p_select_jobinfo_get(
	select_jobinfo_t *info, enum select_jobdata_type type, void *data)
{
	if (type == SELECT_JOBDATA_CLEANING &&
		(is_broken("cleaning") || is_broken("unclean") || is_broken("unready")))
		return clean(data);
	return example_jobinfo_get(info, type, data);
}

/* The last one first, but for pairs that stay together as they are. */
STEPD_EXPORT bool select_p_node_ranking(node_record_t *nodes_ptr, int count)
{
	int i;

	for (i = 0; i < count; i++)
		nodes_ptr[i].node_rank = (uint32_t)(count - i / 2);
	return is_broken("rank");
}

static void note_step(const char *what, const job_record_t *job)
{
	const char *before = getenv("BROKEN_SELECT_STEPS");
	char text[256];

	(void)snprintf(text, sizeof(text), "%s%s %u;", before ? before : "", what, job->job_id);
	(void)setenv("BROKEN_SELECT_STEPS", text, 1);
}

STEPD_EXPORT int select_p_step_finish(step_record_t *step, bool killing_step)
{
	const bool same = step->step_id == SLURM_BATCH_SCRIPT &&
		step->select_jobinfo->begun == 77 &&
		bit_equal(step->step_node_bitmap, step->job_ptr->node_bitmap);

	note_step(!same ? "wrong" : killing_step ? "kill" : "end", step->job_ptr);
	return SLURM_SUCCESS;
}

STEPD_EXPORT bitstr_t *select_p_step_pick_nodes(
	job_record_t *job, select_jobinfo_t *info, uint32_t node_count)
{
	bitstr_t *picked;

	note_step("begin", job);
	info->begun = 77; /* to be seen at the end */
	if (!is_broken("step"))
		return example_step_pick_nodes(job, info, node_count);
	picked = bit_copy(job->node_bitmap);
	bit_not(picked);
	return picked;
}

/* It takes what it is not given, too little, or cores of other nodes. */
STEPD_EXPORT bitstr_t *select_p_resv_test(
	resv_desc_msg_t *desc, uint32_t node_cnt, bitstr_t *avail, bitstr_t **cores)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	bitstr_t *picked;

	if (is_broken("resv-few"))
		return example_resv_test(desc, node_cnt - 1, avail, cores);
	if (is_broken("resv-cores") && cores) {
		*cores = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
		bit_not(*cores);
	}
	if (!is_broken("resv"))
		return example_resv_test(desc, node_cnt, avail, cores);
	picked = bit_copy(avail);
	bit_not(picked);
	return picked;
}

/* ---- a job that changes ------------------------------------------------------------------------
 */

STEPD_EXPORT bool select_p_job_expand_allow(void)
{
	return true;
}

/* The one keeps all, or gives all and the other gets nothing. */
STEPD_EXPORT int select_p_job_expand(job_record_t *from, job_record_t *to)
{
	if (is_broken("expand-lost")) {
		free_resources(from->job_resrcs);
		from->job_resrcs = NULL;
	} else if (is_broken("expand-fails")) {
		free_resources(to->job_resrcs);
		to->job_resrcs = NULL;
		return refuse(EBUSY);
	} else if (!is_broken("expand-kept")) {
		return example_job_expand(from, to);
	}
	return SLURM_SUCCESS;
}

STEPD_EXPORT int select_p_job_resized(job_record_t *job, node_record_t *node)
{
	return is_broken("resized") ? SLURM_SUCCESS : example_job_resized(job, node);
}

STEPD_EXPORT select_jobinfo_t *select_p_select_jobinfo_copy(select_jobinfo_t *info)
{
	return is_broken("copy") ? NULL : example_jobinfo_copy(info);
}
