/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* ---- up ----------------------------------------------------------------------------------- */

static bool is_complete(const struct wire *w, const struct op *op)
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
static struct wire_packet *pack(struct wire_header *h, const struct wire_runs *runs, size_t *at)
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

static struct wire_header fence_header(
	const struct wire *w, enum wire_type type, const struct op *op)
{
	struct wire_header h = wire_header_make(w, type);

	h.set = op->group->id;
	h.generation = op->generation;
	return h;
}

/* A frame with the nodes of the fence and nothing else, before all others of it. */
static void send_nodes(struct wire *w, struct op *op)
{
	struct wire_header h = fence_header(w, WIRE_FENCE_UP, op);
	_cleanup_wire_buffer_ struct wire_buffer *b =
		wire_nodes_encode(w, &op->group->nodes, "", &h);
	struct wire_runs first = {.run = NULL};
	_cleanup_wire_packet_ struct wire_packet *p = NULL;
	size_t at = 0, i;

	if (!b ||
		wire_runs_add(&first, &(struct wire_run){b, b->bytes, (uint32_t)b->size, 0}) < 0) {
		wire_queue_fault(w, 0, -ENOMEM);
		return;
	}
	/* What fits goes with it. */
	for (i = 0; i < op->up.count && first.bytes + op->up.run[i].size <= WIRE_RUN_MAX &&
		first.count < WIRE_PACKET_RUNS_MAX;
		i++) {
		if (wire_runs_add(&first, &op->up.run[i]) < 0)
			break;
	}
	if (op->is_complete && i == op->up.count)
		h.flags |= WIRE_LAST;
	p = pack(&h, &first, &at);
	if (p)
		wire_queue(w, 0, p);
	else
		wire_queue_fault(w, 0, -ENOMEM);
	wire_runs_drop(&op->up, i);
	wire_runs_clear(&first);
	op->up_frames++;
}

static void send_up(struct wire *w, struct op *op)
{
	struct wire_header h = fence_header(w, WIRE_FENCE_UP, op);
	size_t at = 0;

	if (op->up_frames == 0) {
		send_nodes(w, op);
		if (op->up.count == 0)
			return;
	}
	do {
		_cleanup_wire_packet_ struct wire_packet *p = pack(&h, &op->up, &at);

		if (!p) {
			wire_queue_fault(w, 0, -ENOMEM);
			return;
		}
		if (op->is_complete && at == op->up.count)
			p->header.flags |= WIRE_LAST;
		wire_queue(w, 0, p);
		op->up_frames++;
	} while (at < op->up.count);
	wire_runs_clear(&op->up);
}

/* All is here: down it goes, in as few frames as it fits in, the same ones for all. */
static void send_down(struct wire *w, struct op *op)
{
	struct wire_header h = fence_header(w, WIRE_FENCE_DOWN, op);
	size_t at = 0, i;

	do {
		_cleanup_wire_packet_ struct wire_packet *p = pack(&h, &op->up, &at);

		if (p && at == op->up.count)
			p->header.flags |= WIRE_LAST;
		for (i = 0; i < w->edges_count; i++) {
			if (op->branch[i] == BRANCH_NONE)
				continue;
			if (p)
				wire_queue(w, i, p);
			else
				wire_queue_fault(w, i, -ENOMEM);
		}
	} while (at < op->up.count);
}

/* Sends what can go. op may be gone then. */
void wire_op_advance(struct wire *w, struct op *op)
{
	if (op->is_complete)
		return;
	op->is_complete = is_complete(w, op);
	if (op->top != w->node) {
		if (op->is_complete || op->up.bytes >= WIRE_RUN_MAX)
			send_up(w, op);
	} else if (op->is_complete) {
		op->is_decided = true;
		send_down(w, op);
		wire_op_succeed(w, op, &op->up);
	}
}

/* ---- what comes in ------------------------------------------------------------------------ */

/* A fence that a frame is the first word of. */
static int open_op(struct wire *w, const struct wire_header *h, const struct bitset *nodes,
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

/* The fence that a frame is of. 0: *ret_op is it, or NULL: the frame is of a fence that has ended
 * here, or has just been broken. */
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
		return err_say(err, -EPROTO, "it sent a part of a fence that is unknown");
	return open_op(w, h, nodes, ret_op, err);
}

static int check_path(
	const struct wire *w, const struct bitset *nodes, uint32_t child, struct err *err)
{
	if (!nodes->words)
		return 0;
	if (!wire_tree_has_below(&w->tree, nodes, child) ||
		!wire_tree_is_below(&w->tree, w->node, wire_tree_top(&w->tree, nodes)))
		return err_say(err, -EPROTO, "it sent a fence that does not pass here");
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
		return err_say(err, -EPROTO, "it has contributed to a fence twice");
	run.data = payload->bytes + at;
	run.size = h->length - (uint32_t)at;
	if (wire_runs_check(w, &op->group->nodes, run.data, run.size, run.blocks) < 0)
		return err_say(
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

int wire_on_down(struct wire *w, size_t edge, const struct wire_header *h,
	struct wire_buffer *payload, struct err *err)
{
	struct group *g = wire_group_find(w, h->set);
	struct op *op = g ? g->op : NULL;
	struct wire_run run = {
		.buffer = payload, .data = payload->bytes, .size = h->length, .blocks = h->blocks};
	size_t i;

	(void)edge;
	if (!op || op->generation != h->generation || !op->is_complete || op->top == w->node)
		return err_say(err, -EPROTO, "it ended a fence that is not under way here");
	if (wire_runs_check(w, &g->nodes, run.data, run.size, run.blocks) < 0)
		return err_say(
			err, -EPROTO, "it sent a contribution to a fence that can't be read");
	op->is_decided = true;
	for (i = 0; i < w->edges_count; i++) {
		if (op->branch[i] != BRANCH_NONE)
			wire_send_bytes(w, i, h, payload, run.data, run.size);
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
		return err_say(err, -EINVAL, "a fence of node %u in a step of %u nodes", beyond,
			w->tree.count);
	if (!bitset_test(&set->nodes, w->node))
		return err_say(
			err, -EINVAL, "a fence without the node that begins it, node %u", w->node);
	if (wire_nodes_copy(w, &set->nodes, ret_nodes) < 0)
		return err_set(err, -ENOMEM, "the nodes of a fence");
	return 0;
}

/* Its end here need not wait for the top, where the reason is known. */
static void abandon(struct wire *w, struct op *op, const char *why)
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
	wire_break(w, g->id, op->generation, &g->nodes, -ECANCELED, why);
	if (g->op == op)
		wire_op_done(w, op, -ECANCELED, why);
}

/* This node's part of a fence that is under way. */
static int join(struct wire *w, struct op *op, const struct op *own)
{
	struct group *g = op->group;
	int r;

	op->has_begun = true;
	op->done = own->done;
	op->userdata = own->userdata;
	op->timeout_ms = own->timeout_ms;
	if (own->is_abandoned) {
		abandon(w, op, own->why);
		return 0;
	}
	r = wire_runs_append(&op->up, &own->up);
	if (r == 0)
		r = wire_op_arm(w, op, own->timeout_ms);
	if (r < 0) {
		wire_break_begun(w, op, r);
		return 0;
	}
	wire_op_check(w, op);
	if (g->op == op)
		wire_op_advance(w, op);
	return 0;
}

/* The next generation of the group, which may be one that has ended already, or is under way
 * without this node, or can't be. */
static int begin(struct wire *w, struct group *g, struct op *op)
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
			"a fence of these ranks is under way that others take part in");
		return 0;
	}
	if (g->op && g->op->generation != generation) {
		/* It ran out of time here, and its top has not said a word yet. */
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
	return join(w, g->op, op);
}

static int fence(struct wire *w, const struct wire_set *set, const struct iovec *iov, int iovcnt,
	struct op *own, struct err *err)
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
		return err_say(err, -EALREADY, "a fence of these ranks is under way");
	if (!own->is_abandoned)
		r = wire_runs_encode(&own->up, w->node, iov, iovcnt);
	wire_enter(w);
	if (r == 0)
		r = begin(w, g, own);
	wire_runs_clear(&own->up);
	(void)wire_exit(w); /* whoever closes it in done() knows */
	return r < 0 ? err_set(err, r, "a contribution to a fence") : 0;
}

int wire_fence(struct wire *w, const struct wire_set *set, const struct iovec *iov, int iovcnt,
	uint64_t timeout_ms, wire_fence_fn done, void *userdata, struct err *err)
{
	struct op op = {
		.has_begun = true, .done = done, .userdata = userdata, .timeout_ms = timeout_ms};

	return fence(w, set, iov, iovcnt, &op, err);
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

	return fence(w, set, NULL, 0, &op, err);
}
