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

/* The entry of a node's task in a list such as "0,1*3,0x5", which begins again behind its end;
 * NULL: there is none. */
const char *bind_find_entry(const char *list, uint32_t task);

/* The processors of the node's task of that number, in *cpus, which are to be cleared. 1; 0: it is
 * not bound; -EOPNOTSUPP: they are those of its rank, or of NUMA nodes; -ENOMEM; -EINVAL. */
struct bitset;
int bind_find_cpus(
	const struct slurm_launch *launch, uint32_t task, struct bitset *cpus) _must_check_;

/* The word for a verbose binding's line, "MASK"; NULL: none is wanted. */
const char *bind_cpu_kind(const struct slurm_launch *launch);
const char *bind_mem_kind(const struct slurm_launch *launch);

#endif
