/* SPDX-License-Identifier: BSD-3-Clause
 * Groups that ranks of this node are in.
 */
#ifndef MPI_PMIX_GROUP_H
#define MPI_PMIX_GROUP_H

#include <pmix_common.h>

struct group_name {
	struct group_name *next;
	char *name;
	pmix_proc_t *procs;
	size_t nprocs;
};

#endif
