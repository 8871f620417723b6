/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/member_watch.h"

#include <assert.h>

#include "proctrack/proctrack.h"
#include "stepd/base/pidref.h"

/* Listings in which all have ended before they could be held. */
#define TRIES_MAX 8

#define AGAIN_S 1.

static void on_end(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct member_watch *w = io->data;

	assert(w);
	member_watch_stop(w);
	w->ended(w->userdata);
}

static void on_again(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct member_watch *w = timer->data;

	assert(w);
	w->ended(w->userdata);
}

/* A member that is held. A pid may have gone to another process since it was listed. */
static int hold_one(struct proctrack *pt, uint64_t cont_id, const pid_t *pids, int n)
{
	struct pidref ref = PIDREF_INIT;
	int i;

	for (i = 0; i < n; i++) {
		if (pidref_open(pids[i], 0, &ref) < 0)
			continue;
		if (proctrack_has_pid(pt, cont_id, pids[i]))
			return take_fd(&ref.fd);
		pidref_close(&ref);
	}
	return -1;
}

static void look_again_later(struct member_watch *w)
{
	if (ev_is_active(&w->again))
		return;
	ev_now_update(w->loop);
	ev_timer_init(&w->again, on_again, AGAIN_S, 0.);
	w->again.data = w;
	ev_timer_start(w->loop, &w->again);
}

bool member_watch_any(struct member_watch *w, struct proctrack *pt, uint64_t cont_id)
{
	int try, n = 1;

	for (try = 0; w->pidfd < 0 && n > 0 && try < TRIES_MAX; try++) {
		_cleanup_free_ pid_t *pids = NULL;

		if (proctrack_get_pids(pt, cont_id, &pids, &n) < 0)
			break;
		w->pidfd = hold_one(pt, cont_id, pids, n);
	}
	if (w->pidfd < 0) {
		look_again_later(w);
		return false;
	}
	if (!ev_is_active(&w->io)) {
		ev_io_init(&w->io, on_end, w->pidfd, EV_READ);
		w->io.data = w;
		ev_io_start(w->loop, &w->io);
	}
	return true;
}

void member_watch_stop(struct member_watch *w)
{
	if (ev_is_active(&w->again))
		ev_timer_stop(w->loop, &w->again);
	if (w->pidfd < 0)
		return;
	ev_io_stop(w->loop, &w->io);
	w->pidfd = close_fd(w->pidfd);
}
