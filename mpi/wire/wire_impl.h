/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The inside of the exchange.
 *
 * The lowest node that all nodes of a fence are below is its top: contributions go up to it, and it
 * alone decides how the fence ends, so that it ends alike on all nodes that it reaches. Those that
 * are cut off from it end the fence themselves. A node that finds that a fence can't end well
 * reports it to the top. Each wire_fence() of a set is a generation of it, whatever becomes of it;
 * what has ended here before the node has begun it fails when it does begin.
 */
#ifndef MPI_WIRE_WIRE_IMPL_H
#define MPI_WIRE_WIRE_IMPL_H

#include <sys/queue.h>

#include "mpi/wire/tree.h"
#include "mpi/wire/wire_link.h"

#define WIRE_TEXT_MAX   900u       /* bytes of a sentence in a frame */
#define WIRE_PROBE_MS   1000u      /* how long the top waits for lists of missing ranks */
#define WIRE_GRACE_MS   3000u      /* and a node for the end by the top */
#define WIRE_QUEUE_HIGH (8u << 20) /* bytes for one edge above which nobody feeds it */
#define WIRE_QUEUE_LOW  (4u << 20)
#define WIRE_SETS_MAX   (1u << 20)

struct queued {
	STAILQ_ENTRY(queued) link;
	struct wire_packet *packet;
};
STAILQ_HEAD(queue, queued);

struct edge {
	uint32_t node;
	struct queue queue;
	size_t queued_bytes;
	bool is_congested;
	bool is_lost;
	bool got_bye;   /* the neighbour has */
	bool sent_bye;  /* this node has, or has answered */
	bool has_fault; /* a frame could not be queued: it is lost when that can be reported */
};

enum branch {
	BRANCH_NONE, /* no node of the fence is behind this edge */
	BRANCH_WAITING,
	BRANCH_COMPLETE, /* all of them have contributed */
};

struct group;

/* A fence under way at this node. */
struct op {
	struct group *group;
	uint64_t generation;
	uint32_t top;
	bool has_begun;    /* here */
	bool is_abandoned; /* begun in vain: this node contributes nothing */
	bool is_done;      /* and its done() has been called */
	bool is_decided;   /* it will end well */
	bool is_complete;  /* this node's part and all below it have gone up */
	bool is_broken;    /* the top knows */
	bool is_late;      /* the top knows that it is out of time */
	bool has_sent;     /* its nodes have gone up */
	struct wire_runs up;
	struct wire_runs down;
	wire_fence_fn done;
	void *userdata;
	const char *why; /* it is abandoned; NULL: it is late. Until it has begun. */
	uint64_t timeout_ms;
	struct wire_timer deadline;
	struct wire_timer probe;
	struct bitset answered; /* to WHO; no words: there is no query */
	uint32_t late_ms;
	size_t missing_count;
	char missing[WIRE_TEXT_MAX / 2];
	unsigned char branch[]; /* enum branch, by edge */
};

/* A set of nodes, as long as the wire. */
struct group {
	LIST_ENTRY(group) link;
	uint64_t id;
	struct bitset nodes;
	uint64_t began;   /* generations begun here */
	uint64_t ended;   /* the last one that has ended as far as this node is concerned */
	int failure_code; /* of those ended and not begun here */
	char *failure;
	struct op *op;
};
LIST_HEAD(groups, group);

#define GROUP_BUCKETS 256u

struct loss {
	LIST_ENTRY(loss) link;
	uint32_t child; /* the edge above this node */
	char *text;
};
LIST_HEAD(losses, loss);

/* A message of several frames. */
struct assembly {
	LIST_ENTRY(assembly) link;
	uint32_t source;
	uint16_t channel;
	uint32_t total, have, capacity;
	struct wire_buffer *buffer;
};
LIST_HEAD(assemblies, assembly);

struct own_message {
	STAILQ_ENTRY(own_message) link;
	uint16_t channel;
	struct wire_buffer *buffer;
};
STAILQ_HEAD(own_messages, own_message);

struct wire {
	struct wire_tree tree;
	uint32_t node;
	uint64_t step;
	const char *const *names;
	const struct wire_events *events;
	void *userdata;
	const struct wire_carrier *ops;
	void *carrier;

	unsigned busy; /* calls under way */
	bool is_closed;
	bool has_left, reported_left;
	bool is_leaving;    /* events.left comes only after wire_leave() */
	struct bitset gone; /* no way leads to them any more */
	struct bitset left; /* as far as reported: those below this node */
	struct losses losses;
	struct groups groups[GROUP_BUCKETS];
	size_t groups_count;
	struct assemblies assemblies;
	struct own_messages own;
	struct wire_timer own_timer;

	size_t congested_count;
	size_t edges_count;
	struct edge edge[];
};

/* ---- wire.c */
void wire_enter(struct wire *w);
int wire_exit(struct wire *w); /* -ESHUTDOWN: it has been closed and is no more */
bool wire_has_parent(const struct wire *w);
size_t wire_first_child_edge(const struct wire *w);

/* The edge at which the way to a node begins, which is not this one. */
size_t wire_way(const struct wire *w, uint32_t node);
/* Holds the packet. NULL, for want of memory: the edge is lost at the end of the call. */
void wire_queue(struct wire *w, size_t edge, struct wire_packet *packet);
void wire_drop_queue(struct wire *w, struct edge *e);

/* A header of this step and node, of a fence, too; a frame of it with the first h->length bytes of
 * payload, which may be NULL for none. */
struct wire_header wire_header_make(const struct wire *w, enum wire_type type);
struct wire_header wire_fence_header(
	const struct wire *w, enum wire_type type, uint64_t id, uint64_t generation);
void wire_send_frame(
	struct wire *w, size_t edge, const struct wire_header *h, struct wire_buffer *payload);

void wire_messages_forget(struct wire *w); /* those of nodes that are gone */

/* Takes a frame that has come by this edge, as wire_link_frame(). The nodes it names are there; the
 * rest is not trusted. */
typedef int wire_on_fn(struct wire *w, size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err);

/* ---- fence.c */
/* Of that id, the group with a fence under way: there is one at most. */
struct group *wire_group_find(const struct wire *w, uint64_t id);
struct group *wire_group_exact(const struct wire *w, uint64_t id, const struct bitset *nodes);
/* The group of that id and these nodes, made if there is none. */
int wire_group_get(struct wire *w, uint64_t id, const struct bitset *nodes,
	struct group **ret_group) _must_check_;
void wire_groups_stop(struct wire *w); /* its timers */
void wire_groups_clear(struct wire *w);

/* The beginning of a fence's frame: its nodes, and a text behind them; sets the flag and the
 * length in h. NULL: no memory. */
struct wire_buffer *wire_nodes_encode(
	const struct wire *w, const struct bitset *nodes, const char *text, struct wire_header *h);
/* ret_nodes: no words where the frame does not name them; *ret_size: bytes that they take. */
int wire_nodes_decode(const struct wire *w, const struct wire_header *h,
	const struct wire_buffer *payload, struct bitset *ret_nodes, size_t *ret_size,
	struct err *err) _must_check_;
bool wire_takes_part(const struct wire *w, const struct group *g);
uint32_t wire_first_common(const struct bitset *a, const struct bitset *b);
int wire_copy_set(struct wire *w, const struct wire_set *set, struct bitset *ret_nodes,
	struct err *err) _must_check_;

/* The fence that a frame is of. 0: *ret_op is it, or NULL: the frame is of a fence that has ended
 * here, or has just been broken. */
int wire_op_find(struct wire *w, const struct wire_header *h, const struct bitset *nodes,
	struct op **ret_op, struct err *err) _must_check_;
/* Ends this node's part of it badly: altogether, or as far as its done() is concerned. */
void wire_op_fail(struct wire *w, struct op *op, int r, const char *text);
void wire_op_done(struct wire *w, struct op *op, int r, const char *text);

wire_on_fn wire_on_up, wire_on_down;

/* ---- fence_fail.c */
/* A fence can't end well: reports it to its top, or ends it if this is the top. */
void wire_break(struct wire *w, uint64_t id, uint64_t generation, const struct bitset *nodes, int r,
	const char *text);
void wire_break_op(struct wire *w, const struct op *op, int r, const char *text);
/* Nodes do not agree on the nodes, or on the generation. */
void wire_break_mismatch(struct wire *w, struct group *g, uint32_t source, uint64_t generation,
	const struct bitset *nodes);
void wire_break_generation(struct wire *w, struct group *g, const struct wire_header *h);
/* Breaks it if nodes of it are lost or have left. op may be gone then. */
void wire_op_check(struct wire *w, struct op *op);
int wire_op_arm(struct wire *w, struct op *op, uint64_t timeout_ms) _must_check_;
/* This node's part is out of time: all nodes get a query for what is missing. op may be gone then.
 */
void wire_op_expire(struct wire *w, struct op *op);

wire_on_fn wire_on_broken, wire_on_late, wire_on_who, wire_on_status;

/* ---- loss.c */
void wire_lose(struct wire *w, size_t edge, const char *why);
wire_on_fn wire_on_lost, wire_on_left, wire_on_bye;
void wire_try_bye(struct wire *w);
const char *wire_loss_text(const struct wire *w, uint32_t node);
void wire_losses_clear(struct wire *w);

#endif
