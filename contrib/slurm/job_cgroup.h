/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The limit of memory that all steps of a job have together on this node: that of the job's cgroup
 * in slurmd's scope, "job_7", or from 26.05 on the job's SLUID, which is the root of the containers
 * of its served steps, and which slurmstepd has for those that are handed over. Whichever step
 * comes first makes it, each sets its limits, which are the same, and the last one removes it.
 *
 * A step that is served holds it by a group of its own in it, "served_PID", which has no process:
 * another step that ends can't remove it meanwhile. That group is locked, so one that was left by a
 * killed program is found by those that end later.
 */
#ifndef SLURM_JOB_CGROUP_H
#define SLURM_JOB_CGROUP_H

#include "contrib/slurm/step_limits.h"
#include "stepd/base/err.h"

struct job_cgroup;

/* limits->scope is set. */
int job_cgroup_open(const struct step_limits *limits, struct job_cgroup **ret_cgroup,
	struct err *err) _must_check_;

/* As a job of 26.05 may get less while it runs. What was set before a failure stays. */
int job_cgroup_set(const struct job_cgroup *cgroup, const struct step_limits *limits,
	struct err *err) _must_check_;

/* The step's agent runs, and has cleaned up what dead agents left: removes the groups of other jobs
 * that are empty by that. NULL is fine. */
void job_cgroup_sweep(struct job_cgroup *cgroup);

/* The step's container is gone. NULL is fine. Returns NULL. */
struct job_cgroup *job_cgroup_close(struct job_cgroup *cgroup);

#endif
