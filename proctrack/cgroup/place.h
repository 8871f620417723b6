/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where in the cgroup2 tree the steps of this machine hang. In this order:
 *   1. the directory that was asked for ($STEPD_CGROUP_ROOT);
 *   2. a delegated group: this process's own or, if it is in a leaf of one, the group above, own.h;
 *   3. a transient scope that systemd, where it is the init, makes for the step (systemd/scope.h);
 *   4. a user's own group, though it is a unit of the user's systemd that may not be delegated;
 *   5. the top of the cgroup2 mount.
 * A scope is made only for who creates a step. All others learn from the registry where it hangs,
 * and ask for that.
 */
#ifndef PROCTRACK_CGROUP_PLACE_H
#define PROCTRACK_CGROUP_PLACE_H

#include <sys/types.h>

#include "proctrack/cgroup/mounts.h"
#include "stepd/api/proctrack.h"
#include "stepd/base/err.h"

#define PLACE_ENV STEPD_CGROUP_ROOT_ENV

enum place_origin {
	PLACE_ASKED,
	PLACE_DELEGATED,
	PLACE_SCOPE,
	PLACE_OWN,
	PLACE_TOP,
	PLACE_ORIGIN_MAX,
};

/* What became of a candidate. */
enum place_outcome {
	PLACE_PASSED_OVER, /* another was taken before it */
	PLACE_REFUSED,     /* it is not to be had here */
	PLACE_FAILED,      /* it should be to be had, and is not: worth a warning */
	PLACE_OFFERED,     /* a step that starts here would ask for it first */
	PLACE_TAKEN,
};

struct place_trial {
	enum place_outcome outcome;
	char why[ERR_TEXT_SIZE];
};

enum place_scope {
	PLACE_SCOPE_AUTO,
	PLACE_SCOPE_YES, /* it or nothing */
	PLACE_SCOPE_NO,
	PLACE_SCOPE_MAX,
};

struct place {
	char *asked; /* NULL: nothing was */
	enum place_origin origin;
	struct place_trial trial[PLACE_ORIGIN_MAX];
	uint64_t scope_took_ms; /* that systemd took to start the scope; 0: none was started */
	struct cgmount mount;
	char *ns_root; /* for cgpath_map(); NULL where not needed or not known */
	char *root;    /* relative to the mount point, "" for the top */
	char *path;    /* of the root, absolute */
	int fd;        /* its directory */
};

struct place_request {
	const char *asked; /* NULL and "": nothing */
	enum place_scope scope;
	const stepd_step_rec_t *job; /* NULL: only to look, no scope is asked for */
};

/* Finds the place. With a job this process may be in another cgroup afterwards, the scope's, also
 * where that failed. -EINVAL: asked is not absolute, or a scope is asked for as well. -EMEDIUMTYPE:
 * it is no directory of cgroup2. -ENODEV: no cgroup2 is mounted here. Others: no scope, where it
 * was insisted on. */
int place_open_for(const struct place_request *request, struct place **ret_place,
	struct err *err) _must_check_;

/* The same only to look. */
int place_open(const char *asked, struct place **ret_place, struct err *err) _must_check_;

struct place *place_close(struct place *place);
DEFINE_CLEANUP(struct place *, place_close);
#define _cleanup_place_ _cleanup_(place_close_p)

/* Why this root, for a person: "asked for by ...". */
const char *place_get_reason(const struct place *place);

/* What became of each candidate, and why: one sentence without its full stop. ret_outcome may be
 * NULL. The text lives as long as the place. */
const char *place_explain(
	const struct place *place, enum place_origin origin, enum place_outcome *ret_outcome);

/* "asked", "delegated", "scope", "own", "top" */
const char *place_origin_word(enum place_origin origin);

/* Makes room for controllers at a root, open at fd: a group that hands them down may hold no
 * process itself. If this process is in it, it moves into OWN_LEAF below, for good (after a pause
 * that takes some 8 ms); that group stays when the process ends, empty, for the next one. -EBUSY:
 * other processes are in the root, which are not ours to move; err names them, and this one stays.
 * Nothing to do, and 0, at the real root of the hierarchy. */
int place_leave_root(int root_fd, struct err *err) _must_check_;

/* A cgroup's path as /proc/PID/cgroup has it, relative to the root. -ENOENT: it is not below. */
int place_map(const struct place *place, const char *cgroup_path, char **ret_path) _must_check_;

#endif
