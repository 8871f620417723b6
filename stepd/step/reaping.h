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

/* The tasks of an adopted step, which are not children of its agent: waits for their ends by
 * pidfds, and reads their exit statuses from the kernel: of a zombie from /proc, and after its
 * parent has reaped it by PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15), which works as long
 * as a pidfd of it is open. Where a task is gone before it was polled and the kernel is older, or
 * where /proc hides it and its parent doesn't reap it within a second, the status is unknown.
 * Their ends are handled as those of children. For other members see struct member_watch. */

/* Creates a->origin.exits, empty. Needs a->loop. 0 or -errno. */
int exit_watch_open(struct agent *a) _must_check_;

/* Adds the task of that index. Takes ownership of ref, on success only; a task that has already
 * ended is reported, too. */
int exit_watch_add_take(struct exit_watch *w, struct pidref *ref, uint32_t index) _must_check_;

/* Records the tasks that have ended by now, but does not act on that: reaping_poll(). NULL is
 * allowed. */
void exit_watch_poll(struct exit_watch *w);

/* At a re-exec (handover.h): the pidfds survive. restore: instead of exit_watch_open(); tasks
 * that have ended meanwhile are reported by the next poll. */
void exit_watch_save(const struct exit_watch *w, struct handover *h, struct json_t *object);
int exit_watch_restore(struct agent *a, const struct json_t *object, struct err *err) _must_check_;

/* NULL is allowed. Returns NULL. */
struct exit_watch *exit_watch_close(struct exit_watch *w);

/* ---- members that nothing watches ---------------------------------------------------------- */

/* Notices that a container has become empty where its tracker reports no changes and its last
 * processes are not children of the agent (added ones, or of an adopted step): no SIGCHLD reports
 * their ends. While one of them lives the container is not empty; so one at a time is held by a
 * pidfd, and when it has ended the members are read again. */

struct member_watch {
	struct ev_loop *loop;
	int pidfd; /* of the watched member; -1: none */
	ev_io io;
	ev_timer again; /* if none could be watched */
	void (*ended)(void *userdata);
	void *userdata;
};

#define MEMBER_WATCH_INIT                                                                          \
	{                                                                                          \
		.pidfd = -1                                                                        \
	}

/* Watches any member, if none is watched yet. False: there is none, or none could be held,
 * because they end faster than they are listed or descriptors are exhausted; then they are read
 * again in a second, unless a SIGCHLD comes before. */
bool member_watch_any(struct member_watch *w, struct proctrack *pt, uint64_t cont_id);

void member_watch_stop(struct member_watch *w);

/* ---- the ends of tasks --------------------------------------------------------------------- */

/* Records all tasks that have ended by now, without acting on that. */
void reaping_poll(struct agent *a);

/* A child has ended: records it and all others, and acts on it: a task that could not be
 * executed, or ran out of memory, may end the step. */
void reaping_on_child(struct agent *a);

/* The tasks have been forked: reads their reports. */
void reaping_watch_reports(struct agent *a);

/* Records the end of an adopted step's task, which is not our child; and, after all ends have
 * been recorded, acts on them. */
void reaping_adopted_task(struct agent *a, uint32_t index, bool known, int wait_status);
void reaping_report_lost(struct agent *a, const struct task *task);

#endif
