/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The k-ary tree of node ids: node n's children are n * k + 1 to n * k + k. The nodes below one
 * (itself among them) are a range of ids on each level.
 */
#ifndef MPI_WIRE_TREE_H
#define MPI_WIRE_TREE_H

#include "stepd/base/bitset.h"

struct wire_tree {
	uint32_t count;  /* nodes */
	uint32_t fanout; /* children of a node */
};

uint32_t wire_tree_parent(const struct wire_tree *t, uint32_t node); /* of any but 0 */
uint32_t wire_tree_first_child(const struct wire_tree *t, uint32_t node);
uint32_t wire_tree_child_count(const struct wire_tree *t, uint32_t node);

/* Whether node is top or below it. */
bool wire_tree_is_below(const struct wire_tree *t, uint32_t node, uint32_t top);

/* Whether one of the set is. */
bool wire_tree_has_below(const struct wire_tree *t, const struct bitset *set, uint32_t top);

/* Adds them all. */
void wire_tree_add_below(const struct wire_tree *t, struct bitset *set, uint32_t top);

/* The lowest node that all of the set are below. The set must not be empty. */
uint32_t wire_tree_top(const struct wire_tree *t, const struct bitset *set);

#endif
