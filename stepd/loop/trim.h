/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Freed memory that malloc retains goes back to the system a little later: what a program has
 * needed to start, or for a request, it does not need while it waits. A step that is over by then
 * pays nothing for it. What is left may be kept in memory.
 */
#ifndef STEPD_LOOP_TRIM_H
#define STEPD_LOOP_TRIM_H

#include <ev.h>
#include <stdbool.h>

#include "stepd/base/cleanup.h"

struct trim {
	ev_timer timer;
	bool started;
};

void trim_init(struct trim *t);

/* Soon; from now on again if it was already to be soon. */
void trim_start(struct trim *t, struct ev_loop *loop);

/* The same, but not before it was started the first time. */
void trim_again(struct trim *t, struct ev_loop *loop);
void trim_stop(struct trim *t, struct ev_loop *loop);

/* At once. */
void trim_now(void);

/* After that nothing of the program is swapped out, nor read from its file again: it goes on where
 * that has been replaced on a network's file system. With future, what it gets later either.
 * Children have nothing of it. 0; without CAP_IPC_LOCK -ENOMEM where RLIMIT_MEMLOCK is too low,
 * -EPERM where it is 0; mlockall(2). */
int trim_and_lock(bool future) _must_check_;

#endif
