/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reading cgroupfs: its files, the list of processes of a group, and a walk over a group and all
 * groups below it.
 */
#ifndef STEPD_PROCTRACK_CGROUP_CGROUPFS_H
#define STEPD_PROCTRACK_CGROUP_CGROUPFS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

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

#endif
