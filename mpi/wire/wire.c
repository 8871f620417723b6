/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/wire.h"

#include <assert.h>
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- a call and its end ------------------------------------------------------------------- */

static void destroy(struct wire *w)
{
	size_t i;

	wire_groups_clear(w);
	wire_messages_clear(w);
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
	w->own_timer.fn = wire_on_own;
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

/* Where frames of a type come from. */
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
		return err_set_text(err, -EPROTO, "it sent a frame (%s) where none may come from",
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
