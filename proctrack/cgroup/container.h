/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The containers that this process made or took over, and what it knows of them that no file tells.
 */
#ifndef PROCTRACK_CGROUP_CONTAINER_H
#define PROCTRACK_CGROUP_CONTAINER_H

#include <stdbool.h>

#include "proctrack/cgroup/step.h"

struct container {
	struct container *next;
	struct step_dir dir;
	bool tried; /* clone_try(), whose answer is: */
	int clone_result;
	_Atomic uint32_t *held; /* shared with the agent's workers, NULL: no memory for it */
	uint64_t refused;       /* usage_get_refused() of groups that are gone */
};

/* NULL: none of that id. */
struct container *container_get(struct container *list, uint64_t id);

/* Keeps dir, which is the container's from then on. 0 or -ENOMEM. */
int container_keep(struct container **list, struct step_dir *dir,
	struct container **ret_container) _must_check_;

void container_drop(struct container **list, uint64_t id);

/* Around what freezes a part of the container for a moment. c may be NULL: nobody is told then. */
void container_hold(struct container *c);
void container_unhold(struct container *c);

/* Whether a process that held a part of it has ended before it let go, for who knows that none is
 * at it now. Says so once. */
bool container_was_left_held(struct container *c);

#endif
