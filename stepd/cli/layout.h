/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which node of a step each rank is on, distributed as srun's --distribution has it:
 *   block      the first node's ranks, then the next one's; where the tasks can't be shared out
 *              evenly the first nodes have one more
 *   cyclic     one rank to each node in turn
 *   plane=N    N ranks to each node in turn
 *   arbitrary  by a list of the ranks' nodes
 * A node that has as many tasks as it may have is passed over.
 */
#ifndef STEPD_CLI_LAYOUT_H
#define STEPD_CLI_LAYOUT_H

#include <stdint.h>

#include "stepd/base/err.h"

struct json_t;

enum layout_kind {
	LAYOUT_BLOCK,
	LAYOUT_CYCLIC,
	LAYOUT_PLANE,
	LAYOUT_ARBITRARY,
	LAYOUT_KIND_MAX,
};

struct layout_request {
	enum layout_kind kind;
	uint32_t plane; /* with LAYOUT_PLANE */
	uint32_t nodes;
	uint32_t ntasks;          /* 0: as many as the nodes can have */
	uint32_t tasks_per_node;  /* at most; 0: no limit */
	const uint32_t *counts;   /* by node, instead of tasks_per_node: tasks that a node
				     can have; NULL: not given */
	const uint32_t *on_nodes; /* ntasks of them, with LAYOUT_ARBITRARY: each rank's node */
};

struct layout {
	uint32_t nodes, ntasks;
	uint32_t *counts;     /* tasks of each node */
	uint32_t *rank_nodes; /* the node of each rank */
	uint32_t *ranks;      /* the ranks of each node, ascending, node by node */
	uint32_t *begins;     /* nodes of them: the index in ranks of a node's first */
};

/* "block", "cyclic", "plane=4", "arbitrary" or "*"; the part behind a ':' concerns a node's
 * sockets, and is the agent's. 0 or -EINVAL. */
int layout_parse(const char *text, enum layout_kind *ret_kind, uint32_t *ret_plane) _must_check_;

int layout_make(const struct layout_request *request, struct layout *ret_layout,
	struct err *err) _must_check_;
void layout_clear(struct layout *layout);
#define _cleanup_layout_ _cleanup_(layout_clear)

/* The ranks of a node, "0-3,8" or "" for none. The caller frees it; NULL: no memory. */
char *layout_text(const struct layout *layout, uint32_t node) _must_check_;

/* The same for all nodes, as in the spec's node.ranks: a new reference; NULL: no memory. */
struct json_t *layout_json(const struct layout *layout) _must_check_;

#endif
