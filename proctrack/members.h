/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whose task a member is, and signals to a part of a container: what the host does by the line of
 * parents in /proc where a backend does not know them.
 *
 * A line is broken where a process on it has ended: its children are the agent's from then on, and
 * belong to no task, unless they were seen before, in the same signal. So a backend that knows
 * tasks by more than descent is queried first, and this is for the rest.
 */
#ifndef PROCTRACK_MEMBERS_H
#define PROCTRACK_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/api/proctrack.h"
#include "stepd/base/cleanup.h"

/* A process known for certain, and the rank of all that descend from it. */
struct member_seed {
	pid_t pid;
	uint64_t start_ticks; /* 0: not known; it has not been reaped */
	uint32_t rank;
};

/* The first processes of tasks that have one: the caller's to free. */
int members_get_leaders(const stepd_step_task_info_t *tasks, size_t n_tasks,
	struct member_seed **ret_seeds, size_t *ret_count) _must_check_;

/* Takes away ranks that are none of the tasks': what a group is called must not make one up. */
int members_check_ranks(stepd_member_t *members, int n, const stepd_step_task_info_t *tasks,
	size_t n_tasks) _must_check_;

/* Gives each member without a rank that of the nearest process in its line of parents, itself
 * included, that is a seed or a member with one. Sorts seeds, and members by pid. */
int members_rank(
	stepd_member_t *members, int n, struct member_seed *seeds, size_t n_seeds) _must_check_;

/* The processes to be signalled. The caller sets the first group, and clears it all. */
struct members_target {
	/* All members, with the ranks that the backend knows of the step's tasks, or -errno. */
	int (*list)(void *ctx, uint64_t id, stepd_member_t **ret_members, int *ret_count);
	void *ctx;
	uint64_t id;
	uint32_t rank;            /* those of this rank, by the backend and below the seeds */
	struct member_seed *seed; /* members of rank to begin with; grows by those that are met */
	size_t n_seeds, seed_capacity;
	bool unranked_only;    /* not those whose rank the backend knows */
	bool descendants_only; /* the backend's ranks do not matter */
};

void members_target_clear(struct members_target *target);
#define _cleanup_members_target_ _cleanup_(members_target_clear)

/* Adds those that are there now to the seeds, so that the signal reaches them though what they
 * descend from ends meanwhile. The number of members that are to be signalled, or -errno. */
int members_find(struct members_target *target) _must_check_;

/* As procs_signal(). A signal that ends a process while it forks can miss the child, whose line it
 * breaks. They are not stopped before a SIGKILL: where an end orphans a process group with stopped
 * members, the kernel sends SIGHUP to all of that group, others' processes too. */
int members_signal(struct members_target *target, int signal) _must_check_;

#endif
