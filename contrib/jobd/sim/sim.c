/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/sim.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/preempt/host.h"
#include "contrib/jobd/select/host.h"

/* An engine that wants to be called so often without any time in between goes round in a circle. */
#define CALLS_AT_ONE_TIME_MAX 100000u

/* The processes of a job, from its start until the engine forgets them. Events hold it. */
struct sim_job {
	struct sim *sim;
	struct job *job; /* NULL: it is forgotten */
	struct sim_job_plan plan;
	uint64_t left_ms;  /* to run, at since_ms */
	uint64_t since_ms; /* they run since then */
	uint64_t stood_since_ms;
	bool stopped, ending;
	int exit_status;   /* with which they will end */
	uint32_t end_turn; /* the event of their end that counts: earlier ones don't */
	uint32_t refs;
};

enum event_kind {
	EVENT_END,
	EVENT_SUSPENDED,
	EVENT_RESUMED,
	EVENT_NODE_FAILED,
};

struct event {
	uint64_t due_ms, number; /* of two at one time the older one comes first */
	enum event_kind kind;
	uint32_t turn;
	struct sim_job *sj;
};

struct sim {
	struct engine *engine;
	sim_plan_fn plan;
	void *plan_data;
	uint64_t now_ms, engine_due_ms;
	struct event *events; /* a heap */
	size_t count, capacity;
	uint64_t numbers;
};

/* ---- events ------------------------------------------------------------------------------------
 */

static bool comes_before(const struct event *a, const struct event *b)
{
	return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->number < b->number;
}

static void sim_job_unref(struct sim_job *sj)
{
	if (--sj->refs == 0)
		free(sj);
}

/* Without memory there is no simulation: as with the bitmaps, it ends there. */
static void *must_have(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void event_add(struct sim_job *sj, enum event_kind kind, uint64_t due_ms)
{
	struct sim *s = sj->sim;
	struct event event = {.due_ms = due_ms,
		.number = s->numbers++,
		.kind = kind,
		.turn = sj->end_turn,
		.sj = sj};
	size_t i = s->count++;

	if (i == s->capacity) {
		s->capacity = s->capacity ? 2 * s->capacity : 64;
		s->events = must_have(reallocarray(s->events, s->capacity, sizeof(*s->events)));
	}
	for (; i > 0 && comes_before(&event, &s->events[(i - 1) / 2]); i = (i - 1) / 2)
		s->events[i] = s->events[(i - 1) / 2];
	s->events[i] = event;
	sj->refs++;
}

static struct event event_take(struct sim *s)
{
	struct event first = s->events[0], last = s->events[--s->count];
	size_t i = 0, child;

	for (; (child = 2 * i + 1) < s->count; i = child) {
		if (child + 1 < s->count && comes_before(&s->events[child + 1], &s->events[child]))
			child++;
		if (!comes_before(&s->events[child], &last))
			break;
		s->events[i] = s->events[child];
	}
	if (s->count)
		s->events[i] = last;
	return first;
}

/* ---- processes ---------------------------------------------------------------------------------
 */

/* They end at this time, whatever was planned before. */
static void end_at(struct sim_job *sj, uint64_t due_ms, int exit_status)
{
	sj->exit_status = exit_status;
	sj->end_turn++;
	if (due_ms != SIM_NEVER)
		event_add(sj, EVENT_END, due_ms);
}

static void run_on(struct sim_job *sj)
{
	uint64_t stood_ms = sj->stopped ? sj->sim->now_ms - sj->stood_since_ms : 0;

	if (sj->plan.sleeps && sj->left_ms != SIM_NEVER)
		sj->left_ms -= stood_ms < sj->left_ms ? stood_ms : sj->left_ms;
	sj->stopped = false;
	sj->since_ms = sj->sim->now_ms;
	end_at(sj, sj->left_ms == SIM_NEVER ? SIM_NEVER : sj->since_ms + sj->left_ms,
		sj->plan.exit_status);
}

static void stand_still(struct sim_job *sj)
{
	uint64_t ran_ms = sj->sim->now_ms - sj->since_ms;

	sj->stopped = true;
	sj->stood_since_ms = sj->sim->now_ms;
	if (sj->left_ms != SIM_NEVER)
		sj->left_ms -= ran_ms < sj->left_ms ? ran_ms : sj->left_ms;
	end_at(sj, SIM_NEVER, 0);
}

static struct sim_job *sim_job_new(struct sim *s, struct job *job)
{
	struct sim_job *sj = calloc(1, sizeof(*sj));

	if (!sj)
		return NULL;
	*sj = (struct sim_job){
		.sim = s, .job = job, .refs = 1, .plan = {.run_ms = SIM_NEVER, .failed_node = -1}};
	s->plan(job, &sj->plan, s->plan_data);
	sj->left_ms = sj->plan.run_ms;
	job->runner_data = sj;
	return sj;
}

/* ---- the runner --------------------------------------------------------------------------------
 */

static int runner_start(struct job *job, void *userdata, struct err *err)
{
	struct sim *s = userdata;
	struct sim_job *sj = sim_job_new(s, job);

	if (!sj)
		return err_set(err, -ENOMEM, "start job %u", job->record.job_id);
	if (sj->plan.start_error < 0)
		return err_set(err, sj->plan.start_error, "start job %u", job->record.job_id);
	if (sj->plan.failed_node >= 0)
		event_add(sj, EVENT_NODE_FAILED, s->now_ms);
	else
		run_on(sj);
	return 0;
}

static void runner_signal(
	struct job *job, int signal, enum job_signal_target target, void *userdata)
{
	struct sim *s = userdata;
	struct sim_job *sj = job->runner_data;

	if (!sj || target == JOB_SIGNAL_STEPS || sj->ending)
		return;
	if (signal == SIGKILL) {
		sj->ending = true;
		end_at(sj, s->now_ms, SIGKILL);
	} else if (signal == SIGTERM && sj->plan.term_ms != SIM_NEVER) {
		sj->ending = sj->plan.term_ms == 0;
		end_at(sj, s->now_ms + sj->plan.term_ms, SIGTERM);
	}
}

static void runner_suspend(struct job *job, void *userdata)
{
	struct sim *s = userdata;
	struct sim_job *sj = job->runner_data;

	event_add(sj, EVENT_SUSPENDED, s->now_ms + sj->plan.suspend_ms);
}

static void runner_resume(struct job *job, void *userdata)
{
	struct sim *s = userdata;
	struct sim_job *sj = job->runner_data;

	event_add(sj, EVENT_RESUMED, s->now_ms + sj->plan.suspend_ms);
}

static void runner_forget(struct job *job, void *userdata)
{
	struct sim_job *sj = job->runner_data;

	(void)userdata;
	sj->job = NULL;
	job->runner_data = NULL;
	sim_job_unref(sj);
}

static const struct engine_runner sim_runner = {
	.start = runner_start,
	.signal = runner_signal,
	.suspend = runner_suspend,
	.resume = runner_resume,
	.forget = runner_forget,
};

/* ---- what happens ------------------------------------------------------------------------------
 */

static void report_suspended(struct sim *s, struct sim_job *sj)
{
	if (sj->plan.suspend_error == 0 && !sj->ending)
		stand_still(sj);
	engine_job_suspended(s->engine, sj->job, sj->plan.suspend_error);
}

static void report_resumed(struct sim *s, struct sim_job *sj)
{
	if (sj->plan.resume_error == 0 && sj->stopped && !sj->ending)
		run_on(sj);
	engine_job_resumed(s->engine, sj->job, sj->plan.resume_error);
}

static void event_handle(struct sim *s, const struct event *event)
{
	struct sim_job *sj = event->sj;

	if (!sj->job)
		return;
	switch (event->kind) {
	case EVENT_END:
		if (event->turn == sj->end_turn)
			engine_job_ended(s->engine, sj->job, sj->exit_status, false);
		break;
	case EVENT_SUSPENDED:
		report_suspended(s, sj);
		break;
	case EVENT_RESUMED:
		report_resumed(s, sj);
		break;
	case EVENT_NODE_FAILED:
		engine_node_failed(s->engine, sj->job, (uint32_t)sj->plan.failed_node,
			"the simulated agent does not start");
		break;
	}
}

static void handle_due(struct sim *s)
{
	struct event event;

	engine_set_time(s->engine, s->now_ms);
	while (s->count && s->events[0].due_ms <= s->now_ms) {
		event = event_take(s);
		event_handle(s, &event);
		sim_job_unref(event.sj);
	}
}

static uint64_t next_due(const struct sim *s)
{
	uint64_t due_ms = s->count ? s->events[0].due_ms : SIM_NEVER;

	return s->engine_due_ms < due_ms ? s->engine_due_ms : due_ms;
}

/* All that is due now, and what follows of it at once. */
static void run_now(struct sim *s)
{
	uint32_t calls = 0;

	do {
		handle_due(s);
		s->engine_due_ms = engine_advance(s->engine, s->now_ms);
		calls++;
		assert(calls < CALLS_AT_ONE_TIME_MAX);
	} while (next_due(s) <= s->now_ms);
}

void sim_run_until(struct sim *s, uint64_t now_ms)
{
	run_now(s);
	while (next_due(s) <= now_ms) {
		s->now_ms = next_due(s);
		run_now(s);
	}
	if (s->now_ms < now_ms)
		s->now_ms = now_ms;
	run_now(s);
}

bool sim_run_all(struct sim *s, uint64_t until_ms)
{
	run_now(s);
	while (next_due(s) < until_ms) {
		s->now_ms = next_due(s);
		run_now(s);
	}
	return next_due(s) == SIM_NEVER;
}

/* ---- life --------------------------------------------------------------------------------------
 */

int sim_new(const struct sim_options *o, struct sim **ret_sim, struct err *err)
{
	struct sim *s = calloc(1, sizeof(*s));
	struct engine_options options = {.conf = o->conf,
		.runner = &sim_runner,
		.runner_data = s,
		.store = o->store,
		.store_data = o->store_data,
		.log = o->log,
		.no_plans = o->no_plans,
		.plain = o->plain,
		.now_ms = o->now_ms};
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "make a simulation");
	s->plan = o->plan;
	s->plan_data = o->plan_data;
	s->now_ms = o->now_ms;
	r = select_open(o->plugin_dir, o->conf->select_type, o->log, &options.select, err);
	if (r == 0 && strcmp(o->conf->preempt_type, "none") != 0)
		r = preempt_open(o->plugin_dir, o->conf->preempt_type, &options.preempt, err);
	if (r == 0)
		r = engine_new(&options, &s->engine, err);
	if (r < 0) {
		(void)select_close(options.select);
		(void)preempt_close(options.preempt);
		free(s);
		return r;
	}
	*ret_sim = s;
	return 0;
}

struct sim *sim_free(struct sim *s)
{
	if (!s)
		return NULL;
	(void)engine_free(s->engine); /* always NULL */
	while (s->count)
		sim_job_unref(event_take(s).sj);
	free(s->events);
	free(s);
	return NULL;
}

struct engine *sim_get_engine(const struct sim *s)
{
	return s->engine;
}

uint64_t sim_get_time_ms(const struct sim *s)
{
	return s->now_ms;
}

bool sim_get_processes(const struct job *job, struct sim_processes *ret_processes)
{
	const struct sim_job *sj = job->runner_data;

	if (!sj)
		return false;
	*ret_processes = (struct sim_processes){.left_ms = sj->left_ms,
		.since_ms = sj->stopped ? sj->stood_since_ms : sj->since_ms,
		.stopped = sj->stopped};
	return true;
}

int sim_adopt(struct sim *s, struct job *job, const struct sim_processes *processes)
{
	const job_record_t *r = &job->record;
	bool stands = (r->job_state & JOB_STATE_BASE) == JOB_SUSPENDED;
	struct sim_job *sj;

	if (!job->launched || job->runner_data)
		return 0;
	sj = sim_job_new(s, job);
	if (!sj)
		return -ENOMEM;
	if (processes) {
		sj->left_ms = processes->left_ms;
		sj->stopped = processes->stopped;
		sj->since_ms = sj->stood_since_ms = processes->since_ms;
	} else {
		sj->since_ms = 1000 * (uint64_t)(r->start_time + r->tot_sus_time);
	}
	if (!sj->stopped)
		stand_still(sj); /* what they have run counts */
	if (!stands)
		run_on(sj);
	return 0;
}
