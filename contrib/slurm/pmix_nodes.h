/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMIx over the nodes of a step, as Slurm's mpi/pmix has it: between the PMIx server of
 * the agent, mpi/pmi/manager.h, to which the agents of other nodes, or slurmstepds there, are one
 * and the same, and those.
 *
 *	tasks - the agent's PMIx server - <FIFOs' directory>/pmix - this - pmix_peers.h
 *
 * Fences are pmix_fence.h's. The data of a rank are requested of its node, by number, and come as a
 * reply; at most 4096 such requests wait on either side. What has no end in the time of PMIxTimeout
 * fails. What comes from other nodes, and from the user's server, is taken apart here, and passed
 * on.
 */
#ifndef SLURM_PMIX_NODES_H
#define SLURM_PMIX_NODES_H

#include "contrib/slurm/decision.h"
#include "contrib/slurm/fifos.h"

struct ev_loop;
struct slurm_auth;
struct pmix_nodes;
struct pmix_settings;

struct pmix_nodes_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *label; /* the step's, for messages */
	const struct slurm_auth *auth;
	const struct slurm_init *init; /* with the site's slurm.conf */
	const struct pmix_settings *settings;
	const struct fifos *fifos;
	uint32_t node_id;
	/* The step is to end on all nodes. text: why, NULL if a task has called for it. */
	void (*abort)(const char *text, void *userdata);
	/* Likewise, since a task has called for it with a status of 0. */
	void (*stop)(void *userdata);
	/* pmix_nodes_are_pending() may no longer hold. */
	void (*drained)(void *userdata);
	void *userdata;
};

/* What options points to outlives it. */
int pmix_nodes_open(const struct pmix_nodes_options *options, struct pmix_nodes **ret_nodes,
	struct err *err) _must_check_;

/* Where the PMIx server connects to, and what the other nodes call the step's ranks. */
const char *pmix_nodes_get_path(const struct pmix_nodes *nodes);
const char *pmix_nodes_get_nspace(const struct pmix_nodes *nodes);

/* Whether other nodes may still wait for messages of this one, whose tasks have ended: for 10
 * seconds at most from the first call on. NULL is fine. */
bool pmix_nodes_are_pending(struct pmix_nodes *nodes);

/* NULL is fine. Returns NULL. */
struct pmix_nodes *pmix_nodes_close(struct pmix_nodes *nodes);

#endif
