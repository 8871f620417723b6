/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The operations that last: Events, Wait and Usage.
 */
#include <assert.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/account/usage.h"
#include "stepd/base/clock.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/result.h"

/* Bytes of events read at a time. */
#define READ_SIZE (4 * EVENT_LINE_MAX)

/* ---- Events ---------------------------------------------------------------------------------
 *
 * A follower has a position in the file of events, and is sent the next lines when the kernel has
 * taken the last ones: a slow follower costs no memory and delays nobody. New events are sent in
 * the turn of each connection, from the share of time of its class.
 */

struct follower {
	struct pending pending;
	struct events_cursor cursor;
	bool draining; /* has not taken the last reply, or is queued for the next */
	bool last;     /* the next reply is the last */
};

static const char event_head[] = "{\"event\":";

/* One reply; the last one if the step's events end with it. */
static void follower_send_event(struct follower *f, const char *line, size_t size, bool last)
{
	struct op_call *call = f->pending.call;
	char text[sizeof(event_head) + EVENT_LINE_MAX];
	size_t at = strlen(event_head);

	assert(size <= EVENT_LINE_MAX);
	memcpy(text, event_head, at);
	memcpy(text + at, line, size);
	at += size;
	text[at++] = '}';
	if (last) {
		(void)pending_end(&f->pending);
		op_reply_text(call, text, at);
	} else {
		op_reply_more_text(call, text, at);
	}
}

/* Replaces the events that have been dropped from the file. */
static void follower_send_lost(struct follower *f, uint64_t next)
{
	struct event event = EVENT_INIT(EVENT_LOST);
	char line[EVENT_LINE_MAX];
	size_t size;

	event.count = (int64_t)f->cursor.lost;
	f->cursor.lost = 0;
	size = event_format(&event, next - 1, line);
	follower_send_event(f, line, size - 1, false);
}

static void follower_on_drained(void *userdata);

/* The lines of one reading. The follower may be gone afterwards. */
static void follower_send_lines(struct follower *f, const char *buf, size_t size)
{
	const char *line, *end = buf + size, *newline;
	bool at_end = f->last && f->cursor.next > events_last(f->pending.o->a->events);

	if (f->cursor.lost)
		follower_send_lost(f, event_get_sequence(buf, size));
	f->draining = true;
	op_on_drained(f->pending.call, follower_on_drained, f);
	for (line = buf; line < end; line = newline + 1) {
		newline = memchr(line, '\n', (size_t)(end - line));
		assert(newline); /* events_read() returns whole lines */
		follower_send_event(
			f, line, (size_t)(newline - line), at_end && newline + 1 == end);
	}
}

static void fail_ended(struct pending *pending, const char *message)
{
	op_fail_take(pending_end(pending), OP_WRONG_STATE, -ESRCH,
		json_pack("{s:s, s:s}", "state", "ended", "message", message));
}

/* Sends the available events, at most one reading. */
static void follower_push(struct follower *f)
{
	struct events *events = f->pending.o->a->events;
	_cleanup_free_ char *buf = NULL; /* the pages of a large array would stay in memory */
	ssize_t n;

	if (f->draining)
		return;
	buf = malloc(READ_SIZE);
	n = buf ? events_read(events, &f->cursor, buf, READ_SIZE) : -ENOMEM;
	if (n > 0)
		follower_send_lines(f, buf, (size_t)n);
	else if (n < 0)
		op_fail(pending_end(&f->pending), (int)n, "the step's events can't be read");
	else if (f->last) /* it had the last one before */
		fail_ended(&f->pending, "the step has ended, and all of its events have been sent");
}

static void follower_on_drained(void *userdata)
{
	struct follower *f = userdata;

	assert(f);
	f->draining = false;
	follower_push(f);
}

static void follower_push_in_turn(struct follower *f)
{
	if (f->draining)
		return;
	f->draining = true;
	op_on_drained(f->pending.call, follower_on_drained, f);
}

static void followers_push(struct operations *o)
{
	struct pending *pending;

	for (pending = o->pending; pending; pending = pending->next) {
		if (pending->kind == PENDING_EVENTS)
			follower_push_in_turn((struct follower *)pending);
	}
}

/* Once for everything that was written in one turn of the loop. */
static void on_push(struct ev_loop *loop, ev_prepare *w, _unused_ int revents)
{
	assert(w->data);
	ev_prepare_stop(loop, w);
	followers_push(w->data);
}

static void on_written(void *userdata)
{
	struct operations *o = userdata;

	assert(o);
	ev_prepare_start(o->a->loop, &o->push);
}

void follow_begin(struct operations *o)
{
	ev_prepare_init(&o->push, on_push);
	o->push.data = o;
	events_set_listener(o->a->events, on_written, o);
}

void op_events(struct op_call *call, const json_t *parameters, struct operations *o)
{
	int64_t from = param_int(parameters, "from", 0);
	struct follower *f;
	int r;

	if (param_is_given(parameters, "from") && from < 0) {
		op_fail_parameter(call, "from");
		return;
	}
	if (param_is_given(parameters, "from") && from == 0)
		from = 1; /* all of them */
	if (!o->a->events) {
		op_fail_unsupported(call, "the step's events are not recorded");
		return;
	}
	f = pending_new(o, call, PENDING_EVENTS, sizeof(*f), NULL);
	if (!f)
		return;
	f->last = o->ending;
	r = events_seek(o->a->events, (uint64_t)from, &f->cursor);
	if (r < 0)
		op_fail(pending_end(&f->pending), r, "the step's events can't be read");
	else
		follower_push(f);
}

json_t *events_save_call(const struct pending *pending)
{
	const struct events_cursor *at = &((const struct follower *)pending)->cursor;

	return json_pack("{s:I, s:I, s:I}", "next", (json_int_t)at->next, "offset",
		(json_int_t)at->offset, "lost", (json_int_t)at->lost);
}

/* The previous reply may not be taken yet. */
void events_resume_call(struct operations *o, struct op_call *call, const json_t *state)
{
	struct follower *f = pending_new(o, call, PENDING_EVENTS, sizeof(*f), NULL);

	if (!f)
		return;
	f->cursor = (struct events_cursor){
		.next = (uint64_t)json_get_int(state, "next", 1),
		.offset = (off_t)json_get_int(state, "offset", 0),
		.lost = (uint64_t)json_get_int(state, "lost", 0),
	};
	f->draining = true;
	op_on_drained(call, follower_on_drained, f);
}

/* ---- Usage ----------------------------------------------------------------------------------
 *
 * To read the usage of a step of many tasks takes a dozen files for each, in the agent's loop. The
 * next reading is at least nine times as far away as the last one took; calls meanwhile get its
 * values.
 */

#define REST_FACTOR 9

/* The tasks are read also where the step's usage alone is requested: only the account knows of
 * ended tasks where the tracker does not count them. */
#define CHEAP_TASKS 64

struct usage_call {
	struct pending pending;
	ev_timer timer;
	bool tasks;
	bool draining; /* has not taken the last reply: the next is left out */
};

/* Without an account of the tasks (nothing else needs one), the current values are used. */
struct reading {
	const stepd_usage_t *step, *tasks;
	stepd_usage_t own_step, *own_tasks;
};

static void reading_clear(struct reading *reading)
{
	free(reading->own_tasks);
}

static bool usage_is_due(const struct operations *o, uint64_t now_ns)
{
	return now_ns - o->usage_read_ns >= REST_FACTOR * o->usage_cost_ns;
}

static int usage_read_account(struct operations *o, struct reading *reading)
{
	struct agent *a = o->a;
	uint64_t begin_ns = clock_now_ns();

	if (a->state < AGENT_DRAINING && usage_is_due(o, begin_ns)) {
		account_poll(&a->account);
		o->usage_read_ns = clock_now_ns();
		o->usage_cost_ns = o->usage_read_ns - begin_ns;
	}
	reading->step = &a->account.usage.step;
	reading->tasks = a->account.usage.tasks;
	return 0;
}

/* The step alone costs some files, however many tasks it has. */
static int usage_read_tracker(struct operations *o, bool tasks, struct reading *reading)
{
	const struct agent *a = o->a;
	const stepd_step_rec_t *job = &a->plan.job;

	reading->step = &reading->own_step;
	if (!tasks)
		return proctrack_usage(a->pt, job->cont_id, NULL, &reading->own_step);
	reading->own_tasks = calloc(job->node_tasks + 1u, sizeof(*reading->own_tasks));
	if (!reading->own_tasks)
		return -ENOMEM;
	reading->tasks = reading->own_tasks;
	return proctrack_usage_tasks(a->pt, job->cont_id, job->task, job->node_tasks,
		&reading->own_step, reading->own_tasks);
}

static json_t *usage_pack_values(const stepd_usage_t *usage)
{
	json_auto_t *doc = json_object();

	return doc && usage_pack(doc, usage) == 0 ? take_ptr(doc) : NULL;
}

static json_t *usage_pack_tasks(const struct agent *a, const stepd_usage_t *usage)
{
	json_auto_t *array = json_array();
	json_t *doc;
	uint32_t i;
	int r = array ? 0 : -1;

	for (i = 0; usage && r == 0 && i < a->tasks.n; i++) {
		doc = usage_pack_values(&usage[i]);
		r = doc ? json_object_set_new(doc, "rank", json_integer(a->tasks.v[i].rank)) : -1;
		if (r == 0)
			r = json_array_append_new(array, doc);
		else
			json_decref(doc);
	}
	return r == 0 ? take_ptr(array) : NULL;
}

/* 0 and the reply, or -errno. */
static int usage_make_reply(struct operations *o, bool tasks, json_t **ret_reply)
{
	_cleanup_(reading_clear) struct reading reading = {0};
	const struct agent *a = o->a;
	uint64_t now_ns = clock_now_ns(), end_ns = a->end.time_ns ? a->end.time_ns : now_ns;
	int r;

	r = a->account.usage.enabled &&
			(tasks || a->tasks.n <= CHEAP_TASKS || a->state >= AGENT_DRAINING)
		? usage_read_account(o, &reading)
		: usage_read_tracker(o, tasks, &reading);
	if (r < 0 && r != -ESRCH)
		return r;
	*ret_reply = json_pack("{s:I, s:I, s:o, s:o}", "time_usec",
		(json_int_t)(o->start_time_usec + (int64_t)(now_ns - a->origin.begin_ns) / 1000),
		"elapsed_usec", (json_int_t)((end_ns - a->origin.begin_ns) / 1000), "step",
		usage_pack_values(reading.step), "tasks",
		usage_pack_tasks(a, tasks ? reading.tasks : NULL));
	return *ret_reply ? 0 : -ENOMEM;
}

static void usage_call_clear(struct pending *pending)
{
	ev_timer_stop(pending->o->a->loop, &((struct usage_call *)pending)->timer);
}

static void usage_on_drained(void *userdata)
{
	struct usage_call *u = userdata;

	assert(u);
	u->draining = false;
}

static void usage_send(struct usage_call *u)
{
	json_t *reply = NULL;
	int r = usage_make_reply(u->pending.o, u->tasks, &reply);

	if (r < 0) {
		op_fail(pending_end(&u->pending), r, "the step's usage can't be read");
		return;
	}
	u->draining = true;
	op_on_drained(u->pending.call, usage_on_drained, u);
	op_reply_more_take(u->pending.call, reply);
}

static void usage_on_timer(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct usage_call *u = w->data;

	assert(u);
	if (!u->draining)
		usage_send(u);
}

/* Sends one after so many seconds, and then in each interval. NULL: the call has failed. */
static struct usage_call *usage_follow(struct operations *o, struct op_call *call, bool tasks,
	double first_sec, int64_t interval_ms)
{
	struct usage_call *u = pending_new(o, call, PENDING_USAGE, sizeof(*u), usage_call_clear);

	if (!u)
		return NULL;
	u->tasks = tasks;
	ev_timer_init(&u->timer, usage_on_timer, first_sec, (double)interval_ms / 1e3);
	u->timer.data = u;
	ev_now_update(o->a->loop);
	ev_timer_start(o->a->loop, &u->timer);
	return u;
}

json_t *usage_save_call(const struct pending *pending)
{
	struct usage_call *u = (struct usage_call *)pending; /* ev_timer_remaining() lacks const */

	return json_pack("{s:b, s:I, s:I}", "tasks", (int)u->tasks, "interval_ms",
		(json_int_t)(u->timer.repeat * 1e3 + 0.5), "deadline_ns",
		(json_int_t)handover_deadline_ns(
			ev_timer_remaining(pending->o->a->loop, &u->timer)));
}

void usage_resume_call(struct operations *o, struct op_call *call, const json_t *state)
{
	struct usage_call *u = usage_follow(o, call, json_get_bool(state, "tasks", true),
		handover_left_sec(json_get_int(state, "deadline_ns", 0)),
		json_get_int(state, "interval_ms", OPERATIONS_INTERVAL_MS_LEAST));

	if (!u)
		return;
	u->draining = true;
	op_on_drained(call, usage_on_drained, u);
}

static void usage_end(struct pending *pending)
{
	json_t *reply = NULL;
	int r = usage_make_reply(pending->o, ((struct usage_call *)pending)->tasks, &reply);

	if (r < 0)
		op_fail(pending_end(pending), r, "the step's usage can't be read");
	else
		op_reply_take(pending_end(pending), reply);
}

void op_usage(struct op_call *call, const json_t *parameters, struct operations *o)
{
	int64_t interval_ms = param_int(parameters, "interval_ms", 0);
	bool given = param_is_given(parameters, "interval_ms");
	bool tasks = param_bool(parameters, "tasks", true);
	struct usage_call *u;
	json_t *reply = NULL;
	int r;

	if (given &&
		(interval_ms < OPERATIONS_INTERVAL_MS_LEAST ||
			interval_ms > OPERATIONS_INTERVAL_MS_MOST)) {
		op_fail_parameter(call, "interval_ms");
		return;
	}
	if (given && !call->more) {
		op_fail_more(call);
		return;
	}
	if (given && !o->ending) {
		u = usage_follow(o, call, tasks, (double)interval_ms / 1e3, interval_ms);
		if (u)
			usage_send(u);
		return;
	}
	r = usage_make_reply(o, tasks, &reply);
	if (r < 0)
		op_fail(call, r, "the step's usage can't be read");
	else
		op_reply_take(call, reply);
}

/* ---- Wait ---------------------------------------------------------------------------------- */

static void send_state(const struct pending *pending)
{
	op_reply_more_take(
		pending->call, json_pack("{s:s}", "state", operations_state_name(pending->o->a)));
}

static void end_wait(struct pending *pending)
{
	const struct agent *a = pending->o->a;

	op_reply_take(pending_end(pending),
		json_pack(
			"{s:s, s:o}", "state", operations_state_name(a), "result", result_pack(a)));
}

void op_wait(struct op_call *call, _unused_ const json_t *parameters, struct operations *o)
{
	struct pending *pending = pending_new(o, call, PENDING_WAIT, sizeof(*pending), NULL);

	if (pending && o->ending)
		end_wait(pending);
	else if (pending && call->more)
		send_state(pending);
}

/* ---- what the step reports ----------------------------------------------------------------- */

void follow_state_changed(struct operations *o)
{
	struct pending *pending;

	/* The end comes with the result. */
	for (pending = o->ending ? NULL : o->pending; pending; pending = pending->next) {
		if (pending->kind == PENDING_WAIT && pending->call->more)
			send_state(pending);
	}
}

void follow_end(struct operations *o)
{
	struct pending *pending, *next;

	for (pending = o->pending; pending; pending = next) {
		next = pending->next;
		switch (pending->kind) {
		case PENDING_WAIT:
			end_wait(pending);
			break;
		case PENDING_USAGE:
			usage_end(pending);
			break;
		case PENDING_EVENTS:
			((struct follower *)pending)->last = true;
			follower_push_in_turn((struct follower *)pending);
			break;
		case PENDING_REEXEC:
			fail_ended(pending, "the step has ended meanwhile");
			break;
		default:
			break;
		}
	}
}
