/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI-2 over the nodes of a step, as Slurm's mpi/pmi2 has it: srun collects each node's part of a
 * fence, and has slurmd bring the whole to a socket of each node, sock.pmi2.JOB.STEP in the spool
 * directory. This is between that and the PMI server of the agent, mpi/pmi/manager.h, to which the
 * agents of other nodes, or slurmstepds there, are one and the same.
 *
 * Where the tree has levels, pmi_gather.h, a node's part has those of the nodes below, which
 * come to the same socket, and goes to the node above: by the slurmd of this node, which sends it
 * on, since that knows the others' addresses. It brings it to this socket as well.
 *
 *	tasks - the agent's PMI server - <FIFOs' directory>/pmi - this - srun's port, or slurmd
 *	srun - slurmd - sock.pmi2... - this
 *
 * Whoever connects is known from the kernel before a byte is read: at the first socket the step's
 * user, once; at the second one root, SlurmUser, and the step's user, as whom slurmd connects for
 * srun. Four connections at a time, with 128 MiB in all and 30 s each; and 64 queries of the
 * server, of 64 KiB each. What comes by them is passed on to a process of the user; here it is
 * only taken apart.
 */
#ifndef SLURM_PMI_TREE_H
#define SLURM_PMI_TREE_H

#include "contrib/slurm/decision.h"
#include "contrib/slurm/fifos.h"

struct ev_loop;
struct slurm_auth;
struct pmi_tree;

struct pmi_tree_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *label; /* the step's, for messages */
	const struct slurm_auth *auth;
	const struct slurm_init *init; /* with the site's slurm.conf */
	const struct fifos *fifos;
	uint32_t node_id; /* in the whole */
	/* The step is to end on all nodes. text: why, NULL if a task has called for it. */
	void (*abort)(const char *text, void *userdata);
	void *userdata;
};

/* What options points to outlives it. */
int pmi_tree_open(const struct pmi_tree_options *options, struct pmi_tree **ret_tree,
	struct err *err) _must_check_;

/* Where the PMI server connects to. */
const char *pmi_tree_get_path(const struct pmi_tree *tree);

/* NULL is fine. Returns NULL. */
struct pmi_tree *pmi_tree_close(struct pmi_tree *tree);

#endif
