/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fences, from their beginning to a good end. What ends them otherwise is in fence_fail.c.
 */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- sets of nodes, and how a frame has them ------------------------------------------------ */

struct wire_buffer *wire_nodes_encode(
	const struct wire *w, const struct bitset *nodes, const char *text, struct wire_header *h)
{
	bool is_all = bitset_count(nodes) == w->tree.count;
	size_t size = is_all ? 0 : (w->tree.count + 7) / 8, text_size = strlen(text);
	struct wire_buffer *b;
	uint32_t n;

	text_size = text_size < WIRE_TEXT_MAX ? text_size : WIRE_TEXT_MAX;
	b = wire_buffer_new(size + text_size);
	if (!b)
		return NULL;
	memset(b->bytes, 0, size);
	for (n = is_all ? BITSET_NONE : bitset_next(nodes, 0); n != BITSET_NONE;
		n = bitset_next(nodes, n + 1))
		b->bytes[n / 8] |= (unsigned char)(1u << n % 8);
	memcpy(b->bytes + size, text, text_size);
	h->flags |= is_all ? WIRE_ALL : WIRE_NODES;
	h->length = (uint32_t)b->size;
	return b;
}

static int decode_bitmap(const struct wire *w, const unsigned char *bytes, struct bitset *nodes)
{
	uint32_t i;

	for (i = 0; i < (w->tree.count + 7) / 8 * 8; i++) {
		if (!(bytes[i / 8] & 1u << i % 8))
			continue;
		if (i >= w->tree.count)
			return -EPROTO;
		bitset_set(nodes, i);
	}
	return bitset_next(nodes, 0) == BITSET_NONE ? -EPROTO : 0;
}

int wire_nodes_decode(const struct wire *w, const struct wire_header *h,
	const struct wire_buffer *payload, struct bitset *ret_nodes, size_t *ret_size,
	struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	size_t size = h->flags & WIRE_NODES ? (w->tree.count + 7) / 8 : 0;

	if (size > h->length)
		return err_set_text(err, -EPROTO, "it sent a frame (%s) that is cut off",
			wire_type_name(h->type));
	*ret_size = size;
	if (!(h->flags & (WIRE_NODES | WIRE_ALL)))
		return 0;
	if (bitset_init(&nodes, w->tree.count) < 0)
		return err_set(err, -ENOMEM, "the nodes of a fence");
	if (h->flags & WIRE_ALL)
		wire_tree_add_below(&w->tree, &nodes, 0);
	else if (decode_bitmap(w, payload->bytes, &nodes) < 0)
		return err_set_text(
			err, -EPROTO, "it sent a fence of no nodes, or of unknown ones");
	*ret_nodes = nodes;
	nodes.words = NULL;
	return 0;
}

/* Both as wide as the step. */
static bool wire_nodes_equal(const struct bitset *a, const struct bitset *b)
{
	return memcmp(a->words, b->words, a->width * sizeof(a->words[0])) == 0;
}

bool wire_takes_part(const struct wire *w, const struct group *g)
{
	return bitset_test(&g->nodes, w->node);
}

uint32_t wire_first_common(const struct bitset *a, const struct bitset *b)
{
	uint32_t n;

	for (n = bitset_next(a, 0); n != BITSET_NONE; n = bitset_next(a, n + 1)) {
		if (bitset_test(b, n))
			break;
	}
	return n;
}

/* ---- groups --------------------------------------------------------------------------------- */

static void stop_timer(struct wire *w, struct wire_timer *timer)
{
	if (timer->handle && !w->is_closed)
		w->ops->timer_stop(w->carrier, timer);
}

static void op_stop_timers(struct wire *w, struct op *op)
{
	stop_timer(w, &op->deadline);
	stop_timer(w, &op->probe);
}

static void wire_op_free(struct wire *w, struct op *op)
{
	op_stop_timers(w, op);
	wire_runs_clear(&op->up);
	wire_runs_clear(&op->down);
	bitset_clear(&op->answered);
	free(op);
}

static struct groups *bucket(const struct wire *w, uint64_t id)
{
	/* ids are hashes, or small numbers */
	return (struct groups *)&w->groups[(id ^ id >> 32) % GROUP_BUCKETS];
}

struct group *wire_group_find(const struct wire *w, uint64_t id)
{
	struct group *g, *found = NULL;

	LIST_FOREACH(g, bucket(w, id), link)
	{
		if (g->id == id && (!found || g->op))
			found = g;
	}
	return found;
}

struct group *wire_group_exact(const struct wire *w, uint64_t id, const struct bitset *nodes)
{
	struct group *g;

	LIST_FOREACH(g, bucket(w, id), link)
	{
		if (g->id == id && wire_nodes_equal(&g->nodes, nodes))
			return g;
	}
	return NULL;
}

static int wire_nodes_copy(
	const struct wire *w, const struct bitset *nodes, struct bitset *ret_copy)
{
	struct bitset copy;
	uint32_t n;
	int r = bitset_init(&copy, w->tree.count);

	if (r < 0)
		return r;
	for (n = bitset_next(nodes, 0); n != BITSET_NONE; n = bitset_next(nodes, n + 1))
		bitset_set(&copy, n);
	*ret_copy = copy;
	return 0;
}

int wire_group_get(
	struct wire *w, uint64_t id, const struct bitset *nodes, struct group **ret_group)
{
	struct group *g = wire_group_exact(w, id, nodes);

	if (!g) {
		if (w->groups_count == WIRE_SETS_MAX)
			return -ENOSPC;
		g = calloc(1, sizeof(*g));
		if (!g || wire_nodes_copy(w, nodes, &g->nodes) < 0) {
			free(g);
			return -ENOMEM;
		}
		g->id = id;
		LIST_INSERT_HEAD(bucket(w, id), g, link);
		w->groups_count++;
	}
	*ret_group = g;
	return 0;
}

void wire_groups_stop(struct wire *w)
{
	struct group *g;
	size_t i;

	for (i = 0; i < GROUP_BUCKETS; i++) {
		LIST_FOREACH(g, &w->groups[i], link)
		{
			if (g->op)
				op_stop_timers(w, g->op);
		}
	}
}

void wire_groups_clear(struct wire *w)
{
	struct group *g;
	size_t i;

	for (i = 0; i < GROUP_BUCKETS; i++) {
		while ((g = LIST_FIRST(&w->groups[i]))) {
			LIST_REMOVE(g, link);
			if (g->op)
				wire_op_free(w, g->op);
			bitset_clear(&g->nodes);
			free(g->failure);
			free(g);
		}
	}
}

static int wire_op_new(struct wire *w, struct group *g, uint64_t generation, struct op **ret_op)
{
	struct op *op = calloc(1, sizeof(*op) + w->edges_count);
	size_t i;

	if (!op)
		return -ENOMEM;
	op->group = g;
	op->generation = generation;
	op->top = wire_tree_top(&w->tree, &g->nodes);
	for (i = wire_first_child_edge(w); i < w->edges_count; i++) {
		if (wire_tree_has_below(&w->tree, &g->nodes, w->edge[i].node))
			op->branch[i] = BRANCH_WAITING;
	}
	g->op = op;
	*ret_op = op;
	return 0;
}

/* ---- the contributions, whole --------------------------------------------------------------- */

/* Whether these bytes are that many blocks of nodes that take part, of a frame's size at most. */
static int wire_runs_check(const struct wire *w, const struct bitset *nodes,
	const unsigned char *data, size_t size, uint16_t blocks)
{
	struct wire_part part;

	if (size > WIRE_RUN_MAX)
		return -EPROTO;
	for (; size > 0; blocks--) {
		if (blocks == 0 || wire_part_parse(data, size, &part) < 0 ||
			part.node >= w->tree.count || !bitset_test(nodes, part.node))
			return -EPROTO;
		data = part.data + part.length;
		size -= WIRE_BLOCK_HEADER + part.length;
	}
	return blocks == 0 ? 0 : -EPROTO;
}

struct result {
	struct wire_block *blocks; /* in the order of the nodes */
	uint32_t *have;            /* bytes of each, as far as joined */
	uint32_t *at;              /* where a node's block is, by node id */
	size_t count;
};

static void result_clear(struct result *result)
{
	size_t i;

	for (i = 0; result->blocks && i < result->count; i++)
		(void)wire_release(result->blocks[i].buffer);
	free(result->blocks);
	free(result->have);
	free(result->at);
}
#define _cleanup_result_ _cleanup_(result_clear)

static int result_init(struct result *result, const struct wire *w, const struct bitset *nodes)
{
	uint32_t n;
	size_t count = bitset_count(nodes);

	result->blocks = calloc(count, sizeof(*result->blocks));
	result->have = calloc(count, sizeof(*result->have));
	result->at = calloc(w->tree.count, sizeof(*result->at));
	if (!result->blocks || !result->have || !result->at)
		return -ENOMEM;
	for (n = bitset_next(nodes, 0); n != BITSET_NONE; n = bitset_next(nodes, n + 1)) {
		result->at[n] = (uint32_t)result->count;
		result->blocks[result->count++].node = n;
	}
	return 0;
}

/* A block that has come whole is a piece of its frame; others are joined. */
static int result_add(struct result *result, const struct wire_part *part, struct wire_buffer *from)
{
	uint32_t at = result->at[part->node];
	struct wire_block *b = &result->blocks[at];

	if (result->have[at] != part->offset || (b->buffer && b->size != part->total))
		return -EPROTO;
	result->have[at] += part->length;
	if (part->length == part->total) {
		b->data = part->data;
		b->size = part->total;
		b->buffer = wire_hold(from);
		return 0;
	}
	if (!b->buffer) {
		b->buffer = wire_buffer_new(part->total);
		if (!b->buffer)
			return -ENOMEM;
		b->data = b->buffer->bytes;
		b->size = part->total;
	}
	memcpy(b->buffer->bytes + part->offset, part->data, part->length);
	return 0;
}

static int result_add_run(struct result *result, const struct wire_run *run)
{
	const unsigned char *at = run->data;
	struct wire_part part;
	int r;

	while (at < run->data + run->size) {
		r = wire_part_parse(at, (size_t)(run->data + run->size - at), &part);
		if (r == 0)
			r = result_add(result, &part, run->buffer);
		if (r < 0)
			return r;
		at = part.data + part.length;
	}
	return 0;
}

static int result_make(struct result *result, const struct wire *w, const struct bitset *nodes,
	const struct wire_runs *runs)
{
	int r = result_init(result, w, nodes);
	size_t i;

	for (i = 0; r == 0 && i < runs->count; i++)
		r = result_add_run(result, &runs->run[i]);
	for (i = 0; r == 0 && i < result->count; i++)
		r = result->have[i] == result->blocks[i].size ? 0 : -EPROTO;
	return r;
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* It is this group's no more, and the next one may begin. */
static void op_detach(struct wire *w, struct op *op)
{
	op_stop_timers(w, op);
	op->group->op = NULL;
	if (op->group->ended < op->generation)
		op->group->ended = op->generation;
}

void wire_op_done(struct wire *w, struct op *op, int r, const char *text)
{
	struct err err = ERR_INIT;

	if (!op->has_begun || op->is_done || w->is_closed)
		return;
	op->is_done = true;
	(void)err_set_text(&err, r, "%s", text);
	op->done(op->userdata, r, NULL, 0, &err);
}

/* Ends this node's part of it well, with what is in runs, and badly. */
static void wire_op_succeed(struct wire *w, struct op *op, const struct wire_runs *runs)
{
	_cleanup_result_ struct result result = {.blocks = NULL};
	int r = 0;

	op_detach(w, op);
	if (op->has_begun && !op->is_done && !w->is_closed) {
		r = result_make(&result, w, &op->group->nodes, runs);
		if (r < 0) {
			wire_op_done(w, op, r,
				r == -ENOMEM ? "no memory for what a fence has gathered"
					     : "the contributions to a fence are incomplete");
		} else {
			op->is_done = true;
			op->done(op->userdata, 0, result.blocks, result.count, NULL);
		}
	}
	wire_op_free(w, op);
}

void wire_op_fail(struct wire *w, struct op *op, int r, const char *text)
{
	op_detach(w, op);
	wire_op_done(w, op, r, text);
	wire_op_free(w, op);
}

/* ---- up ----------------------------------------------------------------------------------- */

static bool op_is_complete(const struct wire *w, const struct op *op)
{
	size_t i;

	if (wire_takes_part(w, op->group) && (!op->has_begun || op->is_abandoned))
		return false;
	for (i = 0; i < w->edges_count; i++) {
		if (op->branch[i] == BRANCH_WAITING)
			return false;
	}
	return true;
}

/* As many runs from *at on as a frame takes; NULL: no memory. */
static struct wire_packet *pack_frame(
	struct wire_header *h, const struct wire_runs *runs, size_t *at)
{
	size_t first = *at, bytes = 0;

	h->blocks = 0;
	while (*at < runs->count && *at - first < WIRE_PACKET_RUNS_MAX &&
		bytes + runs->run[*at].size <= WIRE_RUN_MAX) {
		bytes += runs->run[*at].size;
		h->blocks = (uint16_t)(h->blocks + runs->run[*at].blocks);
		(*at)++;
	}
	return wire_packet_new(h, runs->run + first, *at - first);
}

struct wire_header wire_fence_header(
	const struct wire *w, enum wire_type type, uint64_t id, uint64_t generation)
{
	struct wire_header h = wire_header_make(w, type);

	h.set = id;
	h.generation = generation;
	return h;
}

/* The fence's nodes come before all else that goes up. */
static int op_put_nodes(struct wire *w, struct op *op, struct wire_header *h)
{
	_cleanup_wire_buffer_ struct wire_buffer *b =
		wire_nodes_encode(w, &op->group->nodes, "", h);
	struct wire_runs runs = {.run = NULL};
	int r = -ENOMEM;

	if (b)
		r = wire_runs_add(&runs, &(struct wire_run){b, b->bytes, (uint32_t)b->size, 0});
	if (r == 0)
		r = wire_runs_append(&runs, &op->up);
	wire_runs_clear(r < 0 ? &runs : &op->up);
	if (r == 0)
		op->up = runs;
	return r;
}

static void op_send_up(struct wire *w, struct op *op)
{
	struct wire_header h = wire_fence_header(w, WIRE_FENCE_UP, op->group->id, op->generation);
	size_t at = 0;

	if (!op->has_sent && op_put_nodes(w, op, &h) < 0) {
		wire_queue(w, 0, NULL);
		return;
	}
	op->has_sent = true;
	do {
		_cleanup_wire_packet_ struct wire_packet *p = pack_frame(&h, &op->up, &at);

		if (p && op->is_complete && at == op->up.count)
			p->header.flags |= WIRE_LAST;
		wire_queue(w, 0, p);
		h.flags = 0;
	} while (at < op->up.count);
	wire_runs_clear(&op->up);
}

/* All is here: down it goes, in as few frames as it fits in, the same ones for all. */
static void op_send_down(struct wire *w, struct op *op)
{
	struct wire_header h = wire_fence_header(w, WIRE_FENCE_DOWN, op->group->id, op->generation);
	size_t at = 0, i;

	do {
		_cleanup_wire_packet_ struct wire_packet *p = pack_frame(&h, &op->up, &at);

		if (p && at == op->up.count)
			p->header.flags |= WIRE_LAST;
		for (i = 0; i < w->edges_count; i++) {
			if (op->branch[i] != BRANCH_NONE)
				wire_queue(w, i, p);
		}
	} while (at < op->up.count);
}

/* Sends what can go. op may be gone then. */
static void wire_op_advance(struct wire *w, struct op *op)
{
	if (op->is_complete)
		return;
	op->is_complete = op_is_complete(w, op);
	if (op->top != w->node) {
		if (op->is_complete || op->up.bytes >= WIRE_RUN_MAX)
			op_send_up(w, op);
	} else if (op->is_complete) {
		op->is_decided = true;
		op_send_down(w, op);
		wire_op_succeed(w, op, &op->up);
	}
}

/* ---- what comes in ------------------------------------------------------------------------ */

/* A fence whose first frame this is. */
static int op_open(struct wire *w, const struct wire_header *h, const struct bitset *nodes,
	struct op **ret_op, struct err *err)
{
	struct group *g;
	int r = wire_group_get(w, h->set, nodes, &g);

	if (r == 0 && wire_takes_part(w, g) && h->generation > g->began + 1) {
		wire_break_generation(w, g, h);
		return 0;
	}
	if (r == 0)
		r = wire_op_new(w, g, h->generation, ret_op);
	return r < 0 ? err_set(err, r, "a fence") : 0;
}

int wire_op_find(struct wire *w, const struct wire_header *h, const struct bitset *nodes,
	struct op **ret_op, struct err *err)
{
	struct group *under_way = wire_group_find(w, h->set), *g = under_way;

	*ret_op = NULL;
	if (nodes->words)
		g = wire_group_exact(w, h->set, nodes);
	if (g && h->generation <= g->ended)
		return 0;
	if (nodes->words && under_way && under_way->op && under_way != g) {
		wire_break_mismatch(w, under_way, h->source, h->generation, nodes);
		return 0;
	}
	if (g && g->op) {
		if (g->op->generation == h->generation)
			*ret_op = g->op;
		else
			wire_break_generation(w, g, h);
		return 0;
	}
	if (!nodes->words)
		return err_set_text(err, -EPROTO, "it sent a part of a fence that is unknown");
	return op_open(w, h, nodes, ret_op, err);
}

static int check_path(
	const struct wire *w, const struct bitset *nodes, uint32_t child, struct err *err)
{
	if (!nodes->words)
		return 0;
	if (!wire_tree_has_below(&w->tree, nodes, child) ||
		!wire_tree_is_below(&w->tree, w->node, wire_tree_top(&w->tree, nodes)))
		return err_set_text(err, -EPROTO, "it sent a fence that does not pass here");
	return 0;
}

int wire_on_up(struct wire *w, size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct wire_run run = {.buffer = payload, .blocks = h->blocks};
	struct group *g;
	struct op *op;
	size_t at = 0;
	int r = wire_nodes_decode(w, h, payload, &nodes, &at, err);

	if (r == 0)
		r = check_path(w, &nodes, w->edge[edge].node, err);
	if (r == 0)
		r = wire_op_find(w, h, &nodes, &op, err);
	if (r < 0 || !op)
		return r;
	if (op->branch[edge] != BRANCH_WAITING)
		return err_set_text(err, -EPROTO, "it has contributed to a fence twice");
	run.data = payload->bytes + at;
	run.size = h->length - (uint32_t)at;
	if (wire_runs_check(w, &op->group->nodes, run.data, run.size, run.blocks) < 0)
		return err_set_text(
			err, -EPROTO, "it sent a contribution to a fence that can't be read");
	r = run.size > 0 ? wire_runs_add(&op->up, &run) : 0;
	if (r < 0)
		return err_set(err, r, "a contribution to a fence");
	if (h->flags & WIRE_LAST)
		op->branch[edge] = BRANCH_COMPLETE;
	g = op->group; /* which outlives it */
	wire_op_check(w, op);
	if (g->op == op)
		wire_op_advance(w, op);
	return 0;
}

int wire_on_down(struct wire *w, _unused_ size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	struct group *g = wire_group_find(w, h->set);
	struct op *op = g ? g->op : NULL;
	struct wire_run run = {
		.buffer = payload, .data = payload->bytes, .size = h->length, .blocks = h->blocks};
	size_t i;

	if (!op || op->generation != h->generation || !op->is_complete || op->top == w->node)
		return err_set_text(err, -EPROTO, "it ended a fence that is not under way here");
	if (wire_runs_check(w, &g->nodes, run.data, run.size, run.blocks) < 0)
		return err_set_text(
			err, -EPROTO, "it sent a contribution to a fence that can't be read");
	op->is_decided = true;
	for (i = 0; i < w->edges_count; i++) {
		if (op->branch[i] != BRANCH_NONE)
			wire_send_frame(w, i, h, payload);
	}
	if (run.size > 0 && op->has_begun && !op->is_done && wire_runs_add(&op->down, &run) < 0)
		return err_set(err, -ENOMEM, "a contribution to a fence");
	if (h->flags & WIRE_LAST)
		wire_op_succeed(w, op, &op->down);
	return 0;
}

/* ---- begin -------------------------------------------------------------------------------- */

int wire_copy_set(
	struct wire *w, const struct wire_set *set, struct bitset *ret_nodes, struct err *err)
{
	uint32_t beyond = bitset_next(&set->nodes, w->tree.count);

	if (beyond != BITSET_NONE)
		return err_set_text(err, -EINVAL, "a fence of node %u in a step of %u nodes",
			beyond, w->tree.count);
	if (!bitset_test(&set->nodes, w->node))
		return err_set_text(
			err, -EINVAL, "a fence without the node that begins it, node %u", w->node);
	if (wire_nodes_copy(w, &set->nodes, ret_nodes) < 0)
		return err_set(err, -ENOMEM, "the nodes of a fence");
	return 0;
}

/* Its end here need not wait for the top, where the reason is known. */
static void op_abandon(struct wire *w, struct op *op, const char *why)
{
	struct group *g = op->group;

	op->is_abandoned = true;
	wire_op_check(w, op);
	if (g->op != op || op->is_done)
		return;
	if (!why) {
		wire_op_expire(w, op);
		return;
	}
	wire_break_op(w, op, -ECANCELED, why);
	if (g->op == op)
		wire_op_done(w, op, -ECANCELED, why);
}

/* This node's part of a fence that is under way. */
static void op_join(struct wire *w, struct op *op, const struct op *own)
{
	struct group *g = op->group;
	char text[WIRE_TEXT_MAX], name[WIRE_NODE_TEXT_SIZE];
	int r;

	op->has_begun = true;
	op->done = own->done;
	op->userdata = own->userdata;
	op->timeout_ms = own->timeout_ms;
	if (own->is_abandoned) {
		op_abandon(w, op, own->why);
		return;
	}
	r = wire_runs_append(&op->up, &own->up);
	if (r == 0)
		r = wire_op_arm(w, op, own->timeout_ms);
	if (r < 0) {
		(void)snprintf(text, sizeof(text), "%s has no memory for its part of a fence",
			wire_node_text(w, w->node, name));
		wire_break_op(w, op, r, text);
		return;
	}
	wire_op_check(w, op);
	if (g->op == op)
		wire_op_advance(w, op);
}

/* The next generation of the group, which may be one that has ended already, or is under way
 * without this node, or can't be. */
static int group_begin(struct wire *w, struct group *g, struct op *op)
{
	uint64_t generation = ++g->began;
	uint32_t lost = wire_first_common(&g->nodes, &w->gone);
	static const char still_open[] =
		"the fence before this one ran out of time and has not ended on all nodes";
	struct group *under_way = wire_group_find(w, g->id);
	const char *why;
	int r = 0;

	if (lost != BITSET_NONE) {
		wire_op_done(w, op, -EHOSTUNREACH, wire_loss_text(w, lost));
		return 0;
	}
	if (generation <= g->ended) {
		wire_op_done(w, op, g->failure ? g->failure_code : -EIO,
			g->failure ? g->failure : "the fence ended before this node began it");
		return 0;
	}
	if (under_way != g && under_way->op) {
		wire_break_mismatch(w, under_way, w->node, generation, &g->nodes);
		wire_op_done(w, op, -EBADMSG,
			"a fence of these ranks with other participants is under way");
		return 0;
	}
	if (g->op && g->op->generation != generation) {
		/* It ran out of time here, and its top has not ended it yet. */
		r = op->why ? -ECANCELED : -ETIMEDOUT;
		why = op->why ? op->why : still_open;
		wire_break(w, g->id, generation, &g->nodes, r, why);
		wire_op_done(w, op, r, why);
		return 0;
	}
	if (!g->op)
		r = wire_op_new(w, g, generation, &(struct op *){NULL});
	if (r < 0) {
		g->began--;
		return r;
	}
	op_join(w, g->op, op);
	return 0;
}

static int start_fence(struct wire *w, const struct wire_set *set, const struct iovec *iov,
	int iovcnt, struct op *own, struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct group *g, *under_way;
	int r = wire_copy_set(w, set, &nodes, err);

	if (r < 0)
		return r;
	r = wire_group_get(w, set->id, &nodes, &g);
	if (r < 0)
		return err_set(err, r, "a fence");
	under_way = wire_group_find(w, set->id);
	if (under_way->op && under_way->op->has_begun && !under_way->op->is_done)
		return err_set_text(err, -EALREADY, "a fence of these ranks is under way");
	if (!own->is_abandoned)
		r = wire_runs_encode(&own->up, w->node, iov, iovcnt);
	wire_enter(w);
	if (r == 0)
		r = group_begin(w, g, own);
	wire_runs_clear(&own->up);
	(void)wire_exit(w); /* done() may have closed it */
	return r < 0 ? err_set(err, r, "a contribution to a fence") : 0;
}

int wire_fence(struct wire *w, const struct wire_set *set, const struct iovec *iov, int iovcnt,
	uint64_t timeout_ms, wire_fence_fn done, void *userdata, struct err *err)
{
	struct op op = {
		.has_begun = true, .done = done, .userdata = userdata, .timeout_ms = timeout_ms};

	return start_fence(w, set, iov, iovcnt, &op, err);
}

int wire_fence_abandon(struct wire *w, const struct wire_set *set, uint64_t timeout_ms,
	const char *why, wire_fence_fn done, void *userdata, struct err *err)
{
	struct op op = {.has_begun = true,
		.is_abandoned = true,
		.done = done,
		.userdata = userdata,
		.why = why,
		.timeout_ms = timeout_ms};

	return start_fence(w, set, NULL, 0, &op, err);
}
