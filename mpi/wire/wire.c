/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/wire.h"

#include <assert.h>
#include <string.h>

#include "mpi/wire/wire_impl.h"

static wire_on_fn wire_on_message;
static void on_own(struct wire *w, struct wire_timer *timer);
static void messages_clear(struct wire *w);

/* ---- a call and its end ------------------------------------------------------------------- */

static void destroy(struct wire *w)
{
	size_t i;

	wire_groups_clear(w);
	messages_clear(w);
	wire_losses_clear(w);
	for (i = 0; i < w->edges_count; i++)
		wire_drop_queue(w, &w->edge[i]);
	bitset_clear(&w->gone);
	bitset_clear(&w->left);
	free(w);
}

void wire_enter(struct wire *w)
{
	w->busy++;
}

/* Edges whose frames could not be queued are lost by that. */
static void report_faults(struct wire *w)
{
	struct err err = ERR_INIT;
	size_t i;

	for (i = 0; i < w->edges_count; i++) {
		if (!w->edge[i].has_fault || w->edge[i].is_lost || w->is_closed)
			continue;
		(void)err_set(&err, -ENOMEM, "a frame for it");
		w->ops->drop(w->carrier, i);
		wire_lose(w, i, err.text);
		i = (size_t)-1; /* that may have brought others about */
	}
}

int wire_exit(struct wire *w)
{
	assert(w->busy > 0);
	if (w->busy == 1 && !w->is_closed) {
		report_faults(w);
		wire_try_bye(w);
	}
	if (--w->busy > 0 || !w->is_closed)
		return w->is_closed ? -ESHUTDOWN : 0;
	destroy(w);
	return -ESHUTDOWN;
}

struct wire *wire_close(struct wire *w)
{
	if (!w || w->is_closed)
		return NULL;
	w->busy++;
	/* Timers are the carrier's: they go before it does. The rest goes when nobody below uses
	 * it. */
	wire_groups_stop(w);
	if (w->own_timer.handle)
		w->ops->timer_stop(w->carrier, &w->own_timer);
	w->is_closed = true;
	w->ops->close(w->carrier);
	(void)wire_exit(w); /* which destroys it, now or later */
	return NULL;
}

/* ---- the beginning ------------------------------------------------------------------------ */

static int check_options(const struct wire_link_options *o, struct err *err)
{
	if (o->node_count == 0 || o->node_count > WIRE_NODES_MAX)
		return err_set_text(err, -EINVAL, "a step of %u nodes: the wire takes 1 to %u",
			o->node_count, WIRE_NODES_MAX);
	if (o->node >= o->node_count)
		return err_set_text(err, -EINVAL, "node %u is none of a step of %u nodes", o->node,
			o->node_count);
	if (o->fanout > WIRE_NODES_MAX)
		return err_set_text(
			err, -EINVAL, "a fanout of %u is above %u", o->fanout, WIRE_NODES_MAX);
	return 0;
}

static void init_edges(struct wire *w)
{
	uint32_t first = wire_tree_first_child(&w->tree, w->node);
	size_t i, at = wire_first_child_edge(w);

	if (at > 0)
		w->edge[0].node = wire_tree_parent(&w->tree, w->node);
	for (i = at; i < w->edges_count; i++)
		w->edge[i].node = first + (uint32_t)(i - at);
	for (i = 0; i < w->edges_count; i++)
		STAILQ_INIT(&w->edge[i].queue);
}

int wire_link_open(const struct wire_link_options *options, struct wire **ret_wire, struct err *err)
{
	struct wire_tree tree = {.count = options->node_count,
		.fanout = options->fanout ? options->fanout : WIRE_FANOUT_DEFAULT};
	struct wire *w;
	size_t edges;
	int r = check_options(options, err);

	if (r < 0)
		return r;
	edges = wire_tree_child_count(&tree, options->node) + (options->node > 0);
	w = calloc(1, sizeof(*w) + edges * sizeof(w->edge[0]));
	if (!w || bitset_init(&w->gone, tree.count) < 0 || bitset_init(&w->left, tree.count) < 0) {
		if (w)
			bitset_clear(&w->gone);
		free(w);
		return err_set(err, -ENOMEM, "the wire");
	}
	w->tree = tree;
	w->node = options->node;
	w->step = options->step;
	w->names = options->names;
	w->events = options->events;
	w->userdata = options->userdata;
	w->ops = options->ops;
	w->carrier = options->carrier;
	w->edges_count = edges;
	STAILQ_INIT(&w->own);
	w->own_timer.fn = on_own;
	init_edges(w);
	*ret_wire = w;
	return 0;
}

/* ---- edges -------------------------------------------------------------------------------- */

bool wire_has_parent(const struct wire *w)
{
	return w->node > 0;
}

size_t wire_first_child_edge(const struct wire *w)
{
	return w->node > 0;
}

size_t wire_way(const struct wire *w, uint32_t node)
{
	uint32_t first = wire_tree_first_child(&w->tree, w->node), parent;

	assert(node != w->node);
	while (node > w->node) {
		parent = wire_tree_parent(&w->tree, node);
		if (parent == w->node)
			return wire_first_child_edge(w) + (node - first);
		node = parent;
	}
	return 0;
}

static void set_congested(struct wire *w, struct edge *e, bool is_congested)
{
	if (e->is_congested == is_congested)
		return;
	e->is_congested = is_congested;
	w->congested_count += is_congested ? 1 : (size_t)-1;
	if (!w->is_closed)
		w->ops->flow(w->carrier);
}

void wire_queue(struct wire *w, size_t edge, struct wire_packet *packet)
{
	struct edge *e = &w->edge[edge];
	struct queued *q;
	bool was_empty = STAILQ_EMPTY(&e->queue);

	if (e->is_lost || e->got_bye || e->has_fault || w->is_closed)
		return;
	q = packet ? malloc(sizeof(*q)) : NULL;
	if (!q) {
		e->has_fault = true;
		return;
	}
	packet->refs++;
	q->packet = packet;
	STAILQ_INSERT_TAIL(&e->queue, q, link);
	e->queued_bytes += WIRE_HEADER_SIZE + packet->header.length;
	if (e->queued_bytes > WIRE_QUEUE_HIGH)
		set_congested(w, e, true);
	if (was_empty)
		w->ops->wake(w->carrier, edge);
}

static void unqueue(struct wire *w, struct edge *e)
{
	struct queued *q = STAILQ_FIRST(&e->queue);

	STAILQ_REMOVE_HEAD(&e->queue, link);
	e->queued_bytes -= WIRE_HEADER_SIZE + q->packet->header.length;
	(void)wire_packet_release(q->packet);
	free(q);
	if (e->queued_bytes < WIRE_QUEUE_LOW)
		set_congested(w, e, false);
}

void wire_drop_queue(struct wire *w, struct edge *e)
{
	while (!STAILQ_EMPTY(&e->queue))
		unqueue(w, e);
}

struct wire_header wire_header_make(const struct wire *w, enum wire_type type)
{
	return (struct wire_header){
		.type = (uint8_t)type, .source = w->node, .target = WIRE_NODE_ALL, .step = w->step};
}

void wire_send_frame(
	struct wire *w, size_t edge, const struct wire_header *h, struct wire_buffer *payload)
{
	struct wire_run run = {.buffer = payload, .size = h->length, .blocks = h->blocks};
	_cleanup_wire_packet_ struct wire_packet *p = NULL;

	if (h->length > 0)
		run.data = payload->bytes;
	p = wire_packet_new(h, &run, h->length > 0 ? 1 : 0);
	wire_queue(w, edge, p);
}

/* ---- what the carrier calls --------------------------------------------------------------- */

size_t wire_link_edges(const struct wire *w)
{
	return w->edges_count;
}

uint32_t wire_link_node(const struct wire *w, size_t edge)
{
	return w->edge[edge].node;
}

bool wire_link_is_parent(const struct wire *w, size_t edge)
{
	return edge == 0 && wire_has_parent(w);
}

const struct wire_packet *wire_link_next(const struct wire *w, size_t edge)
{
	const struct queued *q = STAILQ_FIRST(&w->edge[edge].queue);

	return q ? q->packet : NULL;
}

int wire_link_sent(struct wire *w, size_t edge)
{
	wire_enter(w);
	unqueue(w, &w->edge[edge]);
	return wire_exit(w);
}

bool wire_link_may_read(const struct wire *w, size_t edge)
{
	return w->congested_count == (w->edge[edge].is_congested ? 1 : 0);
}

int wire_link_timer(struct wire *w, struct wire_timer *timer)
{
	wire_enter(w);
	timer->fn(w, timer);
	return wire_exit(w);
}

int wire_link_lost(struct wire *w, size_t edge, const struct err *why)
{
	wire_enter(w);
	wire_lose(w, edge, why->text);
	return wire_exit(w);
}

/* The origins of frames, by their type. */
enum origin {
	FROM_ANY,
	FROM_PARENT,
	FROM_CHILD,
	TO_TARGET, /* from a child, for the one node that decides on a fence: they go on as they are
		    */
};

static const struct {
	wire_on_fn *take; /* NULL: none of this type may come */
	enum origin origin;
} frames[WIRE_TYPE_MAX] = {
	[WIRE_FENCE_UP] = {wire_on_up, FROM_CHILD},
	[WIRE_FENCE_DOWN] = {wire_on_down, FROM_PARENT},
	[WIRE_FENCE_BROKEN] = {wire_on_broken, TO_TARGET},
	[WIRE_FENCE_FAIL] = {wire_on_broken, FROM_PARENT},
	[WIRE_FENCE_LATE] = {wire_on_late, TO_TARGET},
	[WIRE_FENCE_WHO] = {wire_on_who, FROM_PARENT},
	[WIRE_FENCE_STATUS] = {wire_on_status, TO_TARGET},
	[WIRE_MESSAGE] = {wire_on_message, FROM_ANY},
	[WIRE_LOST] = {wire_on_lost, FROM_ANY},
	[WIRE_LEFT] = {wire_on_left, FROM_CHILD},
	[WIRE_BYE] = {wire_on_bye, FROM_ANY},
};

static int dispatch(struct wire *w, size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	bool from_parent = wire_link_is_parent(w, edge);
	enum origin origin;

	if (h->type >= WIRE_TYPE_MAX || !frames[h->type].take)
		return -EPROTO;
	origin = frames[h->type].origin;
	if (origin != FROM_ANY && from_parent != (origin == FROM_PARENT))
		return err_set_text(err, -EPROTO,
			"it sent a frame (%s) that may not come from there",
			wire_type_name(h->type));
	if (origin == TO_TARGET && h->target != w->node) {
		if (h->target >= w->tree.count)
			return -EPROTO;
		wire_send_frame(w, wire_way(w, h->target), h, payload);
		return 0;
	}
	return frames[h->type].take(w, edge, h, payload, err);
}

static int check_frame(
	const struct wire *w, size_t edge, const struct wire_header *h, struct err *err)
{
	if (h->step != w->step)
		return err_set_text(err, -EPROTO, "it sent a frame of step %u.%u, this is %u.%u",
			(uint32_t)(h->step >> 32), (uint32_t)h->step, (uint32_t)(w->step >> 32),
			(uint32_t)w->step);
	if (h->source >= w->tree.count || h->source == w->node || wire_way(w, h->source) != edge)
		return err_set_text(err, -EPROTO,
			"it sent a frame of node %u, which is not behind it", h->source);
	return 0;
}

int wire_link_frame(struct wire *w, size_t edge, const struct wire_header *header,
	struct wire_buffer *payload, struct err *err)
{
	int r = check_frame(w, edge, header, err), closed;

	assert(payload && payload->size >= header->length);
	if (r < 0 || w->edge[edge].is_lost)
		return r;
	wire_enter(w);
	err->code = 0;
	r = dispatch(w, edge, header, payload, err);
	if (r < 0 && err->code == 0)
		(void)err_set(err, r, "it sent a frame (%s) that can't be taken",
			wire_type_name(header->type));
	closed = wire_exit(w);
	return closed < 0 ? closed : r;
}

const char *wire_node_text(const struct wire *w, uint32_t node, char text[WIRE_NODE_TEXT_SIZE])
{
	const char *name = w->names ? w->names[node] : NULL;

	(void)snprintf(text, WIRE_NODE_TEXT_SIZE, name ? "node %u (%.64s)" : "node %u", node, name);
	return text;
}

/* ---- messages: out -------------------------------------------------------------------------- */

static void send_pieces(struct wire *w, const size_t *edges, size_t count,
	const struct wire_header *first, struct wire_buffer *b)
{
	struct wire_header h = *first;
	size_t at = 0, n, i;

	h.total = (uint32_t)b->size;
	do {
		struct wire_run run = {.buffer = b, .data = b->bytes + at};
		_cleanup_wire_packet_ struct wire_packet *p = NULL;

		n = b->size - at < WIRE_RUN_MAX ? b->size - at : WIRE_RUN_MAX;
		run.size = (uint32_t)n;
		h.offset = (uint32_t)at;
		p = wire_packet_new(&h, &run, n > 0 ? 1 : 0);
		for (i = 0; i < count; i++)
			wire_queue(w, edges[i], p);
		at += n;
	} while (at < b->size);
}

static int send_own(struct wire *w, uint16_t channel, struct wire_buffer *b)
{
	_cleanup_free_ struct own_message *m = calloc(1, sizeof(*m));

	if (!m || (!w->own_timer.handle && w->ops->timer_start(w->carrier, &w->own_timer, 0) < 0))
		return -ENOMEM;
	m->channel = channel;
	m->buffer = wire_hold(b);
	STAILQ_INSERT_TAIL(&w->own, m, link);
	(void)take_ptr(m);
	return 0;
}

int wire_send(struct wire *w, uint32_t node, uint16_t channel, const struct iovec *iov, int iovcnt,
	struct err *err)
{
	struct wire_header h = wire_header_make(w, WIRE_MESSAGE);
	_cleanup_wire_buffer_ struct wire_buffer *b = NULL;
	size_t edge;
	int r = 0;

	if (node >= w->tree.count)
		return err_set_text(err, -EINVAL, "a message to node %u in a step of %u nodes",
			node, w->tree.count);
	if (bitset_test(&w->gone, node))
		return err_set_text(err, -EHOSTUNREACH, "%s", wire_loss_text(w, node));
	b = wire_buffer_copy(iov, iovcnt);
	if (!b)
		return err_set(err, -errno, "a message to node %u", node);
	h.target = node;
	h.channel = channel;
	wire_enter(w);
	if (node == w->node) {
		r = send_own(w, channel, b);
	} else {
		edge = wire_way(w, node);
		send_pieces(w, &edge, 1, &h, b);
	}
	(void)wire_exit(w); /* lost() may have closed it */
	return r < 0 ? err_set(err, r, "a message to this node") : 0;
}

int wire_broadcast(
	struct wire *w, uint16_t channel, const struct iovec *iov, int iovcnt, struct err *err)
{
	struct wire_header h = wire_header_make(w, WIRE_MESSAGE);
	_cleanup_wire_buffer_ struct wire_buffer *b = wire_buffer_copy(iov, iovcnt);
	_cleanup_free_ size_t *edges = NULL;
	size_t i;

	if (!b)
		return err_set(err, -errno, "a message to all nodes");
	edges = calloc(w->edges_count + 1, sizeof(*edges));
	if (!edges)
		return err_set(err, -ENOMEM, "a message to all nodes");
	for (i = 0; i < w->edges_count; i++)
		edges[i] = i;
	h.channel = channel;
	wire_enter(w);
	send_pieces(w, edges, w->edges_count, &h, b);
	(void)wire_exit(w); /* as above */
	return 0;
}

/* ---- messages: in --------------------------------------------------------------------------- */

static void deliver(
	struct wire *w, uint32_t from, uint16_t channel, struct wire_buffer *b, size_t size)
{
	struct wire_block block = {.node = from, .data = b->bytes, .size = size, .buffer = b};

	if (w->events->message && !w->is_closed)
		w->events->message(w->userdata, from, channel, &block);
}

/* Messages to this node itself. */
static void on_own(struct wire *w, _unused_ struct wire_timer *timer)
{
	struct own_message *m;

	w->is_leaving = false;
	while (!w->is_closed && (m = STAILQ_FIRST(&w->own))) {
		STAILQ_REMOVE_HEAD(&w->own, link);
		deliver(w, w->node, m->channel, m->buffer, m->buffer->size);
		(void)wire_release(m->buffer);
		free(m);
	}
}

static void assembly_forget(struct assembly *a)
{
	LIST_REMOVE(a, link);
	(void)wire_release(a->buffer);
	free(a);
}

static struct assembly *assembly_find(struct wire *w, uint32_t source)
{
	struct assembly *a;

	LIST_FOREACH(a, &w->assemblies, link)
	{
		if (a->source == source)
			return a;
	}
	return NULL;
}

static int assembly_start(struct wire *w, const struct wire_header *h, struct assembly **ret_a)
{
	struct assembly *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->source = h->source;
	a->channel = h->channel;
	a->total = h->total;
	LIST_INSERT_HEAD(&w->assemblies, a, link);
	*ret_a = a;
	return 0;
}

/* Memory grows with what has come, not with what was announced. */
static int assembly_grow(struct assembly *a, uint32_t size)
{
	uint64_t capacity = a->capacity ? a->capacity : 2 * WIRE_RUN_MAX;
	struct wire_buffer *b;

	while (capacity < (uint64_t)a->have + size)
		capacity *= 2;
	capacity = capacity < a->total ? capacity : a->total;
	if (capacity == a->capacity)
		return 0;
	b = realloc(a->buffer, sizeof(*b) + capacity);
	if (!b)
		return -ENOMEM;
	b->refs = 1;
	b->size = capacity;
	a->buffer = b;
	a->capacity = (uint32_t)capacity;
	return 0;
}

static int assemble(struct wire *w, const struct wire_header *h, const struct wire_buffer *payload)
{
	struct assembly *a = assembly_find(w, h->source);
	int r = a || h->offset > 0 ? 0 : assembly_start(w, h, &a);

	if (r < 0)
		return r;
	if (!a || h->offset != a->have || h->total != a->total || h->channel != a->channel)
		return -EPROTO;
	r = assembly_grow(a, h->length);
	if (r < 0)
		return r;
	memcpy(a->buffer->bytes + a->have, payload->bytes, h->length);
	a->have += h->length;
	if (a->have < a->total)
		return 0;
	LIST_REMOVE(a, link);
	deliver(w, h->source, a->channel, a->buffer, a->total);
	(void)wire_release(a->buffer);
	free(a);
	return 0;
}

static int wire_on_message(struct wire *w, size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	bool is_for_all = h->target == WIRE_NODE_ALL,
	     is_for_us = is_for_all || h->target == w->node;
	size_t i;

	if (h->total > WIRE_BLOCK_MAX || h->offset > h->total || h->length > h->total - h->offset ||
		h->length > WIRE_RUN_MAX || (h->length == 0 && h->total > 0) ||
		(h->target >= w->tree.count && !is_for_all))
		return err_set_text(err, -EPROTO, "it sent a message that can't be read");
	for (i = 0; is_for_all && i < w->edges_count; i++) {
		if (i != edge)
			wire_send_frame(w, i, h, payload);
	}
	if (!is_for_us) {
		i = wire_way(w, h->target);
		if (i == edge)
			return err_set_text(err, -EPROTO, "it sent a message that goes back to it");
		wire_send_frame(w, i, h, payload);
		return 0;
	}
	if (h->length < h->total)
		return assemble(w, h, payload);
	if (assembly_find(w, h->source))
		return -EPROTO;
	deliver(w, h->source, h->channel, payload, h->length);
	return 0;
}

void wire_messages_forget(struct wire *w)
{
	struct assembly *a, *next;

	for (a = LIST_FIRST(&w->assemblies); a; a = next) {
		next = LIST_NEXT(a, link);
		if (bitset_test(&w->gone, a->source))
			assembly_forget(a);
	}
}

static void messages_clear(struct wire *w)
{
	struct own_message *m;

	while (!LIST_EMPTY(&w->assemblies))
		assembly_forget(LIST_FIRST(&w->assemblies));
	while ((m = STAILQ_FIRST(&w->own))) {
		STAILQ_REMOVE_HEAD(&w->own, link);
		(void)wire_release(m->buffer);
		free(m);
	}
}
