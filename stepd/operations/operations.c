/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/operations/operations.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/api/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/mpi_link.h"
#include "stepd/step/reexec.h"

/* ---- replies ------------------------------------------------------------------------------- */

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

int op_upgrade_take(struct op_call *call, json_t *parameters, int *ret_fd)
{
	return call->frontend->upgrade(call, parameters, ret_fd);
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

/* ---- calls that are held ------------------------------------------------------------------- */

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
	if (pending->kind != PENDING_SIGNAL) /* its request refers to it */
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

/* ---- parameters ---------------------------------------------------------------------------- */

bool param_is_given(const json_t *parameters, const char *name)
{
	const json_t *value = json_object_get(parameters, name);

	return value && !json_is_null(value);
}

int64_t param_int(const json_t *parameters, const char *name, int64_t otherwise)
{
	const json_t *value = json_object_get(parameters, name);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

bool param_bool(const json_t *parameters, const char *name, bool otherwise)
{
	const json_t *value = json_object_get(parameters, name);

	return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

const char *param_text(const json_t *parameters, const char *name)
{
	return json_string_value(json_object_get(parameters, name));
}

bool param_pid(struct op_call *call, const json_t *parameters, const char *name, pid_t *ret_pid)
{
	int64_t pid = param_int(parameters, name, 0);

	if (param_is_given(parameters, name) && (pid < 1 || pid > INT_MAX)) {
		op_fail_parameter(call, name);
		return false;
	}
	*ret_pid = (pid_t)pid;
	return true;
}

bool param_start_ticks(struct op_call *call, const json_t *parameters, uint64_t *ret_ticks)
{
	int64_t ticks = param_int(parameters, "start_ticks", 0);

	/* only the first processes start at 0, and 0 means "any" from here on */
	if (param_is_given(parameters, "start_ticks") && ticks < 1) {
		op_fail_parameter(call, "start_ticks");
		return false;
	}
	*ret_ticks = (uint64_t)ticks;
	return true;
}

/* ---- ranks --------------------------------------------------------------------------------- */

struct rank_reader {
	struct bitset here; /* ranks of this node */
	struct rank_choice *choice;
	uint32_t missing;
};

static int take_rank(uint32_t rank, void *userdata)
{
	struct rank_reader *reader = userdata;

	if (!bitset_test(&reader->here, rank)) {
		reader->missing = rank;
		return -ENOENT;
	}
	if (!bitset_set(&reader->choice->ranks, rank))
		reader->choice->count++;
	return 0;
}

static int param_read_ranks(const struct agent *a, const char *text, struct rank_reader *reader)
{
	uint32_t limit = a->plan.job.ntasks, i;

	for (i = 0; i < a->tasks.n; i++) { /* ranks of spawned tasks may be far above */
		if (a->tasks.v[i].rank >= limit)
			limit = a->tasks.v[i].rank + 1;
	}
	if (bitset_init(&reader->here, limit) < 0 || bitset_init(&reader->choice->ranks, limit) < 0)
		return -ENOMEM;
	reader->choice->given = true;
	for (i = 0; i < a->tasks.n; i++)
		(void)bitset_set(&reader->here, a->tasks.v[i].rank);
	return parse_ranges(text, UINT32_MAX, take_rank, reader);
}

void rank_choice_clear(struct rank_choice *choice)
{
	bitset_clear(&choice->ranks);
	*choice = (struct rank_choice){0};
}

bool rank_choice_has(const struct rank_choice *choice, uint32_t rank)
{
	return !choice->given || bitset_test(&choice->ranks, rank);
}

bool param_ranks(const struct agent *a, struct op_call *call, const json_t *parameters,
	struct rank_choice *ret_choice)
{
	const char *text = param_text(parameters, "ranks");
	struct rank_reader reader = {.choice = ret_choice};
	int r;

	*ret_choice = (struct rank_choice){0};
	if (!text)
		return true;
	r = param_read_ranks(a, text, &reader);
	bitset_clear(&reader.here);
	if (r == 0)
		return true;
	rank_choice_clear(ret_choice);
	if (r == -ENOENT)
		op_fail_task(call, reader.missing);
	else if (r == -ENOMEM)
		op_fail_no_memory(call);
	else
		op_fail_parameter(call, "ranks");
	return false;
}

uint32_t *rank_choice_list(const struct agent *a, const struct rank_choice *choice)
{
	uint32_t *ranks = malloc((choice->count + 1) * sizeof(*ranks)), i;
	size_t n = 0;

	for (i = 0; ranks && i < a->tasks.n; i++) {
		if (rank_choice_has(choice, a->tasks.v[i].rank))
			ranks[n++] = a->tasks.v[i].rank;
	}
	return ranks;
}

/* ---- the step's state ---------------------------------------------------------------------- */

const char *operations_state_name(const struct agent *a)
{
	return a->end.unkillable ? "unkillable" : suspend_state_name(a);
}

void operations_state_changed(struct operations *o)
{
	struct event event = EVENT_INIT(EVENT_STATE);
	const char *name = operations_state_name(o->a);

	/* "ended" is reported last, once the result exists */
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

/* ---- life ---------------------------------------------------------------------------------- */

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

/* ---- re-exec ------------------------------------------------------------------------------- */

/* When the agent executes a new program, held calls are saved and resumed, each kind in its own
 * way. For a listing that is being sent the exec waits. */

static void op_reexec(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	if (o->a->state >= AGENT_ENDED)
		op_fail_state(call, o->a, "the step has ended");
	else if (pending_new(o, call, PENDING_REEXEC, sizeof(struct pending), NULL))
		reexec_request(o->a);
}

bool operations_is_answering(const struct operations *o)
{
	return pending_find(o, PENDING_LISTING);
}

/* Only the calls that are pending now: a reply may bring the next call. */
void operations_not_reexeced(struct operations *o, const struct err *why)
{
	struct pending *pending;

	while ((pending = pending_find(o, PENDING_REEXEC)))
		pending->kind = PENDING_DONE;
	while ((pending = pending_find(o, PENDING_DONE)))
		op_fail(pending_end(pending), why->code, why->text);
}

/* The kind alone is saved. */
static json_t *save_nothing(_unused_ const struct pending *pending)
{
	return json_object();
}

static void resume_reexec(struct operations *o, struct op_call *call, _unused_ const json_t *state)
{
	json_t *reply = json_pack("{s:s}", "version", o->a->options->version);

	if (reply)
		op_reply_take(call, reply);
	else
		op_fail_no_memory(call);
}

static const struct {
	const char *name;
	json_t *(*save)(const struct pending *pending); /* NULL: it can't be saved */
	/* NULL: it is pending as before. */
	void (*resume)(struct operations *o, struct op_call *call, const json_t *state);
} kinds[PENDING_KIND_MAX] = {
	[PENDING_WAIT] = {"wait", save_nothing, NULL},
	[PENDING_EVENTS] = {"events", events_save_call, events_resume_call},
	[PENDING_USAGE] = {"usage", usage_save_call, usage_resume_call},
	[PENDING_SUSPEND] = {"suspend", save_nothing, NULL},
	[PENDING_RESUME] = {"resume", save_nothing, NULL},
	[PENDING_SIGNAL] = {"signal", signal_save_call, signal_resume_call},
	[PENDING_REEXEC] = {"reexec", save_nothing, resume_reexec},
};

json_t *operations_save_call(const struct operations *o, const struct op_call *call)
{
	const struct pending *pending;
	json_auto_t *state = NULL;

	for (pending = o->pending; pending && pending->call != call; pending = pending->next)
		;
	if (!pending || !kinds[pending->kind].save)
		return NULL;
	state = kinds[pending->kind].save(pending);
	if (state &&
		json_object_set_new(state, "kind", json_string(kinds[pending->kind].name)) == 0)
		return take_ptr(state);
	return NULL;
}

void operations_resume_call(struct operations *o, struct op_call *call, const json_t *state)
{
	const char *name = json_string_value(json_object_get(state, "kind"));
	enum pending_kind i;

	for (i = 0; name && i < PENDING_KIND_MAX; i++) {
		if (!kinds[i].name || strcmp(kinds[i].name, name) != 0)
			continue;
		if (kinds[i].resume)
			kinds[i].resume(o, call, state);
		else /* or the call has failed */
			(void)pending_new(o, call, i, sizeof(struct pending), NULL);
		return;
	}
	op_fail(call, -ECANCELED,
		"the agent has executed a new program, which can't go on with this call");
}

/* ---- the table ----------------------------------------------------------------------------- */

/* stepd/control/io.stepd.Step.varlink describes the same operations; a test compares the two. */

#define MANDATORY(name_, type_)                                                                    \
	{                                                                                          \
		.name = (name_), .type = (type_)                                                   \
	}
#define OPTIONAL(name_, type_)                                                                     \
	{                                                                                          \
		.name = (name_), .type = (type_), .optional = true                                 \
	}

static const struct operation table[] = {
	{.name = "Describe", .access = OP_ACCESS_READ, .run = op_describe},
	{.name = "ListPids",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE,
		.parameters = {OPTIONAL("ranks", OP_STRING), OPTIONAL("start_ticks", OP_BOOL)},
		.run = op_list_pids},
	{.name = "ListTasks",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE,
		.parameters = {OPTIONAL("ranks", OP_STRING)},
		.run = op_list_tasks},
	{.name = "FindPid",
		.access = OP_ACCESS_READ,
		.parameters = {MANDATORY("pid", OP_INT), OPTIONAL("pid_namespace", OP_INT)},
		.run = op_find_pid},
	{.name = "FindPids",
		.access = OP_ACCESS_READ,
		.parameters = {MANDATORY("pids", OP_INT_ARRAY), OPTIONAL("pid_namespace", OP_INT)},
		.run = op_find_pids},
	{.name = "Usage",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE,
		.parameters = {OPTIONAL("tasks", OP_BOOL), OPTIONAL("interval_ms", OP_INT)},
		.run = op_usage},
	{.name = "Events",
		.access = OP_ACCESS_READ,
		.flags = OP_MORE | OP_MORE_ONLY,
		.parameters = {OPTIONAL("from", OP_INT)},
		.run = op_events},
	{.name = "Wait", .access = OP_ACCESS_OWNER, .flags = OP_MORE, .run = op_wait},
	{.name = "Attach",
		.access = OP_ACCESS_OWNER,
		.flags = OP_WHEN_READY | OP_UPGRADE,
		.parameters = {OPTIONAL("ranks", OP_STRING), OPTIONAL("stream", OP_STRING),
			OPTIONAL("since", OP_INT), OPTIONAL("tail", OP_BOOL),
			OPTIONAL("input", OP_BOOL)},
		.run = op_attach},
	{.name = "Signal",
		.access = OP_ACCESS_OWNER,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("signal", OP_STRING), OPTIONAL("ranks", OP_STRING),
			OPTIONAL("pid", OP_INT), OPTIONAL("start_ticks", OP_INT),
			OPTIONAL("leader", OP_BOOL)},
		.run = op_signal},
	{.name = "Terminate",
		.access = OP_ACCESS_OWNER,
		.flags = OP_WHEN_READY,
		.parameters = {OPTIONAL("kill_sequence", OP_STRING), OPTIONAL("grace_ms", OP_INT)},
		.run = op_terminate},
	{.name = "Suspend", .access = OP_ACCESS_AGENT, .flags = OP_WHEN_READY, .run = op_suspend},
	{.name = "Resume", .access = OP_ACCESS_AGENT, .flags = OP_WHEN_READY, .run = op_resume},
	{.name = "SetLimits",
		.access = OP_ACCESS_AGENT,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("limits", OP_OBJECT), OPTIONAL("ranks", OP_STRING),
			OPTIONAL("best_effort", OP_BOOL)},
		.run = op_set_limits},
	{.name = "AddPid",
		.access = OP_ACCESS_AGENT,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("pid", OP_INT), OPTIONAL("start_ticks", OP_INT)},
		.run = op_add_pid},
	{.name = "Notify",
		.access = OP_ACCESS_AGENT,
		.flags = OP_WHEN_READY,
		.parameters = {MANDATORY("message", OP_STRING)},
		.run = op_notify},
	{.name = "Reexec", .access = OP_ACCESS_AGENT, .flags = OP_WHEN_READY, .run = op_reexec},
};

const struct operation *operations_get_table(size_t *ret_count)
{
	*ret_count = ARRAY_SIZE(table);
	return table;
}

const struct operation *operations_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	}
	return NULL;
}
