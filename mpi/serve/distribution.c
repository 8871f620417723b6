/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/serve/distribution.h"

#include <assert.h>

/* How many it takes until each of the nodes has level, if it has not more. */
static uint64_t fill(
	const uint32_t *nodes, size_t nodes_count, const uint32_t *load, uint64_t level)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < nodes_count; i++)
		sum += load[nodes[i]] < level ? level - load[nodes[i]] : 0;
	return sum;
}

/* The highest level that count of them reach. */
static uint64_t find_level(
	const uint32_t *nodes, size_t nodes_count, const uint32_t *load, uint32_t count)
{
	uint64_t low = 0, high = (uint64_t)UINT32_MAX + count + 1, mid;

	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (fill(nodes, nodes_count, load, mid) <= count)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static int add_block(
	struct distribution *distribution, uint32_t node, uint32_t command, uint32_t count)
{
	struct share *grown =
		realloc(distribution->blocks, (distribution->count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	distribution->blocks = grown;
	grown[distribution->count++] =
		(struct share){.node = node, .command = command, .count = count};
	return 0;
}

int distribution_add(struct distribution *distribution, uint32_t command, uint32_t count,
	const uint32_t *nodes, size_t nodes_count, uint32_t *load)
{
	uint64_t level = find_level(nodes, nodes_count, load, count);
	uint64_t rest = count - fill(nodes, nodes_count, load, level);
	uint32_t share;
	size_t i;
	int r = 0;

	assert(nodes_count > 0);
	for (i = 0; r == 0 && i < nodes_count; i++) {
		share = load[nodes[i]] < level ? (uint32_t)(level - load[nodes[i]]) : 0;
		/* fewer are left than there are nodes at the level */
		if (rest > 0 && load[nodes[i]] <= level) {
			share++;
			rest--;
		}
		if (share == 0)
			continue;
		r = add_block(distribution, nodes[i], command, share);
		if (r == 0)
			load[nodes[i]] += share;
	}
	return r;
}

void distribution_take_back(const struct distribution *distribution, uint32_t *load)
{
	size_t i;

	for (i = 0; i < distribution->count; i++)
		load[distribution->blocks[i].node] -= distribution->blocks[i].count;
}

void distribution_clear(struct distribution *distribution)
{
	free(distribution->blocks);
	*distribution = (struct distribution){0};
}
