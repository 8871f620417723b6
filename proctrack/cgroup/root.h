/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where in the cgroup2 tree the steps of this machine hang. In this order:
 *   1. the directory that is configured ($STEPD_CGROUP_ROOT);
 *   2. a delegated group: this process's own or, if it is in a leaf of one, the group above;
 *   3. a transient scope that systemd, where it is the init, makes for the step
 * (systemd/systemd.h);
 *   4. a user's own group, though it is a unit of the user's systemd that may not be delegated;
 *   5. the top of the cgroup2 mount.
 * A scope is made only by a process that creates a step. All others read the root from the
 * registry, and have it as the configured one.
 */
#ifndef STEPD_PROCTRACK_CGROUP_ROOT_H
#define STEPD_PROCTRACK_CGROUP_ROOT_H

#include <stdbool.h>
#include <sys/types.h>

#include "stepd/api/proctrack.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

/* ---- mounts ---------------------------------------------------------------------------------- */

/* Where cgroup2 is mounted, and how a cgroup's path in /proc/PID/cgroup becomes a path below such
 * a mount. Both /proc/PID/cgroup and the root field of /proc/self/mountinfo count from the root of
 * the reader's cgroup namespace; what lies outside of it begins with "/..". So neither text is a
 * path of the file system by itself, least of all in a container or below a bind mount. */

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

/* The mount at a usual place alone, if it shows the whole hierarchy to a process of the machine's
 * first namespace of cgroups: other mounts show the same groups, and mountinfo is long to read on
 * nodes with many of them. Else the same as cgmounts_read(). */
int cgmounts_find(struct cgmounts *ret_mounts) _must_check_;

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

/* ---- the root -------------------------------------------------------------------------------- */

#define ROOT_ENV STEPD_CGROUP_ROOT_ENV

enum root_origin {
	ROOT_CONFIGURED,
	ROOT_DELEGATED,
	ROOT_SCOPE,
	ROOT_OWN,
	ROOT_TOP,
	ROOT_ORIGIN_MAX,
};

/* The outcome of a candidate. */
enum root_outcome {
	ROOT_PASSED_OVER, /* another was taken before it */
	ROOT_REFUSED,     /* it is not to be had here */
	ROOT_FAILED,      /* it should be to be had, and is not: worth a warning */
	ROOT_OFFERED,     /* a step that starts here would request it first */
	ROOT_TAKEN,
};

struct root_trial {
	enum root_outcome outcome;
	char why[ERR_TEXT_SIZE];
};

enum root_scope {
	ROOT_SCOPE_AUTO,
	ROOT_SCOPE_YES, /* it or nothing */
	ROOT_SCOPE_NO,
	ROOT_SCOPE_MAX,
};

struct cgroup_root {
	char *configured; /* NULL: nothing was */
	enum root_origin origin;
	struct root_trial trial[ROOT_ORIGIN_MAX];
	uint64_t scope_took_ms; /* that systemd took to start the scope; 0: none was started */
	struct cgmount mount;
	char *ns_root; /* for cgpath_map(); NULL where not needed or not known */
	char *below;   /* relative to the mount point, "" for the top */
	char *path;    /* of the root, absolute */
	int fd;        /* its directory */
};

struct root_request {
	const char *configured; /* NULL and "": nothing */
	enum root_scope scope;
	const stepd_step_rec_t *job; /* NULL: a query, no scope is requested */
};

/* Finds the root. With a job this process may be in another cgroup afterwards, the scope's, also
 * where that failed. -EINVAL: what is configured is not absolute, or a scope is wanted as well.
 * -EMEDIUMTYPE: it is no directory of cgroup2. -ENODEV: no cgroup2 is mounted here. Others: no
 * scope, where it was insisted on. */
int root_open_for(const struct root_request *request, struct cgroup_root **ret_root,
	struct err *err) _must_check_;

/* The same as a query. */
int root_open(const char *configured, struct cgroup_root **ret_root, struct err *err) _must_check_;

struct cgroup_root *root_close(struct cgroup_root *root);
DEFINE_CLEANUP(struct cgroup_root *, root_close);
#define _cleanup_cgroup_root_ _cleanup_(root_close_p)

/* Why this root, for a person. */
const char *root_get_reason(const struct cgroup_root *root);

/* The outcome of each candidate, and why: one sentence without its full stop. ret_outcome may be
 * NULL. The text lives as long as the root. */
const char *root_explain(
	const struct cgroup_root *root, enum root_origin origin, enum root_outcome *ret_outcome);

/* Lets a root, open at root_fd, hand controllers down: a group that hands them down may hold no
 * process itself. If this process is in it, it moves into OWN_LEAF below, for good (after a pause
 * that takes some 8 ms); that group stays when the process ends, empty, for the next one. -EBUSY:
 * other processes are in the root, which are not ours to move; err names them, and this one stays.
 * Nothing to do, and 0, at the real root of the hierarchy. */
int root_leave(int root_fd, struct err *err) _must_check_;

/* A cgroup's path as /proc/PID/cgroup has it, relative to the root. -ENOENT: it is not below. */
int root_map(const struct cgroup_root *root, const char *cgroup_path, char **ret_path) _must_check_;

/* ---- this process's own group ---------------------------------------------------------------- */

/* Whether a group that this process is in may become the root of its steps. systemd marks what it
 * delegates by the extended attribute trusted.delegate or user.delegate of the unit's group; to a
 * user, a group is given by making it theirs. But what is a user's may be managed by the user's own
 * systemd, which marks nothing (252): whether it gave that group away is not known.
 *
 * Groups are named as /proc/PID/cgroup has them. */

/* Below a delegated group, where agents go when its controllers are to be used. */
#define OWN_LEAF "stepd-agents"

/* The group above, if own may be a leaf that somebody made in a delegated group, so that the one
 * above is meant: the caller's to free. -ENOENT: own is a unit of systemd, or has none above. */
int own_get_above(const char *own, char **ret_above) _must_check_;

/* Whether own is OWN_LEAF: its maker had the group above. */
bool own_is_our_leaf(const char *own);

/* Whether own is a step's, or below one. */
bool own_is_in_step(const char *own);

#endif
