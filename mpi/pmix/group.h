/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Named sets of ranks: groups, and process sets.
 */
#ifndef MPI_PMIX_GROUP_H
#define MPI_PMIX_GROUP_H

#include "mpi/pmix/px.h"

/* A group that ranks of this node are in. */
struct group_name {
	struct group_name *next;
	char *name;
	pmix_proc_t *procs;
	size_t nprocs;
};

/* Ranks under a name that MPI sessions and tools request. One is made where a spawn requests it
 * (PMIX_PSET_NAME), of the ranks of a command line or of all, and every node of the step knows it
 * as long as the step lasts. */
struct pset {
	struct pset *next;
	char *name;
	pmix_proc_t *procs;
	size_t nprocs;
};

void psets_close(struct px *px);

/* Makes those that a spawn which has succeeded requests. */
void psets_of_spawn(struct px *px, const struct call *call, const char *nspace);

/* All that there are, the newest first; px's. */
const struct pset *psets_first(const struct px *px);
/* NULL: there is none of that name. */
const struct pset *psets_find(const struct px *px, const char *name);

#endif
