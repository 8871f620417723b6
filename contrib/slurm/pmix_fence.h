/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fences of PMIx over the nodes of a step, as Slurm's mpi/pmix has them, so that the other
 * nodes may be slurmstepds: the state of each node between two messages, and which it sends next.
 *
 * A set of ranks has its own fences, which are numbered, and its nodes, in the order of the step's.
 *
 *	by ring   each node sends what it has, and what it gets, to the next one, until all have all
 *	by tree   a node sends what it has and its children sent to its parent; the first one sends
 *		  all of it down, or, where nodes don't connect to each other, to every node
 *
 * The tree has TreeWidth branches. With fewer nodes than that there is none, and each node is
 * alone: such a fence ends where it begins, on Slurm's nodes, too, whose ranks can't wait for
 * ours then.
 *
 * A node may be one fence ahead of the others. What comes twice counts once. A fence that has not
 * come to its end in the step's time fails on this node.
 */
#ifndef SLURM_PMIX_FENCE_H
#define SLURM_PMIX_FENCE_H

#include "contrib/slurm/pmix_messages.h"

struct ev_loop;
struct pmix_fences;

struct pmix_fences_options {
	struct ev_loop *loop;
	double timeout_s;
	const char *nspace; /* of the step's ranks */
	uint32_t node, nnodes;
	const uint32_t *rank_nodes; /* of ntasks ranks */
	uint32_t ntasks;
	uint32_t tree_width;
	bool direct; /* nodes connect to each other */
	/* Takes the body's bytes. */
	void (*send)(void *userdata, uint32_t node, const struct slurm_pmix_head *head,
		struct pack *body);
	/* A fence of this node has ended: 0 and the data of all nodes, or an errno. */
	void (*done)(void *userdata, uint32_t id, int error, struct slice data);
	/* The nodes have come apart: the step is to end. */
	void (*broken)(void *userdata, const char *why);
	void *userdata;
};

/* More data than all of them hold at a time breaks the step. */
#define PMIX_FENCES_BYTES ((size_t)256 << 20)
/* Sets last as long as the step: so many bytes have all their ranks and nodes. */
#define PMIX_FENCES_SET_BYTES ((size_t)64 << 20)

/* What options points to outlives them. */
int pmix_fences_new(
	const struct pmix_fences_options *options, struct pmix_fences **ret_fences) _must_check_;

/* NULL is fine. Returns NULL. */
struct pmix_fences *pmix_fences_free(struct pmix_fences *fences);

/* This node's ranks of the set have come, with data; done() comes once, with this id, unless this
 * fails. -ESRCH: the set is not of this step's ranks, or has none of this node; -EALREADY: the last
 * one has not ended; -ENOBUFS: there are too many sets, or too large ones; -EIO: the step is
 * broken; -ENOMEM. */
int pmix_fences_begin(struct pmix_fences *fences, enum slurm_pmix_kind kind, struct slice set,
	uint32_t id, struct slice data) _must_check_;

/* A message of another node: a fan-in, a fan-out or a ring. */
void pmix_fences_take(struct pmix_fences *fences, uint32_t from, const struct slurm_pmix_head *head,
	struct slice body);

/* Nothing comes of those that wait here. */
void pmix_fences_fail(struct pmix_fences *fences, int error);

/* The place of a node in a tree of count nodes. */
struct pmix_branch {
	uint32_t parent;          /* PMIX_NO_PARENT: it is the first one, or alone */
	uint32_t first, distance; /* of its children: first, first + distance, ... */
	uint32_t children;
};
#define PMIX_NO_PARENT UINT32_MAX

struct pmix_branch pmix_find_branch(uint32_t node, uint32_t count, uint32_t width);

#endif
