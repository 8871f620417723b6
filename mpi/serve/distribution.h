/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which node a spawn's tasks go to: evenly, so that nodes which have more already get less.
 */
#ifndef MPI_SERVE_DISTRIBUTION_H
#define MPI_SERVE_DISTRIBUTION_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

/* Tasks of one command on one node. Their ranks among the spawn's follow one another, and those of
 * the block before. */
struct share {
	uint32_t node;
	uint32_t command;
	uint32_t count;
};

struct distribution {
	struct share *blocks;
	size_t count;
};

/* Deals count tasks of a command out to these nodes (at least one, none twice), in their order.
 * load: of all nodes of the step, how many tasks each has; what is distributed is added. 0 or
 * -ENOMEM. */
int distribution_add(struct distribution *distribution, uint32_t command, uint32_t count,
	const uint32_t *nodes, size_t nodes_count, uint32_t *load) _must_check_;

/* Takes it out of the load again. */
void distribution_take_back(const struct distribution *distribution, uint32_t *load);

void distribution_clear(struct distribution *distribution);
#define _cleanup_distribution_ _cleanup_(distribution_clear)

#endif
