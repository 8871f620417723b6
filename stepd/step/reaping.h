/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ends of tasks: seen, written down, reaped, and what the step's policies make of them; and
 * what the tasks report of their starts.
 */
#ifndef STEPD_STEP_REAPING_H
#define STEPD_STEP_REAPING_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/proc.h"

struct agent;
struct err;
struct exit_watch;
struct handover;
struct json_t;
struct proctrack;
struct task;

/* ---- the tasks of an adopted step ---------------------------------------------------------- */

/* The tasks of a step that was taken over, which are no children of its agent: waits for their ends
 * by pidfds, and learns their exit statuses from the kernel: of a zombie from /proc, and of one
 * that its parent has reaped by PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15), which forgets
 * none while a pidfd of it is open. Where a task is gone before it was polled and the kernel is
 * older, or where /proc hides it and its parent doesn't reap it within a second, the status is not
 * known. Their ends have the same consequences as those of children. For other members see
 * struct member_watch. */

/* Makes a->origin.exits, with nobody in it. Needs a->loop. 0 or -errno. */
int exit_watch_open(struct agent *a) _must_check_;

/* The task of that index. Takes ref over, on success only; one that has ended already is reported
 * as well. */
int exit_watch_add_take(struct exit_watch *w, struct pidref *ref, uint32_t index) _must_check_;

/* Reports those that have ended by now, but does not act on that: reaping_poll(). NULL is fine. */
void exit_watch_poll(struct exit_watch *w);

/* At a re-exec (handover.h): the pidfds survive. restore: instead of
 * exit_watch_open(); who has ended meanwhile is reported by the next poll. */
void exit_watch_save(const struct exit_watch *w, struct handover *h, struct json_t *object);
int exit_watch_restore(struct agent *a, const struct json_t *object, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct exit_watch *exit_watch_close(struct exit_watch *w);

/* ---- members that nothing watches ---------------------------------------------------------- */

/* Notices that a container has become empty where its tracker reports no changes and its last
 * processes are no children of the agent (added ones, or of a step that was taken over): no SIGCHLD
 * reports their ends. While one of them lives the container is not empty; so one at a time is held
 * by a pidfd, and when it has ended the members are read again. */

struct member_watch {
	struct ev_loop *loop;
	int pidfd; /* of the member that is watched; -1: none is */
	ev_io io;
	ev_timer again; /* where none could be watched */
	void (*ended)(void *userdata);
	void *userdata;
};

#define MEMBER_WATCH_INIT                                                                          \
	{                                                                                          \
		.pidfd = -1                                                                        \
	}

/* Watches any member, if none is watched yet. False: there is none, or none that could be held, for
 * they end faster than they are listed or no descriptor is to be had; then they are read again in a
 * second, unless a SIGCHLD comes before. */
bool member_watch_any(struct member_watch *w, struct proctrack *pt, uint64_t cont_id);

void member_watch_stop(struct member_watch *w);

/* ---- the ends of tasks --------------------------------------------------------------------- */

/* Notes all that have ended by now, and no more. */
void reaping_poll(struct agent *a);

/* A child has ended: notes it and all others, and acts on it: a task that could not be executed, or
 * ran out of memory, may end the step. */
void reaping_on_child(struct agent *a);

/* The tasks have been forked: reads what they report. */
void reaping_watch_reports(struct agent *a);

/* A task of a step that was taken over has ended, whose parent we are not; and, after all that have
 * ended were reported, what follows from it. */
void reaping_adopted_task(struct agent *a, uint32_t index, bool known, int wait_status);
void reaping_report_lost(struct agent *a, const struct task *task);

#endif
