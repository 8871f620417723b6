/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/broken: the example plugin, and one breach of its contract that BROKEN_SELECT names.
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

STEPD_EXPORT bitstr_t *select_p_step_pick_nodes(
	job_record_t *job, select_jobinfo_t *info, uint32_t node_count)
{
	bitstr_t *picked;

	if (!is_broken("step"))
		return example_step_pick_nodes(job, info, node_count);
	picked = bit_copy(job->node_bitmap);
	bit_not(picked);
	return picked;
}

STEPD_EXPORT bitstr_t *select_p_resv_test(
	resv_desc_msg_t *desc, uint32_t node_cnt, bitstr_t *avail, bitstr_t **cores)
{
	bitstr_t *picked;

	if (!is_broken("resv"))
		return example_resv_test(desc, node_cnt, avail, cores);
	picked = bit_copy(avail);
	bit_not(picked);
	return picked;
}
