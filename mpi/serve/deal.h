/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which node a spawn's tasks go to: evenly, so that nodes which have more already get less.
 */
#ifndef MPI_SERVE_DEAL_H
#define MPI_SERVE_DEAL_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

/* Tasks of one command on one node. Their ranks among the spawn's follow one another, and those of
 * the block before. */
struct deal_block {
	uint32_t node;
	uint32_t command;
	uint32_t count;
};

struct deal {
	struct deal_block *blocks;
	size_t count;
};

/* Deals count tasks of a command out to these nodes (at least one, none twice), in their order.
 * load: of all nodes of the step, how many tasks each has; what is dealt is added. 0 or -ENOMEM. */
int deal_add(struct deal *deal, uint32_t command, uint32_t count, const uint32_t *nodes,
	size_t nodes_count, uint32_t *load) _must_check_;

/* Takes it out of the load again. */
void deal_take_back(const struct deal *deal, uint32_t *load);

void deal_clear(struct deal *deal);
#define _cleanup_deal_ _cleanup_(deal_clear)

#endif
