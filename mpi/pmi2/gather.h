/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collective operations of a set of ranks: a fence, a ring. Each of them comes once; when all that
 * are on this node have come, what they brought goes to the other nodes that have ranks of the set,
 * and when theirs is here all are answered. Ranks are counted by a bitmap: one that comes twice
 * waits for the next time.
 *
 * It fails for all with a sentence that names the ranks to blame, if one of them has gone, or at
 * the deadline.
 */
#ifndef MPI_PMI2_GATHER_H
#define MPI_PMI2_GATHER_H

#include "mpi/pmi2/pmi_impl.h"

struct gather;

struct gather_kind {
	const char *what; /* "fence" */
	/* Instead of encode and merge where all ranks are on this node; NULL: those two. */
	void (*merge_local)(struct gather *g);
	/* The contributions of this node's ranks. */
	void (*encode)(struct gather *g, struct bytes *b);
	/* The contributions of all nodes, this one included. 0 or -errno. */
	int (*merge)(struct gather *g, const struct wire_block *blocks, size_t count);
	void (*answer)(struct gather *g, struct request *request, uint32_t local);
	void (*free_state)(void *state); /* NULL: nothing to do */
};

struct gather {
	TAILQ_ENTRY(gather) link;
	struct pmi_space *space;
	const struct gather_kind *kind;
	uint64_t id;
	char tag[PMI_ID_SIZE];
	struct bitset ranks;   /* that take part */
	struct bitset nodes;   /* where they are */
	bool across;           /* more than this one */
	bool world;            /* all of the space */
	struct bitset arrived; /* by local index */
	uint32_t arrived_count, expected_count;
	struct request *requests; /* by local index */
	bool exchanging;
	bool failing; /* the exchange knows that it can't end well */
	struct deadline deadline;
	void *state; /* the kind's */
};

/* The one under way, or a new one. ranks: NULL for all of the space. */
int gather_get(struct pmi_space *space, const struct gather_kind *kind, const struct bitset *ranks,
	const char *tag, struct gather **ret_g) _must_check_;

/* Whether this rank is in it already. */
bool gather_has(const struct gather *g, const struct pmi_task *task);
void gather_arrive(struct gather *g, const struct request *request);

/* All that have come are answered, and it is gone. */
void gather_finish(struct gather *g);
void gather_fail(struct gather *g, enum pmi_code code, const char *why);

/* All of this node are here: the process manager goes on (managed.c). */
void managed_exchange(struct gather *g);

/* A task has hung up: nothing waits for it any longer, on any node. */
void gather_task_went(struct pmi_task *task, const char *how);
void gather_drop_all(struct pmi_space *space);

/* Another node reports that a rank has died. */
void death_receive(struct pmi *pmi, uint32_t from, struct slice data);

extern const struct gather_kind fence_kind, ring_kind;

#endif
