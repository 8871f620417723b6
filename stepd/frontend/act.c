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
#include "stepd/frontend/methods_impl.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"
#include "stepd/step/ending.h"
#include "stepd/step/mpi_link.h"

#define GRACE_MS_MAX 3153600000000 /* a century, as in a spec */

/* Signals of the step's owner that may wait at a time, also where who asked has gone: each takes
 * memory, and what root asks meanwhile waits behind them. */
#define OWNERS_SIGNALS_MAX 64

/* ---- Signal --------------------------------------------------------------------------------- */

struct signal_call {
	struct kept kept;
	pid_t pid;      /* 0: not to one process */
	uint32_t rank;  /* the first of those that were chosen */
	bool some_only; /* ranks were chosen */
	bool counted;   /* as one of the owner's */
};

static void clear_signal(struct kept *kept)
{
	if (((struct signal_call *)kept)->counted)
		kept->m->owners_signals--;
}

static bool is_owners(const struct control_call *call)
{
	const uid_t uid = control_call_peer(call)->uid;

	return uid != 0 && uid != geteuid();
}

static struct signal_call *new_signal_call(struct methods *m, struct control_call *call)
{
	struct signal_call *s = kept_new(m, call, KEPT_SIGNAL, sizeof(*s), clear_signal);

	if (s && is_owners(call)) {
		s->counted = true;
		m->owners_signals++;
	}
	return s;
}

static void on_signalled(int r, const struct err *err, void *userdata)
{
	struct signal_call *s = userdata;

	assert(s);
	/* A step without a process (an extern one) has been sent it, and so was what is killed. */
	if (r == 0 || r == -ECANCELED || (r == -ESRCH && !s->pid && !s->some_only))
		kept_reply_take(&s->kept, NULL);
	else if (r == -ESRCH && s->pid)
		kept_error_take(&s->kept, "NoSuchProcess", json_pack("{s:i}", "pid", (int)s->pid));
	else if (r == -ESRCH)
		kept_error_take(
			&s->kept, "NoSuchTask", json_pack("{s:I}", "rank", (json_int_t)s->rank));
	else if (r == -EOPNOTSUPP)
		kept_error_take(&s->kept, "NotSupported",
			json_pack("{s:o}", "message", report_json_text(err->text)));
	else
		kept_error_take(&s->kept, "Failed", pack_failed(r, err->text));
}

static void queue_signal(struct methods *m, struct control_call *call, int signal,
	const struct request_target *target)
{
	struct signal_call *s = new_signal_call(m, call);
	struct request_answer asker = {.fn = on_signalled, .userdata = s};
	struct err err = ERR_INIT;
	int r;

	if (!s)
		return;
	s->pid = target->pid;
	s->some_only = target->ranks_count > 0;
	s->rank = s->some_only ? target->ranks[0] : 0;
	if (s->counted && m->owners_signals > OWNERS_SIGNALS_MAX) {
		(void)err_say(&err, -EAGAIN,
			"%d signals of the step's owner wait for their turn: try again later",
			OWNERS_SIGNALS_MAX);
		on_signalled(-EAGAIN, &err, s);
		return;
	}
	r = requests_add_signal(&m->a->suspend.requests, signal, target, &asker);
	if (r < 0) {
		(void)err_set(&err, r, "can't send the signal");
		on_signalled(r, &err, s);
	}
}

/* Whose turn has not come: the request waits with the others, under its number in their queue. */
json_t *signal_save_call(const struct kept *kept)
{
	const struct signal_call *s = (const struct signal_call *)kept;
	int64_t number = requests_number_of(&kept->m->a->suspend.requests, s);

	if (number < 0)
		return NULL;
	return json_pack("{s:I, s:i, s:I, s:b}", "request", (json_int_t)number, "pid", (int)s->pid,
		"rank", (json_int_t)s->rank, "some_only", (int)s->some_only);
}

void signal_resume_call(struct methods *m, struct control_call *call, const json_t *state)
{
	struct signal_call *s = new_signal_call(m, call);
	struct request_answer asker = {.fn = on_signalled, .userdata = s};

	if (!s)
		return;
	s->pid = (pid_t)handover_get_int(state, "pid", 0);
	s->rank = (uint32_t)handover_get_int(state, "rank", 0);
	s->some_only = handover_get_bool(state, "some_only", false);
	if (!requests_set_answer(
		    &m->a->suspend.requests, handover_get_int(state, "request", -1), &asker))
		kept_error_take(&s->kept, "Failed",
			pack_failed(-ECANCELED, "the agent has executed a new program meanwhile"));
}

/* Waits for nothing: neither for what is under way nor for its turn. */
static void kill_all(struct methods *m, struct control_call *call)
{
	int r = ending_send_kill(m->a);

	if (r < 0 && r != -ESRCH)
		answer_failed(call, r, "can't send KILL to the step");
	else
		control_reply_take(call, NULL);
}

/* ranks and pid exclude each other, and start_ticks goes with pid. */
static bool check_target(struct control_call *call, const json_t *parameters)
{
	const char *wrong = NULL;

	if (param_is_given(parameters, "ranks") && param_is_given(parameters, "pid"))
		wrong = "pid";
	else if (param_is_given(parameters, "start_ticks") && !param_is_given(parameters, "pid"))
		wrong = "start_ticks";
	if (wrong)
		answer_invalid(call, wrong);
	return !wrong;
}

static void send_to_ranks(struct methods *m, struct control_call *call, int signal,
	const struct rank_choice *choice, struct request_target *target)
{
	struct rank_choice all = {.count = m->a->tasks.n};
	_cleanup_free_ uint32_t *ranks = NULL;

	if (!choice->bits)
		choice = &all;
	if (choice->count == 0) {
		answer_not_supported(call, "the step has no tasks, and so no first processes");
		return;
	}
	ranks = rank_choice_list(m->a, choice);
	if (!ranks) {
		control_no_memory(call);
		return;
	}
	target->whom = REQUEST_TASKS;
	target->ranks = ranks;
	target->ranks_count = choice->count;
	queue_signal(m, call, signal, target);
}

void method_signal(struct control_call *call, const json_t *parameters, void *userdata)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	struct methods *m = userdata;
	int signal = signals_parse(param_text(parameters, "signal"));
	struct request_target target = {.alone = param_bool(parameters, "leader", false)};

	if (!methods_can_act(call, m->a) || !check_target(call, parameters))
		return;
	if (signal < 1 || signal >= _NSIG) {
		answer_invalid(call, "signal");
		return;
	}
	if (!param_pid(call, parameters, "pid", &target.pid) ||
		!param_start_ticks(call, parameters, &target.start_ticks) ||
		!param_ranks(m->a, call, parameters, &choice))
		return;
	if (target.pid) {
		target.whom = REQUEST_PROCESS;
		queue_signal(m, call, signal, &target);
	} else if (choice.bits || target.alone) {
		send_to_ranks(m, call, signal, &choice, &target);
	} else if (signal == SIGKILL) {
		kill_all(m, call);
	} else {
		queue_signal(m, call, signal, &target);
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

/* The sequence that is asked for; NULL, and 0, where it is the step's own. */
static int make_sequence(const struct agent *a, const json_t *parameters,
	struct spec_kill **ret_steps, size_t *ret_count, const char **ret_wrong)
{
	const char *text = param_text(parameters, "kill_sequence");
	const struct spec *spec = a->plan.spec;
	struct err err = ERR_INIT;
	int r;

	*ret_wrong = "kill_sequence";
	if (text) {
		r = spec_kill_sequence_parse(text, ret_steps, ret_count, &err);
		if (r < 0)
			return r;
	} else if (param_is_given(parameters, "grace_ms")) {
		*ret_count = spec->kill_sequence_count;
		*ret_steps = malloc(*ret_count * sizeof(**ret_steps));
		if (!*ret_steps)
			return -ENOMEM;
		memcpy(*ret_steps, spec->kill_sequence, *ret_count * sizeof(**ret_steps));
	}
	return 0;
}

void method_terminate(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct methods *m = userdata;
	int64_t grace_ms = param_int(parameters, "grace_ms", 0);
	struct spec_kill *steps = NULL;
	const char *wrong;
	size_t count = 0;
	int r;

	if (m->a->state == AGENT_DRAINING && mpi_link_is_open(m->a)) {
		log_info(m->a->log, "asked by uid %u not to wait for the step's other nodes",
			control_call_peer(call)->uid);
		control_reply_take(call, NULL);
		ending_leave_nodes(m->a);
		return;
	}
	if (!methods_can_act(call, m->a))
		return;
	if (grace_ms < 0 || grace_ms > GRACE_MS_MAX) {
		answer_invalid(call, "grace_ms");
		return;
	}
	r = make_sequence(m->a, parameters, &steps, &count, &wrong);
	if (r == -ENOMEM) {
		control_no_memory(call);
		return;
	}
	if (r < 0) {
		answer_invalid(call, wrong);
		return;
	}
	if (param_is_given(parameters, "grace_ms"))
		set_grace(steps, count, (uint64_t)grace_ms);
	log_info(m->a->log, "asked to end the step by uid %u", control_call_peer(call)->uid);
	control_reply_take(call, NULL);
	ending_terminate_take(m->a, steps, count);
}

/* ---- Suspend, Resume ------------------------------------------------------------------------ */

void method_suspend(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct methods *m = userdata;

	(void)parameters;
	if (m->a->state != AGENT_RUNNING)
		answer_wrong_state(call, m->a, "the step is ending");
	else if (kept_new(m, call, KEPT_SUSPEND, sizeof(struct kept), NULL))
		suspend_ask(m->a);
}

void method_resume(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct methods *m = userdata;

	(void)parameters;
	if (!methods_can_act(call, m->a))
		return;
	if (kept_new(m, call, KEPT_RESUME, sizeof(struct kept), NULL))
		suspend_resume(m->a);
}

static void answer_suspended(struct kept *kept, bool suspend, int code, const char *why)
{
	if (!why)
		kept_reply_take(kept, NULL);
	else if (suspend)
		kept_error_take(kept, "SuspendFailed",
			json_pack("{s:o}", "message", report_json_text(why)));
	else
		kept_error_take(kept, "Failed", pack_failed(code, why));
}

static struct kept *find_kept(struct methods *m, enum kept_kind kind)
{
	struct kept *kept;

	for (kept = m->kept; kept && kept->kind != kind; kept = kept->next)
		;
	return kept;
}

/* Those that wait now: an answer may bring the next call, or lose another. */
void methods_suspended(struct methods *m, bool suspend, int code, const char *why)
{
	enum kept_kind kind = suspend ? KEPT_SUSPEND : KEPT_RESUME;
	struct kept *kept;

	while (m && (kept = find_kept(m, kind)))
		kept->kind = KEPT_ANSWERED;
	while (m && (kept = find_kept(m, KEPT_ANSWERED)))
		answer_suspended(kept, suspend, code, why);
}
