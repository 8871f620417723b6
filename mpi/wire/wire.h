/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange among the MPI service processes of one step: fences over the nodes that take part,
 * and messages from node to node. It runs over a k-ary tree of the node ids, rooted at node 0, with
 * one connection an edge; here is the exchange alone, which knows neither sockets nor time: it
 * gets what comes in from a neighbour and has what shall go there (wire_link.h), so that the
 * same code runs over TCP (net.h) and over thousands of nodes in one process (tests/lib).
 *
 * Blobs are opaque and never copied: they are pieces of reference-counted buffers.
 */
#ifndef MPI_WIRE_WIRE_H
#define MPI_WIRE_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "stepd/base/bitset.h"
#include "stepd/base/err.h"

#define WIRE_FANOUT_DEFAULT 16u
#define WIRE_NODES_MAX      65536u
#define WIRE_BLOCK_MAX      (1u << 30) /* bytes of one node's contribution, of one message */

struct wire;

/* One node's contribution to a fence. data lives until the callback returns; wire_hold() keeps it
 * longer. */
struct wire_block {
	uint32_t node;
	const void *data;
	size_t size;
	struct wire_buffer *buffer; /* which data is a piece of */
};

struct wire_buffer *wire_hold(struct wire_buffer *buffer);
struct wire_buffer *wire_release(struct wire_buffer *buffer); /* NULL is fine; returns NULL */

/* The nodes of a fence. Fences over the same nodes and id are distinguished by their generation,
 * which the exchange counts by itself: each wire_fence() is one, however it ends. Fences of one id
 * and different nodes at the same time are a mistake, and end with that error. */
struct wire_set {
	struct bitset nodes; /* node ids; borrowed, copied if needed */
	uint64_t id;         /* which group of ranks: a hash that all participants make alike */
};

/* The end of a fence: 0 and the contributions of all its nodes, in the order of their ids, or
 * -errno and one sentence that names the nodes, and where they are known the ranks, that are
 * missing or lost. */
typedef void (*wire_fence_fn)(void *userdata, int r, const struct wire_block *blocks, size_t count,
	const struct err *err);

struct wire_events {
	/* A message of wire_send() or wire_broadcast(). */
	void (*message)(
		void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block);
	/* A fence has come to its deadline somewhere and this node has not contributed: puts the
	 * ranks that are missing here into text ("ranks 3-5"). */
	void (*missing)(void *userdata, uint64_t set_id, char *text, size_t size);
	/* The way to a node is gone for good; every fence that needs it ends by itself. node is the
	 * neighbour; those behind it are gone with it. */
	void (*lost)(void *userdata, uint32_t node, const struct err *err);
	/* All nodes below this one have left (wire_leave()), and this node has. leaving, which may
	 * be NULL, is before this node's goodbye goes up: what it sends then is the last that
	 * others get of it, and of what comes for it later nothing is answered. */
	void (*leaving)(void *userdata);
	void (*left)(void *userdata);
};

/* Begins a fence, or joins the one that others have begun; what iov holds is copied once.
 * timeout_ms counts from here, 0 is for ever. done may be called before this returns (a step of one
 * node). One fence of a set at a time: -EALREADY. */
int wire_fence(struct wire *w, const struct wire_set *set, const struct iovec *iov, int iovcnt,
	uint64_t timeout_ms, wire_fence_fn done, void *userdata, struct err *err) _must_check_;

/* Ends a fence of this node's, on all nodes, with this sentence: a rank of it has died. Where none
 * is under way here it is the next one, which this node has yet to begin. */
int wire_fence_fail(struct wire *w, const struct wire_set *set, const char *why);

/* Begins a fence in vain: this node contributes nothing, and it ends on all nodes, with the
 * sentence why, or, why NULL: ranks have not come within timeout_ms, with the names of all that are
 * missing anywhere. done gets the end, as of wire_fence(); perhaps before this returns. */
int wire_fence_abandon(struct wire *w, const struct wire_set *set, uint64_t timeout_ms,
	const char *why, wire_fence_fn done, void *userdata, struct err *err) _must_check_;

/* To one node (which may be this one: then it comes back by itself), or to all others. Messages
 * from one node to another arrive in their order. channel is the user's. */
int wire_send(struct wire *w, uint32_t node, uint16_t channel, const struct iovec *iov, int iovcnt,
	struct err *err) _must_check_;
int wire_broadcast(struct wire *w, uint16_t channel, const struct iovec *iov, int iovcnt,
	struct err *err) _must_check_;

/* This node's tasks have ended: it stays as a way for those below it, and events.left comes when
 * all of them have left too. */
void wire_leave(struct wire *w);

struct wire *wire_close(struct wire *w);

#endif
