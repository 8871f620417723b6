/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which of a step's devices each of its tasks has: srun's --gpu-bind, what --gpus-per-task and
 * --ntasks-per-gpu make of it, and --accel-bind. As slurmstepd has it, a binding changes the
 * variables of a step of two or more tasks on the node, from 26.05 on also of one, and which
 * devices they can open where devices are constrained. Devices can be chosen by their Cores in
 * gres.conf and the processors that the task is bound to, which must be known before the task runs:
 * as a list, or for all the same. The rules are those of 22.05.8, and of 24.11.6, which 26.05.3
 * has, too.
 */
#ifndef SLURM_GRES_BIND_H
#define SLURM_GRES_BIND_H

#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"
#include "stepd/base/strv.h"

struct gres_binding;
struct json_t;
struct slurm_init;

/* local: as in gres_set_env(). *ret_binding NULL: each task has what the step has. -EOPNOTSUPP: its
 * tasks' processors are not known; -EBADMSG: the message is not what slurmd sends. init outlives
 * it. */
int gres_binding_new(const struct slurm_init *init, bool local, struct gres_binding **ret_binding,
	struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct gres_binding *gres_binding_free(struct gres_binding *binding);
DEFINE_CLEANUP(struct gres_binding *, gres_binding_free);

/* Removes what tasks have each of their own. 0 or -errno. */
int gres_binding_clear_env(const struct gres_binding *binding, struct json_t *env) _must_check_;

struct gres_task {
	struct json_t *env;     /* variables */
	struct json_t *devices; /* as gres_make_devices() has them; NULL: all */
	struct strv lines;      /* arguments of stepd-slurm-task: what is printed before it runs */
};

void gres_task_clear(struct gres_task *task);
#define _cleanup_gres_task_ _cleanup_(gres_task_clear)

/* Of the node's task of this number, from 0 on; best in their order. 0 or -errno. */
int gres_binding_make_task(
	struct gres_binding *binding, uint32_t number, struct gres_task *ret_task) _must_check_;

#endif
