/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks of a step that was taken over, which are no children of its agent: waits for their ends
 * by pidfds, and learns their exit statuses from the kernel: of a zombie from /proc, and of one
 * that its parent has reaped by PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15), which forgets
 * none while a pidfd of it is open. Where a task is gone before it was polled and the kernel is
 * older, or where /proc hides it and its parent doesn't reap it within a second, the status is not
 * known. Their ends lead to what ends of children lead to (reaping.h). Of other members see
 * member_watch.h.
 */
#ifndef STEPD_STEP_EXIT_WATCH_H
#define STEPD_STEP_EXIT_WATCH_H

#include <stdint.h>

#include "stepd/base/pidref.h"

struct agent;
struct err;
struct exit_watch;
struct handover;
struct json_t;

/* Makes a->origin.exits, with nobody in it. Needs a->loop. 0 or -errno. */
int exit_watch_open(struct agent *a) _must_check_;

/* The task of that index. Takes ref over, on success only; one that has ended already is reported
 * as well. */
int exit_watch_add_take(struct exit_watch *w, struct pidref *ref, uint32_t index) _must_check_;

/* Reports those that have ended by now, but does not act on that: reaping_poll(). NULL is fine. */
void exit_watch_poll(struct exit_watch *w);

/* For the program that goes on with them (handover.h): the pidfds survive. restore: in the place of
 * exit_watch_open(); who has ended meanwhile is reported by the next poll. */
void exit_watch_save(const struct exit_watch *w, struct handover *h, struct json_t *object);
int exit_watch_restore(struct agent *a, const struct json_t *object, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct exit_watch *exit_watch_close(struct exit_watch *w);

#endif
