/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank that has died before it has finalized: all nodes are told, so that whoever is in a fence
 * with it, or comes to one later, fails at once and with its name. One that it came to before it
 * died may end either way, but alike on all nodes.
 *
 *	death: space, rank, how (numbers are 32 bits, little-endian; a text has its length before
 *it)
 */
#include <string.h>

#include "mpi/pmi2/gather.h"

/* Deaths that a node tells of in one space: one is enough for a fence of all. */
#define DEATHS_TOLD_MAX 8u

/* Those of other nodes that have died, if nobody else has: the first of them with its node. */
static const char *find_far_how(const struct pmi_space *space, const struct bitset *ranks)
{
	uint32_t first = bitset_next(ranks, 0);

	return bitset_count(ranks) == 1 && first == space->far_first ? space->far_how : "went";
}

static bool are_here(const struct pmi_space *space, const struct bitset *ranks)
{
	uint32_t rank;

	for (rank = bitset_next(ranks, 0); rank != BITSET_NONE;
		rank = bitset_next(ranks, rank + 1)) {
		if (!space_find_rank(space, rank))
			return false;
	}
	return true;
}

void death_name(const struct gather *g, const char *how, const struct bitset *ranks, char *text,
	size_t size)
{
	const struct pmi_space *space = g->space;
	const struct pmi_config *config = &space->pmi->config;
	char names[400], where[100] = "";

	space_name_ranks(space, ranks, names, sizeof(names));
	if (!are_here(space, ranks))
		how = find_far_how(space, ranks);
	else if (bitset_count(ranks) > 1)
		how = "went";
	else if (!how)
		how = space_find_rank(space, bitset_next(ranks, 0))->how;
	if (g->across && are_here(space, ranks))
		(void)snprintf(where, sizeof(where), "on node %u (%.64s) ", config->node,
			config->node_name);
	(void)snprintf(text, size, "%s %s%s before the %s", names, where, how[0] ? how : "went",
		g->kind->what);
}

void death_tell(const struct pmi_task *task)
{
	_cleanup_bytes_ struct bytes data = {0};
	struct pmi_space *space = task->space;
	struct pmi *pmi = space->pmi;
	char how[sizeof(space->far_how)];
	struct err err = ERR_INIT;
	struct iovec iov;

	if (bitset_count(&space->node_set) < 2 || space->deaths_told++ >= DEATHS_TOLD_MAX)
		return;
	bytes_add_u32(&data, space->number);
	bytes_add_u32(&data, task->rank);
	(void)snprintf(how, sizeof(how), "on node %u (%.64s) %s", pmi->config.node,
		pmi->config.node_name, task->how);
	bytes_add_u32(&data, (uint32_t)strlen(how));
	bytes_add_text(&data, how);
	iov = (struct iovec){data.data, data.size};
	/* A node that can't be told has lost its way here, or meets its deadline. */
	if (!data.failed)
		(void)!pmi->ops.broadcast(pmi->userdata, PMI_CHANNEL_DEATH, &iov, 1, &err);
}

/* ---- at the other nodes --------------------------------------------------------------------- */

static int note(struct pmi_space *space, uint32_t rank, struct slice how)
{
	if (!space->far_deaths.words && bitset_init(&space->far_deaths, space->size) < 0)
		return -ENOMEM;
	if (bitset_next(&space->far_deaths, 0) == BITSET_NONE) {
		space->far_first = rank;
		(void)snprintf(
			space->far_how, sizeof(space->far_how), "%.*s", (int)how.size, how.data);
	}
	bitset_set(&space->far_deaths, rank);
	return 0;
}

/* Whether the gather is over, or at least not to be looked at again. */
static bool end_gather(struct gather *g, uint32_t rank)
{
	_cleanup_bitset_ struct bitset ranks = {0};
	char why[600];

	if (!bitset_test(&g->ranks, rank) || g->failing)
		return false;
	if (!g->exchanging)
		return gather_fail_if_gone(g, NULL);
	if (bitset_init(&ranks, g->space->size) < 0)
		return false;
	bitset_set(&ranks, rank);
	death_name(g, NULL, &ranks, why, sizeof(why));
	gather_fail(g, why);
	return true;
}

void death_take(struct pmi *pmi, uint32_t from, struct slice data)
{
	struct pmi_space *space;
	uint32_t number, rank;
	struct slice how;
	struct gather *g;

	if (!slice_take_u32(&data, &number) || !slice_take_u32(&data, &rank) ||
		!slice_take_sized(&data, &how) || how.size >= sizeof(space->far_how)) {
		pmi_log(pmi, LOG_LEVEL_WARNING,
			"PMI: node %u has told what can't be understood, ignoring", from);
		return;
	}
	space = pmi_find_space(pmi, number);
	if (!space || rank >= space->size || space_find_rank(space, rank) ||
		(space->nodes && space->nodes[rank] != from) || note(space, rank, how) < 0)
		return;
	g = TAILQ_FIRST(&space->gathers);
	while (g) {
		/* With its end others may have ended or begun. */
		g = end_gather(g, rank) ? TAILQ_FIRST(&space->gathers) : TAILQ_NEXT(g, link);
	}
}
