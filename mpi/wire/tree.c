/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/tree.h"

uint32_t wire_tree_parent(const struct wire_tree *t, uint32_t node)
{
	return (node - 1) / t->fanout;
}

/* The number of nodes where it has none. */
uint32_t wire_tree_first_child(const struct wire_tree *t, uint32_t node)
{
	uint64_t n = (uint64_t)node * t->fanout + 1;

	return n < t->count ? (uint32_t)n : t->count;
}

uint32_t wire_tree_child_count(const struct wire_tree *t, uint32_t node)
{
	uint32_t n = t->count - wire_tree_first_child(t, node);

	return n < t->fanout ? n : t->fanout;
}

bool wire_tree_is_below(const struct wire_tree *t, uint32_t node, uint32_t top)
{
	while (node > top)
		node = wire_tree_parent(t, node);
	return node == top;
}

/* The ids on the next level below those from *first to *last; false: there are none. */
static bool next_level(const struct wire_tree *t, uint64_t *first, uint64_t *last)
{
	*first = *first * t->fanout + 1;
	*last = *last * t->fanout + t->fanout;
	if (*last >= t->count)
		*last = t->count - 1;
	return *first < t->count;
}

bool wire_tree_has_below(const struct wire_tree *t, const struct bitset *set, uint32_t top)
{
	uint64_t first = top, last = top;

	do {
		if (bitset_next(set, (uint32_t)first) <= last)
			return true;
	} while (next_level(t, &first, &last));
	return false;
}

void wire_tree_add_below(const struct wire_tree *t, struct bitset *set, uint32_t top)
{
	uint64_t first = top, last = top, n;

	do {
		for (n = first; n <= last; n++)
			bitset_set(set, (uint32_t)n);
	} while (next_level(t, &first, &last));
}

/* The only child of node with some of the set below it; BITSET_NONE: there are several, or none. */
static uint32_t only_child(const struct wire_tree *t, const struct bitset *set, uint32_t node)
{
	uint32_t child = wire_tree_first_child(t, node), count = wire_tree_child_count(t, node);
	uint32_t found = BITSET_NONE, i;

	for (i = 0; i < count; i++) {
		if (!wire_tree_has_below(t, set, child + i))
			continue;
		if (found != BITSET_NONE)
			return BITSET_NONE;
		found = child + i;
	}
	return found;
}

uint32_t wire_tree_top(const struct wire_tree *t, const struct bitset *set)
{
	uint32_t top = 0, child;

	while (!bitset_test(set, top)) {
		child = only_child(t, set, top);
		if (child == BITSET_NONE)
			break;
		top = child;
	}
	return top;
}
