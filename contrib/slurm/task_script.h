/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is done in a task's place before its program is executed: the task prologs, and the lines of
 * a verbose binding. An agent executes stepd-slurm-task for the program then (task_program.c).
 */
#ifndef SLURM_TASK_SCRIPT_H
#define SLURM_TASK_SCRIPT_H

#include "contrib/slurm/launch.h"

struct site_conf;
struct strv;

/* The exit status of stepd-slurm-task with an epilog that can't be executed, or is not there. */
#define TASK_SCRIPT_NO_ACCESS 254
#define TASK_SCRIPT_MISSING   253

bool task_script_has_prolog(const struct slurm_launch *launch, const struct site_conf *site);
bool task_script_has_epilog(const struct slurm_launch *launch, const struct site_conf *site);

/* Adds the arguments that stand before those of the task's program; none where nothing is to be
 * done. 0 or -ENOMEM. */
int task_script_add(const struct slurm_launch *launch, const struct site_conf *site,
	const char *node, const char *task_program, struct strv *args) _must_check_;

#endif
