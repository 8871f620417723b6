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
#ifndef STEPD_AGENT_LAUNCHER_H
#define STEPD_AGENT_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

#include "stepd/base/err.h"

struct launch;

/* Whether the tasks of this launch, which is open, can be made so, and are enough to be worth it.
 */
bool launcher_is_of_use(const struct launch *l);

/* As launch_fork_all(). */
int launcher_run(struct launch *l, pid_t *pids, struct err *err) _must_check_;

#endif
