/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/select/holdings.h"

#include <stdlib.h>
#include <string.h>

struct holder {
	const job_record_t *job;
	bool suspended;
};

void holdings_clear(struct holdings *h)
{
	free(h->jobs);
	free(h->core_jobs);
	free(h->core_alone);
	free(h->node_jobs);
	free(h->node_alone);
	free(h->memory);
	*h = (struct holdings){.jobs = NULL};
}

static int add_found_job(void *item, void *holdings)
{
	const job_record_t *job = item;
	uint32_t state = job->job_state & JOB_STATE_BASE;

	if (state == JOB_RUNNING || state == JOB_SUSPENDED)
		holdings_add(holdings, job, state == JOB_SUSPENDED);
	return 0;
}

void holdings_make(struct holdings *h)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	size_t nodes = (size_t)node_record_count, cores;

	cores = nodes ? (size_t)last->core_offset + last->tot_cores : 0;
	holdings_clear(h);
	h->core_jobs = xmalloc(cores * sizeof(*h->core_jobs));
	h->core_alone = xmalloc(cores * sizeof(*h->core_alone));
	h->node_jobs = xmalloc(nodes * sizeof(*h->node_jobs));
	h->node_alone = xmalloc(nodes * sizeof(*h->node_alone));
	h->memory = xmalloc(nodes * sizeof(*h->memory));
	(void)list_for_each(job_list, add_found_job, h); /* none stops it */
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

static void hold_parts(
	const bitstr_t *parts, uint16_t *jobs, uint16_t *alone, bool is_alone, bool more)
{
	uint16_t one = more ? 1 : UINT16_MAX; /* modulo 2^16 */
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(parts, i)) >= 0; i++) {
		jobs[i] = (uint16_t)(jobs[i] + one);
		if (is_alone)
			alone[i] = (uint16_t)(alone[i] + one);
	}
}

static void hold_memory(struct holdings *h, const job_resources_t *r, bool more)
{
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++)
		h->memory[i] += more ? r->memory_allocated[k] : -r->memory_allocated[k];
}

static void hold(struct holdings *h, const struct holder *holder, bool more)
{
	const job_resources_t *r = holder->job->job_resrcs;
	bool alone = r->node_req != NODE_CR_AVAILABLE;

	if (r->core_bitmap)
		hold_parts(r->core_bitmap, h->core_jobs, h->core_alone, alone, more);
	else
		hold_parts(r->node_bitmap, h->node_jobs, h->node_alone, alone, more);
	if (!holder->suspended)
		hold_memory(h, r, more);
}

/* The index of the job among the holders; count: it is none of them. */
static size_t find_holder(const struct holdings *h, const job_record_t *job)
{
	size_t i;

	for (i = 0; i < h->count && h->jobs[i].job != job; i++)
		;
	return i;
}

void holdings_add(struct holdings *h, const job_record_t *job, bool suspended)
{
	struct holder *grown;

	if (!job->job_resrcs || find_holder(h, job) < h->count)
		return;
	if (h->count == h->capacity) {
		h->capacity = h->capacity ? 2 * h->capacity : 64;
		grown = xmalloc(h->capacity * sizeof(*grown));
		if (h->count > 0)
			memcpy(grown, h->jobs, h->count * sizeof(*grown));
		free(h->jobs);
		h->jobs = grown;
	}
	h->jobs[h->count] = (struct holder){.job = job, .suspended = suspended};
	hold(h, &h->jobs[h->count++], true);
}

void holdings_remove(struct holdings *h, const job_record_t *job)
{
	size_t i = find_holder(h, job);

	if (i == h->count)
		return;
	if (job->job_resrcs)
		hold(h, &h->jobs[i], false);
	h->jobs[i] = h->jobs[--h->count];
}

void holdings_set_suspended(struct holdings *h, const job_record_t *job, bool suspended)
{
	size_t i = find_holder(h, job);

	if (i == h->count || h->jobs[i].suspended == suspended)
		return;
	hold(h, &h->jobs[i], false);
	h->jobs[i].suspended = suspended;
	hold(h, &h->jobs[i], true);
}

bool holdings_is_suspended(const struct holdings *h, const job_record_t *job)
{
	size_t i = find_holder(h, job);

	return i < h->count && h->jobs[i].suspended;
}

/* ---- what is given twice -----------------------------------------------------------------------
 */

static bool is_any_taken(const bitstr_t *parts, const uint16_t *jobs)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(parts, i)) >= 0; i++) {
		if (jobs[i] > 0)
			return true;
	}
	return false;
}

bool holdings_collide(const struct holdings *h, const job_record_t *job)
{
	const job_resources_t *r = job->job_resrcs;
	bool shares = r->node_req == NODE_CR_AVAILABLE;

	if (find_holder(h, job) < h->count)
		return false;
	return r->core_bitmap ? is_any_taken(r->core_bitmap, shares ? h->core_alone : h->core_jobs)
			      : is_any_taken(r->node_bitmap, shares ? h->node_alone : h->node_jobs);
}
