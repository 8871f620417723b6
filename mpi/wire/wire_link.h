/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between the exchange and what carries its frames. The exchange knows no
 * sockets and no time. Its neighbours are edges, by index: the parent first, where there is one,
 * then the children in the order of their ids.
 *
 * Any call may run callbacks of the user's, and one of these may close the wire: those that return
 * an int then return -ESHUTDOWN, and the carrier, closed with it, touches nothing more then.
 */
#ifndef MPI_WIRE_WIRE_LINK_H
#define MPI_WIRE_WIRE_LINK_H

#include "mpi/wire/frame.h"

struct wire_timer {
	void (*fn)(struct wire *w, struct wire_timer *timer);
	void *ctx;
	void *handle; /* the carrier's; NULL: it is not running */
};

struct wire_carrier {
	/* The edge has a frame to send: wire_link_next(). Once, until it had none again. */
	void (*wake)(void *carrier, size_t edge);
	/* The result of wire_link_may_read() may have changed. */
	void (*flow)(void *carrier);
	/* Calls wire_link_timer() once after that time. 0 or -ENOMEM. */
	int (*timer_start)(void *carrier, struct wire_timer *timer, uint64_t timeout_ms);
	void (*timer_stop)(void *carrier, struct wire_timer *timer);
	/* The edge is of no more use. */
	void (*drop)(void *carrier, size_t edge);
	/* The wire is closed; wire_link_...() is called no more. */
	void (*close)(void *carrier);
};

struct wire_link_options {
	uint32_t node, node_count;
	uint32_t fanout; /* 0: WIRE_FANOUT_DEFAULT */
	uint64_t step;
	const char *const
		*names; /* of the nodes; NULL: none known. They live as long as the wire */
	const struct wire_events *events;
	void *userdata;
	const struct wire_carrier *ops;
	void *carrier;
};

int wire_link_open(const struct wire_link_options *options, struct wire **ret_wire,
	struct err *err) _must_check_;

size_t wire_link_edges(const struct wire *w);
uint32_t wire_link_node(const struct wire *w, size_t edge);
bool wire_link_is_parent(const struct wire *w, size_t edge);

/* A frame has come in: its header is decoded and its payload, of header->length bytes, stands at
 * the beginning of that buffer. -EPROTO, -ENOMEM: the edge is lost, and err has the reason; the
 * caller reports it by wire_link_lost(). */
int wire_link_frame(struct wire *w, size_t edge, const struct wire_header *header,
	struct wire_buffer *payload, struct err *err) _must_check_;

/* The edge is gone, for this reason. Nothing of it comes in or goes out any more. */
int wire_link_lost(struct wire *w, size_t edge, const struct err *why) _must_check_;

int wire_link_timer(struct wire *w, struct wire_timer *timer) _must_check_;

/* The next frame for that edge, or NULL; it stays until wire_link_sent(). */
const struct wire_packet *wire_link_next(const struct wire *w, size_t edge);
int wire_link_sent(struct wire *w, size_t edge) _must_check_;

/* False: what would come in from there could not go on, or not yet. */
bool wire_link_may_read(const struct wire *w, size_t edge);

/* "node 3 (n3)", or "node 3" */
#define WIRE_NODE_TEXT_SIZE 96
const char *wire_node_text(const struct wire *w, uint32_t node, char text[WIRE_NODE_TEXT_SIZE]);

#endif
