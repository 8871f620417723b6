/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where cgroup2 is mounted, and how a cgroup's path in /proc/PID/cgroup becomes a path below such
 * a mount. Both /proc/PID/cgroup and the root field of /proc/self/mountinfo count from the root of
 * the reader's cgroup namespace; what lies outside of it begins with "/..". So neither text is a
 * path of the file system by itself, least of all in a container or below a bind mount.
 */
#ifndef PROCTRACK_CGROUP_MOUNTS_H
#define PROCTRACK_CGROUP_MOUNTS_H

#include <sys/types.h>

#include "stepd/base/cleanup.h"

struct cgmount {
	int id;      /* of the mount, as in fdinfo */
	char *root;  /* which cgroup stands at the mount point */
	char *point; /* absolute path */
};

struct cgmounts {
	struct cgmount *v;
	size_t n, capacity;
};

/* The mounts of type cgroup2 in a text of the form of /proc/PID/mountinfo, proc_pid_mountinfo(5).
 * Changes text. Lines that are not of that form are passed over. 0 or -ENOMEM. */
int cgmounts_parse(char *text, struct cgmounts *ret_mounts) _must_check_;

/* The same from /proc/self/mountinfo. */
int cgmounts_read(struct cgmounts *ret_mounts) _must_check_;

void cgmounts_clear(struct cgmounts *mounts);
#define _cleanup_cgmounts_ _cleanup_(cgmounts_clear)

/* The part of path below base, without a slash in front, "" for base itself; NULL if path is
 * elsewhere. Points into path. */
const char *cgpath_below(const char *base, const char *path);

/* The cgroup2 path of a process (0: this one) from /proc/PID/cgroup, the caller's to free. -ESRCH:
 * no such process. -ENODATA: it has none, the kernel is without cgroup2. */
int cgpath_of(pid_t pid, char **ret_path) _must_check_;

/* The cgroup called path, as seen below a mount whose root is mount_root: relative to the mount
 * point, "" for the mount point itself. -ENOENT: it isn't below that mount. -ENODATA: it is, but
 * its name depends on where below the mount this cgroup namespace begins, and ns_root, which is
 * so (relative to the mount point), is NULL. */
int cgpath_map(const char *mount_root, const char *ns_root, const char *path,
	char **ret_path) _must_check_;

/* Finds ns_root for cgpath_map(), by finding the cgroup that lists this process. own_path is
 * cgpath_of(0). -ENOENT: not found. */
int cgpath_find_ns_root(
	int mount_fd, const char *mount_root, const char *own_path, char **ret_ns_root);

#endif
