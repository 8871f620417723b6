/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fences that fail: nodes of it are lost or have left or do not agree, or it is out of time.
 */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ==== fences that can't end well ============================================================= */

/* ---- the end of a fence at this node -------------------------------------------------------- */

/* For the node's own beginning, which comes yet. */
static void remember_failure(struct group *g, int r, const char *text)
{
	char *copy = strdup(text);

	free(g->failure);
	g->failure = copy; /* without memory, the fence fails by a general sentence */
	g->failure_code = r;
}

static int apply_failure(struct wire *w, uint64_t id, uint64_t generation,
	const struct bitset *nodes, int code, const char *text)
{
	struct group *g;
	int r = wire_group_get(w, id, nodes, &g);

	if (r < 0 || generation <= g->ended)
		return r;
	if (g->began < generation)
		remember_failure(g, code, text);
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
			wire_send_frame(w, i, h, payload);
	}
}

void wire_break(struct wire *w, uint64_t id, uint64_t generation, const struct bitset *nodes, int r,
	const char *text)
{
	uint32_t top = wire_tree_top(&w->tree, nodes);
	bool is_top = top == w->node, is_cut = !is_top && bitset_test(&w->gone, top);
	struct wire_header h =
		wire_fence_header(w, is_top ? WIRE_FENCE_FAIL : WIRE_FENCE_BROKEN, id, generation);
	struct group *g = wire_group_exact(w, id, nodes);
	_cleanup_wire_buffer_ struct wire_buffer *payload = NULL;

	if (g && generation <= g->ended)
		return;
	h.total = (uint32_t)-r;
	payload = wire_nodes_encode(w, nodes, text, &h);
	if (!payload) {
		if (!is_top)
			wire_queue(w, 0, NULL); /* which ends it, too */
		return;
	}
	if (is_top)
		send_fail(w, nodes, &h, payload);
	if (is_top || is_cut) {
		(void)apply_failure(
			w, id, generation, nodes, r, text); /* no memory: it has no record */
		return;
	}
	h.target = top;
	wire_send_frame(w, 0, &h, payload);
	if (g && g->op && g->op->generation == generation)
		g->op->is_broken = true;
}

void wire_break_op(struct wire *w, const struct op *op, int r, const char *text)
{
	wire_break(w, op->group->id, op->generation, &op->group->nodes, r, text);
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
		"a fence of nodes %s is one of nodes %s for %s: its ranks do not agree on the"
		" nodes",
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
		wire_break_op(w, op, -EHOSTUNREACH, wire_loss_text(w, node));
		return;
	}
	node = wire_first_common(&g->nodes, &w->left);
	if (node == BITSET_NONE)
		return;
	(void)snprintf(text, sizeof(text), "a fence can't end: the tasks of %s have ended",
		wire_node_text(w, node, name));
	wire_break_op(w, op, -EHOSTDOWN, text);
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
	(void)wire_exit(w); /* done() may have closed it */
	return 0;
}

/* ---- what comes in -------------------------------------------------------------------------- */

/* FENCE_BROKEN at the top, FENCE_FAIL from there. */
int wire_on_broken(struct wire *w, _unused_ size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct err failure = ERR_INIT;
	size_t at = 0;
	int r = wire_nodes_decode(w, h, payload, &nodes, &at, err);

	if (r < 0)
		return r;
	if (!nodes.words || h->length - at > WIRE_TEXT_MAX || h->total == 0 || h->total > 4095)
		return err_set_text(err, -EPROTO, "it sent the end of a fence that can't be read");
	if (h->length > at && payload->bytes[at])
		(void)err_set_text(&failure, -(int)h->total, "%.*s", (int)(h->length - at),
			(const char *)payload->bytes + at);
	else
		(void)err_set_text(&failure, -(int)h->total, "a fence has failed");
	if (h->type == WIRE_FENCE_FAIL) {
		send_fail(w, &nodes, h, payload);
		r = apply_failure(w, h->set, h->generation, &nodes, failure.code, failure.text);
		return r < 0 ? err_set(err, r, "the end of a fence") : 0;
	}
	if (wire_tree_top(&w->tree, &nodes) != w->node)
		return err_set_text(err, -EPROTO, "it sent the end of a fence to the wrong node");
	wire_break(w, h->set, h->generation, &nodes, failure.code, failure.text);
	return 0;
}

/* ==== fences that are out of time ============================================================
 *
 * A fence that is out of time: the first node whose deadline comes reports that to the top, which
 * queries all nodes for missing ranks, and ends it with their names.
 */

/* ---- at the top ----------------------------------------------------------------------------- */

static void append_missing(struct op *op, const char *text)
{
	size_t at = strlen(op->missing);

	if (at + strlen(text) + 3 >= sizeof(op->missing))
		return; /* it is counted, and the end has the count */
	(void)snprintf(
		op->missing + at, sizeof(op->missing) - at, "%s%s", at > 0 ? ", " : "", text);
}

static void note_missing(struct wire *w, struct op *op, uint32_t node, const char *ranks, int size)
{
	char name[WIRE_NODE_TEXT_SIZE], text[400];

	wire_node_text(w, node, name);
	(void)snprintf(text, sizeof(text), size > 0 ? "%.*s on %s" : "%.*s%s", size, ranks, name);
	append_missing(op, text);
	op->missing_count++;
}

/* Formats the nodes that have not answered: "node 3 (n3), node 4 (n4) and 7 more" */
static size_t format_silent(const struct wire *w, const struct op *op, char *text, size_t size)
{
	char name[WIRE_NODE_TEXT_SIZE];
	size_t at = 0, count = 0, named = 0;
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
		named++;
	}
	if (count > named)
		(void)snprintf(text + at, size - at, " and %zu more", count - named);
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
		(void)snprintf(text + at, sizeof(text) - at, "%sno answer came from %s",
			op->missing_count > 0 ? "; " : "", silent);
	if (op->missing_count == 0 && silent_count == 0)
		(void)snprintf(text + at, sizeof(text) - at,
			"all have begun it and their data are still under way");
	wire_break_op(w, op, -ETIMEDOUT, text);
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

/* Notes the nodes that the top knows already. */
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

static void send_who(struct wire *w, const struct op *op)
{
	struct wire_header h = wire_fence_header(w, WIRE_FENCE_WHO, op->group->id, op->generation);
	_cleanup_wire_buffer_ struct wire_buffer *b =
		wire_nodes_encode(w, &op->group->nodes, "", &h);
	size_t i;

	for (i = 0; b && i < w->edges_count; i++) {
		if (op->branch[i] == BRANCH_WAITING)
			wire_send_frame(w, i, &h, b);
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
		wire_break_op(w, op, -ETIMEDOUT, "a fence is out of time");
		return;
	}
	op->late_ms = late_ms;
	answer_known(w, op);
	send_who(w, op);
	op->probe.fn = on_probe;
	op->probe.ctx = op;
	if (all_answered(op) || w->ops->timer_start(w->carrier, &op->probe, WIRE_PROBE_MS) < 0)
		end_probe(w, op);
}

int wire_on_late(struct wire *w, _unused_ size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct group *g;
	struct op *op;
	size_t at = 0;
	int r = wire_nodes_decode(w, h, payload, &nodes, &at, err);

	if (r < 0)
		return r;
	if (!nodes.words || wire_tree_top(&w->tree, &nodes) != w->node)
		return err_set_text(err, -EPROTO, "it sent a late fence to the wrong node");
	r = wire_op_find(w, h, &nodes, &op, err);
	if (r < 0 || !op)
		return r;
	g = op->group; /* which outlives it */
	wire_op_check(w, op);
	if (g->op == op)
		probe(w, op, h->total);
	return 0;
}

int wire_on_status(struct wire *w, _unused_ size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	struct group *g = wire_group_find(w, h->set);
	struct op *op = g ? g->op : NULL;
	char text[256];

	if (h->length >= sizeof(text))
		return err_set_text(err, -EPROTO, "it sent too long a list of missing ranks");
	if (!op || op->generation != h->generation || !op->answered.words ||
		!bitset_test(&g->nodes, h->source) || bitset_test(&op->answered, h->source))
		return 0; /* of one that has ended */
	bitset_set(&op->answered, h->source);
	if (!(h->flags & WIRE_BEGUN)) {
		struct err ranks = ERR_INIT;

		/* without what would disturb a terminal */
		(void)err_set_text(
			&ranks, -EPROTO, "%.*s", (int)h->length, (const char *)payload->bytes);
		note_missing(w, op, h->source, ranks.text, (int)strnlen(ranks.text, 255));
	}
	if (all_answered(op))
		end_probe(w, op);
	return 0;
}

/* ---- at the others -------------------------------------------------------------------------- */

static void send_status(struct wire *w, const struct wire_header *query, const struct bitset *nodes)
{
	const struct group *g = wire_group_exact(w, query->set, nodes);
	struct wire_header h =
		wire_fence_header(w, WIRE_FENCE_STATUS, query->set, query->generation);
	_cleanup_wire_buffer_ struct wire_buffer *b = wire_buffer_new(256);

	h.target = query->source;
	if (g && g->began >= query->generation &&
		!(g->op && g->op->generation == query->generation && g->op->is_abandoned))
		h.flags = WIRE_BEGUN;
	else if (b)
		h.length = (uint32_t)missing_here(w, query->set, (char *)b->bytes, 255);
	wire_send_frame(w, 0, &h, b);
}

int wire_on_who(struct wire *w, _unused_ size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	size_t at = 0, i;
	int r = wire_nodes_decode(w, h, payload, &nodes, &at, err);

	if (r < 0)
		return r;
	if (!nodes.words || wire_way(w, h->source) != 0 || !wire_has_parent(w))
		return err_set_text(err, -EPROTO, "it sent a query for a fence without nodes");
	for (i = wire_first_child_edge(w); i < w->edges_count; i++) {
		if (wire_tree_has_below(&w->tree, &nodes, w->edge[i].node))
			wire_send_frame(w, i, h, payload);
	}
	if (bitset_test(&nodes, w->node))
		send_status(w, h, &nodes);
	return 0;
}

static void send_late(struct wire *w, const struct op *op)
{
	struct wire_header h = wire_fence_header(w, WIRE_FENCE_LATE, op->group->id, op->generation);
	_cleanup_wire_buffer_ struct wire_buffer *b =
		wire_nodes_encode(w, &op->group->nodes, "", &h);

	h.target = op->top;
	h.total = op->timeout_ms < UINT32_MAX ? (uint32_t)op->timeout_ms : UINT32_MAX;
	if (b)
		wire_send_frame(w, 0, &h, b);
	else
		wire_queue(w, 0, NULL);
}

static void end_late(struct wire *w, struct op *op)
{
	char text[WIRE_TEXT_MAX], name[WIRE_NODE_TEXT_SIZE];

	/* The fence stays, as the way of those below. */
	(void)snprintf(text, sizeof(text),
		"a fence of %u nodes was not complete after %llu ms, and no answer about the"
		" missing ranks came from %s",
		bitset_count(&op->group->nodes), (unsigned long long)op->timeout_ms,
		wire_node_text(w, op->top, name));
	wire_op_done(w, op, -ETIMEDOUT, text);
}

static void op_on_deadline(struct wire *w, struct wire_timer *timer)
{
	wire_op_expire(w, timer->ctx);
}

void wire_op_expire(struct wire *w, struct op *op)
{
	bool was_late = op->is_late;

	if (op->is_decided || op->is_done)
		return;
	if (op->top == w->node) {
		probe(w, op, op->timeout_ms < UINT32_MAX ? (uint32_t)op->timeout_ms : UINT32_MAX);
		return;
	}
	op->is_late = true;
	if (!was_late)
		send_late(w, op);
	if (was_late || wire_op_arm(w, op, WIRE_GRACE_MS) < 0)
		end_late(w, op);
}

int wire_op_arm(struct wire *w, struct op *op, uint64_t timeout_ms)
{
	if (timeout_ms == 0 || w->is_closed)
		return 0;
	op->deadline.fn = op_on_deadline;
	op->deadline.ctx = op;
	return w->ops->timer_start(w->carrier, &op->deadline, timeout_ms);
}
