/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/trim.h"

#include <errno.h>
#include <malloc.h>
#include <sys/mman.h>

/* Longer than a step of a short program lasts. */
#define DELAY_S 0.1

void trim_now(void)
{
#ifdef __GLIBC__
	(void)malloc_trim(0); /* best effort; else malloc retains it */
#endif
}

int trim_and_lock(bool future)
{
	trim_now(); /* of locked pages none can be given back but at the heap's end */
	return mlockall(MCL_CURRENT | (future ? MCL_FUTURE : 0)) < 0 ? -errno : 0;
}

static void trim_on_timer(
	_unused_ struct ev_loop *loop, _unused_ ev_timer *timer, _unused_ int revents)
{
	trim_now();
}

void trim_init(struct trim *t)
{
	*t = (struct trim){0};
	ev_timer_init(&t->timer, trim_on_timer, DELAY_S, 0.);
}

void trim_start(struct trim *t, struct ev_loop *loop)
{
	t->started = true;
	ev_timer_stop(loop, &t->timer);
	ev_timer_set(&t->timer, DELAY_S, 0.);
	ev_timer_start(loop, &t->timer);
}

void trim_again(struct trim *t, struct ev_loop *loop)
{
	if (t->started)
		trim_start(t, loop);
}

void trim_stop(struct trim *t, struct ev_loop *loop)
{
	ev_timer_stop(loop, &t->timer);
}
