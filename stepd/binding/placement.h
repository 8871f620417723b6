/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which CPUs each task is bound to, computed from the machine's topology.
 *
 * Tasks take CPUs in turn, each as many as it needs: single ones for "threads", else whole cores,
 * so that no two tasks share one. A task's CPUs lie in one domain (a socket, or a NUMA node for
 * "ldoms") if one has enough of them. Each set is then widened to what it is to be bound to: the
 * cores, sockets or NUMA nodes that it touches. If there are more tasks than sets, they share
 * evenly: with block, neighbours; else the tasks begin again with the first set.
 */
#ifndef STEPD_BINDING_PLACEMENT_H
#define STEPD_BINDING_PLACEMENT_H

#include "stepd/base/bitset.h"
#include "stepd/binding/topology.h"

enum placement_level {
	PLACEMENT_THREADS,
	PLACEMENT_CORES,
	PLACEMENT_SOCKETS,
	PLACEMENT_LDOMS,
	PLACEMENT_LEVEL_MAX,
};

struct placement {
	enum placement_level level;
	uint32_t ntasks;
	uint32_t cpus_per_task; /* at most the machine's */
	uint32_t plane;         /* tasks in turn to a domain, 0: as many as it takes */
};

/* The machine has only what may be used. Makes one set for each task, or as many as there are
 * CPUs for; -ENOMEM is the only failure. */
int placement_make(const struct topology *machine, const struct placement *request,
	struct bitset_table *ret_sets) _must_check_;

/* Which of count sets is task i's. */
uint32_t placement_set_of(const struct placement *request, size_t count, uint32_t task);

#endif
