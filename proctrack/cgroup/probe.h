/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The abilities of cgroups here, found by trials: births into a group, a group to try things
 * in, and whether steps can be tracked below a root.
 */
#ifndef PROCTRACK_CGROUP_PROBE_H
#define PROCTRACK_CGROUP_PROBE_H

#include <signal.h>
#include <stdbool.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct cgroup_root;
struct reporter;

/* ---- births ---------------------------------------------------------------------------------- */

/* Lets a child that does nothing be born in the cgroup at fd, and takes its end: no SIGCHLD, and
 * no wait() of the caller sees it. 0; -EOPNOTSUPP: not here, fork and write cgroup.procs instead;
 * another -errno: it could not be tried (no memory, too many processes). */
int clone_try(int fd) _must_check_;

/* ---- a group to try things in ---------------------------------------------------------------- */

/* A group to try things out on, stepd-checkup-PID right below the root of the steps. It never has a
 * process for longer than a birth takes. One that was left by a process killed meanwhile is known
 * by its name and by the lock that nobody holds any more, and is removed by the next. */

struct trial {
	int parent_fd; /* borrowed */
	int fd;
	char name[40];
	sigset_t signals; /* of the caller, blocked meanwhile */
};

/* Signals wait until trial_close(), so that an interrupt leaves nothing behind. */
int trial_open(int parent_fd, struct trial *ret_trial) _must_check_;
void trial_close(struct trial *trial);
#define _cleanup_trial_ _cleanup_(trial_close)
#define TRIAL_INIT                                                                                 \
	{                                                                                          \
		.parent_fd = -1, .fd = -1                                                          \
	}

/* ---- the root -------------------------------------------------------------------------------- */

/* Whether steps can be tracked below a root, found out by making a group there, and one line of
 * what is to be had. */

/* The abilities of a group of this kernel. */
struct probe_abilities {
	bool kill;
	bool freeze;
	bool made; /* the group that was tried stands, for probe_forget() */
};

/* Makes a group at the root, if it isn't there. 0, or -errno with the reason in err and, apart
 * from it, what to do: a text that lives for ever. */
int probe_try(const struct cgroup_root *root, struct probe_abilities *ret_abilities,
	const char **ret_remedy, struct err *err) _must_check_;

/* Removes the group again, unless it is used by now. */
void probe_forget(const struct cgroup_root *root);

/* 0 with the line in text, or -errno with the reason and the remedy in err. *ret_made: a group was
 * made there, for probe_forget(). */
int probe_root(const struct cgroup_root *root, char *text, size_t size, bool *ret_made,
	struct err *err) _must_check_;

/* ---- checkup.c ------------------------------------------------------------------------------- */

/* plugin_checkup(): where steps would hang and why there, what a group can do (tried out on a trial
 * group), and which limits can be set. root is NULL where root_open() failed, by the reason in err.
 */
void checkup_cgroup(
	const struct reporter *reporter, const struct cgroup_root *root, const struct err *err);

#endif
