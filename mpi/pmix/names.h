/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Namespaces: what PMIx calls a set of ranks that share an MPI_COMM_WORLD. The step's own ranks are
 * one, each spawn is another. All nodes of the step know all of them, and of each rank its node and
 * how far it has come.
 */
#ifndef MPI_PMIX_NAMES_H
#define MPI_PMIX_NAMES_H

#include <pmix_common.h>
#include <stdbool.h>
#include <stdint.h>

#include "mpi/serve/spawning.h"
#include "stepd/base/bitset.h"

/* Only of a node's own ranks is it known whether they are connected. */
enum rank_state {
	RANK_STARTED,
	RANK_CONNECTED, /* has called PMIx_Init */
	RANK_FINALIZED,
	RANK_ENDED, /* the process is gone, after PMIx_Finalize or without ever PMIx_Init */
	RANK_LOST,  /* the process is gone, and had neither finalized nor done without PMIx */
};

struct nspace_rank {
	uint32_t node;
	uint32_t appnum;
	enum rank_state state;
	bool hung_up; /* connected once, and the connection has ended without PMIx_Finalize */
	bool absent;  /* it is gone, and has no part in a collective that is under way */
	bool is_ended_by_peer; /* by a peer's job control or PMIx_Abort */
	int wait_status;       /* once it is gone */
	pid_t pid;             /* 0: it has not been forked yet, or is another node's */
	const char *cpus;      /* what a local one is bound to; NULL: it is not */
};

struct nspace_app {
	char *argv; /* with blanks between; NULL: not known */
	char *cwd;  /* NULL: likewise */
};

struct nspace {
	struct nspace *next;
	char name[PMIX_MAX_NSLEN + 1];
	uint32_t number;     /* of the spawn in the step; 0: the step's own */
	uint32_t first_rank; /* in the step, of its rank 0 */
	uint32_t size;
	struct nspace_rank *ranks;
	uint32_t app_count; /* at least 1 */
	struct nspace_app *apps;
	uint32_t gone;        /* how many of them have ended */
	double init_at;       /* the loop's time of this node's first PMIx_Init; 0: none yet */
	bool late_reported;   /* ranks that have not called it have been named */
	bool old_reported;    /* and one whose libpmix is too old */
	bool groups_reported; /* and that they can't form groups */
	pmix_proc_t parent;   /* of a spawn: its requester */
};

struct names {
	struct nspace *first, **last;
	char base[PMIX_MAX_NSLEN + 1]; /* name of the step's own */
};

/* name: of the step's own; NULL: by its number. -EINVAL: it can't be the name of a file. */
int names_open(struct names *names, const stepd_step_rec_t *job, const char *name) _must_check_;
void names_close(struct names *names);

/* The name that a spawn has on all nodes. */
void names_of_spawn(const struct names *names, uint32_t number, char *name, size_t size);

/* Of a spawn. */
int names_add(struct names *names, const stepd_step_rec_t *job, const struct spawn_part *part,
	struct nspace **ret_nspace) _must_check_;
void names_remove(struct names *names, struct nspace *nspace);

struct nspace *names_find(const struct names *names, const char *name);

/* By the rank in the step: the namespace and, in it, the rank. NULL where there is none such. */
struct nspace *names_find_rank(const struct names *names, uint32_t step_rank, uint32_t *ret_rank);

/* NULL where there is no such rank. */
struct nspace_rank *names_rank(const struct names *names, const pmix_proc_t *proc);

/* The ranks that procs name, one after the other: a wildcard stands for all of a namespace, and
 * PMIX_RANK_LOCAL_... for those on node. The first four members are the caller's to set. */
struct rank_cursor {
	const struct names *names;
	const pmix_proc_t *procs;
	size_t count;
	uint32_t node;

	struct nspace *nspace; /* where it is */
	uint32_t rank;
	bool is_unknown; /* it has ended before one that there is not */
	size_t index;    /* in procs */
	uint32_t next;   /* of its ranks */
};

/* Moves it to the first or next one; false: there is none. */
bool names_next(struct rank_cursor *at);

/* The procs that are on node, as ranks of the step; the caller's to free. living: without
 * those that have ended. -ESRCH: there is none. */
int names_local_ranks(const struct names *names, const pmix_proc_t *procs, size_t count,
	uint32_t node, bool living, uint32_t **ret_ranks, size_t *ret_count) _must_check_;

/* Of one that is gone, as a shell has it: 128 and the signal of one that was killed. */
int names_exit_code(const struct nspace_rank *rank);

/* The nodes that hold ranks of procs. */
int names_nodes(const struct names *names, const pmix_proc_t *procs, size_t count, uint32_t node,
	struct bitset *nodes) _must_check_;

/* "rank 3 of N has ended without PMIx_Finalize". */
void names_describe_end(const struct nspace *nspace, uint32_t rank, char *text, size_t size);

/* The first of them that is absent, as text; false: none is. */
bool names_find_absent(const struct names *names, const pmix_proc_t *procs, size_t count,
	uint32_t node, char *text, size_t size);

/* "ranks 3-5" of a namespace on a node that are not further than state; whether there are any. */
bool names_show(
	const struct nspace *nspace, uint32_t node, enum rank_state state, char *text, size_t size);

#endif
