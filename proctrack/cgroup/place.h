/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where in the cgroup2 tree the steps of this machine hang. In this order:
 *   1. the directory that was asked for ($STEPD_CGROUP_ROOT);
 *   2. this process's own cgroup, if it was delegated: systemd says so by the extended attribute
 *      trusted.delegate or user.delegate, and to a user by giving them the directory;
 *   3. the top of the cgroup2 mount.
 */
#ifndef PROCTRACK_CGROUP_PLACE_H
#define PROCTRACK_CGROUP_PLACE_H

#include <sys/types.h>

#include "proctrack/cgroup/mounts.h"
#include "stepd/base/err.h"

#define PLACE_ENV "STEPD_CGROUP_ROOT"

enum place_origin {
	PLACE_ASKED,
	PLACE_DELEGATED,
	PLACE_TOP,
	PLACE_ORIGIN_MAX,
};

struct place {
	char *asked; /* NULL: nothing was */
	enum place_origin origin;
	struct cgmount mount;
	char *ns_root; /* for cgpath_map(); NULL where not needed or not known */
	char *root;    /* relative to the mount point, "" for the top */
	char *path;    /* of the root, absolute */
	int fd;        /* its directory */
};

/* Finds the place. asked may be NULL; "" is as NULL. -EINVAL: asked is not absolute.
 * -EMEDIUMTYPE: it is no directory of cgroup2. -ENODEV: no cgroup2 is mounted here. */
int place_open(const char *asked, struct place **ret_place, struct err *err) _must_check_;

struct place *place_close(struct place *place);
DEFINE_CLEANUP(struct place *, place_close);
#define _cleanup_place_ _cleanup_(place_close_p)

/* Why this root, for a person: "asked for by ...". */
const char *place_get_reason(const struct place *place);

/* A cgroup's path as /proc/PID/cgroup has it, relative to the root. -ENOENT: it is not below. */
int place_map(const struct place *place, const char *cgroup_path, char **ret_path) _must_check_;

#endif
