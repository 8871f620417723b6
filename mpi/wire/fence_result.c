/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/wire/wire_impl.h"

/* Whether these bytes are that many blocks of nodes that take part, of a frame's size at most. */
int wire_runs_check(const struct wire *w, const struct bitset *nodes, const unsigned char *data,
	size_t size, uint16_t blocks)
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

/* ---- the contributions, whole --------------------------------------------------------------- */

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

static void stop_timer(struct wire *w, struct wire_timer *timer)
{
	if (timer->handle && !w->is_closed)
		w->ops->timer_stop(w->carrier, timer);
}

void wire_op_free(struct wire *w, struct op *op)
{
	stop_timer(w, &op->deadline);
	stop_timer(w, &op->probe);
	wire_runs_clear(&op->up);
	wire_runs_clear(&op->down);
	bitset_clear(&op->answered);
	free(op);
}

/* It is this group's no more, and the next one may begin. */
static void detach(struct wire *w, struct op *op)
{
	stop_timer(w, &op->deadline);
	stop_timer(w, &op->probe);
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
	(void)err_say(&err, r, "%s", text);
	op->done(op->userdata, r, NULL, 0, &err);
}

void wire_op_succeed(struct wire *w, struct op *op, const struct wire_runs *runs)
{
	_cleanup_result_ struct result result = {.blocks = NULL};
	int r = 0;

	detach(w, op);
	if (op->has_begun && !op->is_done && !w->is_closed) {
		r = result_make(&result, w, &op->group->nodes, runs);
		if (r < 0) {
			wire_op_done(w, op, r,
				r == -ENOMEM ? "no memory for what a fence has gathered"
					     : "the contributions to a fence are not whole");
		} else {
			op->is_done = true;
			op->done(op->userdata, 0, result.blocks, result.count, NULL);
		}
	}
	wire_op_free(w, op);
}

void wire_op_fail(struct wire *w, struct op *op, int r, const char *text)
{
	detach(w, op);
	wire_op_done(w, op, r, text);
	wire_op_free(w, op);
}
