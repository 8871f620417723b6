/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/operations/operations.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/clock.h"
#include "stepd/base/procstat.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/mpi_link.h"

/* ---- replies -------------------------------------------------------------------------------- */

const char *const op_error_names[OP_ERROR_MAX] = {
	[OP_INVALID_PARAMETER] = "InvalidParameter",
	[OP_EXPECTED_MORE] = "ExpectedMore",
	[OP_NO_SUCH_PROCESS] = "NoSuchProcess",
	[OP_NO_SUCH_TASK] = "NoSuchTask",
	[OP_NOT_SUPPORTED] = "NotSupported",
	[OP_WRONG_STATE] = "WrongState",
	[OP_SUSPEND_FAILED] = "SuspendFailed",
	[OP_FAILED] = "Failed",
};

void op_reply_take(struct op_call *call, json_t *parameters)
{
	if (call)
		call->frontend->reply(call, parameters, true);
	else
		json_decref(parameters);
}

void op_reply_more_take(struct op_call *call, json_t *parameters)
{
	call->frontend->reply(call, parameters, false);
}

void op_reply_text(struct op_call *call, const char *text, size_t size)
{
	call->frontend->reply_text(call, text, size, true);
}

void op_reply_more_text(struct op_call *call, const char *text, size_t size)
{
	call->frontend->reply_text(call, text, size, false);
}

void op_fail_take(struct op_call *call, enum op_error error, int code, json_t *parameters)
{
	if (call)
		call->frontend->fail(call, error, code, parameters);
	else
		json_decref(parameters);
}

void op_fail_no_memory(struct op_call *call)
{
	call->frontend->fail_no_memory(call);
}

void op_on_drained(struct op_call *call, void (*fn)(void *userdata), void *userdata)
{
	call->on_drained = fn;
	call->drained_userdata = userdata;
	call->frontend->watch_drained(call);
}

void op_call_drained(struct op_call *call)
{
	void (*fn)(void *userdata) = call->on_drained;

	call->on_drained = NULL;
	if (fn)
		fn(call->drained_userdata);
}

void op_call_gone(struct op_call *call)
{
	if (call->on_gone)
		call->on_gone(call->gone_userdata);
}

void op_fail_parameter(struct op_call *call, const char *parameter)
{
	op_fail_take(
		call, OP_INVALID_PARAMETER, -EINVAL, json_pack("{s:s}", "parameter", parameter));
}

void op_fail_more(struct op_call *call)
{
	op_fail_take(call, OP_EXPECTED_MORE, -EMSGSIZE, NULL);
}

void op_fail_process(struct op_call *call, pid_t pid)
{
	op_fail_take(call, OP_NO_SUCH_PROCESS, -ESRCH, json_pack("{s:i}", "pid", (int)pid));
}

void op_fail_task(struct op_call *call, uint32_t rank)
{
	op_fail_take(call, OP_NO_SUCH_TASK, -ESRCH, json_pack("{s:I}", "rank", (json_int_t)rank));
}

void op_fail_unsupported(struct op_call *call, const char *message)
{
	op_fail_take(call, OP_NOT_SUPPORTED, -EOPNOTSUPP,
		json_pack("{s:o}", "message", report_json_text(message)));
}

void op_fail_state(struct op_call *call, const struct agent *a, const char *message)
{
	op_fail_take(call, OP_WRONG_STATE, -ESRCH,
		json_pack("{s:s, s:s}", "state", operations_state_name(a), "message", message));
}

void op_fail(struct op_call *call, int r, const char *message)
{
	const char *name = strerrorname_np(-r);

	if (r == -EOPNOTSUPP)
		op_fail_unsupported(call, message);
	else
		op_fail_take(call, OP_FAILED, r,
			json_pack("{s:o, s:s}", "message", report_json_text(message), "errno",
				name ? name : "EIO"));
}

bool op_can_act(struct op_call *call, const struct agent *a)
{
	if (a->state < AGENT_DRAINING)
		return true;
	op_fail_state(call, a,
		a->end.unkillable ? "the step was given up: its processes can't be ended"
			: mpi_link_is_open(a)
			? "no process of the step is left here, and its MPI service process is needed "
			  "by other nodes (terminate ends that)"
			: "no process of the step is left");
	return false;
}

/* ---- calls that are held -------------------------------------------------------------------- */

struct op_call *pending_end(struct pending *pending)
{
	struct op_call *call = pending->call;

	if (call)
		call->on_gone = NULL;
	if (pending->clear)
		pending->clear(pending);
	*pending->at = pending->next;
	if (pending->next)
		pending->next->at = pending->at;
	if (pending->kind == PENDING_LISTING)
		reexec_answered(pending->o->a);
	free(pending);
	return call;
}

static void on_gone(void *userdata)
{
	struct pending *pending = userdata;

	assert(pending);
	pending->call = NULL;
	if (pending->kind != PENDING_SIGNAL) /* to which its request refers */
		(void)pending_end(pending);
}

void *pending_new(struct operations *o, struct op_call *call, enum pending_kind kind, size_t size,
	void (*clear)(struct pending *pending))
{
	struct pending *pending = calloc(1, size);

	assert(size >= sizeof(*pending));
	if (!pending) {
		op_fail_no_memory(call);
		return NULL;
	}
	*pending = (struct pending){.o = o, .call = call, .kind = kind, .clear = clear};
	pending->at = &o->pending;
	pending->next = o->pending;
	if (pending->next)
		pending->next->at = &pending->next;
	o->pending = pending;
	call->on_gone = on_gone;
	call->gone_userdata = pending;
	return pending;
}

struct pending *pending_find(const struct operations *o, enum pending_kind kind)
{
	struct pending *pending;

	for (pending = o->pending; pending && pending->kind != kind; pending = pending->next)
		;
	return pending;
}

/* ---- the step's state ------------------------------------------------------------------------ */

const char *operations_state_name(const struct agent *a)
{
	return a->end.unkillable ? "unkillable" : suspend_state_name(a);
}

void operations_state_changed(struct operations *o)
{
	struct event event = EVENT_INIT(EVENT_STATE);
	const char *name = operations_state_name(o->a);

	/* "ended" is reported last, when the result is there */
	if (o->a->state == AGENT_ENDED && !o->ending)
		return;
	if (o->reported_state && strcmp(o->reported_state, name) == 0)
		return;
	o->reported_state = name;
	event.state = name;
	if (o->a->state >= AGENT_ENDING)
		event.text = agent_reason_names[o->a->reason];
	events_add(o->a->events, &event);
	follow_state_changed(o);
}

void operations_end(struct operations *o)
{
	o->ending = true;
	operations_state_changed(o);
	follow_end(o);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void read_identity(struct operations *o)
{
	struct procstat self;
	struct stat st;

	o->start_time_usec = (int64_t)clock_wall_usec() -
		(int64_t)(clock_now_ns() - o->a->origin.begin_ns) / 1000;
	o->agent_start_ticks = procstat_read(getpid(), &self) == 0 ? self.start_ticks : 0;
	o->pid_namespace = stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

struct operations *operations_new(struct agent *a)
{
	struct operations *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->a = a;
	read_identity(o);
	follow_begin(o);
	return o;
}

struct operations *operations_free(struct operations *o)
{
	if (!o)
		return NULL;
	events_set_listener(o->a->events, NULL, NULL);
	ev_prepare_stop(o->a->loop, &o->push);
	while (o->pending)
		op_fail(pending_end(o->pending), -ECANCELED, "the step's agent has ended");
	free(o);
	return NULL;
}

struct agent *operations_get_agent(const struct operations *o)
{
	return o->a;
}

bool operations_has_pending(const struct operations *o)
{
	return o->pending;
}

void operations_save(const struct operations *o, struct handover *h, json_t *object)
{
	handover_put_int(h, object, "start_time_usec", o->start_time_usec);
}

void operations_restore(struct operations *o, const json_t *object)
{
	o->start_time_usec = json_get_int(object, "start_time_usec", o->start_time_usec);
	o->reported_state = operations_state_name(o->a); /* by the old program */
}
