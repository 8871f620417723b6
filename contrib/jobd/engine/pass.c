/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The scheduling pass: chooses the pending jobs that start now. Partitions of the highest
 * PriorityTier come first, and in each tier jobs by priority. A job that can't start holds back
 * later ones of its partition, and the nodes of its partition are not given to later partitions:
 * otherwise small jobs would starve it. Backfill starts jobs that don't delay it. Only jobs that
 * could preempt it if it ran are not held back.
 */
#include <errno.h>
#include <stdlib.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/err.h"

/* ---- a question for the plugin ------------------------------------------------------------------
 */

bitstr_t *job_possible_nodes(const struct engine *e, const struct job *job)
{
	bitstr_t *nodes = bit_copy(job->record.part_ptr->node_bitmap);
	const char *features = job->details.features;
	bitoff_t i = 0;

	(void)e;
	if (job->details.exc_node_bitmap)
		bit_and_not(nodes, job->details.exc_node_bitmap);
	if (job->failed_nodes)
		bit_and_not(nodes, job->failed_nodes);
	for (; features && (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		if (!node_has_features(&node_record_table_ptr[i], features))
			bit_clear(nodes, i);
	}
	return nodes;
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* How many nodes it is to have if they are free. */
static uint32_t wanted_nodes(const job_record_t *job, const struct select_request *q)
{
	const job_details_t *d = job->details;

	if (job->bit_flags & USE_MIN_NODES)
		return q->min_nodes;
	if (job->bit_flags & SPREAD_JOB)
		return least(q->max_nodes, d->min_cpus / d->cpus_per_task);
	return d->max_nodes ? q->max_nodes : q->min_nodes;
}

struct select_request job_make_request(
	const struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores)
{
	const job_details_t *d = &job->details;
	const uint32_t part_max = job_most_nodes(&job->record);
	uint32_t required = d->req_node_bitmap ? (uint32_t)bit_set_count(d->req_node_bitmap) : 0;
	struct select_request q = {.job = &job->record, .nodes = nodes, .exc_cores = exc_cores};

	(void)e;
	q.min_nodes = most(most(d->min_nodes, job_least_nodes(&job->record)), required);
	q.max_nodes = d->max_nodes ? least(d->max_nodes, part_max) : part_max;
	q.max_nodes = most(q.max_nodes, q.min_nodes);
	q.req_nodes = least(wanted_nodes(&job->record, &q), (uint32_t)node_record_count);
	q.req_nodes = most(q.req_nodes, q.min_nodes);
	return q;
}

int job_test(struct engine *e, struct select_request *q, uint32_t mode, struct err *err)
{
	const bitstr_t *required = q->job->details->req_node_bitmap;
	int r;

	if (bit_set_count(q->nodes) < (int32_t)q->min_nodes ||
		(required && !bit_super_set(required, q->nodes)))
		return -EBUSY;
	e->stats.tests++;
	q->candidates = NULL;
	if (mode == SELECT_MODE_WILL_RUN)
		q->candidates = preempt_candidates(e, (const struct job *)q->job);
	r = select_test(e->select, q, mode, err);
	/* nobody is preempted for a job that fits beside those that run */
	if (r == -EBUSY && mode == SELECT_MODE_RUN_NOW)
		q->candidates = preempt_candidates(e, (const struct job *)q->job);
	if (mode == SELECT_MODE_RUN_NOW && q->candidates)
		r = select_test(e->select, q, mode, err);
	FREE_NULL_LIST(q->candidates);
	return r;
}

int job_choose(
	struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores, struct err *err)
{
	struct select_request q = job_make_request(e, job, nodes, exc_cores);
	List preempted = NULL;
	int r;

	q.preempted = &preempted;
	r = job_test(e, &q, SELECT_MODE_RUN_NOW, err);
	if (preempted)
		preempt_begin(e, job, preempted);
	FREE_NULL_LIST(preempted);
	return r;
}

int job_try(
	struct engine *e, struct job *job, bitstr_t *nodes, bitstr_t *exc_cores, struct err *err)
{
	int r = job_choose(e, job, nodes, exc_cores, err);

	if (r == 0)
		job_start(e, job);
	return r;
}

/* ---- one job ------------------------------------------------------------------------------------
 */

struct pass {
	struct engine *e;
	bitstr_t *up;    /* nodes that can be given at all */
	bitstr_t *avail; /* those that no job holds which could not start */
	bool kept;       /* there are such jobs */
	bool full;
	uint32_t tests_left;
};

/* Whether the nodes that are down or drained are what it lacks: those that it requires, or so
 * many that it could not even start without any other job. */
static enum job_reason why_not(const struct engine *e, struct job *job, bool reserved)
{
	const bitstr_t *required = job->details.req_node_bitmap;
	bitstr_t *nodes;
	struct select_request q;
	bool too_few;

	if (reserved)
		return JOB_REASON_RESERVATION;
	if (required && !bit_super_set(required, e->up_nodes))
		return JOB_REASON_NODES_DOWN;
	nodes = job_possible_nodes(e, job);
	bit_and(nodes, e->up_nodes);
	q = job_make_request(e, job, nodes, NULL);
	too_few = bit_set_count(nodes) < (int32_t)q.min_nodes;
	bit_free(nodes);
	return too_few ? JOB_REASON_NODES_DOWN : JOB_REASON_RESOURCES;
}

/* True: it could start but for nodes or cores that reservations hold. */
static bool lacks_reserved(struct pass *p, struct job *job)
{
	bitstr_t *nodes = job_possible_nodes(p->e, job);
	struct select_request q;
	struct err err = ERR_INIT;
	time_t start = job->record.start_time;
	bool can;

	bit_and(nodes, p->avail);
	q = job_make_request(p->e, job, nodes, NULL);
	can = job_test(p->e, &q, SELECT_MODE_WILL_RUN, &err) == 0 &&
		job->record.start_time <= engine_now(p->e);
	job->record.start_time = start;
	bit_free(nodes);
	return can;
}

/* A job that it may preempt soon: a pass comes then. False: there is none. */
static bool wait_for_exempt(struct engine *e, const struct job *job)
{
	time_t t = preempt_get_next_eligible(e, job);
	uint64_t due_ms = MS_PER_S * (uint64_t)t;

	if (t && due_ms < e->pass_due_ms)
		e->pass_due_ms = due_ms > e->now_ms ? due_ms : e->now_ms + 1;
	return t != 0;
}

/* A reason that any of its components has. */
static void note_why_not(struct pass *p, struct job *job, const struct het_nodes *n)
{
	uint32_t i;

	job->reason = JOB_REASON_RESOURCES;
	for (i = 0; i < n->count; i++) {
		struct job *one = engine_get_component(job, i);

		if (job->reason == JOB_REASON_RESOURCES)
			job->reason = why_not(p->e, one, n->reserved[i] && lacks_reserved(p, one));
		(void)wait_for_exempt(p->e, one); /* the pass comes */
	}
}

/* As try_job(), of a heterogeneous one. */
static bool try_het(struct pass *p, struct job *job)
{
	struct engine *e = p->e;
	struct err err = ERR_INIT;
	struct het_nodes n;
	int r;

	het_nodes_make(&n, e, job, queue_of(e, job)->blocked ? p->up : p->avail);
	r = het_try(e, job, &n, &err);
	if (r == -EBUSY || r == -EINVAL) {
		note_why_not(p, job, &n);
	} else if (r == -EINPROGRESS) {
		job->reason = JOB_REASON_RESOURCES;
	} else if (r < 0) {
		log_error(e->log, "%s", err.text);
		job->reason = JOB_REASON_BEGIN_FAILED;
	}
	het_nodes_clear(&n);
	return r == 0;
}

/* Nothing has come free since the job could not start on all nodes that are up: it can't now. A
 * full pass tests it all the same. */
static bool is_refused(const struct pass *p, const struct job *job)
{
	return job->refused == p->e->changes && !p->full && !p->e->options.plain;
}

/* False: it is in the queue as before, and why stands in its reason. */
static bool try_job(struct pass *p, struct job *job)
{
	struct engine *e = p->e;
	bool of_all = queue_of(e, job)->blocked || !p->kept, reserved;
	bitstr_t *nodes, *exc_cores = NULL;
	struct err err = ERR_INIT;
	int r;

	if (is_refused(p, job))
		return false;
	nodes = job_possible_nodes(e, job);
	bit_and(nodes, of_all ? p->up : p->avail);
	reserved = reservations_apply(e, job, engine_now(e), nodes, &exc_cores);
	r = job_try(e, job, nodes, exc_cores, &err);
	if (r == -EBUSY || r == -EINVAL) {
		job->reason = why_not(e, job, reserved && lacks_reserved(p, job));
		/* a reservation may be the reason no more when others have started */
		if (!wait_for_exempt(e, job) && of_all && job->reason != JOB_REASON_RESERVATION)
			job->refused = e->changes;
	} else if (r == -EINPROGRESS) {
		job->reason = JOB_REASON_RESOURCES;
	} else if (r < 0) {
		log_error(e->log, "%s", err.text);
		job->reason = JOB_REASON_BEGIN_FAILED;
	}
	bit_free(nodes);
	bit_free(exc_cores);
	return r == 0;
}

/* ---- all of them --------------------------------------------------------------------------------
 */

/* Jobs of a reservation, or that wait for one, hold back nobody. */
static bool holds_back(const struct job *job)
{
	return job->reason == JOB_REASON_RESOURCES && !job->request.reservation;
}

/* The next job of a queue; of one that is blocked the next that could preempt the job in its way.
 */
static const struct job *next_of(const struct engine *e, const struct queue *q, size_t *at)
{
	if (q->blocked && (!e->preempt || !e->conf->qos_count))
		return NULL;
	for (; q->blocked && *at < q->count; (*at)++) {
		if (preempt_is_possible(e, q->blocked, q->jobs[*at]))
			break;
	}
	return *at < q->count ? q->jobs[*at] : NULL;
}

/* The first partition's of this tier whose next job comes before the others'; SIZE_MAX: none. */
static size_t next_part(const struct engine *e, size_t from, size_t to, size_t *at)
{
	const struct job *best = NULL;
	size_t i, found = SIZE_MAX;

	for (i = from; i < to; i++) {
		const struct queue *q = &e->queues[e->parts_by_tier[i]];
		const struct job *job = next_of(e, q, &at[i]);

		if (!job || !e->conf->parts[e->parts_by_tier[i]].is_up)
			continue;
		if (!best || job->record.priority > best->record.priority ||
			(job->record.priority == best->record.priority &&
				job->record.job_id < best->record.job_id)) {
			best = job;
			found = i;
		}
	}
	return found;
}

/* Those of its partition are not given to others. */
static void keep_nodes(struct pass *p, const struct job *job)
{
	uint32_t i;

	p->kept = true;
	for (i = 0; i < engine_count_components(job); i++)
		bit_and_not(p->avail, engine_get_component(job, i)->record.part_ptr->node_bitmap);
}

/* The partitions from..to have one tier. at: the next job of each. */
static void run_tier(struct pass *p, size_t from, size_t to, size_t *at)
{
	struct engine *e = p->e;
	size_t i;

	while (p->tests_left > 0 && (i = next_part(e, from, to, at)) != SIZE_MAX) {
		struct queue *q = &e->queues[e->parts_by_tier[i]];
		struct job *job = q->jobs[at[i]];

		p->tests_left--;
		if (job->het ? try_het(p, job) : try_job(p, job))
			continue;
		at[i]++;
		if (q->blocked || !holds_back(job))
			continue;
		q->blocked = job;
		keep_nodes(p, job);
	}
}

/* Jobs of partitions that are down know it. */
static void note_down(const struct engine *e)
{
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; !e->conf->parts[i].is_up && k < e->queues[i].count; k++)
			e->queues[i].jobs[k]->reason = JOB_REASON_PART_DOWN;
	}
}

static bool same_tier(const struct engine *e, size_t a, size_t b)
{
	return e->parts[e->parts_by_tier[a]].priority_tier ==
		e->parts[e->parts_by_tier[b]].priority_tier;
}

void pass_run(struct engine *e, bool full)
{
	struct pass p = {.e = e,
		.full = full,
		.tests_left = full ? UINT32_MAX : e->conf->scheduler.default_queue_depth};
	size_t *at = calloc(e->parts_count + 1, sizeof(*at)), from, to, i;

	if (!at)
		return; /* the next one comes */
	e->stats.passes++;
	for (i = 0; i < e->parts_count; i++)
		e->queues[i].blocked = NULL;
	note_down(e);
	p.up = bit_copy(e->up_nodes);
	bit_and_not(p.up, e->completing_nodes);
	p.avail = bit_copy(p.up);
	for (from = 0; from < e->parts_count; from = to) {
		for (to = from + 1; to < e->parts_count && same_tier(e, from, to); to++)
			;
		run_tier(&p, from, to, at);
	}
	bit_free(p.up);
	bit_free(p.avail);
	free(at);
}
