/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The way to the other nodes of a step for PMIx, as Slurm's mpi/pmix has it: messages of
 * pmix_messages.h. The other ends may be slurmstepds.
 *
 * A message goes by the slurmd of its node (REQUEST_FORWARD_DATA), which brings it to the socket
 * stepd.slurm.pmix.JOB.STEP in its spool directory; 7 tries, with pauses that double from half a
 * second on. Where nodes connect to each other (PMIxDirectConn) the first message has the sender's
 * port, and the other side connects there; what comes next waits for that. Where both have sent
 * their port, the node with the larger number connects.
 *
 * Whoever connects is known before his message counts: at the socket from the kernel, root,
 * SlurmUser and the step's user, as whom slurmd connects; at the port by a credential of munge(7)
 * of root or the step's user, with nothing in it, in a first message of 64 KiB at most. 16
 * connections at a time are open at the socket, and 64 that are not known yet at the port, each for
 * 30 s; together with those of the nodes, 8 of each, they hold 256 MiB at most, and so do messages
 * that wait.
 *
 * Everybody can connect to the port. Where a 65th connection is not known yet, one of them gives
 * way, the oldest one of the address that has the most. So nobody keeps a node out by connections
 * that send nothing: those of another address don't count, and a node on the same one sends its
 * first message at once.
 *
 * Messages to one node come in their order, and nothing waits but for munged.
 */
#ifndef SLURM_PMIX_PEERS_H
#define SLURM_PMIX_PEERS_H

#include <netinet/in.h>

#include "contrib/slurm/decision.h"
#include "contrib/slurm/pmix_messages.h"

struct ev_loop;
struct slurm_auth;
struct pmix_peers;

/* A node of the step. */
struct pmix_node {
	uint32_t job_node;          /* its number in the job */
	struct sockaddr_in address; /* of its slurmd */
};

struct pmix_peers_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *label; /* the step's, for messages */
	const struct slurm_auth *auth;
	const struct slurm_init *init;
	const struct pmix_node *nodes;
	uint32_t node, nnodes;
	bool direct,
		native; /* they connect to each other; with heads in the machine's byte order */
	/* A node's message, of any type but those that make connections. */
	void (*message)(void *userdata, uint32_t node, const struct slurm_pmix_head *head,
		struct slice body);
	/* A message can't be brought to a node. */
	void (*failed)(void *userdata, const char *why);
	/* All messages have been sent, or nothing more can be. */
	void (*drained)(void *userdata);
	void *userdata;
};

/* What options points to outlives them. */
int pmix_peers_open(const struct pmix_peers_options *options, struct pmix_peers **ret_peers,
	struct err *err) _must_check_;

/* Takes the body's bytes. Of the head type and number count. */
void pmix_peers_send_take(struct pmix_peers *peers, uint32_t node,
	const struct slurm_pmix_head *head, struct pack *body);

#define PMIX_PEERS_CALLERS_MAX 64u

/* Which of the callers, of these addresses in the order of their coming, gives way to a new one; n
 * is not 0. All of 127.0.0.0/8 are one address: a user has them all. */
size_t pmix_peers_choose_caller(const struct in_addr *addresses, size_t n);

/* Whether messages wait, and can still be sent. */
bool pmix_peers_are_pending(const struct pmix_peers *peers);

/* NULL is fine. Returns NULL. */
struct pmix_peers *pmix_peers_close(struct pmix_peers *peers);

#endif
