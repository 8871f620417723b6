/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/killseq.h"

#include <assert.h>

#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"

/* How long a signal may be on its way before its step's time begins to count all the same. A walk
 * over all of /proc on a crowded machine takes a part of it; what takes longer hangs. */
#define DELIVERY_TIMEOUT_MS 5000

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
	ev_timer_stop(ks->loop, &ks->timer);
	arm_sec(ks, (double)ms / 1e3);
}

/* Sends what is due: up to and including the first step that leaves time. That is counted from the
 * signal's delivery, which send() may report before it returns. */
static void advance(struct killseq *ks)
{
	const struct spec_kill *step;
	bool leaves_time;

	while (ks->next < ks->count) {
		step = &ks->steps[ks->next++];
		leaves_time = ks->next < ks->count && step->wait_ms;
		ks->delivering = leaves_time;
		if (leaves_time)
			arm(ks, step->wait_ms + DELIVERY_TIMEOUT_MS);
		ks->send(step->signal, ks->userdata);
		if (!ks->started || leaves_time)
			return; /* it ended within the call, or has time now */
	}
	ks->exhausted = true;
	arm(ks, ks->unkillable_timeout_ms);
}

static void on_timer(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct killseq *ks = w->data;

	assert(ks);
	ks->delivering = false;
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

void killseq_delivered(struct killseq *ks, int signal)
{
	const struct spec_kill *step = ks->next ? &ks->steps[ks->next - 1] : NULL;

	if (!ks->started || !ks->delivering || !step || step->signal != signal)
		return;
	ks->delivering = false;
	arm(ks, step->wait_ms);
}

/* Of the time that the last signal sent leaves; all of it while that is on its way. */
static uint64_t wait_left_ms(const struct killseq *ks)
{
	ev_timer *timer = (ev_timer *)&ks->timer; /* libev wants it so, and changes nothing */

	if (ks->delivering)
		return ks->steps[ks->next - 1].wait_ms;
	return (uint64_t)(ev_timer_remaining(ks->loop, timer) * 1e3);
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
		left_ms = wait_left_ms(ks);
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
		arm(ks, wait_ms + (ks->delivering ? DELIVERY_TIMEOUT_MS : 0));
	else if (ks->started)
		advance(ks);
	return true;
}

void killseq_kill_now(struct killseq *ks)
{
	if (ks->started)
		ev_timer_stop(ks->loop, &ks->timer);
	ks->started = true;
	ks->exhausted = ks->delivering = false;
	ks->next = ks->count - 1;
	advance(ks);
}

void killseq_stop(struct killseq *ks)
{
	if (ks->started)
		ev_timer_stop(ks->loop, &ks->timer);
	ks->started = ks->delivering = false;
}

void killseq_save(const struct killseq *ks, struct handover *h, struct json_t *object)
{
	ev_timer *timer = (ev_timer *)&ks->timer; /* libev wants it so, and changes nothing */

	handover_put_bool(h, object, "started", ks->started);
	if (!ks->started)
		return;
	handover_put_int(h, object, "next", (int64_t)ks->next);
	handover_put_bool(h, object, "exhausted", ks->exhausted);
	handover_put_bool(h, object, "delivering", ks->delivering);
	if (ev_is_active(timer))
		handover_put_int(h, object, "deadline_ns",
			handover_deadline_ns(ev_timer_remaining(ks->loop, timer)));
}

void killseq_restore(struct killseq *ks, const struct json_t *object)
{
	int64_t next = json_get_int(object, "next", 0);
	int64_t deadline_ns = json_get_int(object, "deadline_ns", -1);

	ks->started = json_get_bool(object, "started", false);
	ks->next = next >= 0 && (size_t)next < ks->count ? (size_t)next : ks->count;
	ks->exhausted = json_get_bool(object, "exhausted", false);
	ks->delivering = ks->next > 0 && json_get_bool(object, "delivering", false);
	if (ks->started && deadline_ns >= 0)
		arm_sec(ks, handover_left_sec(deadline_ns));
}
