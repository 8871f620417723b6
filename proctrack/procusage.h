/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The usage of processes, from /proc/PID/stat, status and io: the sum over those that live, with
 * the children that they have waited for. What is gone and was waited for by another is not there:
 * a sum can become smaller.
 *
 * Resident memory counts pages that processes share for each of them. Peak memory is that of the
 * largest process. /proc/PID/io is readable only for a process that may trace that one: where one
 * of them can't be read, the sum has no such value.
 */
#ifndef PROCTRACK_PROCUSAGE_H
#define PROCTRACK_PROCUSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

struct procusage_process {
	pid_t pid, ppid;
	stepd_usage_t usage;
};

struct procusage {
	struct procusage_process *v; /* ascending by pid */
	size_t n;
};

/* Looks at each of pids; those that are gone are left out. 0 or -errno. */
int procusage_read(const pid_t *pids, int n, struct procusage *ret_processes) _must_check_;
void procusage_clear(struct procusage *processes);
#define _cleanup_procusage_ _cleanup_(procusage_clear)

/* Whether /proc can have it at all. */
bool procusage_has(enum stepd_usage_value which);

/* Over all; of none, there are no processes and no memory, and of the rest nobody knows. */
void procusage_sum(const struct procusage *processes, stepd_usage_t *ret_usage);

/* For each of n tasks that has a pid: over its first process and what the line of parents leads
 * back to it. What has detached itself from its parents is in no task. ret_usage has n elements;
 * those of tasks without a pid, or without a process, have no value. 0 or -ENOMEM. */
int procusage_sum_tasks(const struct procusage *processes, const stepd_step_task_info_t *tasks,
	size_t n, stepd_usage_t *ret_usage) _must_check_;

/* Fills the gaps of usage with what other knows. */
void procusage_fill(stepd_usage_t *usage, const stepd_usage_t *other);

#endif
