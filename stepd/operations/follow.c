/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events and Wait: calls that last. Who follows events stands in their file, and is given the next
 * lines when the kernel has taken the last ones: a slow one costs no memory, and delays nobody. New
 * events are sent to each in its connection's turn, from the share of time that its class has: many
 * who follow delay no more than many who call.
 */
#include <assert.h>
#include <string.h>

#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/result.h"

/* Of events read at a time. */
#define READ_SIZE (4 * EVENT_LINE_MAX)

/* ---- Events ---------------------------------------------------------------------------------- */

struct follower {
	struct pending pending;
	struct events_cursor cursor;
	bool draining; /* has not taken what was sent, or waits for its turn to be sent more */
	bool last;     /* what comes now is the end */
};

static const char before[] = "{\"event\":";

/* One reply; the last one if the step's events end with it. */
static void send_event(struct follower *f, const char *line, size_t size, bool last)
{
	struct op_call *call = f->pending.call;
	char text[sizeof(before) + EVENT_LINE_MAX];
	size_t at = strlen(before);

	assert(size <= EVENT_LINE_MAX);
	memcpy(text, before, at);
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

/* Stands for those that are not in the file any more. */
static void send_lost(struct follower *f, uint64_t next)
{
	struct event event = EVENT_INIT(EVENT_LOST);
	char line[EVENT_LINE_MAX];
	size_t size;

	event.count = (int64_t)f->cursor.lost;
	f->cursor.lost = 0;
	size = event_format(&event, next - 1, line);
	send_event(f, line, size - 1, false);
}

static void on_drained(void *userdata);

/* The lines of one reading. The follower may be no more after it. */
static void send_lines(struct follower *f, const char *buf, size_t size)
{
	const char *line, *end = buf + size, *newline;
	bool at_end = f->last && f->cursor.next > events_last(f->pending.o->a->events);

	if (f->cursor.lost)
		send_lost(f, event_get_sequence(buf, size));
	f->draining = true;
	op_on_drained(f->pending.call, on_drained, f);
	for (line = buf; line < end; line = newline + 1) {
		newline = memchr(line, '\n', (size_t)(end - line));
		assert(newline); /* events_read() gives whole lines */
		send_event(f, line, (size_t)(newline - line), at_end && newline + 1 == end);
	}
}

static void fail_ended(struct pending *pending, const char *message)
{
	op_fail_take(pending_end(pending), OP_WRONG_STATE, -ESRCH,
		json_pack("{s:s, s:s}", "state", "ended", "message", message));
}

/* Sends what there is, as much as one reading has. */
static void follower_push(struct follower *f)
{
	struct events *events = f->pending.o->a->events;
	char buf[READ_SIZE];
	ssize_t n;

	if (f->draining)
		return;
	n = events_read(events, &f->cursor, buf, sizeof(buf));
	if (n > 0)
		send_lines(f, buf, (size_t)n);
	else if (n < 0)
		op_fail(pending_end(&f->pending), (int)n, "the step's events can't be read");
	else if (f->last) /* it had the last one before */
		fail_ended(&f->pending, "the step has ended, and all of its events have been sent");
}

static void on_drained(void *userdata)
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
	op_on_drained(f->pending.call, on_drained, f);
}

static void followers_push(struct operations *o)
{
	struct pending *pending;

	for (pending = o->pending; pending; pending = pending->next) {
		if (pending->kind == PENDING_EVENTS)
			follower_push_in_turn((struct follower *)pending);
	}
}

/* Once for all that has been written in one turn of the loop. */
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
		op_fail_unsupported(call, "the step's events are not kept");
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

/* What was sent before may not be taken yet. */
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
	op_on_drained(call, on_drained, f);
}

/* ---- Wait ------------------------------------------------------------------------------------ */

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
