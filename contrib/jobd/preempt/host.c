/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/preempt/host.h"

#include <errno.h>
#include <stdlib.h>

#include "stepd/plugin/plugin.h"

struct preempt_functions {
	bool (*preemptable)(const job_record_t *, const job_record_t *);
	uint16_t (*get_mode)(const job_record_t *);
	uint32_t (*get_prio)(const job_record_t *);
	uint32_t (*get_grace_time)(const job_record_t *);
};

struct preempt {
	struct plugin *plugin;
	struct preempt_functions call;
};

#define FUNCTION(f)                                                                                \
	{                                                                                          \
		.name = "preempt_p_" #f, .offset = offsetof(struct preempt_functions, f)           \
	}

const struct plugin_kind *preempt_plugin_kind(void)
{
	static const struct plugin_symbol symbols[] = {
		FUNCTION(preemptable),
		FUNCTION(get_mode),
		FUNCTION(get_prio),
		FUNCTION(get_grace_time),
	};
	static const struct plugin_kind kind = {
		.name = "preempt", .symbols = symbols, .symbols_count = ARRAY_SIZE(symbols)};

	return &kind;
}

int preempt_open(
	const char *plugin_dir, const char *name, struct preempt **ret_preempt, struct err *err)
{
	struct preempt *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "load preempt plugin '%.70s'", name);
	r = plugin_load(plugin_dir, preempt_plugin_kind(), name, &p->call, &p->plugin, err);
	if (r < 0) {
		free(p);
		return r;
	}
	*ret_preempt = p;
	return 0;
}

struct preempt *preempt_close(struct preempt *p)
{
	if (!p)
		return NULL;
	(void)plugin_unload(p->plugin); /* always NULL */
	free(p);
	return NULL;
}

const char *preempt_get_type(const struct preempt *p)
{
	return plugin_get_type(p->plugin);
}

bool preempt_is_allowed(const struct preempt *p, const job_record_t *other, const job_record_t *job)
{
	return p->call.preemptable(other, job);
}

uint16_t preempt_get_mode(const struct preempt *p, const job_record_t *job)
{
	return p->call.get_mode(job);
}

uint32_t preempt_get_grace_time(const struct preempt *p, const job_record_t *job)
{
	return p->call.get_grace_time(job);
}

/* ---- candidates ---------------------------------------------------------------------------------
 */

time_t preempt_get_eligible_time(const job_record_t *job, uint32_t cluster_exempt_time_s)
{
	uint32_t exempt = cluster_exempt_time_s;

	if (job->part_ptr->preempt_exempt_time != NO_VAL)
		exempt = job->part_ptr->preempt_exempt_time;
	if (job->qos_ptr && job->qos_ptr->preempt_exempt_time != NO_VAL)
		exempt = job->qos_ptr->preempt_exempt_time;
	return job->start_time + (time_t)exempt;
}

struct candidate {
	job_record_t *job;
	uint32_t prio;
};

static int by_prio(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->prio != y->prio)
		return x->prio < y->prio ? -1 : 1;
	return x->job->job_id < y->job->job_id ? -1 : 1;
}

static int by_start(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->job->start_time != y->job->start_time)
		return x->job->start_time > y->job->start_time ? -1 : 1;
	return x->job->job_id > y->job->job_id ? -1 : 1;
}

/* Some time. */
static bool is_preemptable(
	const struct preempt *p, const job_record_t *other, const job_record_t *job)
{
	return other->node_bitmap && p->call.preemptable(other, job) &&
		(job->part_ptr->total_nodes == (uint32_t)node_record_count ||
			bit_overlap_any(other->node_bitmap, job->part_ptr->node_bitmap));
}

time_t preempt_find_next_eligible(const struct preempt *p, const job_record_t *job,
	const struct preempt_order *order, time_t now)
{
	ListIterator i = list_iterator_create(job_list);
	const job_record_t *other;
	time_t next = 0, t;

	while ((other = list_next(i))) {
		t = preempt_get_eligible_time(other, order->exempt_time_s);
		if (t > now && (next == 0 || t < next) && is_preemptable(p, other, job))
			next = t;
	}
	list_iterator_destroy(i);
	return next;
}

List preempt_find_candidates(const struct preempt *p, const job_record_t *job,
	const struct preempt_order *order, time_t now)
{
	struct candidate *found = calloc((size_t)list_count(job_list) + 1, sizeof(*found));
	ListIterator i = list_iterator_create(job_list);
	List list = NULL;
	job_record_t *other;
	size_t n = 0, k;

	while (found && (other = list_next(i))) {
		if (is_preemptable(p, other, job) &&
			preempt_get_eligible_time(other, order->exempt_time_s) <= now)
			found[n++] = (struct candidate){other, p->call.get_prio(other)};
	}
	list_iterator_destroy(i);
	if (n) {
		qsort(found, n, sizeof(*found), order->youngest_first ? by_start : by_prio);
		list = list_create(NULL);
	}
	for (k = 0; k < n; k++)
		(void)list_append(list, found[k].job);
	free(found);
	return list;
}
