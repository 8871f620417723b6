/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/pausable.h"

#include "stepd/snapshot/handover.h"

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

/* Running, the time at which it runs out counts; standing still, how much is left. */
void pausable_save(const struct pausable *p, struct handover *h, struct json_t *object)
{
	ev_timer *timer = (ev_timer *)&p->timer; /* libev wants it so, and changes nothing */

	handover_put_bool(h, object, "set", p->set);
	handover_put_bool(h, object, "paused", p->paused);
	if (p->set && p->paused)
		handover_put_int(h, object, "left_ns", (int64_t)(p->left_sec * 1e9));
	else if (p->set && ev_is_active(timer))
		handover_put_int(h, object, "deadline_ns",
			handover_deadline_ns(ev_timer_remaining(p->loop, timer)));
}

void pausable_restore(struct pausable *p, const struct json_t *object)
{
	int64_t deadline_ns = json_get_int(object, "deadline_ns", -1);

	p->set = json_get_bool(object, "set", false);
	p->paused = json_get_bool(object, "paused", false);
	p->left_sec = (double)json_get_int(object, "left_ns", 0) / 1e9;
	if (p->set && !p->paused && deadline_ns >= 0) {
		p->left_sec = handover_left_sec(deadline_ns);
		run(p);
	}
}
