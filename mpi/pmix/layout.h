/* SPDX-License-Identifier: BSD-3-Clause
 * How the ranks of a namespace lie on the nodes, counted once for all that is told of it.
 */
#ifndef MPI_PMIX_LAYOUT_H
#define MPI_PMIX_LAYOUT_H

#include "mpi/pmix/px.h"

struct layout {
	const struct nspace *nspace;
	uint32_t *local_size; /* by node: its ranks in the namespace */
	uint32_t *local_rank; /* by rank */
	uint32_t *node_first; /* by node: ranks of other namespaces before it */
	uint32_t *app_size;   /* by command line */
	uint32_t *app_first;
	uint32_t *app_rank; /* by rank */
	uint32_t nodes;     /* how many hold ranks */
};

/* 0 or -ENOMEM; after either, layout_clear(). Valid as long as the namespace is. */
int layout_make(struct layout *l, const struct px *px, const struct nspace *nspace) _must_check_;
void layout_clear(struct layout *l);

const char *layout_node_name(const struct px *px, uint32_t node);

/* All are text from malloc(), or NULL without memory. */
/* The ranks of a node, "0,1,2". */
char *layout_peers(const struct layout *l, uint32_t node);
/* The nodes that hold ranks, "a,b", and the ranks of each, in the same order, "0,1;2,3". */
int layout_raw_maps(const struct px *px, const struct layout *l, char **ret_nodes,
	char **ret_ranks) _must_check_;
/* The notation of PMI-1's process mapping; NULL also where the ranks are not laid out block by
 * block, for which it has no words. */
char *layout_anl_map(const struct layout *l);

#endif
