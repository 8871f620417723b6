/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The controllers of cgroup v2: which ones the root offers, and switching them on for a step.
 *
 * A group has a controller's files if its parent lists the controller in cgroup.subtree_control,
 * which the parent can only if its own parent does. So a step's files need it in the root, in
 * stepd and in the job's group, and a task's in the step's own as well. What was switched on stays
 * on: other steps may lean on it, and the groups go at the end anyway.
 *
 * The process rule: a group that hands controllers down to groups below holds no processes of its
 * own (the top of the hierarchy may). Nothing of ours does: tasks are in task_<rank>, what is
 * added is in STEP_ADDED (step.h). The root may be another matter, where it was delegated to the
 * agent with the agent in it: see enable_in_root().
 */
#ifndef PROCTRACK_CGROUP_CONTROLLERS_H
#define PROCTRACK_CGROUP_CONTROLLERS_H

#include <limits.h>
#include <stdbool.h>

#include "stepd/base/err.h"

struct step_dir;

enum controller {
	CONTROLLER_CPU = 1u << 0,
	CONTROLLER_CPUSET = 1u << 1,
	CONTROLLER_IO = 1u << 2,
	CONTROLLER_MEMORY = 1u << 3,
	CONTROLLER_PIDS = 1u << 4,
};

#define CONTROLLERS_MAX_TEXT 64 /* the names of all of them, with blanks and a NUL */

/* The controllers that usage counts with. cpu and cpuset change how everything below the root is
 * scheduled: these only where a limit needs them. cpu.stat's times need neither. */
#define CONTROLLERS_ACCOUNTING (CONTROLLER_IO | CONTROLLER_MEMORY | CONTROLLER_PIDS)

/* The set of the names in a text such as cgroup.controllers has; other names are passed over. */
unsigned controllers_parse(const char *text);

/* "memory pids", each name behind prefix ("" or "+"). */
void controllers_format(unsigned set, const char *prefix, char text[CONTROLLERS_MAX_TEXT]);

/* Switches on all of set for the step's group or, for_tasks, for those of its tasks too.
 * -EOPNOTSUPP: not to be had; err has of the first which, where and the remedy. -ESRCH: the
 * step is gone. */
int controllers_enable(const struct step_dir *dir, unsigned set, bool for_tasks, struct err *err);

/* Switches on, for the step and, for_tasks, for its tasks, what is there of CONTROLLERS_ACCOUNTING,
 * and goes without what is not. */
void controllers_enable_accounting(const struct step_dir *dir, bool for_tasks);

/* The same for the tasks below STEP_MEMBERS, once it was done for the step. */
void controllers_enable_members(const struct step_dir *dir);

struct controllers_why {
	char text[640]; /* without a full stop, as the remedy */
	char remedy[256];
};

/* Why the group at root_fd lacks a controller (one bit), and what to do about it. */
void controllers_explain(int root_fd, enum controller which, struct controllers_why *ret_why);

/* The mount of the cgroup v1 hierarchy that has the controller, by its name there. False:
 * nowhere here. */
bool controllers_find_v1(const char *v1_name, char path[PATH_MAX]);

#endif
