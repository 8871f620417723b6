/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/killseq.h"

#include <assert.h>

#include "stepd/agent/spec/spec.h"

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents);

static void arm(struct killseq *ks, uint64_t ms)
{
	ev_now_update(ks->loop);
	ev_timer_init(&ks->timer, on_timer, (double)ms / 1e3, 0.);
	ks->timer.data = ks;
	ev_timer_start(ks->loop, &ks->timer);
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
