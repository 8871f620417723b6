/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmi_gather.h"

#include <assert.h>
#include <errno.h>

#include "contrib/slurm/pmi_messages.h"

/* ---- the tree ------------------------------------------------------------------------------ */

/* Of the least whole tree with at least so many nodes below its root: how many are below it. */
static uint64_t count_whole(uint64_t nodes, uint64_t width)
{
	uint64_t level = width, below = width;

	while (below < nodes) {
		level *= width;
		below += level;
	}
	return below;
}

struct pmi_place pmi_place_find(uint32_t node, uint32_t nodes, uint32_t width)
{
	uint64_t number = (uint64_t)node + 1, above = 0, below, child;

	assert(width >= 2 && node < nodes);
	if (width > (uint64_t)nodes + 1)
		return (struct pmi_place){.above = PMI_PLACE_SRUN};
	below = count_whole(nodes, width);
	for (;;) {
		below /= width; /* a child, and all below it */
		child = above + 1 + (number - above - 1) / below * below;
		if (child == number)
			break;
		above = child;
		below--;
	}
	if (below - 1 > nodes - number)
		below = nodes - number + 1;
	return (struct pmi_place){.above = (int64_t)above - 1, .below = (uint32_t)(below - 1)};
}

/* ---- a fence ------------------------------------------------------------------------------- */

static int begin(struct pmi_gather *g)
{
	pack_clear(&g->pairs);
	g->pairs = (struct pack){0};
	bitset_clear(&g->senders);
	g->senders = (struct bitset){0};
	g->has_own = false;
	g->missing = g->place.below;
	return bitset_init(&g->senders, g->place.below + 1);
}

int pmi_gather_init(struct pmi_gather *g, uint32_t node, struct pmi_place place)
{
	*g = (struct pmi_gather){.node = node, .place = place, .number = 1};
	return begin(g);
}

void pmi_gather_clear(struct pmi_gather *g)
{
	pack_clear(&g->pairs);
	bitset_clear(&g->senders);
}

static int check_size(const struct pmi_gather *g, size_t more)
{
	if (g->pairs.failed || !g->senders.words)
		return -ENOMEM;
	return buffer_size(&g->pairs.bytes) + more > SLURM_PMI_MAX ? -EMSGSIZE : 0;
}

int pmi_gather_add_own(struct pmi_gather *g, struct slice pairs)
{
	int r = check_size(g, pairs.size);

	if (r == 0)
		r = slurm_pmi_pack_pairs(&g->pairs, pairs);
	if (r == 0)
		r = check_size(g, 0);
	if (r == 0)
		g->has_own = true;
	return r;
}

int pmi_gather_add_message(struct pmi_gather *g, struct slice message)
{
	struct slurm_pmi_part part;
	int r = slurm_pmi_read_fence(message, &part);

	if (r < 0)
		return r;
	if (part.node == g->node)
		return -EALREADY;
	if (part.number != g->number || part.node <= g->node ||
		part.node - g->node > g->place.below)
		return -ERANGE;
	if (bitset_test(&g->senders, part.node - g->node))
		return -EALREADY;
	if (part.nodes == 0 || part.nodes > g->missing)
		return -ERANGE;
	r = check_size(g, part.pairs.size);
	if (r < 0)
		return r;
	pack_raw(&g->pairs, part.pairs.data, part.pairs.size);
	(void)bitset_set(&g->senders, part.node - g->node);
	g->missing -= part.nodes;
	return g->pairs.failed ? -ENOMEM : 0;
}

bool pmi_gather_is_complete(const struct pmi_gather *g)
{
	return g->has_own && g->missing == 0;
}

void pmi_gather_take(struct pmi_gather *g, const char *name, struct pack *message)
{
	const struct slurm_pmi_part part = {.node = g->node,
		.name = name,
		.nodes = g->place.below + 1,
		.number = g->number,
		.pairs = {buffer_bytes(&g->pairs.bytes), buffer_size(&g->pairs.bytes)}};

	slurm_pmi_fence(message, &part);
	message->failed |= g->pairs.failed;
	g->number++;
	/* Without memory the next one fails when something is added to it. */
	(void)!begin(g);
}
