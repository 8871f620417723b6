/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks' streams for tools, over the nodes of a step. A tool asks the server that it is
 * connected to (iof_pulls.c). That server asks the servers of the nodes where the ranks are
 * (iof_ask.c), and these have their agents copy the streams (iof_copy.c) and send it what comes
 * (iof_send.c: to subscribers); there it goes to libpmix (iof_deliver.c), which knows which of its
 * tools want it. What a tool sends goes the other way (iof_push.c).
 *
 *	agent =link=> copy -RPC_OUTPUT-> deliver => libpmix => tool
 *
 * No task waits for any of it. A subscriber has at most IOF_FLYING bytes under way, each message
 * answered when libpmix has it, and IOF_QUEUE bytes behind those; what is more is left out,
 * counted, and told with what comes next. libpmix itself has no such bound: it is given something
 * only while the sockets to its clients take it (iof_room.c).
 */
#ifndef MPI_PMIX_IOF_H
#define MPI_PMIX_IOF_H

#include "mpi/link_copy.h"
#include "mpi/pmix/rpc.h"

#define IOF_FLYING  (256u << 10)
#define IOF_QUEUE   (4u << 20)
#define IOF_WAITING (16u << 20) /* bytes that wait for one server's tools, of all nodes */

/* An attribute of what a tool gets: how many bytes before these were left out. */
#define IOF_LOST "stepd.iof.lost"

struct delivery;
struct pending_write;
struct pull;
struct room;
struct subscriber;
struct tool;

struct iof {
	struct px *px;

	/* iof_pulls.c */
	struct tool *tools; /* those that are connected */
	struct pull *pulls;
	uint64_t used;   /* how many there ever were, and calls that push */
	size_t ended;    /* so many of them have ended, and libpmix does not say which */
	uint64_t doubts; /* bytes delivered since that perhaps nobody wants */
	bool told_doubts;

	/* iof.c */
	bool no_agent; /* the step is over, or its agent is gone */
	bool over;     /* the same, and what is under way is waited for */
	ev_timer grace;

	/* subscriber.c */
	struct subscriber *subscribers;
	uint64_t subscribed; /* how many there ever were */

	/* iof_deliver.c */
	struct delivery *first, **last;
	size_t waiting; /* bytes */
	unsigned in_libpmix;

	struct room *room; /* iof_room.c */

	/* iof_push.c */
	struct pending_write *writes;
	size_t feeding_bytes;
	unsigned pushes; /* of this node's tools, which are not answered yet */
};

/* ---- iof.c ---- */

/* Something has come to its end: whether all has, at the end of the step. */
void iof_check(struct iof *iof);

/* ---- iof_pulls.c ---- */

void iof_pulls_close(struct iof *iof);

/* What the call asks for is wanted from now on, by the number that comes back; 0: no memory. */
uint64_t iof_pulls_add(struct iof *iof, const struct call *call) _must_check_;
/* It can't be had. */
void iof_pulls_forget(struct iof *iof, uint64_t number);
/* One of them has ended, whichever. */
void iof_pulls_end_one(struct iof *iof);

/* Whether somebody on this node may want it; says so only for a while where that can't be known. */
bool iof_is_wanted(
	struct iof *iof, const pmix_proc_t *proc, pmix_iof_channel_t channel, size_t size);

/* ---- iof_ask.c ---- */

/* Tells all nodes that nothing is wanted here any more. */
void iof_ask_stop(struct iof *iof);

/* ---- iof_copy.c ---- */

void iof_copy_open(struct iof *iof);
void iof_copy_close(struct iof *iof);

/* The subscriber, which is freed, wants nothing any more: the agent need not copy for it. */
void iof_copy_stop(struct iof *iof, struct subscriber *sub);

/* ---- iof_send.c ---- */

bool iof_send_is_idle(const struct iof *iof);

/* No stream goes on. */
void iof_send_ends(struct iof *iof);

/* ---- iof_deliver.c ---- */

void iof_deliver_open(struct iof *iof);
void iof_deliver_close(struct iof *iof);
bool iof_deliver_is_idle(const struct iof *iof);

/* There may be room again. */
void iof_deliver_next(struct iof *iof);

/* Nobody wants what waits. */
void iof_deliver_drop(struct iof *iof);

/* ---- iof_room.c ---- */

int iof_room_open(struct iof *iof) _must_check_;
void iof_room_close(struct iof *iof);

/* Connections have come or gone: looks for them again. */
void iof_room_changed(struct iof *iof);

/* Whether all of libpmix's connections take more; if not, iof_deliver_next() is called once that
 * may have changed. */
bool iof_has_room(struct iof *iof);

/* ---- iof_push.c ---- */

void iof_push_open(struct iof *iof);
bool iof_push_is_idle(const struct iof *iof);

#endif
