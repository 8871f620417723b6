/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/join.h"

#include <assert.h>
#include <ev.h>
#include <jansson.h>
#include <signal.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/log.h"
#include "stepd/record/events.h"
#include "stepd/record/trace.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/join_part.h"
#include "stepd/step/join_request.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/result.h"

/* How many are forked between two turns of the agent's loop. */
#define FORKS_PER_TURN 16

enum join_phase {
	JOIN_FORKING,
	JOIN_EXECUTING, /* they were let go */
	JOIN_GIVING_UP, /* until all that were forked have ended */
};

struct join {
	struct agent *a;
	json_t *message;
	enum join_phase phase;
	struct join_part part;
	struct launch launch;
	struct err err;   /* why it has failed */
	uint32_t forked;  /* how many */
	uint32_t running; /* of these */
	bool reported;    /* all have been executed, or have reported why not */
	uint64_t begin_ns;
	ev_timer turn;
	ev_io reports;
};

static void free_join(struct join *j)
{
	struct agent *a = j->a;

	if (a->start.joins.now == j)
		a->start.joins.now = NULL;
	ev_timer_stop(a->loop, &j->turn);
	ev_io_stop(a->loop, &j->reports);
	launch_close(&j->launch);
	join_part_clear(&j->part);
	json_decref(j->message);
	free(j);
}

/* ---- failures ------------------------------------------------------------------------------ */

/* By the step's requests, so that what they have started ends too; itself where those rest. */
static void kill_tasks(struct join *j)
{
	struct agent *a = j->a;
	const struct request_answer nobody = {0};
	const struct request_target target = {
		.whom = REQUEST_TASKS, .ranks = j->part.ranks, .ranks_count = j->forked};
	uint32_t i;

	if (!a->requests.resting &&
		requests_add_signal(&a->requests, SIGKILL, &target, &nobody) == 0)
		return;
	for (i = 0; i < j->forked; i++) {
		if (a->tasks.v[j->part.joined.first_local + i].state == TASK_RUNNING)
			(void)kill(a->tasks.v[j->part.joined.first_local + i].pid,
				SIGKILL); /* our child, not reaped */
	}
}

static void drop_tasks(struct join *j)
{
	struct agent *a = j->a;
	uint32_t i;

	for (i = j->part.joined.first_local; i < j->part.joined.first_local + j->part.joined.count;
		i++) {
		a->tasks.v[i].dropped = true;
		a->tasks.v[i].requested = a->tasks.v[i].state == TASK_RUNNING;
	}
	/* what was made for those that were not forked */
	for (i = j->forked; i < j->part.joined.count; i++)
		proctrack_task_ended(a->pt, &a->plan.job, j->part.joined.first_local + i);
}

/* err stands in j->err. What was forked ends; the answer comes when it has. */
static void give_up(struct join *j)
{
	if (j->phase == JOIN_GIVING_UP)
		return;
	if (mpi_link_may_log(j->a))
		log_warning(j->a->log, "spawn %u failed: %s", j->part.joined.spawn, j->err.text);
	ev_timer_stop(j->a->loop, &j->turn);
	ev_io_stop(j->a->loop, &j->reports);
	stdio_join_end(j->a->stdio);
	drop_tasks(j);
	kill_tasks(j);
	launch_close(&j->launch); /* those that are held end by themselves */
	j->phase = JOIN_GIVING_UP;
}

/* ---- exec ---------------------------------------------------------------------------------- */

static void on_report(const struct child_report *report, void *userdata)
{
	struct join *j = userdata;
	struct agent *a = j->a;
	uint32_t place = report->local_id - j->part.joined.first_local;
	struct err err = ERR_INIT;
	struct task *task;

	if (place >= j->forked)
		return; /* a child can't write that; nothing to name */
	task = &a->tasks.v[report->local_id];
	if (report->stage == CHILD_STAGE_EXEC && report->error == 0) {
		trace_task(a->trace, "exec", task->rank, report->time_ns, report->time_ns);
		return;
	}
	task->exec_status = child_report_explain(&j->launch.setup, report, &err);
	task->dropped = true;
	j->part.errors[place] = -err.code;
	if (j->err.code == 0)
		j->err = err;
}

void join_read_reports(struct agent *a)
{
	struct join *j = a->start.joins.now;

	if (!j || j->launch.report_fd < 0 || j->phase == JOIN_GIVING_UP)
		return;
	j->reported = launch_read_reports(&j->launch, on_report, j);
	if (!j->reported)
		return;
	ev_io_stop(a->loop, &j->reports);
	j->launch.report_fd = close_fd(j->launch.report_fd);
}

void join_task_ended(struct agent *a, uint32_t local_id)
{
	struct join *j = a->start.joins.now;

	if (j && local_id >= j->part.joined.first_local &&
		local_id - j->part.joined.first_local < j->forked)
		j->running--;
}

static void answer(struct join *j)
{
	struct agent *a = j->a;

	if (j->err.code < 0)
		join_part_refuse(a, &j->part, &j->err);
	trace_phase(a->trace, "spawn", j->begin_ns);
	free_join(j);
	join_go_on(a);
	reexec_go_on(a);
}

void join_act(struct agent *a)
{
	struct join *j = a->start.joins.now;

	if (!j)
		return;
	if (j->phase == JOIN_EXECUTING && j->reported && j->err.code == 0 &&
		join_part_answer(a, &j->part, &j->err) == 0) {
		answer(j);
		return;
	}
	if (j->err.code < 0)
		give_up(j);
	if (j->phase == JOIN_GIVING_UP && j->running == 0)
		answer(j);
}

static void on_reports(struct ev_loop *loop, ev_io *w, int revents)
{
	struct join *j = w->data;
	struct agent *a = j->a;

	(void)loop;
	(void)revents;
	join_read_reports(a);
	join_act(a); /* which may free j */
}

/* ---- forking ------------------------------------------------------------------------------- */

static void note_fork(struct join *j, pid_t pid, const struct fork_ticks *forked)
{
	struct agent *a = j->a;
	uint32_t local_id = j->part.joined.first_local + j->forked++;
	struct task *task = &a->tasks.v[local_id];

	task->forked = *forked;
	tasks_started(&a->tasks, local_id, pid, clock_now_ns());
	j->running++;
	agent_report_start(a, task);
}

static int fork_one(struct join *j)
{
	struct child_context context = {.env = j->part.task_env};
	struct fork_ticks forked = {.least = fork_ticks_now()};
	sigset_t all, saved;
	pid_t pid = 0;
	int r = join_part_open(j->a, &j->part, j->forked, &j->err);

	if (r < 0)
		return r;
	(void)sigfillset(&all); /* as at the step's start; can't fail, nor can the calls */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	r = launch_fork(
		&j->launch, j->part.joined.first_local + j->forked, &context, &pid, &j->err);
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	join_part_close(j->a, &j->part, j->forked);
	forked.most = fork_ticks_now();
	if (r == 0)
		note_fork(j, pid, &forked);
	return r;
}

static int release(struct join *j)
{
	struct agent *a = j->a;
	struct err err = ERR_INIT;

	stdio_join_end(a->stdio);
	/* Who dies after this finds the new tasks there, too. */
	result_publish_state(a, suspend_state_name(a));
	j->phase = JOIN_EXECUTING;
	ev_io_set(&j->reports, j->launch.report_fd, EV_READ);
	ev_io_start(a->loop, &j->reports);
	return launch_release(&j->launch, &err) < 0 ? (j->err = err).code : 0;
}

static void on_turn(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct join *j = w->data;
	struct agent *a = j->a;
	uint32_t n;
	int r = 0;

	(void)revents;
	ev_timer_stop(loop, w);
	if (a->suspend.wanted || a->suspend.stands)
		return; /* join_go_on() */
	events_begin(a->events);
	for (n = 0; r == 0 && n < FORKS_PER_TURN && j->forked < j->part.joined.count; n++)
		r = fork_one(j);
	events_end(a->events);
	if (r == 0 && j->forked == j->part.joined.count)
		r = release(j);
	if (r == 0 && j->phase == JOIN_FORKING)
		ev_timer_start(loop, w);
	join_act(a); /* which may free j */
}

/* ---- beginning ----------------------------------------------------------------------------- */

static const char *why_not(const struct agent *a)
{
	if (a->state != AGENT_RUNNING)
		return "the step is not running";
	if (a->origin.recover.adopted)
		return "this agent has taken the step over from one that died, and does not know its "
		       "environment and streams";
	if (!a->mpi.host || !mpi_get_service(a->mpi.host) || !a->stdio ||
		a->plan.programs[0].env.n == 0)
		return "this agent does not know the step's environment";
	return NULL;
}

static int set_up(struct join *j)
{
	struct agent *a = j->a;
	struct launch *l = &j->launch;
	const char *why = why_not(a);
	int r;

	if (why)
		return err_say(&j->err, -EPERM, "no task can join the step: %s", why);
	r = join_part_make(a, j->message, &j->part, &j->err);
	if (r < 0)
		return r;
	l->first = j->part.joined.first_local;
	l->setup = (struct child_setup){
		.plan = &a->plan,
		.joined = &j->part.joined,
		.mpi = mpi_has_task_hook(a->mpi.host) ? a->mpi.host : NULL,
		.nofile = &a->start.saved.nofile,
		.oom_score_adj =
			a->start.saved.oom_score_adj[0] ? a->start.saved.oom_score_adj : NULL,
		.traced = a->trace != NULL,
	};
	l->group = 0;
	l->io = a->stdio;
	/* held: none runs before all are there */
	return launch_open(l, a->pt, true, &j->err);
}

static void begin_take(struct agent *a, json_t *message)
{
	struct join *j = calloc(1, sizeof(*j));
	struct err err = ERR_INIT;

	if (!j) {
		(void)err_set(&err, -ENOMEM, "spawn");
		join_part_refuse_message(a, message, &err);
		json_decref(message);
		return;
	}
	*j = (struct join){
		.a = a, .message = message, .launch = LAUNCH_INIT, .begin_ns = clock_now_ns()};
	ev_timer_init(&j->turn, on_turn, 0., 0.);
	ev_init(&j->reports, on_reports);
	j->turn.data = j->reports.data = j;
	if (set_up(j) < 0) {
		if (mpi_link_may_log(a))
			log_warning(a->log, "spawn failed: %s", j->err.text);
		join_part_refuse_message(a, message, &j->err);
		join_part_undo(a, &j->part);
		free_join(j);
		return;
	}
	a->start.joins.now = j;
	ev_timer_start(a->loop, &j->turn);
}

/* A message that waits, from its text: small values take many times their text's memory. NULL: no
 * memory. */
static json_t *read_waiting(const struct agent *a, size_t i)
{
	const json_t *text = json_array_get(a->start.joins.waiting, i);

	return json_loadb(json_string_value(text) ?: "", json_string_length(text), 0, NULL);
}

static int add_waiting(struct agent *a, const json_t *message)
{
	_cleanup_free_ char *text = json_dumps(message, JSON_COMPACT);

	if (!a->start.joins.waiting)
		a->start.joins.waiting = json_array();
	return text && json_array_append_new(a->start.joins.waiting, json_string(text)) == 0
		? 0
		: -ENOMEM;
}

static void refuse_waiting(struct agent *a, size_t i, const struct err *why)
{
	json_t *message = read_waiting(a, i);

	join_part_refuse_message(a, message, why);
	json_decref(message);
}

void join_go_on(struct agent *a)
{
	struct join *j = a->start.joins.now;
	json_t *message;

	if (a->state != AGENT_RUNNING || a->suspend.wanted || a->suspend.stands)
		return;
	if (j && j->phase == JOIN_FORKING && !ev_is_active(&j->turn))
		ev_timer_start(a->loop, &j->turn);
	while (!a->start.joins.now && !a->reexec.wanted &&
		json_array_size(a->start.joins.waiting) > 0) {
		message = read_waiting(a, 0);
		(void)json_array_remove(a->start.joins.waiting, 0); /* it is there */
		if (message)
			begin_take(a, message);
	}
}

int join_from_link(struct agent *a, const json_t *message, struct err *err)
{
	struct err why = ERR_INIT;
	int64_t id;
	int r = join_request_id(message, &id, err);

	if (r < 0)
		return r;
	if (a->state != AGENT_RUNNING)
		(void)err_say(&why, -EPERM, "no task can join the step: it is not running");
	else if (json_array_size(a->start.joins.waiting) >= JOIN_WAITING_MAX)
		(void)err_say(&why, -EAGAIN, "too many spawns wait for their turn");
	else if (add_waiting(a, message) < 0)
		(void)err_set(&why, -ENOMEM, "spawn");
	if (why.code < 0)
		join_part_refuse_message(a, message, &why);
	else
		join_go_on(a);
	return 0;
}

/* It is answered as all that fail, and gone. */
static bool drop_waiting(struct agent *a, uint32_t number, const struct err *why)
{
	json_t *message;
	bool found;
	size_t i;

	for (i = 0; i < json_array_size(a->start.joins.waiting); i++) {
		message = read_waiting(a, i);
		found = json_integer_value(json_object_get(message, "number")) == number;
		json_decref(message);
		if (!found)
			continue;
		refuse_waiting(a, i, why);
		(void)json_array_remove(a->start.joins.waiting, i); /* it is there */
		return true;
	}
	return false;
}

/* Those that run, in an array to be freed. */
static uint32_t *drop_running(struct agent *a, uint32_t number, size_t *ret_count)
{
	uint32_t *ranks = calloc(a->tasks.n + 1u, sizeof(*ranks)), i;
	size_t n = 0;

	for (i = 0; ranks && i < a->tasks.n; i++) {
		if (a->tasks.v[i].spawn != number || a->tasks.v[i].state != TASK_RUNNING)
			continue;
		a->tasks.v[i].dropped = a->tasks.v[i].requested = true;
		ranks[n++] = a->tasks.v[i].rank;
	}
	*ret_count = n;
	return ranks;
}

int join_drop(struct agent *a, uint32_t number, const struct request_answer *answer)
{
	struct request_target target = {.whom = REQUEST_TASKS};
	_cleanup_free_ uint32_t *ranks = NULL;
	struct join *j = a->start.joins.now;
	struct err why = ERR_INIT;

	(void)err_say(&why, -ECANCELED, "spawn %u has failed on another node", number);
	if (drop_waiting(a, number, &why))
		return -ESRCH;
	if (j && j->part.joined.spawn == number) {
		if (j->err.code == 0)
			j->err = why;
		join_act(a);
		return -ESRCH;
	}
	target.ranks = ranks = drop_running(a, number, &target.ranks_count);
	if (!ranks)
		return -ENOMEM;
	return target.ranks_count ? requests_add_signal(&a->requests, SIGKILL, &target, answer)
				  : -ESRCH;
}

bool join_is_busy(const struct agent *a)
{
	return a->start.joins.now != NULL;
}

/* ---- the end ------------------------------------------------------------------------------- */

void join_step_ends(struct agent *a)
{
	struct join *j = a->start.joins.now;
	struct err err = ERR_INIT;
	size_t i;

	(void)err_say(&err, -ECANCELED, "no task can join the step: it is ending");
	for (i = 0; i < json_array_size(a->start.joins.waiting); i++)
		refuse_waiting(a, i, &err);
	json_decref(a->start.joins.waiting);
	a->start.joins.waiting = NULL;
	if (!j)
		return;
	/* The step's end takes them all with it. */
	drop_tasks(j);
	stdio_join_end(a->stdio);
	join_part_refuse(a, &j->part, j->err.code < 0 ? &j->err : &err);
	free_join(j);
}

void join_save(const struct agent *a, struct handover *h, json_t *root)
{
	if (json_array_size(a->start.joins.waiting) > 0)
		handover_put_json_take(h, root, "joins", json_incref(a->start.joins.waiting));
}

int join_restore(struct agent *a, const json_t *root)
{
	const json_t *array = json_get_array(root, "joins");

	if (!array)
		return 0;
	a->start.joins.waiting = json_copy((json_t *)array);
	return a->start.joins.waiting ? 0 : -ENOMEM;
}

void join_clear(struct agent *a)
{
	if (a->start.joins.now)
		free_join(a->start.joins.now);
	json_decref(a->start.joins.waiting);
	a->start.joins.waiting = NULL;
}
