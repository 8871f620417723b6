/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The operations that change the step: Signal, Terminate, Suspend and Resume, which go through the
 * step's ordered requests (their worker waits in place of the agent's loop); SetLimits, AddPid and
 * Notify.
 */
#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/err.h"
#include "stepd/base/proc.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/ending.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/result.h"

#define GRACE_MS_MAX 3153600000000 /* a century, as in a spec */

/* Pending signals of the step's owner at a time, also of callers that are gone: each takes
 * memory, and root's later requests wait behind them. */
#define OWNERS_SIGNALS_MAX 64

/* ---- Signal -------------------------------------------------------------------------------- */

struct signal_call {
	struct pending pending;
	pid_t pid;      /* 0: not a single process */
	uint32_t rank;  /* the first of those that were chosen */
	bool some_only; /* ranks were chosen */
	bool counted;   /* as one of the owner's */
};

static void signal_clear(struct pending *pending)
{
	if (((struct signal_call *)pending)->counted)
		pending->o->owners_signals--;
}

static struct signal_call *signal_call_new(struct operations *o, struct op_call *call)
{
	struct signal_call *s = pending_new(o, call, PENDING_SIGNAL, sizeof(*s), signal_clear);

	if (s && call->is_of_owner) {
		s->counted = true;
		o->owners_signals++;
	}
	return s;
}

static void on_signalled(int r, const struct err *err, void *userdata)
{
	struct signal_call *s = userdata;
	struct op_call *call;
	const pid_t pid = s->pid;
	const uint32_t rank = s->rank;
	const bool some_only = s->some_only;

	call = pending_end(&s->pending);
	/* A step without a process (an extern step) counts as signalled, and so does a killed
	 * one. */
	if (r == 0 || r == -ECANCELED || (r == -ESRCH && !pid && !some_only))
		op_reply_take(call, NULL);
	else if (r == -ESRCH && pid)
		op_fail_process(call, pid);
	else if (r == -ESRCH)
		op_fail_task(call, rank);
	else
		op_fail(call, r, err->text);
}

static void queue_signal(
	struct operations *o, struct op_call *call, int signal, const struct request_target *target)
{
	struct signal_call *s = signal_call_new(o, call);
	struct request_answer answer = {.fn = on_signalled, .userdata = s};
	struct err err = ERR_INIT;
	int r;

	if (!s)
		return;
	s->pid = target->pid;
	s->some_only = target->ranks_count > 0;
	s->rank = s->some_only ? target->ranks[0] : 0;
	if (s->counted && o->owners_signals > OWNERS_SIGNALS_MAX) {
		(void)err_set_text(&err, -EAGAIN,
			"%d signals of the step's owner wait for their turn: try again later",
			OWNERS_SIGNALS_MAX);
		on_signalled(-EAGAIN, &err, s);
		return;
	}
	r = requests_add_signal(&o->a->requests, signal, target, &answer);
	if (r < 0) {
		(void)err_set(&err, r, "can't send the signal");
		on_signalled(r, &err, s);
	}
}

/* A request that is not yet served: it waits in the queue, under its number. */
json_t *signal_save_call(const struct pending *pending)
{
	const struct signal_call *s = (const struct signal_call *)pending;
	int64_t number = requests_number_of(&pending->o->a->requests, s);

	if (number < 0)
		return NULL;
	return json_pack("{s:I, s:i, s:I, s:b}", "request", (json_int_t)number, "pid", (int)s->pid,
		"rank", (json_int_t)s->rank, "some_only", (int)s->some_only);
}

void signal_resume_call(struct operations *o, struct op_call *call, const json_t *state)
{
	struct signal_call *s = signal_call_new(o, call);
	struct request_answer answer = {.fn = on_signalled, .userdata = s};

	if (!s)
		return;
	s->pid = (pid_t)json_get_int(state, "pid", 0);
	s->rank = (uint32_t)json_get_int(state, "rank", 0);
	s->some_only = json_get_bool(state, "some_only", false);
	if (!requests_set_answer(&o->a->requests, json_get_int(state, "request", -1), &answer))
		op_fail(pending_end(&s->pending), -ECANCELED,
			"the agent has executed a new program meanwhile");
}

/* Does not wait: neither for work under way nor in the queue. */
static void kill_all(struct operations *o, struct op_call *call)
{
	int r = ending_send_kill(o->a);

	if (r < 0 && r != -ESRCH)
		op_fail(call, r, "can't send KILL to the step");
	else
		op_reply_take(call, NULL);
}

/* ranks and pid exclude each other, and start_ticks goes with pid. */
static bool check_target(struct op_call *call, const json_t *parameters)
{
	const char *wrong = NULL;

	if (param_is_given(parameters, "ranks") && param_is_given(parameters, "pid"))
		wrong = "pid";
	else if (param_is_given(parameters, "start_ticks") && !param_is_given(parameters, "pid"))
		wrong = "start_ticks";
	if (wrong)
		op_fail_parameter(call, wrong);
	return !wrong;
}

static void send_to_ranks(struct operations *o, struct op_call *call, int signal,
	const struct rank_choice *choice, struct request_target *target)
{
	struct rank_choice all = {.count = o->a->tasks.n};
	_cleanup_free_ uint32_t *ranks = NULL;

	if (!choice->given)
		choice = &all;
	if (choice->count == 0) {
		op_fail_unsupported(call, "the step has no tasks, and so no first processes");
		return;
	}
	ranks = rank_choice_list(o->a, choice);
	if (!ranks) {
		op_fail_no_memory(call);
		return;
	}
	target->whom = REQUEST_TASKS;
	target->ranks = ranks;
	target->ranks_count = choice->count;
	queue_signal(o, call, signal, target);
}

void op_signal(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	int signal = signals_parse(param_text(parameters, "signal"));
	struct request_target target = {.alone = param_bool(parameters, "leader", false)};

	if (!op_can_act(call, o->a) || !check_target(call, parameters))
		return;
	if (signal < 1 || signal >= _NSIG) {
		op_fail_parameter(call, "signal");
		return;
	}
	if (!param_pid(call, parameters, "pid", &target.pid) ||
		!param_start_ticks(call, parameters, &target.start_ticks) ||
		!param_ranks(o->a, call, parameters, &choice))
		return;
	if (target.pid) {
		target.whom = REQUEST_PROCESS;
		queue_signal(o, call, signal, &target);
	} else if (choice.given || target.alone) {
		send_to_ranks(o, call, signal, &choice, &target);
	} else if (signal == SIGKILL) {
		kill_all(o, call);
	} else {
		queue_signal(o, call, signal, &target);
	}
}

/* ---- Terminate ----------------------------------------------------------------------------- */

/* grace_ms: the time after each signal but the last. */
static void set_grace(struct spec_kill *steps, size_t count, uint64_t grace_ms)
{
	size_t i;

	for (i = 0; i + 1 < count; i++) {
		/* CONT before TERM waits for nothing */
		if (steps[i].wait_ms || i + 2 == count)
			steps[i].wait_ms = grace_ms;
	}
}

/* The requested sequence; NULL, and 0, for the step's own. */
static int make_sequence(const struct agent *a, const json_t *parameters,
	struct spec_kill **ret_steps, size_t *ret_count)
{
	const char *text = param_text(parameters, "kill_sequence");
	const struct spec *spec = a->plan.spec;

	if (text)
		return spec_kill_sequence_parse(text, ret_steps, ret_count, NULL);
	if (param_is_given(parameters, "grace_ms")) {
		*ret_count = spec->kill_sequence_count;
		*ret_steps = malloc(*ret_count * sizeof(**ret_steps));
		if (!*ret_steps)
			return -ENOMEM;
		memcpy(*ret_steps, spec->kill_sequence, *ret_count * sizeof(**ret_steps));
	}
	return 0;
}

void op_terminate(struct op_call *call, const json_t *parameters, struct operations *o)
{
	int64_t grace_ms = param_int(parameters, "grace_ms", 0);
	struct spec_kill *steps = NULL;
	size_t count = 0;
	int r;

	if (o->a->state == AGENT_DRAINING && mpi_link_is_open(o->a)) {
		log_info(o->a->log, "uid %u requests not to wait for the step's other nodes",
			call->uid);
		op_reply_take(call, NULL);
		mpi_link_over(o->a, true);
		return;
	}
	if (!op_can_act(call, o->a))
		return;
	if (grace_ms < 0 || grace_ms > GRACE_MS_MAX) {
		op_fail_parameter(call, "grace_ms");
		return;
	}
	r = make_sequence(o->a, parameters, &steps, &count);
	if (r == -ENOMEM) {
		op_fail_no_memory(call);
		return;
	}
	if (r < 0) {
		op_fail_parameter(call, "kill_sequence");
		return;
	}
	if (param_is_given(parameters, "grace_ms"))
		set_grace(steps, count, (uint64_t)grace_ms);
	log_info(o->a->log, "uid %u requests the end of the step", call->uid);
	op_reply_take(call, NULL);
	ending_terminate_take(o->a, steps, count);
}

/* ---- Suspend, Resume ----------------------------------------------------------------------- */

void op_suspend(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	if (o->a->state != AGENT_RUNNING)
		op_fail_state(call, o->a, "the step is ending");
	else if (pending_new(o, call, PENDING_SUSPEND, sizeof(struct pending), NULL))
		suspend_request(o->a);
}

void op_resume(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	if (!op_can_act(call, o->a))
		return;
	if (pending_new(o, call, PENDING_RESUME, sizeof(struct pending), NULL))
		suspend_resume(o->a);
}

static void reply_suspended(struct op_call *call, bool suspend, int code, const char *why)
{
	if (!why)
		op_reply_take(call, NULL);
	else if (suspend)
		op_fail_take(call, OP_SUSPEND_FAILED, code,
			json_pack("{s:o}", "message", report_json_text(why)));
	else
		op_fail(call, code, why);
}

/* Only the calls that are pending now: a reply may bring the next call, or end another. */
void operations_suspended(struct operations *o, bool suspend, int code, const char *why)
{
	enum pending_kind kind = suspend ? PENDING_SUSPEND : PENDING_RESUME;
	struct pending *pending;

	while ((pending = pending_find(o, kind)))
		pending->kind = PENDING_DONE;
	while ((pending = pending_find(o, PENDING_DONE)))
		reply_suspended(pending_end(pending), suspend, code, why);
}

/* ---- SetLimits ----------------------------------------------------------------------------- */

/* Collects the warnings that would go to the log. */
struct warnings {
	struct log log;
	json_t *texts;
};

static int take_warning(const struct log *log, _unused_ enum log_level level, const char *text)
{
	const struct warnings *w =
		(const struct warnings *)((const char *)log - offsetof(struct warnings, log));

	return json_array_append_new(w->texts, report_json_text(text));
}

/* A backend would create a cgroup for a task that has ended, too. */
static bool check_running(
	const struct agent *a, struct op_call *call, const uint32_t *ranks, size_t count)
{
	stepd_usage_t usage;
	size_t i;

	for (i = 0; i < count; i++) {
		if (proctrack_usage(a->pt, a->plan.job.cont_id, &ranks[i], &usage) != -ESRCH)
			continue;
		op_fail_task(call, ranks[i]);
		return false;
	}
	return true;
}

static void set_limits(struct operations *o, struct op_call *call, const struct limits *limits,
	bool best_effort, const struct rank_choice *choice)
{
	struct agent *a = o->a;
	json_auto_t *texts = json_array();
	struct warnings w = {
		.log = {.send = take_warning, .fd = -1, .most = LOG_LEVEL_WARNING}, .texts = texts};
	const struct limits_target target = {
		.pt = a->pt,
		.cont_id = a->plan.job.cont_id,
		.mode = best_effort ? LIMITS_BEST_EFFORT : LIMITS_STRICT,
		.where = "limits",
		.log = &w.log,
	};
	_cleanup_free_ uint32_t *ranks = choice->given ? rank_choice_list(a, choice) : NULL;
	struct event event = EVENT_INIT(EVENT_LIMITS);
	struct err err = ERR_INIT;
	int r;

	if (!texts || (choice->given && !ranks)) {
		op_fail_no_memory(call);
		return;
	}
	if (!check_running(a, call, ranks, choice->count))
		return;
	r = limits_apply(&target, limits, ranks, choice->count, &err);
	if (r < 0) {
		op_fail(call, r, err.text);
		return;
	}
	event.count = ranks ? (int64_t)choice->count : -1;
	events_add(a->events, &event);
	op_reply_take(call, json_pack("{s:O}", "warnings", texts));
}

void op_set_limits(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	_cleanup_limits_ struct limits limits = {0};
	struct err err = ERR_INIT;
	int r;

	if (!op_can_act(call, o->a) || !param_ranks(o->a, call, parameters, &choice))
		return;
	r = limits_from_json("limits", json_object_get(parameters, "limits"), &limits, &err);
	if (r == 0 && !limits.set)
		r = err_set_text(&err, -EINVAL, "limits: none is given");
	if (r < 0)
		op_fail(call, r, err.text); /* names the field, as InvalidParameter can't */
	else
		set_limits(o, call, &limits, param_bool(parameters, "best_effort", false), &choice);
}

/* ---- AddPid -------------------------------------------------------------------------------- */

/* The reason why it can't belong to a step, or NULL. */
static const char *find_obstacle(const struct agent *a, pid_t pid, const struct procstat *st)
{
	const stepd_step_rec_t *job = &a->plan.job;

	if (pid == job->jmgr_pid || pid == getpid())
		return "it is the step's agent";
	if (pid == job->worker_pid || pid == job->service_pid || pid == job->holder_pid)
		return "it is a helper of the step's agent";
	if (pid == 1)
		return "it is the first process of the system";
	if (pid == 2 || st->ppid == 2)
		return "it is a thread of the kernel";
	if (!procstat_is_living(st))
		return "it has ended";
	return NULL;
}

/* 0, -EALREADY, or -EBUSY: it is a member of this step, or of another. */
static int check_member(const struct agent *a, pid_t pid)
{
	uint64_t id = proctrack_find(a->pt, pid);

	if (id == 0)
		return 0;
	return id == a->plan.job.cont_id ? -EALREADY : -EBUSY;
}

/* For a successor, where the container alone does not show it. */
static int note_added(struct agent *a, const struct procstat *st, pid_t pid, struct err *err)
{
	if (registry_get_root(a->registry))
		return 0;
	if (added_note(&a->origin.added, pid, st->start_ticks) < 0)
		return err_set(err, -ENOMEM, "record process %d", (int)pid);
	result_publish_state(a, suspend_state_name(a));
	return 0;
}

/* held refers to the process: while it is held, its pid can't be reused. */
static int add_process(struct agent *a, const struct pidref *held, struct err *err)
{
	const char *obstacle;
	struct procstat st;
	int r = procstat_read(held->pid, &st);

	if (r < 0)
		return err_set(err, r, "read /proc of process %d", (int)held->pid);
	obstacle = find_obstacle(a, held->pid, &st);
	if (obstacle)
		return err_set_text(err, -EINVAL, "process %d can't be added to the step: %s",
			(int)held->pid, obstacle);
	r = check_member(a, held->pid);
	if (r == -EALREADY)
		return r;
	if (r < 0)
		return err_set_text(
			err, r, "process %d is a member of another step", (int)held->pid);
	r = proctrack_add(a->pt, &a->plan.job, held->pid);
	if (r < 0)
		return err_set(err, r, "add process %d to the step with %s", (int)held->pid,
			proctrack_get_type(a->pt));
	r = note_added(a, &st, held->pid, err);
	if (r < 0)
		return r;
	return pidref_signal(held, 0) == -ESRCH ? -ESRCH : 0;
}

void op_add_pid(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_pidref_ struct pidref held = PIDREF_INIT;
	struct event event = EVENT_INIT(EVENT_ADD);
	struct err err = ERR_INIT;
	uint64_t start_ticks;
	pid_t pid;
	int r;

	if (!param_pid(call, parameters, "pid", &pid) ||
		!param_start_ticks(call, parameters, &start_ticks))
		return;
	if (o->a->state != AGENT_RUNNING) {
		op_fail_state(call, o->a, "the step is ending");
		return;
	}
	r = pidref_open(pid, start_ticks, &held);
	if (r < 0)
		(void)err_set(&err, r, "hold process %d", (int)pid);
	else
		r = add_process(o->a, &held, &err);
	if (r == -ESRCH) {
		op_fail_process(call, pid);
		return;
	}
	if (r < 0 && r != -EALREADY) {
		op_fail(call, r, err.text);
		return;
	}
	if (r == 0) {
		event.pid = pid;
		events_add(o->a->events, &event);
	}
	op_reply_take(call, NULL);
}

/* ---- Notify ---------------------------------------------------------------------------------
 *
 * A line into the step's standard error, which its users read. It goes where the agent has that
 * open for the tasks (stdio_note()); where each task opens a file of its own there is none for the
 * step. */

/* It is shown on a terminal: it must hold neither control characters nor a second line. */
static void make_line(const struct agent *a, const char *message, char *line, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = (size_t)snprintf(line, size, "%s: ", a->log->ident);
	const unsigned char *p = (const unsigned char *)message;

	for (; *p && at + 6 < size; p++) {
		if (*p >= 0x20 && *p != 0x7f) {
			line[at++] = (char)*p;
			continue;
		}
		line[at++] = '\\';
		line[at++] = 'x';
		line[at++] = hex[*p >> 4];
		line[at++] = hex[*p & 15];
	}
	line[at++] = '\n';
	line[at] = '\0';
}

void op_notify(struct op_call *call, const json_t *parameters, struct operations *o)
{
	const char *message = param_text(parameters, "message");
	char line[sizeof(((struct log *)NULL)->ident) + 4 * OPERATIONS_MESSAGE_MAX + 8];
	struct event event = EVENT_INIT(EVENT_NOTIFY);
	struct agent *a = o->a;
	struct err err = ERR_INIT;
	int r;

	if (!message[0] || strlen(message) > OPERATIONS_MESSAGE_MAX) {
		op_fail_parameter(call, "message");
		return;
	}
	if (!op_can_act(call, a))
		return;
	make_line(a, message, line, sizeof(line));
	if (a->stdio)
		r = stdio_note(a->stdio, line, strlen(line), &err);
	else
		r = err_set_text(
			&err, -EOPNOTSUPP, "the step has no standard error: it has no tasks");
	if (r < 0) {
		op_fail(call, r, err.text);
		return;
	}
	event.text = message;
	events_add(a->events, &event);
	op_reply_take(call, NULL);
}
