/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A walk over a cgroup and all groups below it, as hostile as tasks may have made them: any depth
 * (no recursion, no long paths), any number, odd names, and groups that come and go meanwhile. One
 * descriptor is held on the way down, two at a leaf.
 */
#ifndef PROCTRACK_CGROUP_TREE_H
#define PROCTRACK_CGROUP_TREE_H

#include "stepd/base/cleanup.h"

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
