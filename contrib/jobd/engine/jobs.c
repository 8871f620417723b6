/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs from their start to their end, and the table of them.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "contrib/jobd/select/use.h"
#include "stepd/base/err.h"

/* How long a job that could not be started, or was queued again, waits: Slurm's 22.05 was seen to
 * wait so long for its credentials to expire. */
#define REQUEUE_DELAY_S 121
#define READY_POLL_MS   1000
#define KILL_AGAIN_MS   30000

/* ---- names --------------------------------------------------------------------------------------
 */

const char *job_reason_name(enum job_reason reason)
{
	static const char *const names[JOB_REASON_MAX] = {
		[JOB_REASON_NONE] = "None",
		[JOB_REASON_PRIORITY] = "Priority",
		[JOB_REASON_RESOURCES] = "Resources",
		[JOB_REASON_DEPENDENCY] = "Dependency",
		[JOB_REASON_DEPENDENCY_NEVER] = "DependencyNeverSatisfied",
		[JOB_REASON_BEGIN_TIME] = "BeginTime",
		[JOB_REASON_HELD_USER] = "JobHeldUser",
		[JOB_REASON_HELD_ADMIN] = "JobHeldAdmin",
		[JOB_REASON_ARRAY_LIMIT] = "JobArrayTaskLimit",
		[JOB_REASON_PART_DOWN] = "PartitionDown",
		[JOB_REASON_PART_TIME_LIMIT] = "PartitionTimeLimit",
		[JOB_REASON_PART_NODE_LIMIT] = "PartitionNodeLimit",
		[JOB_REASON_NODES_DOWN] = "ReqNodeNotAvail",
		[JOB_REASON_RESERVATION] = "ReqNodeNotAvail, May be reserved for other job",
		[JOB_REASON_BEGIN_FAILED] = "BeginFailed",
		[JOB_REASON_LAUNCH_FAILED] = "launch failed requeued held",
	};

	return names[reason];
}

static const struct {
	const char *name, *code;
} state_names[JOB_END] = {
	[JOB_PENDING] = {"PENDING", "PD"},
	[JOB_RUNNING] = {"RUNNING", "R"},
	[JOB_SUSPENDED] = {"SUSPENDED", "S"},
	[JOB_COMPLETE] = {"COMPLETED", "CD"},
	[JOB_CANCELLED] = {"CANCELLED", "CA"},
	[JOB_FAILED] = {"FAILED", "F"},
	[JOB_TIMEOUT] = {"TIMEOUT", "TO"},
	[JOB_NODE_FAIL] = {"NODE_FAIL", "NF"},
	[JOB_PREEMPTED] = {"PREEMPTED", "PR"},
	[JOB_OOM] = {"OUT_OF_MEMORY", "OOM"},
};

const char *job_state_name(uint32_t state)
{
	if (state & JOB_COMPLETING)
		return "COMPLETING";
	if (state & JOB_CONFIGURING)
		return "CONFIGURING";
	return state_names[state & JOB_STATE_BASE].name;
}

const char *job_state_code(uint32_t state)
{
	if (state & JOB_COMPLETING)
		return "CG";
	if (state & JOB_CONFIGURING)
		return "CF";
	return state_names[state & JOB_STATE_BASE].code;
}

/* ---- the table ----------------------------------------------------------------------------------
 */

/* The index of the job with this id, or the one at which it has to be inserted. Entries of
 * forgotten jobs are NULL, so that the search skips to the next one that is not. */
static size_t job_place(const struct engine *e, uint32_t job_id)
{
	size_t low = 0, high = e->jobs_count, middle, i;

	if (high && e->jobs[high - 1] && e->jobs[high - 1]->record.job_id < job_id)
		return high;
	while (low < high) {
		middle = low + (high - low) / 2;
		for (i = middle; i < high && !e->jobs[i]; i++)
			;
		if (i < high && e->jobs[i]->record.job_id < job_id)
			low = i + 1;
		else
			high = middle;
	}
	return low;
}

struct job *engine_find_job(struct engine *e, uint32_t job_id)
{
	size_t i = job_place(e, job_id);

	/* empty places before it are in its way */
	for (; i < e->jobs_count && !e->jobs[i]; i++)
		;
	return i < e->jobs_count && e->jobs[i]->record.job_id == job_id ? e->jobs[i] : NULL;
}

struct job *engine_find_array_task(struct engine *e, uint32_t array_job_id, uint32_t task_id)
{
	const struct job_array *array = array_find(e, array_job_id);
	struct job *job = array ? array->first : NULL;

	while (job && job->record.array_task_id != task_id)
		job = job->task_after;
	return job;
}

size_t engine_count_jobs(const struct engine *e)
{
	return e->jobs_count;
}

struct job *engine_get_job(const struct engine *e, size_t i)
{
	return e->jobs[i];
}

static void close_holes(struct engine *e)
{
	size_t i, n = 0;

	for (i = 0; i < e->jobs_count; i++) {
		if (e->jobs[i])
			e->jobs[n++] = e->jobs[i];
	}
	e->jobs_count = n;
	e->jobs_forgotten = 0;
}

static int grow(struct job ***jobs, size_t capacity)
{
	struct job **grown = reallocarray(*jobs, capacity, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*jobs = grown;
	return 0;
}

int job_add(struct engine *e, struct job *job)
{
	struct namesakes *group;
	size_t wanted, i;

	if (e->jobs_count == e->jobs_capacity) {
		wanted = e->jobs_capacity ? 2 * e->jobs_capacity : 64;
		if (grow(&e->jobs, wanted) < 0 || grow(&e->timers, wanted) < 0)
			return -ENOMEM;
		e->jobs_capacity = wanted;
	}
	group = namesakes_get(e, job->record.user_id, job->record.name);
	if (!group)
		return -ENOMEM;
	job->namesakes = group;
	if (!job_has_ended(job))
		namesakes_add(job);
	/* ids rise, but for the day on which they begin anew */
	i = job_place(e, job->record.job_id);
	memmove(e->jobs + i + 1, e->jobs + i, (e->jobs_count - i) * sizeof(struct job *));
	e->jobs[i] = job;
	e->jobs_count++;
	return 0;
}

void job_free(struct engine *e, struct job *job)
{
	if (!job)
		return;
	namesakes_remove(job);
	namesakes_put(e, job->namesakes);
	array_remove(e, job);
	het_remove(e, job);
	job_release(job);
	FREE_NULL_BITMAP(job->details.req_node_bitmap);
	FREE_NULL_BITMAP(job->details.exc_node_bitmap);
	backfill_forget(job);
	FREE_NULL_BITMAP(job->failed_nodes);
	FREE_NULL_BITMAP(job->leaving_nodes);
	select_jobinfo_free(e->select, job->step_info);
	select_jobinfo_free(e->select, job->record.select_jobinfo);
	request_clear(&job->request);
	free(job->description);
	free(job);
}

void job_forget(struct engine *e, struct job *job)
{
	size_t i = job_place(e, job->record.job_id);

	for (; e->jobs[i] != job; i++)
		;
	queue_take_out(e, job);
	e->jobs[i] = NULL;
	e->jobs_forgotten++;
	if (e->jobs_forgotten > e->jobs_count / 2)
		close_holes(e);
	job_free(e, job);
}

/* ---- its nodes ----------------------------------------------------------------------------------
 */

void job_give(struct job *job)
{
	job_record_t *r = &job->record;

	bit_free(r->node_bitmap);
	r->node_bitmap = bit_copy(r->job_resrcs->node_bitmap);
	r->node_cnt = r->job_resrcs->nhosts;
	free(r->nodes);
	r->nodes = nodes_text(r->node_bitmap);
}

void job_release(struct job *job)
{
	use_resources_free(job->record.job_resrcs);
	job->record.job_resrcs = NULL;
	FREE_NULL_BITMAP(job->record.node_bitmap);
	free(job->record.nodes);
	job->record.nodes = NULL;
	job->record.node_cnt = 0;
}

static int is_record(void *item, void *key)
{
	return item == key;
}

static void drain_nodes(struct engine *e, const struct job *job, const struct err *err)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(job->record.node_bitmap, i)) >= 0; i++)
		nodes_drain(e, (uint32_t)i, err->text);
}

/* If the plugin fails, the job may still use its nodes. */
void job_fini_plugin(struct engine *e, struct job *job)
{
	struct err err = ERR_INIT;

	if (select_job_fini(e->select, &job->record, &err) < 0)
		drain_nodes(e, job, &err);
}

/* How long it has stood still by now, of one that does. */
static time_t job_count_suspension(const struct engine *e, struct job *job)
{
	time_t stood =
		job_base_state(job) == JOB_SUSPENDED ? engine_now(e) - job->record.suspend_time : 0;

	if (stood < 0) /* the clock was set back, and jobd restarted */
		stood = 0;
	job->record.tot_sus_time += stood;
	return stood;
}

/* Its end begins: the plugin gives its resources to others, who get them when the processes are
 * gone. */
static void job_fini(struct engine *e, struct job *job)
{
	(void)job_count_suspension(e, job); /* its end is now, whatever it was to be */
	if (job->record.job_resrcs) {       /* else another was expanded with them */
		job_fini_plugin(e, job);
		nodes_remove_job(e, job);
	}
	(void)list_delete_all(job_list, is_record, &job->record);
	array_uncount(e, job);
	e->waiting_changed = true;
}

/* ---- its step -----------------------------------------------------------------------------------
 */

/* A job without a script has no processes of ours. */
static bool has_step(const struct job *job)
{
	const struct job *first = engine_get_component(job, 0);

	return first && first->request.script;
}

static void finish_step(struct engine *e, struct job *job, bool killing)
{
	step_record_t step = {.job_ptr = &job->record,
		.step_id = SLURM_BATCH_SCRIPT,
		.step_node_bitmap = job->record.node_bitmap,
		.cpu_count = job->record.job_resrcs ? job->record.job_resrcs->ncpus : 0,
		.select_jobinfo = job->step_info,
		.start_time = job->record.start_time};

	if (!job->step_info || (killing && job->step_killed))
		return;
	job->step_killed = killing;
	select_step_finish(e->select, &step, killing);
	if (killing)
		return;
	select_jobinfo_free(e->select, job->step_info);
	job->step_info = NULL;
}

/* ---- its start ----------------------------------------------------------------------------------
 */

/* A job without a limit of time has an end for the plugins' sake, but no timer. */
static bool has_limit(const struct job *job)
{
	return job->record.time_limit != INFINITE && job->record.time_limit != NO_VAL;
}

bool job_takes_warning(const struct job *job)
{
	return job->warning.signal && (!job->warning.to_script || job->request.script);
}

static bool is_to_be_warned(const struct job *job)
{
	return job_takes_warning(job) && !job->warned;
}

void job_set_limit_timer(struct engine *e, struct job *job)
{
	time_t due = job->record.end_time;

	if (is_to_be_warned(job))
		due -= (time_t)job->warning.before_s;
	timer_set(e, job, has_limit(job) || job->preempted ? MS_PER_S * (uint64_t)due : NEVER_MS);
}

/* Back into the queue, after a while. */
static void put_aside(struct engine *e, struct job *job, enum job_reason reason, time_t delay)
{
	job_release(job);
	job->record.job_state = JOB_PENDING;
	job->record.start_time = job->record.end_time = 0;
	job->begin_time = engine_now(e) + delay;
	queue_place(e, job);
	if (job->reason == JOB_REASON_BEGIN_TIME)
		job->reason = reason;
}

static void launch(struct engine *e, struct job *job)
{
	struct err err = ERR_INIT;
	int r;

	job->record.job_state &= ~JOB_CONFIGURING;
	job->launched = true;
	if (has_step(job))
		job->step_info = select_step_begin(e->select, &job->record);
	job_set_limit_timer(e, job);
	job_changed(e, job);
	r = e->options.runner->start(job, e->options.runner_data, &err);
	if (r == 0)
		return;
	job->launched = false;
	if (r == -ENOMEM) {
		engine_job_refused(e, job, err.text);
		return;
	}
	log_error(e->log, "job %u: %s", job->record.job_id, err.text);
	engine_node_failed(e, job, (uint32_t)bit_ffs(job->record.node_bitmap), err.text);
}

/* The plugin prepares the nodes: it is polled until they are ready. */
void job_launch(struct engine *e, struct job *job)
{
	struct err err = ERR_INIT;
	int r = select_job_ready(e->select, &job->record, &err);

	if (r > 0) {
		launch(e, job);
		return;
	}
	if (r < 0) {
		log_error(e->log, "job %u: %s", job->record.job_id, err.text);
		job_fini(e, job);
		job->end_state = JOB_PENDING;
		job->begin_failed = true;
		job_clean(e, job);
		if (job->het)
			job_terminate(e, job, JOB_PENDING); /* the other components */
		return;
	}
	job->record.job_state |= JOB_CONFIGURING;
	timer_set(e, job, e->now_ms + READY_POLL_MS);
	job_changed(e, job);
}

void job_start(struct engine *e, struct job *job)
{
	job_record_t *r = &job->record;
	struct err err = ERR_INIT;

	queue_remove(e, job);
	job_give(job);
	(void)list_append(job_list, r);
	r->job_state = JOB_RUNNING;
	r->start_time = job->last_start_time = engine_now(e);
	r->end_time = r->start_time + job_duration(job);
	r->tot_sus_time = r->suspend_time = 0;
	job->reason = JOB_REASON_NONE;
	job->end_state = JOB_END;
	job->exit_status = -1;
	job->launched = job->warned = false;
	job->batch_node = (int)bit_ffs(r->node_bitmap);
	job->preempt_time = 0;
	job->preemptor_id = 0;
	engine_job_describe(job, NULL);
	backfill_forget(job);
	if (select_job_begin(e->select, r, &err) < 0) {
		log_error(e->log, "job %u: %s", r->job_id, err.text);
		(void)list_delete_all(job_list, is_record, r);
		put_aside(e, job, JOB_REASON_BEGIN_FAILED, e->conf->scheduler.sched_interval_s);
		return;
	}
	nodes_add_job(e, job);
	e->waiting_changed = true; /* "after" */
	e->stats.started++;
	if (!gang_add(e, job)) {
		job_launch(e, job);
		return;
	}
	job->gang_waits = true;
	r->job_state |= JOB_CONFIGURING;
	if (job->het)
		job_changed(e, job); /* with the other components */
}

/* ---- its end ------------------------------------------------------------------------------------
 */

static void queue_again(struct engine *e, struct job *job)
{
	if (job->begin_failed) { /* it has not run */
		job->begin_failed = false;
		put_aside(e, job, JOB_REASON_BEGIN_FAILED, e->conf->scheduler.sched_interval_s);
		job_changed(e, job);
		return;
	}
	job->restarts++;
	e->stats.requeued++;
	job->record.suspend_time = job->record.tot_sus_time = 0;
	job->preempt_time = 0;
	put_aside(e, job, JOB_REASON_BEGIN_TIME, REQUEUE_DELAY_S);
	job_changed(e, job);
}

static void count_end(struct engine *e, uint32_t state)
{
	switch (state) {
	case JOB_COMPLETE:
		e->stats.completed++;
		break;
	case JOB_CANCELLED:
		e->stats.cancelled++;
		break;
	case JOB_PREEMPTED:
		e->stats.preempted++;
		break;
	default:
		e->stats.failed++;
	}
}

/* Its processes are gone. */
static void job_end(struct engine *e, struct job *job, uint32_t state)
{
	finish_step(e, job, false);
	if (job->runner_data)
		e->options.runner->forget(job, e->options.runner_data);
	job->launched = false;
	job->change = JOB_STEADY;
	gang_remove(e, job);
	preempt_ended(e, job, state == JOB_PENDING);
	engine_want_pass(e);
	if (state == JOB_PENDING) {
		namesakes_add(job); /* it may have ended before */
		queue_again(e, job);
		het_leader_ended(e, job, state);
		return;
	}
	namesakes_remove(job);
	job->record.job_state = state;
	if (job->record.end_time == 0 || job->record.end_time > engine_now(e))
		job->record.end_time = engine_now(e);
	if (job->record.start_time == 0)
		job->record.start_time = job->record.end_time;
	count_end(e, state);
	e->waiting_changed = true;
	timer_set(e, job, e->now_ms + MS_PER_S * (uint64_t)e->conf->min_job_age_s);
	job_changed(e, job);
	het_leader_ended(e, job, state);
}

/* As Slurm has it: a script that goes on without a process that was killed has failed all the same.
 */
static uint32_t state_of_exit(int exit_status, bool out_of_memory)
{
	if (out_of_memory)
		return JOB_OOM;
	return exit_status == 0 ? JOB_COMPLETE : JOB_FAILED;
}

static void wait_for_plugin(struct engine *e, struct job *job)
{
	if (!job->cleaning) {
		job->cleaning = true;
		job->gang_waits = false;
		if (!job_is_completing(job)) {
			job->record.job_state = job->end_state | JOB_COMPLETING;
			nodes_begin_completing(e, job->record.node_bitmap);
		}
		job_changed(e, job);
	}
	timer_set(e, job, e->now_ms + READY_POLL_MS);
}

void job_clean(struct engine *e, struct job *job)
{
	struct err err = ERR_INIT;
	int r = job->record.node_bitmap ? select_job_is_cleaning(e->select, &job->record, &err) : 0;

	if (r > 0) {
		wait_for_plugin(e, job);
		return;
	}
	if (r < 0)
		drain_nodes(e, job, &err);
	if (job_is_completing(job))
		nodes_end_completing(e, job->record.node_bitmap);
	job->cleaning = false;
	job_end(e, job, job->end_state);
}

void engine_node_left(struct engine *e, struct job *job, uint32_t node)
{
	bitstr_t *left;

	if (!job->leaving_nodes || !bit_test(job->leaving_nodes, node))
		return;
	left = bit_alloc(node_record_count);
	bit_set(left, node);
	nodes_end_completing(e, left);
	bit_free(left);
	bit_clear(job->leaving_nodes, node);
	if (bit_ffs(job->leaving_nodes) < 0)
		FREE_NULL_BITMAP(job->leaving_nodes);
	engine_want_pass(e);
	job_changed(e, job);
}

void engine_job_ended(struct engine *e, struct job *job, int exit_status, bool out_of_memory)
{
	if (!job->launched || job->cleaning)
		return;
	job->exit_status = exit_status;
	if (job->het && job_has_ended(het_leader(job)))
		job->exit_status = het_leader(job)->exit_status; /* the script's */
	finish_step(e, job, false);
	if (!job_is_completing(job)) {
		job_fini(e, job);
		job->end_state = state_of_exit(exit_status, out_of_memory);
		job->record.end_time = engine_now(e);
	} else if (job->end_state == JOB_END) {
		job->end_state = state_of_exit(exit_status, out_of_memory);
	}
	job_clean(e, job);
}

void engine_job_out_of_memory(struct engine *e, struct job *job, const char *why)
{
	if (job_has_ended(job) || job_is_pending(job) || job_is_completing(job))
		return;
	engine_job_describe(job, why);
	job_terminate(e, job, JOB_OOM);
}

static void send_signal(struct engine *e, struct job *job, int signal)
{
	e->options.runner->signal(job, signal, JOB_SIGNAL_BOTH, e->options.runner_data);
}

void job_terminate(struct engine *e, struct job *job, uint32_t end_state)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		if (one && !job_is_pending(one) && !job_has_ended(one))
			job_terminate_component(e, one, end_state);
	}
}

void job_terminate_component(struct engine *e, struct job *job, uint32_t end_state)
{
	if (job->cleaning)
		return; /* it is over, and how is known */
	job->end_state = end_state;
	if (job_is_completing(job))
		return; /* it is under way already */
	job_fini(e, job);
	if (!job->launched) {
		job_clean(e, job);
		return;
	}
	job->record.end_time = engine_now(e);
	job->record.job_state = end_state | JOB_COMPLETING;
	nodes_begin_completing(e, job->record.node_bitmap);
	timer_set(e, job, e->now_ms + MS_PER_S * (uint64_t)e->conf->kill_wait_s);
	job_changed(e, job);
	send_signal(e, job, SIGCONT);
	send_signal(e, job, SIGTERM);
}

void engine_job_describe(struct job *job, const char *text)
{
	free(job->description);
	job->description = text ? strdup(text) : NULL; /* without memory it is not known */
}

void engine_job_refused(struct engine *e, struct job *job, const char *why)
{
	uint32_t i;

	if (job_has_ended(job) || job_is_pending(job) || job_is_completing(job))
		return;
	log_error(e->log, "job %u can't start now: %s", job->record.job_id, why);
	engine_job_describe(job, why);
	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		if (one && !job_is_pending(one) && !job_has_ended(one))
			one->begin_failed = true;
	}
	job_terminate(e, job, JOB_PENDING);
}

/* The job itself may be what makes its nodes fail one after the other: it is held for an operator.
 */
static void hold_failing(struct job *job)
{
	job->record.priority = 0;
	job->reason = JOB_REASON_LAUNCH_FAILED;
}

void engine_node_failed(struct engine *e, struct job *job, uint32_t node, const char *why)
{
	bool again = job->restarts > 0 && job->failed_nodes;

	nodes_drain(e, node, why);
	if (!job->failed_nodes)
		job->failed_nodes = bit_alloc(node_record_count);
	bit_set(job->failed_nodes, node);
	if (job_has_ended(job) || job_is_pending(job))
		return;
	engine_job_describe(job, why);
	if (again && job->may_requeue && !job_is_completing(job))
		hold_failing(het_leader(job));
	job_terminate(e, job, het_leader(job)->may_requeue ? JOB_PENDING : JOB_NODE_FAIL);
}

/* ---- what is due --------------------------------------------------------------------------------
 */

/* jobd may be back only when the job is over: then there is nothing to warn of. */
static bool is_warning_due(const struct engine *e, const struct job *job)
{
	return is_to_be_warned(job) &&
		(job->record.end_time > engine_now(e) || job->warning.before_s == 0);
}

/* Noted before it is sent, so that a jobd that is killed in between does not send it twice. */
void job_warn(struct engine *e, struct job *job, bool continued)
{
	const struct engine_runner *runner = e->options.runner;
	const enum job_signal_target target =
		job->warning.to_script ? JOB_SIGNAL_BATCH : JOB_SIGNAL_STEPS;

	job->warned = true;
	job_set_limit_timer(e, job);
	job_changed(e, job);
	(void)select_job_signal(e->select, &job->record, job->warning.signal);
	if (continued)
		runner->signal(job, SIGCONT, target, e->options.runner_data);
	runner->signal(job, job->warning.signal, target, e->options.runner_data);
}

void job_due(struct engine *e, struct job *job)
{
	uint32_t id = job->record.job_id;
	struct err err = ERR_INIT;

	if (job->cleaning) {
		job_clean(e, job);
	} else if (job_is_completing(job)) {
		finish_step(e, job, true);
		send_signal(e, job, SIGKILL);
		timer_set(e, job, e->now_ms + KILL_AGAIN_MS);
	} else if (job_is_pending(job)) {
		queue_place(e, job); /* its begin time has come */
	} else if (job->record.job_state & JOB_CONFIGURING) {
		job_launch(e, job);
	} else if (job_has_ended(job) && !het_has_ended(job)) {
		timer_set(e, job, e->now_ms + MS_PER_S); /* the others have its script's status */
	} else if (job_has_ended(job)) {
		job_forget(e, job);
		if (e->options.store &&
			e->options.store->job_forgotten(id, e->options.store_data, &err) < 0)
			log_error(e->log, "%s", err.text);
	} else if (is_warning_due(e, job)) {
		job_warn(e, job, false);
	} else if (job->preempted) {
		preempt_due(e, job);
	} else {
		job_terminate(e, job, JOB_TIMEOUT);
	}
}

/* ---- what its owner wants -----------------------------------------------------------------------
 */

static int refuse(const struct job *job, const char *what, struct err *err)
{
	return err_set_text(err, -EINVAL, "job %u can't be %s: it is %s", job->record.job_id, what,
		job_state_name(job->record.job_state));
}

int engine_cancel(struct engine *e, struct job *job, struct err *err)
{
	uint32_t i;

	if (het_has_ended(job))
		return refuse(job, "cancelled", err);
	for (i = engine_count_components(job); i-- > 0;) {
		struct job *one = engine_get_component(job, i);

		if (!one || !job_is_pending(one))
			continue;
		queue_take_out(e, one);
		one->record.end_time = engine_now(e);
		job_end(e, one, JOB_CANCELLED);
	}
	job_terminate(e, job, JOB_CANCELLED);
	return 0;
}

int engine_signal(struct engine *e, struct job *job, int signal, enum job_signal_target target,
	struct err *err)
{
	if (!job->launched)
		return refuse(job, "signalled", err);
	if (target == JOB_SIGNAL_BATCH && !job->request.script)
		return err_set_text(err, -EINVAL,
			"job %u has no batch script: signal its steps, without --batch",
			job->record.job_id);
	(void)select_job_signal(e->select, &job->record, signal);
	e->options.runner->signal(job, signal, target, e->options.runner_data);
	return 0;
}

int engine_hold(struct engine *e, struct job *job, bool by_admin, struct err *err)
{
	job = het_leader(job);
	if (!job_is_pending(job))
		return refuse(job, "held", err);
	job->record.priority = 0;
	job->held_by_admin = by_admin && job->record.user_id != 0;
	job->reason = JOB_REASON_NONE;
	queue_take_out(e, job); /* it is found there by its priority no more */
	queue_place(e, job);
	job_changed(e, job);
	return 0;
}

int engine_release(struct engine *e, struct job *job, bool by_admin, struct err *err)
{
	job = het_leader(job);
	if (!job_is_pending(job))
		return refuse(job, "released", err);
	if (job->held_by_admin && !by_admin)
		return err_set_text(err, -EPERM,
			"job %u was held by root: only root can release it", job->record.job_id);
	if (job->record.priority == 0)
		job->record.priority = UINT32_MAX - 3 - job->record.job_id;
	job->held_by_admin = false;
	/* its nodes may be mended */
	if (job->reason == JOB_REASON_LAUNCH_FAILED)
		FREE_NULL_BITMAP(job->failed_nodes);
	job->reason = JOB_REASON_NONE;
	queue_place(e, job);
	job_changed(e, job);
	return 0;
}

int engine_requeue(struct engine *e, struct job *job, struct err *err)
{
	uint32_t i;

	if (het_is_pending(job))
		return refuse(job, "queued again", err);
	if (!het_leader(job)->may_requeue)
		return err_set_text(
			err, -EINVAL, "job %u was submitted with --no-requeue", job->record.job_id);
	for (i = engine_count_components(job); i-- > 0;) {
		struct job *one = engine_get_component(job, i);

		if (one && job_has_ended(one))
			job_end(e, one, JOB_PENDING);
	}
	job_terminate(e, job, JOB_PENDING);
	return 0;
}

/* ---- suspension ---------------------------------------------------------------------------------
 */

void job_stand(struct engine *e, struct job *job)
{
	struct err err = ERR_INIT;

	if (select_job_suspend(e->select, &job->record, !job->gang_stopped, &err) < 0)
		log_warning(e->log, "%s, ignoring", err.text);
	nodes_remove_job(e, job);
	job->record.job_state = JOB_SUSPENDED;
	job->record.suspend_time = engine_now(e);
	job->gang_waits = false;
	nodes_add_job(e, job);
	if (!job->preempted)
		timer_set(e, job, NEVER_MS); /* its time stands still, too */
	engine_want_pass(e);
	job_changed(e, job);
}

void job_go_on(struct engine *e, struct job *job)
{
	struct err err = ERR_INIT;
	time_t stood;

	if (select_job_resume(e->select, &job->record, !job->gang_stopped, &err) < 0)
		log_warning(e->log, "%s, ignoring", err.text);
	nodes_remove_job(e, job);
	stood = job_count_suspension(e, job);
	if (!job->preempted) /* else it has a grace time, which goes on */
		job->record.end_time += stood;
	job->record.suspend_time = engine_now(e); /* as Slurm has it: of the last change */
	job->record.job_state = JOB_RUNNING;
	job->gang_stopped = false;
	nodes_add_job(e, job);
	job_set_limit_timer(e, job);
	job_changed(e, job);
}

void job_begin_suspension(struct engine *e, struct job *job)
{
	gang_stops(e, job);
	job->change = JOB_SUSPENDING;
	e->options.runner->suspend(job, e->options.runner_data);
}

void job_begin_resumption(struct engine *e, struct job *job)
{
	job->change = JOB_RESUMING;
	e->options.runner->resume(job, e->options.runner_data);
}

/* A job that the gang scheduler has suspended counts as suspended by a user from now on. */
static int suspend_component(struct engine *e, struct job *job, struct err *err)
{
	if (job->gang_stopped && job->record.job_state == JOB_SUSPENDED) {
		job->gang_stopped = false;
		job_changed(e, job);
		return 0;
	}
	if (job->record.job_state != JOB_RUNNING || !job->launched || job->change != JOB_STEADY)
		return refuse(job, "suspended", err);
	job_begin_suspension(e, job);
	return 0;
}

/* With gang scheduling it is resumed in its next turn. */
static int resume_component(struct engine *e, struct job *job, struct err *err)
{
	if (job->record.job_state != JOB_SUSPENDED || job->change != JOB_STEADY ||
		job->gang_stopped)
		return refuse(job, "resumed", err);
	if (gang_takes(e, job)) {
		job->gang_stopped = true;
		job_changed(e, job);
		e->gang_changed = true;
		return 0;
	}
	job_begin_resumption(e, job);
	return 0;
}

/* All of them can be, or what is done is of those that can. */
static int each_component(struct engine *e, struct job *job,
	int (*fn)(struct engine *e, struct job *job, struct err *err), struct err *err)
{
	uint32_t i, done = 0;
	int r = 0;

	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		r = one ? fn(e, one, err) : 0;
		done += one && r == 0;
	}
	return done ? 0 : r;
}

int engine_suspend(struct engine *e, struct job *job, struct err *err)
{
	return each_component(e, job, suspend_component, err);
}

int engine_resume(struct engine *e, struct job *job, struct err *err)
{
	return each_component(e, job, resume_component, err);
}

void engine_job_suspended(struct engine *e, struct job *job, int r)
{
	if (job->change != JOB_SUSPENDING)
		return;
	job->change = JOB_STEADY;
	if (job->record.job_state == JOB_RUNNING && r < 0) {
		log_warning(e->log, "job %u could not be suspended: %s", job->record.job_id,
			strerror(-r));
		if (job->het)
			job->het->refused = true;
		if (job->gang_stopped)
			gang_refused(e, job);
	} else if (job->record.job_state == JOB_RUNNING) {
		job_stand(e, job);
		e->gang_changed = true;
	}
	het_suspension_ended(e, job);
}

void engine_job_resumed(struct engine *e, struct job *job, int r)
{
	if (job->change != JOB_RESUMING)
		return;
	job->change = JOB_STEADY;
	if (job->record.job_state != JOB_SUSPENDED)
		return;
	if (r < 0) {
		log_warning(e->log, "job %u could not be resumed: %s", job->record.job_id,
			strerror(-r));
		if (job->gang_stopped)
			gang_refused(e, job);
		return;
	}
	job_go_on(e, job);
	e->gang_changed = true;
}

enum job_reason engine_get_reason(const struct engine *e, const struct job *job)
{
	const struct queue *q;

	if (job->het && job_is_pending(job) && job_is_pending(het_leader(job)) &&
		!reason_stays(job->reason))
		job = het_leader(job);
	q = queue_of(e, job);
	if (job->queued && q->blocked && q->blocked != job &&
		(job->reason == JOB_REASON_NONE || job->reason == JOB_REASON_RESOURCES))
		return JOB_REASON_PRIORITY;
	if (job->reason == JOB_REASON_BEGIN_TIME && preempt_has_taken(e, job))
		return JOB_REASON_RESOURCES;
	return job->reason;
}
