/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process table, as trackers without a cgroup need it: a list of processes with parents,
 * groups and start times, read from /proc in one pass, and a signal to a set that keeps growing.
 *
 * A pass over /proc is not a snapshot: a process forked behind the reader's back can be missed.
 * An operation on the list therefore repeats until nothing new appears (procs_signal()).
 */
#ifndef PROCTRACK_PROCS_H
#define PROCTRACK_PROCS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

struct proc {
	pid_t pid;
	pid_t ppid;
	pid_t pgrp;
	bool living;          /* procstat_is_living(): no zombie */
	bool member;          /* for the owner of the list to mark */
	uint64_t start_ticks; /* with pid: the identity */
};

struct procs {
	struct proc *v; /* ascending by pid */
	size_t n;
};

/* All processes of this /proc, zombies too. 0 or -errno. */
int procs_read(struct procs *ret_procs) _must_check_;

/* Reads those of these pids that exist. 0 or -errno. */
int procs_read_some(const pid_t *pids, size_t n, struct procs *ret_procs) _must_check_;

/* For qsort(3) and bsearch(3): pids, or structs that begin with one. */
int procs_compare_pids(const void *a, const void *b);

struct proc *procs_get(const struct procs *procs, pid_t pid); /* NULL: not there */
void procs_clear(struct procs *procs);
#define _cleanup_procs_ _cleanup_(procs_clear)

/* Marks in procs, which is fresh from procs_read(), the members of a container. 0 or -errno. */
typedef int (*procs_mark_fn)(struct procs *procs, void *userdata);

/* Lists living members (zombies left out) as <stepd/proctrack.h> wants it of get_pids. */
int procs_list(procs_mark_fn mark, void *userdata, pid_t **ret_pids, int *ret_count) _must_check_;

/* Sends signal once to every living member, through a pidfd and only if the start time is the
 * one seen, and repeats the pass until nothing new appears (64 times at most: a chain of forks
 * that outlives the signal has no end). 0 tests. -ESRCH: there was none. -EPERM: there were, and
 * none may be signalled by us; any other failure to reach one is returned after all passes. */
int procs_signal(procs_mark_fn mark, void *userdata, int signal) _must_check_;

/* The same for a backend that knows its members by more than the process table: fill reads the
 * processes that are to be signalled, and marks them. */
typedef int (*procs_fill_fn)(struct procs *ret_procs, void *userdata);
int procs_signal_filled(procs_fill_fn fill, void *userdata, int signal) _must_check_;

#endif
