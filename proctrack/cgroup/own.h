/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a group that this process is in may become the root of its steps. systemd marks what it
 * delegates by the extended attribute trusted.delegate or user.delegate of the unit's group; to a
 * user, a group is given by making it theirs. But what is a user's may be managed by the user's own
 * systemd, which marks nothing (252): whether it gave that group away can't be told.
 *
 * Groups are named as /proc/PID/cgroup has them.
 */
#ifndef PROCTRACK_CGROUP_OWN_H
#define PROCTRACK_CGROUP_OWN_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

/* Below a delegated group, where agents go when its controllers are to be used. */
#define OWN_LEAF "stepd-agents"

/* The group above, if own may be a leaf that somebody made in a delegated group, so that the one
 * above is meant: the caller's to free. -ENOENT: own is a unit of systemd, or has none above. */
int own_get_above(const char *own, char **ret_above) _must_check_;

/* Whether own is OWN_LEAF: whoever made it had the group above. */
bool own_is_our_leaf(const char *own);

/* Whether own is a step's, or below one. */
bool own_is_in_step(const char *own);

/* Tests of a group that is open at fd. */
typedef bool (*own_test_fn)(const char *group, int fd);
bool own_is_writable(const char *group, int fd);
bool own_is_writable_by_user(const char *group, int fd); /* and this is not root */
bool own_is_marked(const char *group, int fd);           /* by systemd, and writable */
bool own_is_delegated(const char *group, int fd);        /* marked, or a user's by chown(1) */

#endif
