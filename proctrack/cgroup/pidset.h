/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A sorted set of process ids, and the process list of one cgroup read into it.
 */
#ifndef PROCTRACK_CGROUP_PIDSET_H
#define PROCTRACK_CGROUP_PIDSET_H

#include <stdbool.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

struct pidset {
	pid_t *v; /* ascending, each once, all > 0 */
	size_t n;
	size_t capacity;
};

#define PIDSET_INIT                                                                                \
	{                                                                                          \
		.v = NULL, .n = 0, .capacity = 0                                                   \
	}

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

#endif
