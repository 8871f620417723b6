/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Makes one process for a task: clone3(2), of Linux 5.3, or fork(2) where a kernel or a filter has
 * none. No pidfd comes with it: each child would get a copy of all earlier ones, and close it.
 * Until the agent reaps a child its pid is nobody else's.
 */
#ifndef STEPD_LAUNCH_CLONE_H
#define STEPD_LAUNCH_CLONE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

struct clone {
	int cgroup_fd; /* the cgroup to be born in, -1: that of the caller; needs clone3() */
	void *stack;   /* NULL: the child gets a copy of the memory. Else it shares the memory and
			* runs on this stack, of stack_size bytes, both multiples of 16 */
	size_t stack_size;
	bool siblings;      /* the child is the caller's parent's (CLONE_PARENT) */
	bool clone3_absent; /* found out; the caller passes it from one call to the next */
};

/* Calls run(arg) in the child, where it must not return; before that, *cleared is set to whether
 * its signals are reset already. In the parent: 0 and the child's pid, which clone3() writes
 * before the child's first instruction; or -errno, -EOPNOTSUPP where clone3() is needed and
 * missing. */
int clone_child(struct clone *how, void (*run)(void *arg), void *arg, bool *cleared,
	pid_t *ret_pid) _must_check_;

#endif
