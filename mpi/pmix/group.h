/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Named sets of ranks. A group is known to the nodes whose ranks are in it, from its construction
 * to its destruction. A process set is what MPI sessions and tools request by name: it is made
 * where a spawn requests it (PMIX_PSET_NAME), of the ranks of a command line or of all, and every
 * node of the step knows it as long as the step lasts.
 */
#ifndef MPI_PMIX_GROUP_H
#define MPI_PMIX_GROUP_H

#include "mpi/pmix/px.h"

struct rank_set {
	struct rank_set *next;
	char *name;
	size_t nprocs;
	pmix_proc_t procs[];
};

/* NULL: there is none of that name. */
const struct rank_set *set_find(const struct rank_set *sets, const char *name);

/* Makes the process sets that a spawn which has succeeded requests. */
void psets_of_spawn(struct px *px, const struct call *call, const char *nspace);

#endif
