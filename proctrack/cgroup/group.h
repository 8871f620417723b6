/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A cgroup, through a descriptor of its directory: its files, its processes, the groups below it;
 * and what is done to it and all below: list, signal, stop, wait, read the usage. Knows nothing of
 * steps.
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
#include <stdint.h>
#include <sys/types.h>

#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

/* ---- files ----------------------------------------------------------------------------------- */

#define CGFILE_MAX_BYTES (1u << 20)

/* A group that went answers ENOENT to open and ENODEV to read: -ESRCH for these. */
int cgfile_gone(int r);

/* Opens the group name below parent_fd, made if it isn't there, for everybody to read: a
 * descriptor, or -errno. -ENOENT: something above it went. */
int cgfile_make_group(int parent_fd, const char *name) _must_check_;

/* The path of the open directory fd. On failure path is "?", which is enough for a sentence. */
int cgfile_get_path(int fd, char path[PATH_MAX]);

/* Whether fd is on a cgroup2 file system. */
bool cgfile_is_cgroup2(int fd);

/* ---- processes ------------------------------------------------------------------------------- */

/* A sorted set of process ids, and the process list of one cgroup read into it. */

struct pidset {
	pid_t *v; /* ascending, each once, all > 0 */
	size_t n;
	size_t capacity;
};

/* 0 or -ENOMEM. */
int pidset_add(struct pidset *set, pid_t pid) _must_check_;
bool pidset_has(const struct pidset *set, pid_t pid);

/* Adds the pids of a text with one a line. Lines that are no pid are passed over, and above all
 * "0", which the kernel writes for a process outside of this pid namespace and for a dying one:
 * a signal to pid 0 would hit the caller's own process group. */
int pidset_add_text(struct pidset *set, const char *text) _must_check_;

/* Adds the processes of the cgroup at fd, without those of its children. A threaded group has no
 * list of processes (EOPNOTSUPP): there it is the processes of its threads. 0 also for a group
 * that is gone. */
int pidset_read_group(struct pidset *set, int fd) _must_check_;

void pidset_clear(struct pidset *set);
#define _cleanup_pidset_ _cleanup_(pidset_clear)

/* ---- the tree -------------------------------------------------------------------------------- */

/* A walk over a cgroup and all groups below it, as hostile as tasks may have made them: any depth
 * (no recursion, no long paths), any number, odd names, and groups that come and go meanwhile. One
 * descriptor is held on the way down, two at a leaf. */

struct tree_ops {
	/* A child is about to be entered: 1 passes it over, with all below. May be NULL. */
	int (*before)(int parent_fd, const char *name, void *userdata);
	/* Inside a group, the first one included, before its children. May be NULL. */
	int (*enter)(int fd, void *userdata);
	/* A child and all below it are done. May be NULL. */
	int (*leave)(int parent_fd, const char *name, void *userdata);
};

/* 0, or what a function returned below 0, or -errno. A group that vanishes is no error. */
int tree_walk(int fd, const struct tree_ops *ops, void *userdata) _must_check_;

/* Removes all groups below fd, not fd's own. -EBUSY: something lives there. */
int tree_remove_below(int fd) _must_check_;

/* ---- the group and all below it -------------------------------------------------------------- */

/* How long a signal waits for the group to stand still before it goes out all the same. A process
 * that sleeps deep in the kernel (a dead NFS server) stops no sooner than it comes out. */
#define GROUP_SIGNAL_FREEZE_MS 250

/* How long it waits, both times together, for a process that only lacks a processor: one in the
 * middle of a fork would leave a child that got nothing. */
#define GROUP_SIGNAL_STARVED_MS 15000

/* How long it then waits, once more, for what the signal made to move on. */
#define GROUP_SIGNAL_SETTLE_MS 750

/* How long one poll of a suspension takes; the host polls again. */
#define GROUP_SUSPEND_FREEZE_MS 250

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

/* ---- usage ----------------------------------------------------------------------------------- */

/* The usage of a cgroup and all below it, past groups too: from the files that the kernel shows
 * in it. A file that is not there (its controller is not enabled here, the kernel is older, PSI is
 * off) leaves its values without a source.
 *
 * All files but one count what was removed below: cpu.stat, memory.* and io.stat add a group's
 * numbers to those above it before it goes. pids.events did not before Linux 6.11: it counts a
 * refused fork in the group of the process that forked, and nowhere else. There the sum over the
 * tree is taken, and group_get_refused() has what goes with a group that is about to be removed.
 *
 * io.stat is summed over all devices, as systemd does it: what passes through a stacked device
 * (LVM, md) is counted there and in the disk below. */

/* The usage of the group at fd; its processes are those at members_fd, the same or a part of it.
 * -ESRCH: the group is gone. */
int group_read_usage(int fd, int members_fd, stepd_usage_t *ret_usage) _must_check_;

/* Whether the kernel is one of those. */
bool group_forgets_refused(int fd);

/* Forks that pids.max refused in the group and below it. */
uint64_t group_get_refused(int fd);

/* Takes from a file's text what is counted there. */
void group_parse_usage(const char *file, const char *text, stepd_usage_t *usage);

#endif
