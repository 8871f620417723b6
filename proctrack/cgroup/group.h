/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations on one cgroup and all below it, through a descriptor of its directory: list, query,
 * signal, stop, wait. Knows nothing of steps.
 *
 * All return 0 or -errno; -ESRCH where the group is gone.
 *
 * The kernel signals a change of cgroup.events at once only if the last one was more than 10 ms
 * ago, else up to two clock ticks after that (CGROUP_FILE_NOTIFY_MIN_INTV). The file itself is
 * always right. Whatever waits for an end should therefore read the file at each child's end, too.
 */
#ifndef PROCTRACK_CGROUP_GROUP_H
#define PROCTRACK_CGROUP_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

/* How long a signal waits for the group to stand still before it goes out all the same. A process
 * deep in the kernel (a dead NFS server) stops no sooner than it comes out. */
#define GROUP_SIGNAL_FREEZE_MS 250

/* How long it then waits, once more, for what the signal made to move on. */
#define GROUP_SIGNAL_SETTLE_MS 750

/* How long one poll of a suspension takes; the host polls again. */
#define GROUP_SUSPEND_FREEZE_MS 250

struct pidset;

struct group_events {
	bool populated; /* a living process is in it or below */
	bool frozen;    /* all of them stand still, by cgroup.freeze */
};

int group_get_events(int fd, struct group_events *ret_events) _must_check_;

/* The contents of cgroup.freeze, here and above. */
struct group_freeze {
	bool frozen_itself;  /* by its own cgroup.freeze */
	bool momentary;      /* by a signal, for a moment, whose sender was ended on the way */
	bool above;          /* all stand still because a group above is frozen */
	char path[PATH_MAX]; /* of that group, "" where it can't be seen from here */
};

/* -EOPNOTSUPP: the kernel can't freeze (before Linux 5.2). -EAGAIN: the group is frozen, and the
 * kernel has no mark that would show a signal (before Linux 5.7). */
int group_get_freeze(int fd, struct group_freeze *ret_freeze) _must_check_;

/* Adds all processes, those of the groups below included. */
int group_list(int fd, struct pidset *set) _must_check_;

/* Sends a signal to all, none missed that forks meanwhile, none hit that took over the pid of one
 * that ended: stop all, send through pidfds, list again until nothing new is there, let them go on
 * (unless the group was stopped before). 0 tests. -ESRCH: there is none. -EPERM and the like: at
 * least one could not be signalled; the others were. */
int group_signal(int fd, int signal) _must_check_;

/* Kills all by cgroup.kill (Linux 5.14) and what that passes over by pidfds, or by group_signal()
 * where it is missing. From then on
 * the kernel kills whatever is cloned into the group (proctrack(7)): it must not be used again. */
int group_kill(int fd) _must_check_;

/* Freezes the group and waits until all stand still. *ret_was, set in every case: whether it
 * was frozen before; if not, group_resume() is the caller's to call, after a failure too.
 * -ETIMEDOUT: some still move. -EOPNOTSUPP: the kernel can't (before Linux 5.2). */
int group_freeze(int fd, int timeout_ms, bool *ret_was);

/* Stops all. -ETIMEDOUT: some still move, all are to stop: call again, or group_resume(). Any
 * other failure changes nothing. Stopping what is stopped is no error, nor is an empty group: what
 * comes into it stands still. */
int group_suspend(int fd) _must_check_;
int group_resume(int fd);

/* The same where it was for a moment, and this was left. */
int group_resume_left(int fd) _must_check_;

/* As group_resume(), and -EBUSY if all stand still nonetheless, because a group above is frozen:
 * then its cgroup.freeze is as it was before. */
int group_resume_checked(int fd) _must_check_;

/* Waits until nothing lives in it. timeout_ms < 0: for ever. -ETIMEDOUT: it does. */
int group_wait_empty(int fd, int timeout_ms) _must_check_;

#endif
