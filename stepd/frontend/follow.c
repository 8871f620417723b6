/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events and Wait: calls that last. Who follows events stands in their file, and is given the next
 * lines when the kernel has taken the last ones: a slow one costs no memory, and delays nobody. New
 * events are sent to each in its connection's turn, from the share of time that its class has: many
 * who follow delay no more than many who call.
 */
#include <assert.h>
#include <string.h>

#include "stepd/frontend/methods_impl.h"
#include "stepd/record/event_text.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/result.h"

/* Of events read at a time. */
#define READ_SIZE (4 * EVENT_LINE_MAX)

/* ---- Events ---------------------------------------------------------------------------------- */

struct follower {
	struct kept kept;
	struct events_cursor cursor;
	bool draining; /* has not taken what was sent, or waits for its turn to be sent more */
	bool last;     /* what comes now is the end */
};

static const char before[] = "{\"event\":";

/* One answer; the last one if the step's events end with it. */
static void send_event(struct follower *f, const char *line, size_t size, bool last)
{
	struct control_call *call = f->kept.call;
	char text[sizeof(before) + EVENT_LINE_MAX];
	size_t at = strlen(before);

	assert(size <= EVENT_LINE_MAX);
	memcpy(text, before, at);
	memcpy(text + at, line, size);
	at += size;
	text[at++] = '}';
	if (last) {
		kept_free(&f->kept);
		control_reply_text(call, text, at);
	} else {
		control_reply_more_text(call, text, at);
	}
}

/* Stands for those that are told no more. */
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

static void on_drained(struct control_call *call, void *userdata);

/* The lines of one reading. The follower may be no more after it. */
static void send_lines(struct follower *f, const char *buf, size_t size)
{
	const char *line, *end = buf + size, *newline;
	bool at_end = f->last && f->cursor.next > events_last(f->kept.m->a->events);

	if (f->cursor.lost)
		send_lost(f, event_get_sequence(buf, size));
	f->draining = true;
	control_call_on_drained(f->kept.call, on_drained, f);
	for (line = buf; line < end; line = newline + 1) {
		newline = memchr(line, '\n', (size_t)(end - line));
		assert(newline); /* events_read() gives whole lines */
		send_event(f, line, (size_t)(newline - line), at_end && newline + 1 == end);
	}
}

/* Sends what there is, as much as one reading has. */
static void push(struct follower *f)
{
	struct events *events = f->kept.m->a->events;
	char buf[READ_SIZE];
	ssize_t n;

	if (f->draining)
		return;
	n = events_read(events, &f->cursor, buf, sizeof(buf));
	if (n > 0)
		send_lines(f, buf, (size_t)n);
	else if (n < 0)
		kept_error_take(
			&f->kept, "Failed", pack_failed((int)n, "the step's events can't be read"));
	else if (f->last) /* it had the last one before */
		kept_error_take(&f->kept, "WrongState",
			json_pack("{s:s, s:s}", "state", "ended", "message",
				"the step has ended, and all of its events are told"));
}

static void on_drained(struct control_call *call, void *userdata)
{
	struct follower *f = userdata;

	(void)call;
	assert(f);
	f->draining = false;
	push(f);
}

static void push_in_turn(struct follower *f)
{
	if (f->draining)
		return;
	f->draining = true;
	control_call_on_drained(f->kept.call, on_drained, f);
}

static void push_all(struct methods *m)
{
	struct kept *kept;

	for (kept = m->kept; kept; kept = kept->next) {
		if (kept->kind == KEPT_EVENTS)
			push_in_turn((struct follower *)kept);
	}
}

/* Once for all that has been written in one turn of the loop. */
static void on_push(struct ev_loop *loop, ev_prepare *w, int revents)
{
	assert(w->data);
	(void)revents;
	ev_prepare_stop(loop, w);
	push_all(w->data);
}

static void on_written(void *userdata)
{
	struct methods *m = userdata;

	assert(m);
	ev_prepare_start(m->a->loop, &m->push);
}

void follow_begin(struct methods *m)
{
	ev_prepare_init(&m->push, on_push);
	m->push.data = m;
	events_set_listener(m->a->events, on_written, m);
}

void method_events(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct methods *m = userdata;
	int64_t from = param_int(parameters, "from", 0);
	struct follower *f;
	int r;

	if (param_is_given(parameters, "from") && from < 0) {
		answer_invalid(call, "from");
		return;
	}
	if (param_is_given(parameters, "from") && from == 0)
		from = 1; /* all of them */
	if (!m->a->events) {
		answer_not_supported(call, "the step's events are not kept");
		return;
	}
	f = kept_new(m, call, KEPT_EVENTS, sizeof(*f), NULL);
	if (!f)
		return;
	f->last = m->ending;
	r = events_seek(m->a->events, (uint64_t)from, &f->cursor);
	if (r < 0)
		kept_error_take(
			&f->kept, "Failed", pack_failed(r, "the step's events can't be read"));
	else
		push(f);
}

json_t *events_save_call(const struct kept *kept)
{
	const struct events_cursor *at = &((const struct follower *)kept)->cursor;

	return json_pack("{s:I, s:I, s:I}", "next", (json_int_t)at->next, "offset",
		(json_int_t)at->offset, "lost", (json_int_t)at->lost);
}

/* What was sent before may not be taken yet. */
void events_resume_call(struct methods *m, struct control_call *call, const json_t *state)
{
	struct follower *f = kept_new(m, call, KEPT_EVENTS, sizeof(*f), NULL);

	if (!f)
		return;
	f->cursor = (struct events_cursor){
		.next = (uint64_t)handover_get_int(state, "next", 1),
		.offset = (off_t)handover_get_int(state, "offset", 0),
		.lost = (uint64_t)handover_get_int(state, "lost", 0),
	};
	f->draining = true;
	control_call_on_drained(call, on_drained, f);
}

/* ---- Wait ------------------------------------------------------------------------------------ */

static void send_state(const struct kept *kept)
{
	control_reply_more_take(
		kept->call, json_pack("{s:s}", "state", methods_state_word(kept->m->a)));
}

static void end_wait(struct kept *kept)
{
	const struct agent *a = kept->m->a;

	kept_reply_take(kept,
		json_pack("{s:s, s:o}", "state", methods_state_word(a), "result", result_pack(a)));
}

void method_wait(struct control_call *call, const json_t *parameters, void *userdata)
{
	struct methods *m = userdata;
	struct kept *kept = kept_new(m, call, KEPT_WAIT, sizeof(*kept), NULL);

	(void)parameters;
	if (kept && m->ending)
		end_wait(kept);
	else if (kept && control_call_wants_more(call))
		send_state(kept);
}

void follow_state_changed(struct methods *m)
{
	struct kept *kept;

	/* The end comes with the result. */
	for (kept = m->ending ? NULL : m->kept; kept; kept = kept->next) {
		if (kept->kind == KEPT_WAIT && control_call_wants_more(kept->call))
			send_state(kept);
	}
}

void follow_end(struct methods *m)
{
	struct kept *kept, *next;

	for (kept = m->kept; kept; kept = next) {
		next = kept->next;
		switch (kept->kind) {
		case KEPT_WAIT:
			end_wait(kept);
			break;
		case KEPT_USAGE:
			usage_end(kept);
			break;
		case KEPT_EVENTS:
			((struct follower *)kept)->last = true;
			push_in_turn((struct follower *)kept);
			break;
		case KEPT_REEXEC:
			kept_error_take(kept, "WrongState",
				json_pack("{s:s, s:s}", "state", "ended", "message",
					"the step has ended meanwhile"));
			break;
		default:
			break;
		}
	}
}
