/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Forks the tasks. Where the backend gives a cgroup to clone into, a task is born inside the
 * container (clone3, CLONE_INTO_CGROUP, Linux 5.7) and no pid is ever migrated; elsewhere it is
 * added after its fork, and always held until then. Held tasks have done all but their exec: one
 * byte on a pipe, which none of them takes out, lets all go at once, and its hang-up ends them.
 */
#ifndef STEPD_AGENT_LAUNCH_H
#define STEPD_AGENT_LAUNCH_H

#include <stdbool.h>

#include "stepd/agent/child.h"
#include "stepd/base/pidref.h"

struct proctrack;
struct stdio;

struct launch {
	struct child_setup setup;
	struct proctrack *pt;
	struct stdio *io;
	pid_t group;        /* the step's process group: its first task's pid; 0 before that */
	int next_clone_fd;  /* of task 0, which was asked for to learn whether there is one */
	bool into;          /* tasks are born in the container */
	bool clone3_absent; /* a kernel before 5.3 or a filter: fork(2) */
	bool released;
	int report_fd;     /* to be read by the agent; non-blocking */
	int hold_write_fd; /* -1 if tasks are not held */
};

#define LAUNCH_INIT                                                                                \
	{                                                                                          \
		.setup = {.report_fd = -1, .hold_fd = -1, .hold_write_fd = -1},                    \
		.next_clone_fd = -1, .report_fd = -1, .hold_write_fd = -1                          \
	}

/* Makes the pipes and finds out how tasks get into the container. l->setup's plan, mpi, nofile,
 * oom_score_adj and traced are the caller's to set before. */
int launch_open(struct launch *l, struct proctrack *pt, struct stdio *io, bool hold,
	struct err *err) _must_check_;

/* Forks the task of this local id into the container: ids in ascending order from 0. */
int launch_fork(
	struct launch *l, uint32_t local_id, struct pidref *ret_ref, struct err *err) _must_check_;

/* All are forked: closes what only children needed, and lets them go. */
int launch_release(struct launch *l, struct err *err) _must_check_;

/* Children that are still held end by themselves. */
void launch_close(struct launch *l);
#define _cleanup_launch_ _cleanup_(launch_close)

#endif
