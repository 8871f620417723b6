/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/wire/wire_impl.h"

static struct groups *bucket(const struct wire *w, uint64_t id)
{
	/* ids are hashes, or small numbers */
	return (struct groups *)&w->groups[(id ^ id >> 32) % GROUP_BUCKETS];
}

/* Of that id, the one with a fence under way: there is one at most. */
struct group *wire_group_find(const struct wire *w, uint64_t id)
{
	struct group *g, *found = NULL;

	LIST_FOREACH(g, bucket(w, id), link)
	{
		if (g->id == id && (!found || g->op))
			found = g;
	}
	return found;
}

struct group *wire_group_exact(const struct wire *w, uint64_t id, const struct bitset *nodes)
{
	struct group *g;

	LIST_FOREACH(g, bucket(w, id), link)
	{
		if (g->id == id && wire_nodes_equal(&g->nodes, nodes))
			return g;
	}
	return NULL;
}

int wire_nodes_copy(const struct wire *w, const struct bitset *nodes, struct bitset *ret_copy)
{
	struct bitset copy;
	uint32_t n;
	int r = bitset_init(&copy, w->tree.count);

	if (r < 0)
		return r;
	for (n = bitset_next(nodes, 0); n != BITSET_NONE; n = bitset_next(nodes, n + 1))
		bitset_set(&copy, n);
	*ret_copy = copy;
	return 0;
}

/* The group of that id and these nodes, made if there is none. */
int wire_group_get(
	struct wire *w, uint64_t id, const struct bitset *nodes, struct group **ret_group)
{
	struct group *g = wire_group_exact(w, id, nodes);

	if (!g) {
		if (w->groups_count == WIRE_SETS_MAX)
			return -ENOSPC;
		g = calloc(1, sizeof(*g));
		if (!g || wire_nodes_copy(w, nodes, &g->nodes) < 0) {
			free(g);
			return -ENOMEM;
		}
		g->id = id;
		LIST_INSERT_HEAD(bucket(w, id), g, link);
		w->groups_count++;
	}
	*ret_group = g;
	return 0;
}

void wire_groups_stop(struct wire *w)
{
	struct group *g;
	size_t i;

	for (i = 0; i < GROUP_BUCKETS; i++) {
		LIST_FOREACH(g, &w->groups[i], link)
		{
			if (g->op && g->op->deadline.handle)
				w->ops->timer_stop(w->carrier, &g->op->deadline);
			if (g->op && g->op->probe.handle)
				w->ops->timer_stop(w->carrier, &g->op->probe);
		}
	}
}

void wire_groups_clear(struct wire *w)
{
	struct group *g;
	size_t i;

	for (i = 0; i < GROUP_BUCKETS; i++) {
		while ((g = LIST_FIRST(&w->groups[i]))) {
			LIST_REMOVE(g, link);
			if (g->op)
				wire_op_free(w, g->op);
			bitset_clear(&g->nodes);
			free(g->failure);
			free(g);
		}
	}
}

int wire_op_new(struct wire *w, struct group *g, uint64_t generation, struct op **ret_op)
{
	struct op *op = calloc(1, sizeof(*op) + w->edges_count);
	size_t i;

	if (!op)
		return -ENOMEM;
	op->group = g;
	op->generation = generation;
	op->top = wire_tree_top(&w->tree, &g->nodes);
	for (i = wire_first_child_edge(w); i < w->edges_count; i++) {
		if (wire_tree_has_below(&w->tree, &g->nodes, w->edge[i].node))
			op->branch[i] = BRANCH_WAITING;
	}
	g->op = op;
	*ret_op = op;
	return 0;
}
