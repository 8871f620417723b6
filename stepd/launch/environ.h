/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' environment: what the spec gives, plus the SLURM_* variables of a step, with the
 * names and meaning that Slurm gives them. What all tasks of an environment share is made before
 * the first fork; SLURM_PROCID, SLURM_LOCALID and SLURM_TASK_PID are filled in by the child.
 */
#ifndef STEPD_LAUNCH_ENVIRON_H
#define STEPD_LAUNCH_ENVIRON_H

#include "stepd/api/step.h"
#include "stepd/base/err.h"
#include "stepd/base/strv.h"

struct binding;
struct identity;
struct spec;

/* The variables that are the same for every task of a program: spec's own, then extra's (may be
 * NULL), then the SLURM_* ones, which nothing overrides. mpi_type is SLURM_MPI_TYPE's value, or
 * NULL to remove it. With spec's env_complete there are no SLURM_* ones. */
int environ_make_common(const struct spec *spec, const struct strv *extra,
	const stepd_step_rec_t *job, const struct identity *id, const char *mpi_type,
	struct strv *ret_env, struct err *err) _must_check_;

/* The same for tasks that join the step by a spawn of size tasks: base, the step's own, then
 * extra's, then the spawn's SLURM_* ones. ranks: the ranks in the spawn of its tasks on this
 * node, count of them. Variables of base about the layout and binding of the step's first tasks
 * are left out. */
int environ_make_joined(const struct strv *base, const struct strv *extra, uint32_t size,
	const uint32_t *ranks, uint32_t count, struct strv *ret_env) _must_check_;

/* Sets the variables about the tasks' binding. Those of another step, which came with the
 * environment, are removed. */
int environ_set_binding(
	const struct spec *spec, const struct binding *binding, struct strv *env) _must_check_;

/* Space for one task's vector over any of the prepared environments. */
struct environ_task {
	char **v; /* NULL-terminated; from malloc(), for the MPI hook */
	size_t capacity;
	char procid[32];
	char localid[32];
	char task_pid[32];
};

int environ_task_reserve(struct environ_task *task, size_t vars) _must_check_;

/* Makes task->v from base. Makes no allocation. The pid is 0 where the task is not forked yet. */
void environ_task_fill(struct environ_task *task, const struct strv *base, uint32_t rank,
	uint32_t local_id, pid_t pid);

/* In the child, where task->v was made before its fork. */
void environ_task_set_pid(struct environ_task *task, pid_t pid);

void environ_task_clear(struct environ_task *task);

#endif
