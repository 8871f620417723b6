/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the host does where a backend leaves an optional function out, in terms of the two that
 * every backend has. All return 0 or -errno; -ESRCH: no such container, or no member in it.
 *
 * These know members by pid, from one listing to the next, and so are never sharper than the
 * backend's own list: a process that leaves the container without ending is noticed at the next
 * listing (every half a second in generic_wait()).
 */
#ifndef PROCTRACK_GENERIC_H
#define PROCTRACK_GENERIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/api/proctrack.h"
#include "stepd/base/cleanup.h"

/* proctrack_p_get_pids() and proctrack_p_signal() of <stepd/proctrack.h>, with 0 or -errno. */
struct generic_ops {
	int (*get_pids)(void *ctx, uint64_t id, pid_t **ret_pids, int *ret_count);
	int (*signal)(void *ctx, uint64_t id, int signal);
	void *ctx;
};

/* Waits in poll(2) on pidfds of the members until there are none. timeout_ms < 0: for ever; 0
 * looks once. -ETIMEDOUT: there still are some. A container that goes away meanwhile is empty. */
int generic_wait(const struct generic_ops *ops, uint64_t id, int timeout_ms) _must_check_;

bool generic_has_pid(const struct generic_ops *ops, uint64_t id, pid_t pid);

/* SIGSTOP, until every member is seen stopped (or is gone). -ETIMEDOUT: one was not within two
 * seconds; it and the others are left as they are then. */
int generic_suspend(const struct generic_ops *ops, uint64_t id) _must_check_;

/* SIGCONT. */
int generic_resume(const struct generic_ops *ops, uint64_t id) _must_check_;

/* What /proc tells of the members that live now: procusage_sum(). An empty container is no error.
 */
int generic_usage(
	const struct generic_ops *ops, uint64_t id, stepd_usage_t *ret_usage) _must_check_;

#endif
