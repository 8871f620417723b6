/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/join.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/mpi.h"
#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/join_request.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/result.h"

/* Tasks forked between two turns of the agent's loop. */
#define FORKS_PER_TURN 16

enum join_phase {
	JOIN_FORKING,
	JOIN_EXECUTING, /* they have been released */
	JOIN_GIVING_UP, /* until all that were forked have ended */
};

/* This node's part of a spawn. */
struct join_part {
	struct join_request request;
	struct plan_joined joined;
	struct plan_program *programs; /* one for each group */
	uint32_t *task_program;        /* these have an entry for each task: joined.task_program */
	uint32_t *ranks;               /* in the step */
	int *errors;                   /* errno of its failed exec, or 0 */
	int *fds;                      /* the service's end of its socket pair, or -1 */
	struct environ_task task_env;
	bool added; /* to the agent's tables */
};

struct join {
	struct agent *a;
	json_t *message;
	enum join_phase phase;
	struct join_part part;
	struct launch launch;
	struct err err;   /* why it has failed */
	uint32_t forked;  /* their number */
	uint32_t running; /* of these */
	bool reported;    /* all have been executed, or have reported why not */
	uint64_t begin_ns;
	ev_timer turn;
	ev_io reports;
};

/* Removes them again; none was forked. */
static void join_part_undo(struct agent *a, struct join_part *part)
{
	uint32_t i;

	if (a->stdio)
		stdio_join_end(a->stdio);
	if (!part->added)
		return;
	for (i = 0; i < part->joined.count; i++)
		proctrack_task_ended(a->pt, &a->plan.job, part->joined.first_local + i);
	a->tasks.n -= part->joined.count;
	a->plan.job.node_tasks -= part->joined.count;
	part->added = false;
}

static void join_part_clear(struct join_part *part)
{
	uint32_t i;
	size_t k;

	for (i = 0; part->fds && i < part->joined.count; i++)
		(void)close_fd(part->fds[i]);
	for (k = 0; part->programs && k < part->request.groups_count; k++)
		strv_clear(&part->programs[k].env);
	environ_task_clear(&part->task_env);
	free(part->programs);
	free(part->task_program);
	free(part->ranks);
	free(part->errors);
	free(part->fds);
	join_request_clear(&part->request);
}

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

/* ---- the answer ---------------------------------------------------------------------------- */

static int send_fds(struct agent *a, const struct join_part *part)
{
	uint32_t at, n;
	int r = 0;

	for (at = 0; r == 0 && part->fds[0] >= 0 && at < part->joined.count; at += n) {
		n = part->joined.count - at;
		if (n > LINK_FDS_MAX)
			n = LINK_FDS_MAX;
		r = mpi_link_send_take(a,
			json_pack("{s:s, s:I, s:I}", "tell", "fds", "id",
				(json_int_t)part->request.id, "at", (json_int_t)at),
			part->fds + at, n);
	}
	return r;
}

/* "spawned": all run. */
static int join_part_answer(struct agent *a, struct join_part *part, struct err *err)
{
	json_auto_t *locals = json_array();
	uint32_t i;
	int r = send_fds(a, part);

	mpi_link_tasks_started(a, part->joined.first_local, part->joined.count);
	for (i = 0; i < part->joined.count; i++)
		(void)json_array_append_new(
			locals, json_integer((json_int_t)part->joined.first_local + i));
	/* packed in any case: json_pack() takes the reference */
	if (r == 0)
		r = mpi_link_send_take(a,
			json_pack("{s:s, s:I, s:i, s:O}", "tell", "spawned", "id",
				(json_int_t)part->request.id, "error", 0, "locals", locals),
			NULL, 0);
	return r < 0 ? err_set(err, r, "notify the MPI service process of a spawn's tasks") : 0;
}

/* Takes errors, which may be NULL. */
static void refuse(struct agent *a, int64_t id, const struct err *err, json_t *errors)
{
	json_t *message = json_pack("{s:s, s:I, s:i, s:s}", "tell", "spawned", "id", (json_int_t)id,
		"error", -err->code, "why", err->text);
	int r;

	if (errors && message)
		(void)json_object_set_new(message, "errors", errors);
	else
		json_decref(errors);
	/* A service that is gone is ignored here. */
	r = mpi_link_send_take(a, message, NULL, 0);
	if (r < 0)
		log_debug(a->log, "notify the MPI service process that a spawn failed: %s",
			strerror(-r));
}

/* No task runs. */
static void join_part_refuse(struct agent *a, const struct join_part *part, const struct err *err)
{
	json_t *errors = json_array();
	uint32_t i;

	for (i = 0; i < part->joined.count; i++)
		(void)json_array_append_new(errors, json_integer(part->errors[i]));
	refuse(a, part->request.id, err, errors);
}

static void refuse_message(struct agent *a, const json_t *message, const struct err *err)
{
	refuse(a, json_integer_value(json_object_get(message, "id")), err, NULL);
}

/* ---- failures ------------------------------------------------------------------------------ */

/* By the step's requests, so that their descendants end, too; directly while the requests are
 * paused. */
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
	/* resources of tasks that were not forked */
	for (i = j->forked; i < j->part.joined.count; i++)
		proctrack_task_ended(a->pt, &a->plan.job, j->part.joined.first_local + i);
}

/* Fails the spawn with j->err. The forked tasks end; the reply is sent when they have. */
static void join_give_up(struct join *j)
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

static void join_on_report(const struct child_report *report, void *userdata)
{
	struct join *j = userdata;
	struct agent *a = j->a;
	uint32_t index = report->local_id - j->part.joined.first_local;
	struct err err = ERR_INIT;
	struct task *task;

	if (index >= j->forked)
		return; /* no child writes that: invalid */
	task = &a->tasks.v[report->local_id];
	if (report->stage == CHILD_STAGE_EXEC && report->error == 0) {
		trace_task(a->trace, "exec", task->rank, report->time_ns, report->time_ns);
		return;
	}
	task->exec_status = child_report_explain(&j->launch.setup, report, &err);
	task->dropped = true;
	j->part.errors[index] = -err.code;
	if (j->err.code == 0)
		j->err = err;
}

void join_read_reports(struct agent *a)
{
	struct join *j = a->start.joins.now;

	if (!j || j->launch.report_fd < 0 || j->phase == JOIN_GIVING_UP)
		return;
	j->reported = launch_read_reports(&j->launch, join_on_report, j);
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

static void join_end(struct join *j)
{
	struct agent *a = j->a;

	if (j->err.code < 0)
		join_part_refuse(a, &j->part, &j->err);
	trace_phase(a->trace, "spawn", j->begin_ns);
	free_join(j);
	join_go_on(a);
	reexec_go_on(a);
}

int join_get_report_fd(const struct agent *a)
{
	const struct join *j = a->start.joins.now;

	return j && j->phase == JOIN_EXECUTING ? j->launch.report_fd : -1;
}

void join_act(struct agent *a)
{
	struct join *j = a->start.joins.now;

	if (!j)
		return;
	if (j->phase == JOIN_EXECUTING && j->reported && j->err.code == 0 &&
		join_part_answer(a, &j->part, &j->err) == 0) {
		join_end(j);
		return;
	}
	if (j->err.code < 0)
		join_give_up(j);
	if (j->phase == JOIN_GIVING_UP && j->running == 0)
		join_end(j);
}

static void on_reports(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct join *j = w->data;
	struct agent *a = j->a;

	join_read_reports(a);
	join_act(a); /* which may free j */
}

/* ---- what they run ------------------------------------------------------------------------- */

static int make_cwd(const struct plan *plan, struct join_group *group)
{
	char *joined;

	if (!group->cwd || group->cwd[0] == '/')
		return 0;
	if (asprintf(&joined, "%s/%s", plan->cwd, group->cwd) < 0)
		return -ENOMEM;
	free(group->cwd);
	group->cwd = joined;
	return 0;
}

/* Each program has its own environment, with the step's variables and all ranks. */
#define ENVIRON_BYTES_MAX ((size_t)64 << 20)
#define RANK_BYTES        11u /* of a number and its comma */

static int check_size(const struct plan *plan, const struct join_request *request, struct err *err)
{
	size_t one = (size_t)request->count * RANK_BYTES, i;
	const struct strv *env = &plan->programs[0].env;

	for (i = 0; i < env->n; i++)
		one += strlen(env->v[i]) + 1;
	if (one <= ENVIRON_BYTES_MAX / request->groups_count)
		return 0;
	return err_set_text(err, -E2BIG,
		"the environments of a spawn can have %zu bytes on a node, and its %zu programs here "
		"would have %zu each",
		ENVIRON_BYTES_MAX, request->groups_count, one);
}

/* spawn_ranks: the tasks' ranks in the spawn. */
static int make_program(
	const struct plan *plan, struct join_part *part, size_t k, const uint32_t *spawn_ranks)
{
	struct join_group *group = &part->request.groups[k];
	struct plan_program *program = &part->programs[k];
	int r = make_cwd(plan, group);

	if (r == 0)
		r = environ_make_joined(&plan->programs[0].env, &group->env, part->joined.size,
			spawn_ranks, part->joined.count, &program->env);
	if (r == 0)
		r = environ_task_reserve(&part->task_env, program->env.n);
	program->argv = group->argv.v;
	program->cwd = group->cwd ? group->cwd : plan->cwd;
	return r;
}

static int make_programs(const struct plan *plan, struct join_part *part)
{
	const struct join_request *request = &part->request;
	_cleanup_free_ uint32_t *spawn_ranks = calloc(request->count, sizeof(*spawn_ranks));
	uint32_t i, n = 0;
	size_t k;
	int r = spawn_ranks ? 0 : -ENOMEM;

	for (k = 0; r == 0 && k < request->groups_count; k++) {
		for (i = 0; i < request->groups[k].count; i++) {
			spawn_ranks[n] = request->groups[k].rank + i;
			part->ranks[n] = request->first_rank + spawn_ranks[n];
			part->task_program[n] = (uint32_t)k;
			n++;
		}
	}
	for (k = 0; r == 0 && k < request->groups_count; k++)
		r = make_program(plan, part, k, spawn_ranks);
	return r;
}

static int make_arrays(struct agent *a, struct join_part *part)
{
	uint32_t n = part->request.count, i;

	part->programs = calloc(part->request.groups_count, sizeof(*part->programs));
	part->task_program = calloc(n, sizeof(*part->task_program));
	part->ranks = calloc(n, sizeof(*part->ranks));
	part->errors = calloc(n, sizeof(*part->errors));
	part->fds = calloc(n, sizeof(*part->fds));
	if (!part->programs || !part->task_program || !part->ranks || !part->errors || !part->fds)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		part->fds[i] = -1;
	part->joined = (struct plan_joined){
		.spawn = part->request.number,
		.first_rank = part->request.first_rank,
		.size = part->request.size,
		.first_local = a->tasks.n,
		.count = n,
		.programs = part->programs,
		.task_program = part->task_program,
	};
	return make_programs(&a->plan, part);
}

/* ---- their ranks --------------------------------------------------------------------------- */

/* Node 0's service numbers spawns and ranks. A rank must not be used twice here. */
static int check_numbers(const struct agent *a, const struct join_request *request, struct err *err)
{
	const struct task *task;
	uint32_t i;

	if (request->first_rank < a->plan.job.ntasks)
		return err_set_text(err, -EINVAL,
			"spawn: first_rank is %u, and ranks below %u are those of the step's own tasks",
			request->first_rank, a->plan.job.ntasks);
	if (request->count > SPEC_TASKS_MAX - a->tasks.n)
		return err_set_text(err, -E2BIG,
			"a step can have %u tasks on a node in all its life, and this one has had %u",
			SPEC_TASKS_MAX, a->tasks.n);
	for (i = 0; i < a->tasks.n; i++) {
		task = &a->tasks.v[i];
		if (task->spawn == request->number)
			return err_set_text(err, -EEXIST, "spawn: there was a spawn %u before",
				request->number);
		if (task->rank >= request->first_rank &&
			task->rank - request->first_rank < request->size)
			return err_set_text(
				err, -EEXIST, "spawn: rank %u is another task's", task->rank);
	}
	return 0;
}

static int add_to_job(struct plan *plan, const struct join_part *part)
{
	const struct join_request *request = &part->request;
	_cleanup_free_ stepd_step_task_info_t *tasks = calloc(request->count, sizeof(*tasks));
	uint32_t i;

	if (!tasks)
		return -ENOMEM;
	for (i = 0; i < request->count; i++) {
		tasks[i].gtid = part->ranks[i];
		tasks[i].spawn = request->number;
		tasks[i].appnum = request->groups[part->task_program[i]].appnum;
	}
	return plan_add_tasks(plan, tasks, request->count);
}

static int add_to_tables(struct agent *a, struct join_part *part)
{
	uint32_t n = part->request.count;
	int r = usage_grow(&a->account.usage, a->tasks.n, n);

	if (r == 0)
		r = tasks_add(&a->tasks, part->request.number, part->ranks, n);
	if (r < 0)
		return r;
	r = add_to_job(&a->plan, part);
	if (r < 0)
		a->tasks.n -= n;
	part->added = r == 0;
	return r;
}

static int apply_limits(struct agent *a, const struct join_part *part, struct err *err)
{
	const struct spec *spec = a->plan.spec;
	const struct limits_target target = {
		.pt = a->pt,
		.cont_id = a->plan.job.cont_id,
		.mode = spec->limits_mode,
		.where = "task_limits",
		.log = a->log,
	};

	if (!spec->task_limits.set)
		return 0;
	return limits_apply(&target, &spec->task_limits, part->ranks, part->request.count, err);
}

/* Checks the message and extends the tables for its tasks: none runs yet. */
static int join_part_make(
	struct agent *a, const json_t *message, struct join_part *part, struct err *err)
{
	int r = join_request_read(message, &part->request, err);

	if (r == 0)
		r = check_numbers(a, &part->request, err);
	if (r == 0)
		r = check_size(&a->plan, &part->request, err);
	if (r == 0 && make_arrays(a, part) < 0)
		r = err_set(err, -ENOMEM, "spawn");
	if (r == 0)
		r = stdio_join(a->stdio, a->tasks.n, part->ranks, part->request.count, err);
	if (r == 0)
		r = mpi_streams_join(a, part->request.copy, err);
	if (r == 0 && add_to_tables(a, part) < 0)
		r = err_set(err, -ENOMEM, "spawn");
	return r < 0 ? r : apply_limits(a, part, err);
}

/* ---- the socket pairs ---------------------------------------------------------------------- */

/* Before a task's fork. */
static int join_part_open(struct agent *a, struct join_part *part, uint32_t index, struct err *err)
{
	const struct join_group *group = &part->request.groups[part->task_program[index]];
	struct mpi_service *service = mpi_get_service(a->mpi.host);
	_cleanup_free_ char **own = NULL;
	int pair[2] = {-1, -1}, r;

	if (mpi_service_has_task_fds(service) &&
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(err, -errno,
			"make a task's descriptor (raise the limit of open files, ulimit -Hn)");
	part->fds[index] = pair[1];
	r = join_group_environ(
		group, part->ranks[index] - part->joined.first_rank - group->rank, &own);
	if (r < 0)
		(void)close_fd(pair[0]);
	else
		r = mpi_service_add_task_take(
			service, part->joined.first_local + index, pair[0], own);
	/* the service never waits for one of them */
	if (r == 0 && pair[1] >= 0 && fcntl(pair[1], F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "make a task's descriptor") : 0;
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
	(void)sigfillset(&all); /* as at the step's start; can't fail, nor can the next calls */
	(void)sigprocmask(SIG_SETMASK, &all, &saved);
	r = launch_fork(
		&j->launch, j->part.joined.first_local + j->forked, &context, &pid, &j->err);
	(void)sigprocmask(SIG_SETMASK, &saved, NULL);
	mpi_service_close_task_fd(
		mpi_get_service(j->a->mpi.host), j->part.joined.first_local + j->forked);
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
	stdio_hold_joined(a->stdio);
	a->plan.job.holder_pid = stdio_get_holder(a->stdio);
	/* An adopter finds the new tasks in it, too. */
	result_publish_state(a, suspend_state_name(a));
	j->phase = JOIN_EXECUTING;
	ev_io_set(&j->reports, j->launch.report_fd, EV_READ);
	ev_io_start(a->loop, &j->reports);
	return launch_release(&j->launch, &err) < 0 ? (j->err = err).code : 0;
}

static void on_turn(struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct join *j = w->data;
	struct agent *a = j->a;
	uint32_t n;
	int r = 0;

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
		return err_set_text(&j->err, -EPERM, "no task can join the step: %s", why);
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
		.lock_fd = registry_get_lock_fd(a->registry),
		.traced = a->trace != NULL,
	};
	l->group = 0;
	l->io = a->stdio;
	/* held: none runs before all are forked */
	return launch_open(l, a->pt, true, &j->err);
}

static void begin_take(struct agent *a, json_t *message)
{
	struct join *j = calloc(1, sizeof(*j));
	struct err err = ERR_INIT;

	if (!j) {
		(void)err_set(&err, -ENOMEM, "spawn");
		refuse_message(a, message, &err);
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
		refuse_message(a, message, &j->err);
		join_part_undo(a, &j->part);
		free_join(j);
		return;
	}
	a->start.joins.now = j;
	ev_timer_start(a->loop, &j->turn);
}

/* A pending message, kept as text: its values would take many times the memory. NULL: no memory. */
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
	json_auto_t *message = read_waiting(a, i);

	refuse_message(a, message, why);
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
		(void)err_set_text(&why, -EPERM, "no task can join the step: it is not running");
	else if (a->hooks)
		(void)err_set_text(&why, -EPERM, "no task can join the step: it has step hooks");
	else if (json_array_size(a->start.joins.waiting) >= JOIN_WAITING_MAX)
		(void)err_set_text(&why, -EAGAIN, "too many spawns wait for their turn");
	else if (add_waiting(a, message) < 0)
		(void)err_set(&why, -ENOMEM, "spawn");
	if (why.code < 0)
		refuse_message(a, message, &why);
	else
		join_go_on(a);
	return 0;
}

/* Replies as to all failures, and frees it. */
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

/* The running ones, in an array to be freed. */
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

	(void)err_set_text(&why, -ECANCELED, "spawn %u has failed on another node", number);
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

/* ---- the end ------------------------------------------------------------------------------- */

void join_step_ends(struct agent *a)
{
	struct join *j = a->start.joins.now;
	struct err err = ERR_INIT;
	size_t i;

	(void)err_set_text(&err, -ECANCELED, "no task can join the step: it is ending");
	for (i = 0; i < json_array_size(a->start.joins.waiting); i++)
		refuse_waiting(a, i, &err);
	json_decref(a->start.joins.waiting);
	a->start.joins.waiting = NULL;
	if (!j)
		return;
	/* The step's end ends them all. */
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
