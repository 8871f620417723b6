/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preemption: which running jobs a pending one may have put aside, and what is done to those that
 * the select plugin chose. Jobs that stand still for it are the gang scheduler's (gang.c); here are
 * those that end: at once, or when their grace time is over. Until all of them have, the job that
 * waits for them preempts nobody else.
 */
#include <signal.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "contrib/jobd/preempt/host.h"

/* ---- who may be preempted, and how --------------------------------------------------------------
 */

/* There is one engine in a process, as slurm_conf. */
static const struct preempt *plugin;

/* A job that can't be queued again is cancelled instead. */
static uint16_t mode_of(const job_record_t *record)
{
	const struct job *job = (const struct job *)record;
	uint16_t mode = plugin ? preempt_get_mode(plugin, record) : PREEMPT_MODE_OFF;

	return mode == PREEMPT_MODE_REQUEUE && !job->may_requeue ? PREEMPT_MODE_CANCEL : mode;
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

static int is_under_way(void *item, _unused_ void *userdata)
{
	return ((const struct job *)item)->preempted;
}

List preempt_candidates(const struct engine *e, const struct job *job)
{
	struct preempt_order order;
	List list;

	if (!e->preempt || job->victims > 0)
		return NULL;
	order = order_of(e);
	list = preempt_find_candidates(e->preempt, &job->record, &order, engine_now(e));
	if (list)
		(void)list_delete_all(list, is_under_way, NULL);
	if (list && list_count(list) == 0)
		FREE_NULL_LIST(list);
	return list;
}

bool preempt_is_possible(const struct engine *e, const struct job *other, const struct job *job)
{
	return e->preempt && e->conf->qos_count &&
		preempt_is_allowed(e->preempt, &other->record, &job->record);
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
	job_terminate(e, job,
		mode_of(&job->record) == PREEMPT_MODE_REQUEUE ? JOB_PENDING : JOB_PREEMPTED);
}

/* Its steps learn of it at once; the batch script lives on through the grace time, as Slurm was
 * seen to have it. */
static void begin_grace(struct engine *e, struct job *job, time_t end_time)
{
	if (job->record.end_time > end_time)
		job->record.end_time = end_time;
	job_set_limit_timer(e, job);
	job_changed(e, job);
	e->options.runner->signal(job, SIGCONT, false, e->options.runner_data);
	e->options.runner->signal(job, SIGTERM, false, e->options.runner_data);
}

static void put_aside(struct engine *e, struct job *job, struct job *preemptor)
{
	uint32_t grace_s = preempt_get_grace_time(e->preempt, &job->record);

	job->preempted = true;
	job->preemptor_id = preemptor->record.job_id;
	preemptor->victims++;
	if (grace_s > 0 && job->launched)
		begin_grace(e, job, engine_now(e) + (time_t)grace_s);
	else
		preempt_due(e, job);
}

void preempt_begin(struct engine *e, struct job *preemptor, List preempted)
{
	ListIterator i = list_iterator_create(preempted);
	struct job *job;

	while ((job = list_next(i))) {
		job->preempt_time = engine_now(e);
		if (mode_of(&job->record) != PREEMPT_MODE_SUSPEND)
			put_aside(e, job, preemptor);
		else
			job_changed(e, job); /* the gang scheduler does it when the other starts */
	}
	list_iterator_destroy(i);
}

void preempt_ended(struct engine *e, struct job *job)
{
	struct job *preemptor;

	if (!job->preempted)
		return;
	preemptor = engine_find_job(e, job->preemptor_id);
	if (preemptor && preemptor->victims > 0)
		preemptor->victims--;
	job->preempted = false;
	job->preemptor_id = 0;
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
