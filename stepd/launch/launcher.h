/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The launcher: a short-lived copy of the agent that makes the tasks' processes with its memory
 * shared (CLONE_VM) instead of copied once more for each, and gives them to the agent as the
 * agent's own children (CLONE_PARENT). Copying memory is most of what a launch of many tasks costs:
 * doc/decisions.md, 2.
 *
 * It is a process of its own so that the agent never shares memory with one that has the user's
 * uid: the OOM killer, say, ends all processes that share its victim's memory.
 */
#ifndef STEPD_LAUNCH_LAUNCHER_H
#define STEPD_LAUNCH_LAUNCHER_H

#include <sys/types.h>

#include "stepd/base/err.h"

struct launch;

/* Forks all tasks of an open launch into the container: by the launcher where that can be done and
 * they are enough to be worth it, else each as a copy of the agent. pids has a 0 for each task;
 * those that were made are filled in, from the first on, on failure as well. */
int launcher_fork_all(struct launch *l, pid_t *pids, struct err *err) _must_check_;

#endif
