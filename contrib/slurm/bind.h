/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The binding of a launch message as the fields of a spec. With TaskPlugin=task/affinity slurmd has
 * made masks of what the user has asked for, one for each task of the node, in the machine's
 * numbers; only lists and ranks are left as they were given. Without it nothing is bound.
 */
#ifndef SLURM_BIND_H
#define SLURM_BIND_H

#include "contrib/slurm/launch.h"

struct json_t;

enum slurm_cpu_bind {
	SLURM_CPU_VERBOSE = 1u << 0,
	SLURM_CPU_OFF = 1u << 5, /* "none" */
	SLURM_CPU_BY_RANK = 1u << 6,
	SLURM_CPU_BY_MAP = 1u << 7,
	SLURM_CPU_BY_MASK = 1u << 8,
	SLURM_CPU_BY_LDOM_RANK = 1u << 9,
	SLURM_CPU_BY_LDOM_MAP = 1u << 10,
	SLURM_CPU_BY_LDOM_MASK = 1u << 11,
};

enum slurm_mem_bind {
	SLURM_MEM_VERBOSE = 1u << 0,
	SLURM_MEM_OFF = 1u << 1,
	SLURM_MEM_BY_RANK = 1u << 2,
	SLURM_MEM_BY_MAP = 1u << 3,
	SLURM_MEM_BY_MASK = 1u << 4,
	SLURM_MEM_TO_LOCAL = 1u << 5,
	SLURM_MEM_SORT = 1u << 6, /* an agent does not */
	SLURM_MEM_PREFER = 1u << 7,
};

/* Whether an agent can do what the message has. */
bool bind_is_served(const struct slurm_launch *launch);

/* Adds cpu_bind and mem_bind, if there is something to be bound. What is verbose is not reported by
 * the agent, whose lines are others. 0 or -ENOMEM. */
int bind_set(struct json_t *doc, const struct slurm_launch *launch) _must_check_;

/* The word for a verbose binding's line, "MASK"; NULL: none is wanted. */
const char *bind_cpu_kind(const struct slurm_launch *launch);
const char *bind_mem_kind(const struct slurm_launch *launch);

#endif
