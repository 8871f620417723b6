/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways that are gone, and goodbyes. A lost edge is reported to all on both of its sides. A node
 * that leaves reports that to those above it; an edge is closed when all below it have left: BYE,
 * and its answer.
 */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- losses --------------------------------------------------------------------------------- */

/* Whether the edge above child is between the two. */
static bool separates(const struct wire *w, uint32_t child, uint32_t a, uint32_t b)
{
	return wire_tree_is_below(&w->tree, a, child) != wire_tree_is_below(&w->tree, b, child);
}

/* Of a node that is gone: why, as a sentence. */
const char *wire_loss_text(const struct wire *w, uint32_t node)
{
	const struct loss *loss, *first = NULL;

	LIST_FOREACH(loss, &w->losses, link)
	{
		if (separates(w, loss->child, node, w->node))
			first = loss; /* the list has the last one first */
	}
	return first && first->text ? first->text : "the way to a node is lost";
}

void wire_losses_clear(struct wire *w)
{
	struct loss *loss;

	while ((loss = LIST_FIRST(&w->losses))) {
		LIST_REMOVE(loss, link);
		free(loss->text);
		free(loss);
	}
}

/* Without memory for it, the node is gone by a general sentence. */
static void remember_loss(struct wire *w, uint32_t child, const char *text)
{
	struct loss *loss = calloc(1, sizeof(*loss));

	if (!loss)
		return;
	loss->child = child;
	loss->text = strdup(text);
	LIST_INSERT_HEAD(&w->losses, loss, link);
}

static void add_gone(struct wire *w, uint32_t child)
{
	uint32_t n;

	if (!wire_tree_is_below(&w->tree, w->node, child)) {
		wire_tree_add_below(&w->tree, &w->gone, child);
		return;
	}
	for (n = 0; n < w->tree.count; n++) {
		if (!wire_tree_is_below(&w->tree, n, child))
			bitset_set(&w->gone, n);
	}
}

/* Checks all fences that are under way. */
static void check_fences(struct wire *w)
{
	struct group *g;
	size_t i;

	for (i = 0; i < GROUP_BUCKETS; i++) {
		LIST_FOREACH(g, &w->groups[i], link)
		{
			/* decided, and cut off from the rest of what was to come */
			if (g->op && bitset_test(&w->gone, g->op->top))
				wire_op_fail(
					w, g->op, -EHOSTUNREACH, wire_loss_text(w, g->op->top));
			else if (g->op)
				wire_op_check(w, g->op);
			if (w->is_closed)
				return;
		}
	}
}

/* The edge above child is lost, with this neighbour of it. */
static void apply_loss(struct wire *w, uint32_t child, uint32_t node, const char *text)
{
	struct err err = ERR_INIT;

	remember_loss(w, child, text);
	add_gone(w, child);
	wire_messages_forget(w);
	check_fences(w);
	(void)err_set_text(&err, -EHOSTUNREACH, "%s", text);
	if (w->events->lost && !w->is_closed)
		w->events->lost(w->userdata, node, &err);
}

static void report_loss(
	struct wire *w, size_t edge, uint32_t child, uint32_t node, const char *text)
{
	struct wire_header h = wire_header_make(w, WIRE_LOST);
	size_t size = strnlen(text, WIRE_TEXT_MAX), i;
	_cleanup_wire_buffer_ struct wire_buffer *b = wire_buffer_new(size);

	if (b) {
		memcpy(b->bytes, text, size);
		h.length = (uint32_t)size;
	}
	h.offset = child;
	h.total = node;
	for (i = 0; i < w->edges_count; i++) {
		if (i != edge)
			wire_send_frame(w, i, &h, b);
	}
}

void wire_lose(struct wire *w, size_t edge, const char *why)
{
	struct edge *e = &w->edge[edge];
	uint32_t child = wire_link_is_parent(w, edge) ? w->node : e->node;
	char name[WIRE_NODE_TEXT_SIZE];
	struct err text = ERR_INIT;

	if (e->is_lost)
		return;
	e->is_lost = true;
	wire_drop_queue(w, e);
	if (e->got_bye)
		return;
	(void)err_set_text(&text, -EHOSTUNREACH, "%s is lost: %.*s",
		wire_node_text(w, e->node, name), (int)WIRE_TEXT_MAX - 200, why);
	report_loss(w, edge, child, e->node, text.text);
	apply_loss(w, child, e->node, text.text);
}

int wire_on_lost(struct wire *w, size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	uint32_t child = h->offset, parent;
	struct err text = ERR_INIT;

	if (child == 0 || child >= w->tree.count || h->total >= w->tree.count ||
		h->length > WIRE_TEXT_MAX)
		return err_set_text(err, -EPROTO, "it reported a loss that can't be parsed");
	parent = wire_tree_parent(&w->tree, child);
	if (child == w->node || parent == w->node || wire_way(w, child) != edge ||
		wire_way(w, parent) != edge)
		return err_set_text(err, -EPROTO, "it reported a loss that is not behind it");
	if (h->length > 0 && payload->bytes[0])
		(void)err_set_text(
			&text, -EHOSTUNREACH, "%.*s", (int)h->length, (const char *)payload->bytes);
	else
		(void)err_set_text(&text, -EHOSTUNREACH, "node %u is lost", h->total);
	report_loss(w, edge, child, h->total, text.text);
	apply_loss(w, child, h->total, text.text);
	return 0;
}

/* ---- goodbyes ------------------------------------------------------------------------------- */

void wire_leave(struct wire *w)
{
	struct wire_header h = wire_header_make(w, WIRE_LEFT);

	if (w->has_left)
		return;
	wire_enter(w);
	w->has_left = true;
	bitset_set(&w->left, w->node);
	if (wire_has_parent(w))
		wire_send_frame(w, 0, &h, NULL);
	check_fences(w);
	w->is_leaving = !w->is_closed &&
		(w->own_timer.handle || w->ops->timer_start(w->carrier, &w->own_timer, 0) == 0);
	(void)wire_exit(w); /* done() may have closed it */
}

int wire_on_left(struct wire *w, _unused_ size_t edge, const struct wire_header *h,
	_unused_ struct wire_buffer *payload, struct err *err)
{
	if (h->length > 0 || bitset_test(&w->left, h->source))
		return err_set_text(
			err, -EPROTO, "it reported twice that node %u has left", h->source);
	bitset_set(&w->left, h->source);
	if (wire_has_parent(w))
		wire_send_frame(w, 0, h, NULL);
	check_fences(w);
	return 0;
}

static void send_bye(struct wire *w, size_t edge)
{
	struct wire_header h = wire_header_make(w, WIRE_BYE);

	wire_send_frame(w, edge, &h, NULL);
	w->edge[edge].sent_bye = true;
}

int wire_on_bye(struct wire *w, size_t edge, _unused_ const struct wire_header *h,
	_unused_ struct wire_buffer *payload, struct err *err)
{
	struct edge *e = &w->edge[edge];

	if (e->got_bye || (wire_link_is_parent(w, edge) && !e->sent_bye))
		return err_set_text(err, -EPROTO, "it sent a goodbye where it may not");
	if (!e->sent_bye)
		send_bye(w, edge);
	e->got_bye = true;
	return 0;
}

/* When this node and all below it have left, it sends a goodbye; once all that it has sent is out
 * and the goodbye is answered, it may go. */
void wire_try_bye(struct wire *w)
{
	size_t i;

	if (!w->has_left || w->reported_left || w->is_leaving)
		return;
	for (i = wire_first_child_edge(w); i < w->edges_count; i++) {
		if (!w->edge[i].got_bye && !w->edge[i].is_lost)
			return;
	}
	if (wire_has_parent(w) && !w->edge[0].is_lost && !w->edge[0].sent_bye) {
		if (w->events->leaving)
			w->events->leaving(w->userdata);
		send_bye(w, 0);
	}
	if (wire_has_parent(w) && !w->edge[0].is_lost && !w->edge[0].got_bye)
		return;
	for (i = 0; i < w->edges_count; i++) {
		if (!STAILQ_EMPTY(&w->edge[i].queue))
			return;
	}
	w->reported_left = true;
	if (w->events->left)
		w->events->left(w->userdata);
}
