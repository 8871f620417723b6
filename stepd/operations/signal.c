/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Signals, suspending and ending: what goes through the ordered requests of the step, whose worker
 * waits in place of the agent's loop.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/log.h"
#include "stepd/base/signals.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/step/ending.h"
#include "stepd/step/mpi_link.h"

#define GRACE_MS_MAX 3153600000000 /* a century, as in a spec */

/* Signals of the step's owner that may wait at a time, also where the caller has gone: each takes
 * memory, and what root requests meanwhile waits behind them. */
#define OWNERS_SIGNALS_MAX 64

/* ---- Signal --------------------------------------------------------------------------------- */

struct signal_call {
	struct pending pending;
	pid_t pid;      /* 0: not to one process */
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
	/* A step without a process (an extern one) has been sent it, and so was what is killed. */
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

/* Whose turn has not come: the request waits with the others, under its number in their queue. */
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

/* Waits for nothing: neither for what is under way nor for its turn. */
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

	if (!choice->bits)
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
	} else if (choice.bits || target.alone) {
		send_to_ranks(o, call, signal, &choice, &target);
	} else if (signal == SIGKILL) {
		kill_all(o, call);
	} else {
		queue_signal(o, call, signal, &target);
	}
}

/* ---- Terminate ------------------------------------------------------------------------------ */

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

/* The sequence that is requested; NULL, and 0, where it is the step's own. */
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

/* ---- Suspend, Resume ------------------------------------------------------------------------ */

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

/* Those that wait now: a reply may bring the next call, or lose another. */
void operations_suspended(struct operations *o, bool suspend, int code, const char *why)
{
	enum pending_kind kind = suspend ? PENDING_SUSPEND : PENDING_RESUME;
	struct pending *pending;

	while ((pending = pending_find(o, kind)))
		pending->kind = PENDING_DONE;
	while ((pending = pending_find(o, PENDING_DONE)))
		reply_suspended(pending_end(pending), suspend, code, why);
}
