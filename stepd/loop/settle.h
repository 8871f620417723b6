/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that a program has needed to start, or for a request, and that it does not need while it
 * waits, goes back to the system a little later: what malloc retains, the depth that the stack once
 * had, and the pages of the program and of its libraries, which stay in the page cache and come
 * back as they are used. A step that is over by then pays nothing for it.
 *
 * All of it is best effort. The code stays where a debugger traces the process, which may have
 * breakpoints in it; a probe of the kernel's (uprobe) is lost.
 */
#ifndef STEPD_LOOP_SETTLE_H
#define STEPD_LOOP_SETTLE_H

#include <ev.h>
#include <stdbool.h>

struct settle {
	ev_timer timer;
	bool started;
};

/* In the thread that the process began with. */
void settle_init(struct settle *s);

/* Soon; from now on again if it was already to be soon. */
void settle_start(struct settle *s, struct ev_loop *loop);

/* The same, but not before it was started the first time. */
void settle_again(struct settle *s, struct ev_loop *loop);
void settle_stop(struct settle *s, struct ev_loop *loop);

/* At once. */
void settle_now(void);

#endif
