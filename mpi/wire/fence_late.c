/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A fence that is out of time: the first node whose deadline comes tells the top, which asks all
 * who is missing, and ends it with their names.
 */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- at the top ----------------------------------------------------------------------------- */

static void append(struct op *op, const char *text)
{
	size_t at = strlen(op->missing);

	if (at + strlen(text) + 3 >= sizeof(op->missing))
		return; /* it is counted, and the end says so */
	(void)snprintf(
		op->missing + at, sizeof(op->missing) - at, "%s%s", at > 0 ? ", " : "", text);
}

static void note_missing(struct wire *w, struct op *op, uint32_t node, const char *ranks, int size)
{
	char name[WIRE_NODE_TEXT_SIZE], text[400];

	wire_node_text(w, node, name);
	(void)snprintf(text, sizeof(text), size > 0 ? "%.*s on %s" : "%.*s%s", size, ranks, name);
	append(op, text);
	op->missing_count++;
}

/* "node 3 (n3), node 4 (n4) and 7 more" gave no word */
static size_t format_silent(const struct wire *w, const struct op *op, char *text, size_t size)
{
	char name[WIRE_NODE_TEXT_SIZE];
	size_t at = 0, count = 0, told = 0;
	uint32_t n;

	for (n = bitset_next(&op->group->nodes, 0); n != BITSET_NONE;
		n = bitset_next(&op->group->nodes, n + 1)) {
		if (bitset_test(&op->answered, n))
			continue;
		count++;
		wire_node_text(w, n, name);
		if (at + strlen(name) + 24 >= size)
			continue;
		at += (size_t)snprintf(text + at, size - at, "%s%s", at > 0 ? ", " : "", name);
		told++;
	}
	if (count > told)
		(void)snprintf(text + at, size - at, " and %zu more", count - told);
	return count;
}

static void end_probe(struct wire *w, struct op *op)
{
	char text[WIRE_TEXT_MAX], silent[300] = "";
	size_t silent_count = format_silent(w, op, silent, sizeof(silent));
	size_t at = (size_t)snprintf(text, sizeof(text),
		"a fence of %u nodes was not complete after %u ms: ",
		bitset_count(&op->group->nodes), op->late_ms);

	if (op->missing_count > 0)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "missing are %s", op->missing);
	if (silent_count > 0)
		(void)snprintf(text + at, sizeof(text) - at, "%sno word came from %s",
			op->missing_count > 0 ? "; " : "", silent);
	if (op->missing_count == 0 && silent_count == 0)
		(void)snprintf(text + at, sizeof(text) - at,
			"all have begun it and their data are still under way");
	wire_break(w, op->group->id, op->generation, &op->group->nodes, -ETIMEDOUT, text);
}

static void on_probe(struct wire *w, struct wire_timer *timer)
{
	end_probe(w, timer->ctx);
}

static size_t missing_here(const struct wire *w, uint64_t id, char *text, size_t size)
{
	text[0] = '\0';
	if (w->events->missing)
		w->events->missing(w->userdata, id, text, size);
	return strnlen(text, size);
}

/* Those of whom the top knows already. */
static void answer_known(struct wire *w, struct op *op)
{
	const struct bitset *nodes = &op->group->nodes;
	char text[256];
	uint32_t n;

	for (n = bitset_next(nodes, 0); n != BITSET_NONE; n = bitset_next(nodes, n + 1)) {
		if (n == w->node ? true : op->branch[wire_way(w, n)] == BRANCH_COMPLETE)
			bitset_set(&op->answered, n);
	}
	if (wire_takes_part(w, op->group) && (!op->has_begun || op->is_abandoned)) {
		int size = (int)missing_here(w, op->group->id, text, sizeof(text));

		note_missing(w, op, w->node, text, size);
	}
}

static void ask(struct wire *w, const struct op *op)
{
	struct wire_header h = wire_header_make(w, WIRE_FENCE_WHO);
	_cleanup_wire_buffer_ struct wire_buffer *b =
		wire_nodes_encode(w, &op->group->nodes, "", &h);
	size_t i;

	h.set = op->group->id;
	h.generation = op->generation;
	for (i = 0; b && i < w->edges_count; i++) {
		if (op->branch[i] == BRANCH_WAITING)
			wire_send_bytes(w, i, &h, b, b->bytes, b->size);
	}
}

static bool all_answered(const struct op *op)
{
	return bitset_first_outside(&op->group->nodes, &op->answered) == BITSET_NONE;
}

static void probe(struct wire *w, struct op *op, uint32_t late_ms)
{
	if (op->answered.words || op->is_decided || w->is_closed)
		return;
	if (bitset_init(&op->answered, w->tree.count) < 0) {
		wire_break(w, op->group->id, op->generation, &op->group->nodes, -ETIMEDOUT,
			"a fence is out of time");
		return;
	}
	op->late_ms = late_ms;
	answer_known(w, op);
	ask(w, op);
	op->probe.fn = on_probe;
	op->probe.ctx = op;
	if (all_answered(op) || w->ops->timer_start(w->carrier, &op->probe, WIRE_PROBE_MS) < 0)
		end_probe(w, op);
}

int wire_on_late(
	struct wire *w, const struct wire_header *h, struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct group *g;
	struct op *op;
	size_t at = 0;
	int r = wire_nodes_decode(w, h, payload, &nodes, &at, err);

	if (r < 0)
		return r;
	if (!nodes.words || wire_tree_top(&w->tree, &nodes) != w->node)
		return err_say(err, -EPROTO, "it sent a late fence to the wrong node");
	r = wire_op_find(w, h, &nodes, &op, err);
	if (r < 0 || !op)
		return r;
	g = op->group; /* which outlives it */
	wire_op_check(w, op);
	if (g->op == op)
		probe(w, op, h->total);
	return 0;
}

int wire_on_status(
	struct wire *w, const struct wire_header *h, struct wire_buffer *payload, struct err *err)
{
	struct group *g = wire_group_find(w, h->set);
	struct op *op = g ? g->op : NULL;
	char text[256];

	if (h->length >= sizeof(text))
		return err_say(err, -EPROTO, "it sent too long a text of who is missing");
	if (!op || op->generation != h->generation || !op->answered.words ||
		!bitset_test(&g->nodes, h->source) || bitset_test(&op->answered, h->source))
		return 0; /* of one that has ended */
	bitset_set(&op->answered, h->source);
	if (!(h->flags & WIRE_BEGUN)) {
		struct err ranks = ERR_INIT;

		/* with what would disturb a terminal made plain */
		(void)err_say(
			&ranks, -EPROTO, "%.*s", (int)h->length, (const char *)payload->bytes);
		note_missing(w, op, h->source, ranks.text, (int)strnlen(ranks.text, 255));
	}
	if (all_answered(op))
		end_probe(w, op);
	return 0;
}

/* ---- at the others -------------------------------------------------------------------------- */

static void answer(struct wire *w, const struct wire_header *who, const struct bitset *nodes)
{
	const struct group *g = wire_group_exact(w, who->set, nodes);
	struct wire_header h = wire_header_make(w, WIRE_FENCE_STATUS);
	_cleanup_wire_buffer_ struct wire_buffer *b = wire_buffer_new(256);
	size_t size = 0;

	h.target = who->source;
	h.set = who->set;
	h.generation = who->generation;
	if (g && g->began >= who->generation &&
		!(g->op && g->op->generation == who->generation && g->op->is_abandoned))
		h.flags = WIRE_BEGUN;
	else if (b)
		size = missing_here(w, who->set, (char *)b->bytes, 255);
	wire_send_bytes(w, 0, &h, b, b ? b->bytes : NULL, size);
}

int wire_on_who(
	struct wire *w, const struct wire_header *h, struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	size_t at = 0, i;
	int r = wire_nodes_decode(w, h, payload, &nodes, &at, err);

	if (r < 0)
		return r;
	if (!nodes.words || wire_way(w, h->source) != 0 || !wire_has_parent(w))
		return err_say(err, -EPROTO, "it asked for a fence without nodes");
	for (i = wire_first_child_edge(w); i < w->edges_count; i++) {
		if (wire_tree_has_below(&w->tree, &nodes, w->edge[i].node))
			wire_send_bytes(w, i, h, payload, payload->bytes, h->length);
	}
	if (bitset_test(&nodes, w->node))
		answer(w, h, &nodes);
	return 0;
}

static void send_late(struct wire *w, const struct op *op)
{
	struct wire_header h = wire_header_make(w, WIRE_FENCE_LATE);
	_cleanup_wire_buffer_ struct wire_buffer *b =
		wire_nodes_encode(w, &op->group->nodes, "", &h);

	h.target = op->top;
	h.set = op->group->id;
	h.generation = op->generation;
	h.total = op->timeout_ms < UINT32_MAX ? (uint32_t)op->timeout_ms : UINT32_MAX;
	if (b)
		wire_send_bytes(w, 0, &h, b, b->bytes, b->size);
	else
		wire_queue_fault(w, 0, -ENOMEM);
}

static void end_late(struct wire *w, struct op *op)
{
	char text[WIRE_TEXT_MAX], name[WIRE_NODE_TEXT_SIZE];

	/* The fence stays, as the way of those below. */
	(void)snprintf(text, sizeof(text),
		"a fence of %u nodes was not complete after %llu ms, and no word of who is missing"
		" came from %s",
		bitset_count(&op->group->nodes), (unsigned long long)op->timeout_ms,
		wire_node_text(w, op->top, name));
	wire_op_done(w, op, -ETIMEDOUT, text);
}

static void on_deadline(struct wire *w, struct wire_timer *timer)
{
	wire_op_expire(w, timer->ctx);
}

void wire_op_expire(struct wire *w, struct op *op)
{
	bool is_asked = op->is_late;

	if (op->is_decided || op->is_done)
		return;
	if (op->top == w->node) {
		probe(w, op, op->timeout_ms < UINT32_MAX ? (uint32_t)op->timeout_ms : UINT32_MAX);
		return;
	}
	op->is_late = true;
	if (!is_asked)
		send_late(w, op);
	if (is_asked || wire_op_arm(w, op, WIRE_GRACE_MS) < 0)
		end_late(w, op);
}

int wire_op_arm(struct wire *w, struct op *op, uint64_t timeout_ms)
{
	if (timeout_ms == 0 || w->is_closed)
		return 0;
	op->deadline.fn = on_deadline;
	op->deadline.ctx = op;
	return w->ops->timer_start(w->carrier, &op->deadline, timeout_ms);
}
