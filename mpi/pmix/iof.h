/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams for tools, over the nodes of a step. A tool sends a request to the server
 * that it is connected to, and that one to the servers of the nodes where the ranks are (iof.c).
 * These have their agents copy the streams and send what comes to the server, as their subscriber
 * (iof_ranks.c); there it goes to libpmix (iof.c), which knows which of its tools want it. What a
 * tool sends goes the other way.
 *
 *	agent =link=> copy -RPC_OUTPUT-> deliver => libpmix => tool
 *
 * No task waits for any of it. A subscriber has at most IOF_FLYING bytes under way, each message
 * answered when libpmix has it, and IOF_QUEUE bytes behind those; what is more is left out,
 * counted, and reported with what comes next. libpmix itself has no such bound: it gets something
 * only while the sockets to its clients take it.
 */
#ifndef MPI_PMIX_IOF_H
#define MPI_PMIX_IOF_H

#include "mpi/link.h"
#include "mpi/pmix/rpc.h"

#define IOF_FLYING   (256u << 10)
#define IOF_QUEUE    (4u << 20)
#define IOF_WAITING  (16u << 20)        /* bytes that wait for one server's tools, of all nodes */
#define IOF_PUSH_MAX ((size_t)16 << 20) /* bytes of a call, and of all that wait on a node */

/* An attribute of what a tool gets: how many bytes before these were left out. */
#define IOF_LOST "stepd.iof.lost"

struct delivery;
struct pull;
struct push;
struct subscriber;
struct tool;

/* The connections that libpmix has accepted. */
struct iof_sockets {
	int epoll_fd; /* those that are full: one that is closed leaves it by itself */
	ev_io full;   /* active while there are any */
	struct pollfd *fds;
	size_t count, capacity;
	bool stale; /* fds are to be found anew */
};

struct iof {
	struct px *px;

	/* iof.c */
	struct tool *tools; /* those that are connected */
	struct pull *pulls;
	uint64_t used;   /* how many there ever were, and calls that push */
	size_t ended;    /* so many of them have ended, and libpmix does not report which */
	uint64_t doubts; /* bytes delivered since that perhaps nobody wants */
	bool reported_doubts;
	bool no_agent; /* the step is over, or its agent is gone */
	bool over;     /* the same, and what is under way is waited for */
	ev_timer grace;
	struct delivery *first, **last;
	size_t waiting; /* bytes */
	unsigned in_libpmix;
	struct iof_sockets sockets;
	unsigned pushes; /* of this node's tools, which are not answered yet */

	/* iof_ranks.c */
	struct subscriber *subscribers;
	uint64_t subscribed;  /* how many there ever were */
	struct push *writing; /* for ranks of this node, in their order */
	size_t pushing_bytes;
};

/* ---- iof.c ---- */

/* Something has come to its end: whether all has, at the end of the step. */
void iof_check(struct iof *iof);

/* ---- iof_ranks.c ---- */

void iof_copy_close(struct iof *iof);
bool iof_send_is_idle(const struct iof *iof);
/* No stream goes on. */
void iof_send_ends(struct iof *iof);
bool iof_push_is_idle(const struct iof *iof);

#endif
