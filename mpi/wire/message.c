/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- out ------------------------------------------------------------------------------------ */

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

/* ---- in ------------------------------------------------------------------------------------- */

static void deliver(
	struct wire *w, uint32_t from, uint16_t channel, struct wire_buffer *b, size_t size)
{
	struct wire_block block = {.node = from, .data = b->bytes, .size = size, .buffer = b};

	if (w->events->message && !w->is_closed)
		w->events->message(w->userdata, from, channel, &block);
}

/* Messages to this node itself. */
void wire_on_own(struct wire *w, _unused_ struct wire_timer *timer)
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

static void forget(struct assembly *a)
{
	LIST_REMOVE(a, link);
	(void)wire_release(a->buffer);
	free(a);
}

static struct assembly *find_assembly(struct wire *w, uint32_t source)
{
	struct assembly *a;

	LIST_FOREACH(a, &w->assemblies, link)
	{
		if (a->source == source)
			return a;
	}
	return NULL;
}

static int start_assembly(struct wire *w, const struct wire_header *h, struct assembly **ret_a)
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
static int grow(struct assembly *a, uint32_t size)
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
	struct assembly *a = find_assembly(w, h->source);
	int r = a || h->offset > 0 ? 0 : start_assembly(w, h, &a);

	if (r < 0)
		return r;
	if (!a || h->offset != a->have || h->total != a->total || h->channel != a->channel)
		return -EPROTO;
	r = grow(a, h->length);
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

int wire_on_message(struct wire *w, size_t edge, const struct wire_header *h,
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
	if (find_assembly(w, h->source))
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
			forget(a);
	}
}

void wire_messages_clear(struct wire *w)
{
	struct own_message *m;

	while (!LIST_EMPTY(&w->assemblies))
		forget(LIST_FIRST(&w->assemblies));
	while ((m = STAILQ_FIRST(&w->own))) {
		STAILQ_REMOVE_HEAD(&w->own, link);
		(void)wire_release(m->buffer);
		free(m);
	}
}
