/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node's place in the tree of Slurm's mpi/pmi2, and what it has of a fence from itself and from
 * the nodes below it, for the node above.
 *
 * The tree has srun as number 0 and the step's nodes behind it, from 1 on. Up to its width, which
 * is TreeWidth or the user's SLURM_PMI2_TREE_WIDTH, there is none: each node is srun's neighbour.
 * Else it is as deep as a whole tree of that width needs to be for all of them, and numbers go down
 * first: those behind a node's own are the nodes below it. A node sends its part of a fence once
 * all nodes below are in it. Which node sends is what the message has, as for slurmstepd; what does
 * not fit is ignored.
 */
#ifndef SLURM_PMI_GATHER_H
#define SLURM_PMI_GATHER_H

#include "contrib/slurm/pack.h"
#include "mpi/pmi/bytes.h"
#include "stepd/base/bitset.h"

#define PMI_PLACE_SRUN (-1)

struct pmi_place {
	int64_t above;  /* a node; PMI_PLACE_SRUN */
	uint32_t below; /* so many nodes, whose numbers follow the node's */
};

/* Of one of a step's nodes. width: at least 2. */
struct pmi_place pmi_place_find(uint32_t node, uint32_t nodes, uint32_t width);

struct pmi_gather {
	uint32_t node;
	struct pmi_place place;
	uint32_t number;  /* of the fence that is gathered, from 1 on */
	uint32_t missing; /* nodes below */
	bool has_own;
	struct pack pairs;     /* as Slurm packs them */
	struct bitset senders; /* by their numbers behind the node's own */
};

/* 0 or -ENOMEM. */
int pmi_gather_init(struct pmi_gather *gather, uint32_t node, struct pmi_place place) _must_check_;
void pmi_gather_clear(struct pmi_gather *gather);

/* This node's pairs, as the manager's link has them. -EBADMSG, -EMSGSIZE, -ENOMEM. */
int pmi_gather_add_own(struct pmi_gather *gather, struct slice pairs) _must_check_;

/* A message of a node below. -EALREADY: it has come before, or is this node's own, which its slurmd
 * brings back; -EBADMSG, -ERANGE: it is none, or is not of a node below, or of this fence;
 * -EMSGSIZE; -ENOMEM. */
int pmi_gather_add_message(struct pmi_gather *gather, struct slice message) _must_check_;

bool pmi_gather_is_complete(const struct pmi_gather *gather);

/* The message for the node above; the next fence begins. name: the node's. */
void pmi_gather_take(struct pmi_gather *gather, const char *name, struct pack *message);

#endif
