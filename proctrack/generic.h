/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The host's fallbacks for optional functions that a backend leaves out, in terms of the two that
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
 * polls once. -ETIMEDOUT: there still are some. A container that goes away meanwhile is empty. */
int generic_wait(const struct generic_ops *ops, uint64_t id, int timeout_ms) _must_check_;

bool generic_has_pid(const struct generic_ops *ops, uint64_t id, pid_t pid);

/* The processes stopped already when a suspension began, which its end must not continue. It lies
 * in memory that the agent shares with its workers: a worker suspends, a later one resumes. */
#define GENERIC_STOPPED_MAX 65536

struct generic_stopped_process {
	pid_t pid;
	uint64_t start_ticks;
};

struct generic_stopped {
	bool owned;  /* all suspensions of the container are begun by the holder of this */
	bool active; /* one has begun and was not taken back */
	uint32_t n;
	struct generic_stopped_process v[GENERIC_STOPPED_MAX]; /* ascending by pid */
};

struct generic_stopped *generic_stopped_new(void);
struct generic_stopped *generic_stopped_free(struct generic_stopped *stopped);

/* SIGSTOP, until every member is seen stopped (or is gone). -ETIMEDOUT: one was not within
 * timeout_ms; it and the others are left as they are then, for generic_resume(). -E2BIG: more
 * members were stopped before than can be remembered; nothing was done. */
int generic_suspend(const struct generic_ops *ops, uint64_t id, int timeout_ms,
	struct generic_stopped *stopped) _must_check_;

/* SIGCONT to all but those. Where it is known that nothing was suspended, to none. */
int generic_resume(
	const struct generic_ops *ops, uint64_t id, struct generic_stopped *stopped) _must_check_;

/* By the members' states: *ret_suspended is true if all stand still and at least one was stopped by
 * a signal, by whomever. -EAGAIN: some are stopped, and others are not. -ESRCH: there is none. */
int generic_is_suspended(
	const struct generic_ops *ops, uint64_t id, bool *ret_suspended) _must_check_;

/* States of a thread, as in struct procstat, in which a member stands still: stopped, traced,
 * ended; and where the kernel's freezer stops them, asleep. */
#define GENERIC_STOPPED_STATES "TtZXx"
#define GENERIC_FROZEN_STATES  "TtZXxSI"

/* The first thread of the process that is in none of states; 0: there is none, or all are gone. */
pid_t generic_find_moving(pid_t pid, const char *states);

/* Names the members that are in none of states, some of them at most, each by pid, command, state
 * and the kernel function it waits in; "" if there is none. */
void generic_describe_moving(
	const struct generic_ops *ops, uint64_t id, const char *states, char *text, size_t size);

/* The usage of the living members, from /proc: procusage_sum(). An empty container is no error.
 */
int generic_usage(
	const struct generic_ops *ops, uint64_t id, stepd_usage_t *ret_usage) _must_check_;

#endif
