/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preemption: the candidates of a pending job, and the preemption of those that the select plugin
 * has chosen. The gang scheduler suspends jobs (gang.c); this file ends the others, at once or when
 * their grace time is over. Until all of them have ended, the job that waits for them preempts no
 * others.
 */
#include <signal.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "contrib/jobd/preempt/host.h"

/* ---- who may be preempted, and how --------------------------------------------------------------
 */

/* There is one engine in a process, as slurm_conf. */
static const struct preempt *plugin;

/* The order of the guide: of the components' modes the highest counts. */
static unsigned rank_of(uint16_t mode)
{
	return mode == PREEMPT_MODE_SUSPEND ? 3 : mode == PREEMPT_MODE_REQUEUE ? 2 : 1;
}

/* A component that can't be preempted protects all. */
static uint16_t mode_of_components(const struct job *job)
{
	uint16_t highest = PREEMPT_MODE_OFF, mode;
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (!one)
			continue;
		mode = preempt_get_mode(plugin, &one->record);
		if (mode == PREEMPT_MODE_OFF)
			return mode;
		if (highest == PREEMPT_MODE_OFF || rank_of(mode) > rank_of(highest))
			highest = mode;
	}
	return highest;
}

/* A job that can't be queued again is cancelled instead. */
static uint16_t mode_of(const job_record_t *record)
{
	const struct job *job = (const struct job *)record;
	uint16_t mode = plugin ? mode_of_components(job) : PREEMPT_MODE_OFF;

	return mode == PREEMPT_MODE_REQUEUE && !het_leader(job)->may_requeue ? PREEMPT_MODE_CANCEL
									     : mode;
}

void preempt_set(struct engine *e)
{
	plugin = e->preempt;
	select_preempt_mode = e->preempt ? mode_of : NULL;
}

static struct preempt_order order_of(const struct engine *e)
{
	return (struct preempt_order){.exempt_time_s = e->conf->preempt_exempt_time_s,
		.youngest_first = e->conf->scheduler.preempt_youngest_first};
}

struct preemptor {
	const struct engine *e;
	const struct job *job;
};

/* It is being preempted; or it has a component that can't be. */
static int is_no_candidate(void *item, void *userdata)
{
	const struct preemptor *p = userdata;
	const struct job *job = item;
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (!one || !job_has_nodes(one))
			continue;
		if (one->preempted ||
			!preempt_is_allowed(p->e->preempt, &one->record, &p->job->record) ||
			preempt_get_eligible_time(&one->record, p->e->conf->preempt_exempt_time_s) >
				engine_now(p->e))
			return true;
	}
	return false;
}

List preempt_candidates(const struct engine *e, const struct job *job)
{
	struct preemptor preemptor = {.e = e, .job = job};
	struct preempt_order order;
	List list;

	if (!e->preempt || het_leader(job)->victims > 0)
		return NULL;
	order = order_of(e);
	list = preempt_find_candidates(e->preempt, &job->record, &order, engine_now(e));
	if (list)
		(void)list_delete_all(list, is_no_candidate, &preemptor);
	if (list && list_count(list) == 0)
		FREE_NULL_LIST(list);
	return list;
}

bool preempt_is_possible(const struct engine *e, const struct job *other, const struct job *job)
{
	return e->preempt && e->conf->qos_count &&
		preempt_is_allowed(e->preempt, &other->record, &job->record);
}

bool preempt_casts_shadow(const struct engine *e, const struct job *job, const struct job *other)
{
	return e->preempt && preempt_is_allowed(e->preempt, &other->record, &job->record);
}

time_t preempt_get_next_eligible(const struct engine *e, const struct job *job)
{
	struct preempt_order order;

	if (!e->preempt)
		return 0;
	order = order_of(e);
	return preempt_find_next_eligible(e->preempt, &job->record, &order, engine_now(e));
}

time_t job_preemptable_time(const struct engine *e, const struct job *job)
{
	if (!e->preempt || !job_has_nodes(job) || mode_of(&job->record) == PREEMPT_MODE_OFF)
		return 0;
	return preempt_get_eligible_time(&job->record, e->conf->preempt_exempt_time_s);
}

/* ---- what is done to them -----------------------------------------------------------------------
 */

void preempt_due(struct engine *e, struct job *job)
{
	job_terminate_component(e, job,
		mode_of(&job->record) == PREEMPT_MODE_REQUEUE ? JOB_PENDING : JOB_PREEMPTED);
}

/* The guide: "only honored if PreemptMode=CANCEL", so not by a job that can't be queued again. One
 * without processes has nothing to do in it. */
static uint32_t grace_of(const struct engine *e, const struct job *job)
{
	return job->launched && mode_of_components(job) == PREEMPT_MODE_CANCEL
		? preempt_get_grace_time(e->preempt, &job->record)
		: 0;
}

/* Of a whole grace time: it does not end with the part of a second that has passed. */
static time_t end_of_grace(const struct engine *e, uint32_t grace_s)
{
	return engine_now(e) + (time_t)grace_s + (grace_s > 0 && e->now_ms % MS_PER_S > 0);
}

/* By its limit; of one that stands still, if it went on now. */
static time_t end_by_limit(const struct engine *e, const struct job *job)
{
	const job_record_t *r = &job->record;
	bool stood = job_base_state(job) == JOB_SUSPENDED && r->suspend_time < engine_now(e);

	return r->end_time + (stood ? engine_now(e) - r->suspend_time : 0);
}

/* A job that is to stand still is suspended by the gang scheduler, when the preemptor starts. */
static void mark(struct engine *e, struct job *job, struct job *preemptor)
{
	job->preempt_time = engine_now(e);
	if (mode_of(&job->record) != PREEMPT_MODE_SUSPEND) {
		time_t end = end_of_grace(e, grace_of(e, job)), limit = end_by_limit(e, job);

		job->preempted = true;
		job->preemptor_id = preemptor->record.job_id;
		preemptor->victims++;
		job->record.end_time = limit < end ? limit : end;
		job_set_limit_timer(e, job);
	}
	job_changed(e, job);
}

static bool is_to_end(const struct job *job)
{
	return job && job->preempted && job_has_nodes(job);
}

/* Its steps learn of it at once; the batch script lives on through the grace time, as Slurm was
 * seen to have it. A user who has chosen a signal, and the processes for it, gets that. */
static void put_aside(struct engine *e, struct job *job)
{
	if (job->record.end_time <= engine_now(e)) {
		preempt_due(e, job);
		return;
	}
	e->gang_changed = true; /* one without a turn is resumed */
	if (e->conf->scheduler.preempt_send_user_signal && job_takes_warning(job)) {
		job_warn(e, job, true);
		return;
	}
	e->options.runner->signal(job, SIGCONT, JOB_SIGNAL_STEPS, e->options.runner_data);
	e->options.runner->signal(job, SIGTERM, JOB_SIGNAL_STEPS, e->options.runner_data);
}

static void mark_job(struct engine *e, struct job *job, struct job *preemptor)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		if (one && job_has_nodes(one) && !one->preempted)
			mark(e, one, preemptor);
	}
}

static void put_job_aside(struct engine *e, struct job *job)
{
	uint32_t i;

	/* the end of the first component is that of the others */
	for (i = engine_count_components(job); i-- > 0;) {
		if (is_to_end(engine_get_component(job, i)))
			put_aside(e, engine_get_component(job, i));
	}
}

static int is_component_of(void *item, void *het)
{
	return ((const struct job *)item)->het == het;
}

/* All are known to be preempted before a process of any is: a jobd that is killed in between finds
 * all of them so. */
void preempt_begin(struct engine *e, struct job *preemptor, List preempted)
{
	ListIterator i = list_iterator_create(preempted);
	bool begun = changes_begin(e);
	struct job *job;

	while ((job = list_next(i)))
		mark_job(e, job, preemptor);
	changes_end(e, begun);
	list_iterator_reset(i);
	while ((job = list_next(i))) {
		/* several components may be listed */
		if (!job->het || list_find_first(preempted, is_component_of, job->het) == job)
			put_job_aside(e, job);
	}
	list_iterator_destroy(i);
}

void preempt_ended(struct engine *e, struct job *job, bool is_queued_again)
{
	struct job *preemptor;

	if (!job->preempted)
		return;
	preemptor = engine_find_job(e, job->preemptor_id);
	if (preemptor && preemptor->victims > 0)
		preemptor->victims--;
	job->preempted = false;
	if (!is_queued_again)
		job->preemptor_id = 0;
}

bool preempt_has_taken(const struct engine *e, const struct job *job)
{
	const struct job *preemptor =
		job->preemptor_id ? engine_find_job((struct engine *)e, job->preemptor_id) : NULL;

	return preemptor && !job_has_ended(preemptor) &&
		(!job_is_pending(preemptor) || preemptor->queued);
}

void preempt_restore(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->jobs_count; i++) {
		const struct job *job = e->jobs[i];
		struct job *preemptor =
			job && job->preempted ? engine_find_job(e, job->preemptor_id) : NULL;

		if (preemptor && job_is_pending(preemptor))
			preemptor->victims++;
	}
}
