/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/killseq.h"

#include <assert.h>

#include "stepd/agent/reexec/handover.h"
#include "stepd/agent/spec/spec.h"

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents);

static void arm_sec(struct killseq *ks, double sec)
{
	ev_now_update(ks->loop);
	ev_timer_init(&ks->timer, on_timer, sec, 0.);
	ks->timer.data = ks;
	ev_timer_start(ks->loop, &ks->timer);
}

static void arm(struct killseq *ks, uint64_t ms)
{
	arm_sec(ks, (double)ms / 1e3);
}

/* Sends what is due: up to and including the first step that leaves time. */
static void advance(struct killseq *ks)
{
	const struct spec_kill *step;

	while (ks->next < ks->count) {
		step = &ks->steps[ks->next++];
		ks->send(step->signal, ks->userdata);
		if (!ks->started)
			return; /* it ended within the call */
		if (ks->next < ks->count && step->wait_ms) {
			arm(ks, step->wait_ms);
			return;
		}
	}
	ks->exhausted = true;
	arm(ks, ks->unkillable_timeout_ms);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct killseq *ks = w->data;

	assert(ks);
	(void)loop;
	(void)revents;
	if (ks->exhausted)
		ks->unkillable(ks->userdata);
	else
		advance(ks);
}

void killseq_start(struct killseq *ks)
{
	if (ks->started)
		return;
	ks->started = true;
	ks->next = 0;
	advance(ks);
}

/* From the step next on to the last signal. */
static uint64_t time_left_ms(const struct spec_kill *steps, size_t next, size_t count)
{
	uint64_t ms = 0;

	for (; next + 1 < count; next++)
		ms += steps[next].wait_ms;
	return ms;
}

/* Behind the last step with that signal; 0: there is none. */
static size_t find_next(const struct spec_kill *steps, size_t count, int signal)
{
	size_t next = count;

	while (next > 0 && steps[next - 1].signal != signal)
		next--;
	return next;
}

bool killseq_shorten(struct killseq *ks, const struct spec_kill *steps, size_t count)
{
	uint64_t left_ms, passed_ms, wait_ms = 0;
	size_t next = 0;

	if (ks->started) {
		if (ks->exhausted)
			return false;
		ev_now_update(ks->loop);
		left_ms = (uint64_t)(ev_timer_remaining(ks->loop, &ks->timer) * 1e3);
		passed_ms = ks->steps[ks->next - 1].wait_ms;
		passed_ms -= left_ms < passed_ms ? left_ms : passed_ms;
		next = find_next(steps, count, ks->steps[ks->next - 1].signal);
		if (next > 0 && steps[next - 1].wait_ms > passed_ms)
			wait_ms = steps[next - 1].wait_ms - passed_ms;
		if (wait_ms + time_left_ms(steps, next, count) >=
			left_ms + time_left_ms(ks->steps, ks->next, ks->count))
			return false;
		ev_timer_stop(ks->loop, &ks->timer);
	}
	ks->steps = steps;
	ks->count = count;
	ks->next = next;
	if (ks->started && wait_ms)
		arm(ks, wait_ms);
	else if (ks->started)
		advance(ks);
	return true;
}

void killseq_kill_now(struct killseq *ks)
{
	if (ks->started)
		ev_timer_stop(ks->loop, &ks->timer);
	ks->started = true;
	ks->exhausted = false;
	ks->next = ks->count - 1;
	advance(ks);
}

void killseq_stop(struct killseq *ks)
{
	if (ks->started)
		ev_timer_stop(ks->loop, &ks->timer);
	ks->started = false;
}

void killseq_save(const struct killseq *ks, struct handover *h, struct json_t *object)
{
	ev_timer *timer = (ev_timer *)&ks->timer; /* libev asks for it, and changes nothing */

	handover_put_bool(h, object, "started", ks->started);
	if (!ks->started)
		return;
	handover_put_int(h, object, "next", (int64_t)ks->next);
	handover_put_bool(h, object, "exhausted", ks->exhausted);
	if (ev_is_active(timer))
		handover_put_int(h, object, "deadline_ns",
			handover_deadline_ns(ev_timer_remaining(ks->loop, timer)));
}

void killseq_restore(struct killseq *ks, const struct json_t *object)
{
	int64_t next = handover_get_int(object, "next", 0);
	int64_t deadline_ns = handover_get_int(object, "deadline_ns", -1);

	ks->started = handover_get_bool(object, "started", false);
	ks->next = next >= 0 && (size_t)next < ks->count ? (size_t)next : ks->count;
	ks->exhausted = handover_get_bool(object, "exhausted", false);
	if (ks->started && deadline_ns >= 0)
		arm_sec(ks, handover_left_sec(deadline_ns));
}
