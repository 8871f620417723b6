/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The pending jobs: those that may start, in a queue for each partition, and those that wait for
 * other jobs.
 */
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"

/* ---- the queue of a partition -------------------------------------------------------------------
 */

static bool comes_before(const struct job *a, const struct job *b)
{
	if (a->record.priority != b->record.priority)
		return a->record.priority > b->record.priority;
	return a->record.job_id < b->record.job_id;
}

/* Its index, or the one at which it has to be inserted. */
static size_t queue_find(const struct queue *q, const struct job *job)
{
	size_t low = 0, high = q->count, middle;

	/* most come last */
	if (q->count && comes_before(q->jobs[q->count - 1], job))
		return q->count;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (comes_before(q->jobs[middle], job))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool ensure_capacity(struct job ***jobs, size_t count, size_t *capacity)
{
	size_t wanted = *capacity ? 2 * *capacity : 64;
	struct job **grown;

	if (count < *capacity)
		return true;
	grown = reallocarray(*jobs, wanted, sizeof(*grown));
	if (!grown)
		return false;
	*jobs = grown;
	*capacity = wanted;
	return true;
}

/* Without memory the job waits on; the next full pass tries again. */
void queue_add(struct engine *e, struct job *job)
{
	struct queue *q = queue_of(e, job);
	size_t i;

	if (job->queued || !ensure_capacity(&q->jobs, q->count, &q->capacity))
		return;
	i = queue_find(q, job);
	memmove(q->jobs + i + 1, q->jobs + i, (q->count - i) * sizeof(struct job *));
	q->jobs[i] = job;
	q->count++;
	job->queued = true;
}

void queue_remove(struct engine *e, struct job *job)
{
	struct queue *q = queue_of(e, job);
	size_t i;

	if (!job->queued)
		return;
	i = queue_find(q, job);
	q->count--;
	memmove(q->jobs + i, q->jobs + i + 1, (q->count - i) * sizeof(struct job *));
	job->queued = false;
	if (q->blocked == job)
		q->blocked = NULL;
}

/* ---- those that wait for others -----------------------------------------------------------------
 */

static void waiting_add(struct engine *e, struct job *job)
{
	if (job->waits || !ensure_capacity(&e->waiting, e->waiting_count, &e->waiting_capacity))
		return;
	e->waiting[e->waiting_count++] = job;
	job->waits = true;
}

static void waiting_remove(struct engine *e, struct job *job)
{
	size_t i;

	if (!job->waits)
		return;
	for (i = 0; e->waiting[i] != job; i++)
		;
	e->waiting_count--;
	memmove(e->waiting + i, e->waiting + i + 1, (e->waiting_count - i) * sizeof(struct job *));
	job->waits = false;
}

enum dependency_state {
	DEPENDENCY_OPEN,
	DEPENDENCY_MET,
	DEPENDENCY_NEVER
};

/* When the delay after the other's start is over. */
static time_t delay_end(const struct job *other, const struct job_dependency *d)
{
	return other->record.start_time + (time_t)d->delay_min * 60;
}

static enum dependency_state one_job(
	const struct engine *e, const struct job *other, const struct job_dependency *d)
{
	bool ended = job_has_ended(other), ok = job_base_state(other) == JOB_COMPLETE;

	switch (d->kind) {
	case DEPENDS_AFTER:
		/* one that was cancelled while it waited counts as one that started */
		return job_is_pending(other) || engine_now(e) < delay_end(other, d)
			? DEPENDENCY_OPEN
			: DEPENDENCY_MET;
	case DEPENDS_AFTER_ANY:
		return ended ? DEPENDENCY_MET : DEPENDENCY_OPEN;
	case DEPENDS_AFTER_OK:
		return !ended ? DEPENDENCY_OPEN : ok ? DEPENDENCY_MET : DEPENDENCY_NEVER;
	case DEPENDS_AFTER_NOT_OK:
		return !ended ? DEPENDENCY_OPEN : ok ? DEPENDENCY_NEVER : DEPENDENCY_MET;
	}
	return DEPENDENCY_NEVER;
}

/* One that is forgotten has ended, nobody knows how: as Slurm has it, that is enough. */
static enum dependency_state one_dependency(const struct engine *e, const struct job_dependency *d)
{
	const struct job_array *array = array_find(e, d->job_id);
	const struct job *other =
		array ? array->first : engine_find_job((struct engine *)e, d->job_id);
	enum dependency_state all = DEPENDENCY_MET, state;

	if (!array)
		return other ? one_job(e, other, d) : DEPENDENCY_MET;
	for (; other; other = other->task_after) {
		if (d->task_id != NO_VAL && other->record.array_task_id != d->task_id)
			continue;
		state = one_job(e, other, d);
		if (state == DEPENDENCY_NEVER)
			return state;
		if (state == DEPENDENCY_OPEN)
			all = state;
	}
	return all;
}

static enum dependency_state dependencies_state(const struct engine *e, const struct job *job)
{
	const struct job_request *q = &job->request;
	bool any_open = false, any_met = false, any_never = false;
	size_t i;

	for (i = 0; i < q->dependencies_count; i++) {
		enum dependency_state state = one_dependency(e, &q->dependencies[i]);

		any_open |= state == DEPENDENCY_OPEN;
		any_met |= state == DEPENDENCY_MET;
		any_never |= state == DEPENDENCY_NEVER;
	}
	if (q->dependencies_any && any_met)
		return DEPENDENCY_MET;
	if (any_never && !(q->dependencies_any && any_open))
		return DEPENDENCY_NEVER;
	return any_open ? DEPENDENCY_OPEN : DEPENDENCY_MET;
}

/* JOB_REASON_NONE: it waits for no other job. */
static enum job_reason why_waiting(const struct engine *e, const struct job *job)
{
	enum dependency_state state = dependencies_state(e, job);

	if (state == DEPENDENCY_NEVER)
		return JOB_REASON_DEPENDENCY_NEVER;
	if (state == DEPENDENCY_OPEN || (job->request.singleton && !namesakes_is_first(job)))
		return JOB_REASON_DEPENDENCY;
	if (job->array && job->array->most_active && job->array->active >= job->array->most_active)
		return JOB_REASON_ARRAY_LIMIT;
	return JOB_REASON_NONE;
}

/* A task of an array counts from the moment at which it may start until its end. */
void array_count(struct job *job)
{
	if (job->array && !job->counted)
		job->array->active++;
	job->counted = true;
}

void array_uncount(struct engine *e, struct job *job)
{
	if (job->array && job->counted) {
		job->array->active--;
		e->waiting_changed = true;
	}
	job->counted = false;
}

/* ---- where a pending job belongs ----------------------------------------------------------------
 */

void queue_take_out(struct engine *e, struct job *job)
{
	queue_remove(e, job);
	waiting_remove(e, job);
	array_uncount(e, job);
	timer_set(e, job, NEVER_MS);
}

bool reason_stays(enum job_reason reason)
{
	return reason == JOB_REASON_PART_TIME_LIMIT || reason == JOB_REASON_PART_NODE_LIMIT ||
		reason == JOB_REASON_LAUNCH_FAILED;
}

/* One of its components has. */
static bool has_lasting_reason(const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && reason_stays(one->reason))
			return true;
	}
	return false;
}

/* The next end of a delay after another job's start: the job is checked again then. */
static void set_delay_timer(struct engine *e, struct job *job)
{
	const struct job_request *q = &job->request;
	uint64_t due_ms = NEVER_MS;
	size_t i;

	for (i = 0; i < q->dependencies_count; i++) {
		const struct job_dependency *d = &q->dependencies[i];
		const struct job_array *array = d->delay_min ? array_find(e, d->job_id) : NULL;
		const struct job *other = array ? array->first : engine_find_job(e, d->job_id);

		for (; d->delay_min && other; other = array ? other->task_after : NULL) {
			time_t end = delay_end(other, d);

			if (!job_is_pending(other) && end > engine_now(e) &&
				MS_PER_S * (uint64_t)end < due_ms)
				due_ms = MS_PER_S * (uint64_t)end;
		}
	}
	timer_set(e, job, due_ms);
}

void queue_place(struct engine *e, struct job *job)
{
	enum job_reason reason;
	time_t begin_time = het_begin_time(job);

	queue_take_out(e, job);
	if (!het_is_pending(job)) {
		job->reason = JOB_REASON_BEGIN_TIME; /* other components have not ended yet */
		return;
	}
	if (job->het) {
		job = het_leader(job);
		queue_take_out(e, job);
	}
	if (job->record.priority == 0) {
		if (!reason_stays(job->reason))
			job->reason =
				job->held_by_admin ? JOB_REASON_HELD_ADMIN : JOB_REASON_HELD_USER;
		return;
	}
	if (has_lasting_reason(job))
		return;
	reason = why_waiting(e, job);
	if (reason != JOB_REASON_NONE) {
		job->reason = reason;
		waiting_add(e, job);
		set_delay_timer(e, job);
		return;
	}
	if (begin_time > engine_now(e)) {
		job->reason = JOB_REASON_BEGIN_TIME;
		timer_set(e, job, MS_PER_S * (uint64_t)begin_time);
		return;
	}
	if (!job->eligible_time)
		job->eligible_time = engine_now(e);
	job->reason = JOB_REASON_NONE;
	array_count(job);
	queue_add(e, job);
	engine_want_pass_for(e, job);
}

/* Those that need not wait any more leave the list while it is gone through. */
void queue_recheck(struct engine *e)
{
	size_t i = 0;

	e->waiting_changed = false;
	while (i < e->waiting_count) {
		struct job *job = e->waiting[i];

		job->reason = why_waiting(e, job);
		if (job->reason == JOB_REASON_NONE)
			queue_place(e, job);
		else
			set_delay_timer(e, e->waiting[i++]);
	}
}

void queue_clear(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->parts_count && e->queues; i++)
		free(e->queues[i].jobs);
	free(e->waiting);
}
