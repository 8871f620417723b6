/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/mapping.h"

#include <string.h>

#include "mpi/pmi/bytes.h"
#include "mpi/pmi2/pmi.h"

struct block {
	uint32_t first, count, each;
};

/* How many ranks from at on are on the same node. */
static uint32_t run_at(const uint32_t *nodes, uint32_t size, uint32_t at)
{
	uint32_t n = 1;

	while (at + n < size && nodes[at + n] == nodes[at])
		n++;
	return n;
}

/* As few blocks as nodes in ascending order with equal runs make. */
static uint32_t make_blocks(const uint32_t *nodes, uint32_t size, struct block *blocks)
{
	uint32_t count = 0, at, run;
	struct block *last;

	for (at = 0; at < size; at += run) {
		run = run_at(nodes, size, at);
		last = count > 0 ? &blocks[count - 1] : NULL;
		if (last && last->each == run && nodes[at] == last->first + last->count)
			last->count++;
		else
			blocks[count++] = (struct block){nodes[at], 1, run};
	}
	return count;
}

/* The blocks after which the list begins again. */
static uint32_t period_of(const struct block *blocks, uint32_t count)
{
	uint32_t period, i;

	for (period = 1; period < count; period++) {
		for (i = period; i < count; i++) {
			if (memcmp(&blocks[i], &blocks[i - period], sizeof(*blocks)) != 0)
				break;
		}
		if (i == count && count % period == 0)
			return period;
	}
	return count;
}

static void write_blocks(const struct block *blocks, uint32_t count, struct bytes *b)
{
	uint32_t i;

	bytes_cut(b, 0);
	bytes_add_text(b, "(vector");
	for (i = 0; i < count; i++)
		bytes_addf(b, ",(%u,%u,%u)", blocks[i].first, blocks[i].count, blocks[i].each);
	bytes_add_text(b, ")");
}

int mapping_format(const uint32_t *nodes, uint32_t size, char **ret_text)
{
	_cleanup_bytes_ struct bytes text = {0};
	_cleanup_free_ struct block *blocks = calloc(nodes ? (size_t)size + 1 : 1, sizeof(*blocks));
	uint32_t count = 1;

	if (!blocks)
		return -ENOMEM;
	if (nodes)
		count = make_blocks(nodes, size, blocks);
	else
		blocks[0] = (struct block){0, 1, size};
	write_blocks(blocks, count, &text);
	if (text.size >= PMI_VALUE_MAX)
		write_blocks(blocks, period_of(blocks, count), &text);
	*ret_text = text.failed ? NULL : slice_dup(slice_of(&text));
	return *ret_text ? 0 : -ENOMEM;
}
