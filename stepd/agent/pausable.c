/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/pausable.h"

void pausable_init(struct pausable *p, struct ev_loop *loop,
	void (*expired)(struct ev_loop *loop, ev_timer *w, int revents), void *userdata)
{
	*p = (struct pausable){.loop = loop};
	ev_init(&p->timer, expired);
	p->timer.data = userdata;
}

static void run(struct pausable *p)
{
	ev_now_update(p->loop);
	ev_timer_set(&p->timer, p->left_sec, 0.);
	ev_timer_start(p->loop, &p->timer);
}

void pausable_start(struct pausable *p, uint64_t ms)
{
	pausable_stop(p);
	p->set = true;
	p->left_sec = (double)ms / 1e3;
	if (!p->paused)
		run(p);
}

void pausable_stop(struct pausable *p)
{
	if (p->loop)
		ev_timer_stop(p->loop, &p->timer);
	p->set = false;
}

bool pausable_is_set(const struct pausable *p)
{
	return p->set;
}

void pausable_pause(struct pausable *p)
{
	if (!p->paused && ev_is_active(&p->timer)) {
		ev_now_update(p->loop);
		p->left_sec = ev_timer_remaining(p->loop, &p->timer);
		ev_timer_stop(p->loop, &p->timer);
	}
	p->paused = true;
}

void pausable_continue(struct pausable *p)
{
	if (p->paused && p->set)
		run(p);
	p->paused = false;
}
