/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The machine's topology for libpmix, and by it for the ranks. Left to itself libpmix searches all
 * PCI devices, which takes longer than the rest of its start; that is done only where there are
 * some that MPI libraries use.
 */
#ifndef MPI_PMIX_TOPOLOGY_H
#define MPI_PMIX_TOPOLOGY_H

#include "mpi/pmix/keys.h"

struct hwloc_topology;

/* Adds it for PMIx_server_init(); nothing where it can't be found: libpmix then tries. */
void topology_add(struct keys *keys, struct hwloc_topology **ret_topology);

/* The place of a task in the topology. */
struct spot {
	char *cpuset,
		*locality; /* libpmix's own notations; from malloc(), NULL where there is none */
	int package;       /* the one package that holds all of it, from 0; -1: there is none */
};

/* On a list of CPUs, "0-3,8", or anywhere (NULL). */
void topology_locate(struct hwloc_topology *topology, const char *cpus, struct spot *ret_spot);
void spot_clear(struct spot *spot);

#endif
