/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- the end of a fence at this node -------------------------------------------------------- */

/* For the node's own beginning, which comes yet. */
static void remember(struct group *g, int r, const char *text)
{
	char *copy = strdup(text);

	free(g->failure);
	g->failure = copy; /* without memory, begin() has other words */
	g->failure_code = r;
}

static int apply(struct wire *w, uint64_t id, uint64_t generation, const struct bitset *nodes,
	int code, const char *text)
{
	struct group *g;
	int r = wire_group_get(w, id, nodes, &g);

	if (r < 0 || generation <= g->ended)
		return r;
	if (g->began < generation)
		remember(g, code, text);
	g->ended = generation;
	if (g->op)
		wire_op_fail(w, g->op, code, text);
	return 0;
}

static void send_fail(struct wire *w, const struct bitset *nodes, const struct wire_header *h,
	struct wire_buffer *payload)
{
	size_t i;

	for (i = wire_first_child_edge(w); i < w->edges_count; i++) {
		if (wire_tree_has_below(&w->tree, nodes, w->edge[i].node))
			wire_send_bytes(w, i, h, payload, payload->bytes, h->length);
	}
}

void wire_break(struct wire *w, uint64_t id, uint64_t generation, const struct bitset *nodes, int r,
	const char *text)
{
	uint32_t top = wire_tree_top(&w->tree, nodes);
	bool is_top = top == w->node, is_cut = !is_top && bitset_test(&w->gone, top);
	struct wire_header h = wire_header_make(w, is_top ? WIRE_FENCE_FAIL : WIRE_FENCE_BROKEN);
	struct group *g = wire_group_exact(w, id, nodes);
	_cleanup_wire_buffer_ struct wire_buffer *payload = NULL;

	if (g && generation <= g->ended)
		return;
	h.set = id;
	h.generation = generation;
	h.total = (uint32_t)-r;
	payload = wire_nodes_encode(w, nodes, text, &h);
	if (!payload) {
		if (!is_top)
			wire_queue_fault(w, 0, -ENOMEM); /* which ends it, too */
		return;
	}
	h.length = (uint32_t)payload->size;
	if (is_top)
		send_fail(w, nodes, &h, payload);
	if (is_top || is_cut) {
		(void)apply(w, id, generation, nodes, r, text); /* no memory: it has no record */
		return;
	}
	h.target = top;
	wire_send_bytes(w, 0, &h, payload, payload->bytes, payload->size);
	if (g && g->op && g->op->generation == generation)
		g->op->is_broken = true;
}

static const char *format_nodes(const struct bitset *nodes, char *text, size_t size)
{
	(void)bitset_format_list(nodes, text, size);
	return text;
}

/* The group's fence and another one of its id, of other nodes. */
void wire_break_mismatch(struct wire *w, struct group *g, uint32_t source, uint64_t generation,
	const struct bitset *nodes)
{
	char text[WIRE_TEXT_MAX], here[200], there[200], name[WIRE_NODE_TEXT_SIZE];
	uint64_t other = g->op->generation;

	(void)snprintf(text, sizeof(text),
		"a fence of nodes %s is one of nodes %s for %s: its ranks do not agree who takes"
		" part",
		format_nodes(&g->nodes, here, sizeof(here)),
		format_nodes(nodes, there, sizeof(there)), wire_node_text(w, source, name));
	wire_break(w, g->id, generation, nodes, -EBADMSG, text);
	if (!w->is_closed)
		wire_break(w, g->id, other, &g->nodes, -EBADMSG, text);
}

void wire_break_generation(struct wire *w, struct group *g, const struct wire_header *h)
{
	char text[WIRE_TEXT_MAX], name[WIRE_NODE_TEXT_SIZE];
	uint64_t here = g->op ? g->op->generation : g->began + 1;

	(void)snprintf(text, sizeof(text),
		"%s is in fence %llu of its ranks and others in fence %llu: they do not begin the"
		" same ones",
		wire_node_text(w, h->source, name), (unsigned long long)h->generation,
		(unsigned long long)here);
	wire_break(w, g->id, here, &g->nodes, -EBADMSG, text);
	if (!w->is_closed)
		wire_break(w, g->id, h->generation, &g->nodes, -EBADMSG, text);
}

void wire_break_begun(struct wire *w, struct op *op, int r)
{
	char text[WIRE_TEXT_MAX], name[WIRE_NODE_TEXT_SIZE];

	(void)snprintf(text, sizeof(text), "%s has no memory for its part of a fence",
		wire_node_text(w, w->node, name));
	wire_break(w, op->group->id, op->generation, &op->group->nodes, r, text);
}

/* ---- nodes that will not come --------------------------------------------------------------- */

void wire_op_check(struct wire *w, struct op *op)
{
	struct group *g = op->group;
	char text[WIRE_TEXT_MAX], name[WIRE_NODE_TEXT_SIZE];
	uint32_t node;

	if (op->is_decided || w->is_closed)
		return;
	if (bitset_test(&w->gone, op->top)) {
		wire_op_fail(w, op, -EHOSTUNREACH, wire_loss_text(w, op->top));
		return;
	}
	if (op->is_broken || (op->is_complete && op->top != w->node))
		return;
	node = wire_first_common(&g->nodes, &w->gone);
	if (node != BITSET_NONE) {
		wire_break(w, g->id, op->generation, &g->nodes, -EHOSTUNREACH,
			wire_loss_text(w, node));
		return;
	}
	node = wire_first_common(&g->nodes, &w->left);
	if (node == BITSET_NONE)
		return;
	(void)snprintf(text, sizeof(text), "a fence can't end: the tasks of %s have ended",
		wire_node_text(w, node, name));
	wire_break(w, g->id, op->generation, &g->nodes, -EHOSTDOWN, text);
}

int wire_fence_fail(struct wire *w, const struct wire_set *set, const char *why)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct group *g;
	uint64_t generation;
	int r = wire_copy_set(w, set, &nodes, NULL);

	if (r == 0)
		r = wire_group_get(w, set->id, &nodes, &g);
	if (r < 0)
		return r;
	if (g->began < g->ended)
		return 0; /* the next one has failed already */
	generation = g->op && g->op->has_begun && !g->op->is_done ? g->began : g->began + 1;
	wire_enter(w);
	wire_break(w, set->id, generation, &nodes, -ECANCELED, why);
	(void)wire_exit(w); /* whoever closes it in done() knows */
	return 0;
}

/* ---- what comes in -------------------------------------------------------------------------- */

static int parse_end(const struct wire *w, const struct wire_header *h,
	const struct wire_buffer *payload, struct bitset *ret_nodes, struct err *ret_failure,
	struct err *err)
{
	size_t at = 0;
	int r = wire_nodes_decode(w, h, payload, ret_nodes, &at, err);

	if (r < 0)
		return r;
	if (!ret_nodes->words || h->length - at > WIRE_TEXT_MAX || h->total == 0 || h->total > 4095)
		return err_say(err, -EPROTO, "it sent the end of a fence that can't be read");
	if (h->length > at && payload->bytes[at])
		(void)err_say(ret_failure, -(int)h->total, "%.*s", (int)(h->length - at),
			(const char *)payload->bytes + at);
	else
		(void)err_say(ret_failure, -(int)h->total, "a fence has failed");
	return 0;
}

int wire_on_broken(
	struct wire *w, const struct wire_header *h, struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct err failure = ERR_INIT;
	int r = parse_end(w, h, payload, &nodes, &failure, err);

	if (r < 0)
		return r;
	if (wire_tree_top(&w->tree, &nodes) != w->node)
		return err_say(err, -EPROTO, "it sent the end of a fence to the wrong node");
	wire_break(w, h->set, h->generation, &nodes, failure.code, failure.text);
	return 0;
}

int wire_on_fail(
	struct wire *w, const struct wire_header *h, struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct err failure = ERR_INIT;
	int r = parse_end(w, h, payload, &nodes, &failure, err);

	if (r < 0)
		return r;
	send_fail(w, &nodes, h, payload);
	r = apply(w, h->set, h->generation, &nodes, failure.code, failure.text);
	return r < 0 ? err_set(err, r, "the end of a fence") : 0;
}
