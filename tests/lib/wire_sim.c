/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/wire_sim.h"

#include <assert.h>
#include <string.h>

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

uint64_t sim_random(struct sim *s, uint64_t below)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed % below;
}

/* ---- the carrier -------------------------------------------------------------------------- */

static void sim_wake(void *carrier, size_t edge)
{
	struct sim_node *n = carrier;
	struct sim *s = n->sim;

	if (s->active_count == s->active_capacity) {
		s->active_capacity = s->active_capacity ? 2 * s->active_capacity : 1024;
		s->active = must(reallocarray(s->active, s->active_capacity, sizeof(*s->active)));
	}
	s->active[s->active_count].node = n->node;
	s->active[s->active_count++].edge = edge;
}

static void sim_flow(void *carrier)
{
	(void)carrier;
}

static int sim_timer_start(void *carrier, struct wire_timer *timer, uint64_t timeout_ms)
{
	struct sim_node *n = carrier;
	struct sim_timer *t = must(calloc(1, sizeof(*t)));

	t->wire = n->wire;
	t->timer = timer;
	t->at_ms = n->sim->now_ms + timeout_ms;
	timer->handle = t;
	TAILQ_INSERT_TAIL(&n->sim->timers, t, link);
	return 0;
}

static void sim_timer_stop(void *carrier, struct wire_timer *timer)
{
	struct sim_node *n = carrier;

	TAILQ_REMOVE(&n->sim->timers, (struct sim_timer *)timer->handle, link);
	free(timer->handle);
	timer->handle = NULL;
}

static void sim_drop(void *carrier, size_t edge)
{
	(void)carrier;
	(void)edge;
}

static void sim_closed(void *carrier)
{
	struct sim_node *n = carrier;

	n->wire = NULL;
}

static const struct wire_carrier ops = {.wake = sim_wake,
	.flow = sim_flow,
	.timer_start = sim_timer_start,
	.timer_stop = sim_timer_stop,
	.drop = sim_drop,
	.close = sim_closed};

/* ---- a node ------------------------------------------------------------------------------- */

static void on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct sim_node *n = userdata;

	n->messages++;
	n->message_bytes += block->size;
	if (n->sim->on_message)
		n->sim->on_message(n, from, channel, block);
}

static void on_missing(void *userdata, uint64_t set_id, char *text, size_t size)
{
	const struct sim_node *n = userdata;

	(void)set_id;
	(void)snprintf(text, size, "rank %u", 10 * n->node);
}

static void on_lost(void *userdata, uint32_t node, const struct err *err)
{
	struct sim_node *n = userdata;

	(void)node;
	assert(err->code < 0);
	n->lost++;
}

static void on_left(void *userdata)
{
	struct sim_node *n = userdata;

	n->left++;
}

static const struct wire_events events = {
	.message = on_message, .missing = on_missing, .lost = on_lost, .left = on_left};

static size_t contribution_size(const struct sim *s, uint32_t node)
{
	return s->size == 0 ? 0 : s->size + node % 3;
}

static unsigned char contribution_byte(uint32_t node, uint64_t group, size_t at)
{
	return (unsigned char)(node * 7 + group * 31 + at * 13 + (at >> 8));
}

static bool is_right(const struct sim *s, const struct wire_block *b, uint64_t group)
{
	const unsigned char *bytes = b->data;
	size_t i, step = b->size > 4096 ? 509 : 1;

	if (b->size != contribution_size(s, b->node))
		return false;
	for (i = 0; i < b->size; i += step) {
		if (bytes[i] != contribution_byte(b->node, group, i))
			return false;
	}
	return b->size == 0 || bytes[b->size - 1] == contribution_byte(b->node, group, b->size - 1);
}

static void on_done(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *err)
{
	struct sim_pending *p = userdata;
	struct sim_end *end = &p->node->end[p->group];
	size_t i;

	end->count++;
	end->r = r;
	end->blocks = count;
	end->is_right = r == 0;
	(void)snprintf(end->text, sizeof(end->text), "%s", err ? err->text : "");
	for (i = 0; i < count; i++)
		end->is_right = end->is_right && is_right(p->node->sim, &blocks[i], p->group) &&
			(i == 0 || blocks[i].node > blocks[i - 1].node);
}

int sim_fence(struct sim *s, uint32_t node, unsigned group, const char *nodes, uint64_t timeout_ms)
{
	_cleanup_bitset_ struct bitset set = {.words = NULL};
	struct sim_pending *p = &s->nodes[node].pending[group];
	size_t size = contribution_size(s, node), i;
	_cleanup_free_ unsigned char *bytes = must(malloc(size + 1));
	struct iovec iov[2] = {{bytes, size / 2}, {bytes + size / 2, size - size / 2}};
	struct err err = ERR_INIT;

	if (bitset_init(&set, s->count) < 0 || (nodes && bitset_add_list(&set, nodes) < 0))
		abort();
	for (i = 0; !nodes && i < s->count; i++)
		bitset_set(&set, (uint32_t)i);
	for (i = 0; i < size; i++)
		bytes[i] = contribution_byte(node, group, i);
	p->node = &s->nodes[node];
	p->group = group;
	return wire_fence(s->nodes[node].wire, &(struct wire_set){set, group}, iov, 2, timeout_ms,
		on_done, p, &err);
}

int sim_abandon(struct sim *s, uint32_t node, unsigned group, uint64_t timeout_ms, const char *why)
{
	_cleanup_bitset_ struct bitset set = {.words = NULL};
	struct sim_pending *p = &s->nodes[node].pending[group];
	struct err err = ERR_INIT;
	uint32_t i;

	if (bitset_init(&set, s->count) < 0)
		abort();
	for (i = 0; i < s->count; i++)
		bitset_set(&set, i);
	p->node = &s->nodes[node];
	p->group = group;
	return wire_fence_abandon(s->nodes[node].wire, &(struct wire_set){set, group}, timeout_ms,
		why, on_done, p, &err);
}

void sim_open(struct sim *s, uint32_t count, uint32_t fanout, unsigned groups)
{
	struct err err = ERR_INIT;
	uint32_t i;

	s->count = count;
	s->fanout = fanout;
	s->groups = groups;
	s->seed = s->seed ? s->seed : 88172645463325252ull;
	TAILQ_INIT(&s->timers);
	s->nodes = must(calloc(count, sizeof(*s->nodes)));
	for (i = 0; i < count; i++) {
		struct sim_node *n = &s->nodes[i];
		struct wire_link_options o = {.node = i,
			.node_count = count,
			.fanout = fanout,
			.step = 0x700000001,
			.events = &events,
			.userdata = n,
			.ops = &ops,
			.carrier = n};

		n->sim = s;
		n->node = i;
		n->end = must(calloc(groups, sizeof(*n->end)));
		n->pending = must(calloc(groups, sizeof(*n->pending)));
		if (wire_link_open(&o, &n->wire, &err) < 0)
			abort();
	}
}

void sim_close(struct sim *s)
{
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		(void)wire_close(s->nodes[i].wire);
		free(s->nodes[i].end);
		free(s->nodes[i].pending);
	}
	assert(TAILQ_EMPTY(&s->timers));
	free(s->nodes);
	free(s->active);
}

/* ---- delivery ----------------------------------------------------------------------------- */

static size_t edge_to(const struct wire *w, uint32_t node)
{
	size_t i = 0;

	while (wire_link_node(w, i) != node)
		i++;
	return i;
}

/* Frames as the one writes them and the other reads them. */
static struct wire_buffer *flatten(const struct wire_packet *p, struct wire_header *ret_header)
{
	unsigned char bytes[WIRE_HEADER_SIZE];
	struct wire_buffer *b = must(wire_buffer_new(p->header.length));
	struct err err = ERR_INIT;
	size_t at = 0, i;

	wire_header_encode(&p->header, bytes);
	if (wire_header_decode(bytes, ret_header, &err) < 0)
		abort();
	for (i = 0; i < p->count; i++) {
		memcpy(b->bytes + at, p->runs[i].data, p->runs[i].size);
		at += p->runs[i].size;
	}
	assert(at == p->header.length);
	return b;
}

static void note_failure(struct sim *s, const struct err *err)
{
	s->failed = true;
	(void)snprintf(s->failure, sizeof(s->failure), "%s", err->text);
}

static void lose(struct sim_node *n, uint32_t peer, const struct err *err)
{
	if (n->wire && wire_link_lost(n->wire, edge_to(n->wire, peer), err) < 0)
		n->wire = NULL;
}

/* The first frame of that edge; true: it has more. */
static bool deliver(struct sim *s, uint32_t node, size_t edge)
{
	struct sim_node *from = &s->nodes[node], *to;
	const struct wire_packet *p = from->wire ? wire_link_next(from->wire, edge) : NULL;
	struct wire_header h;
	struct wire_buffer *b;
	struct err err = ERR_INIT;
	int r;

	if (!p)
		return false;
	to = &s->nodes[wire_link_node(from->wire, edge)];
	if (from->wire->edge[edge].queued_bytes > s->queued_most)
		s->queued_most = from->wire->edge[edge].queued_bytes;
	s->frames[p->header.type]++;
	s->payload_bytes += p->header.length;
	b = flatten(p, &h);
	if (wire_link_sent(from->wire, edge) < 0)
		abort();
	r = to->wire ? wire_link_frame(to->wire, edge_to(to->wire, node), &h, b, &err) : 0;
	if (r < 0 && r != -ESHUTDOWN) {
		note_failure(s, &err);
		lose(to, node, &err);
		lose(from, to->node, &err);
	}
	(void)wire_release(b);
	return from->wire && wire_link_next(from->wire, edge);
}

static size_t queue_length(const struct sim *s, size_t i)
{
	const struct wire *w = s->nodes[s->active[i].node].wire;
	const struct queued *q;
	size_t n = 0;

	if (w) {
		STAILQ_FOREACH(q, &w->edge[s->active[i].edge].queue, link)
		n++;
	}
	return n;
}

/* A pair is in the list once: put back where it has more, and was not announced anew meanwhile. */
static void put_back(struct sim *s, uint32_t node, size_t edge)
{
	size_t i;

	for (i = 0; i < s->active_count; i++) {
		if (s->active[i].node == node && s->active[i].edge == edge)
			return;
	}
	sim_wake(&s->nodes[node], edge);
}

size_t sim_run_rounds(struct sim *s)
{
	size_t n = 0, i, count, *length;

	for (; s->active_count > 0; s->rounds++) {
		__typeof__(s->active) active = s->active;

		count = s->active_count;
		length = must(calloc(count, sizeof(*length)));
		for (i = 0; i < count; i++)
			length[i] = queue_length(s, i);
		s->active = NULL;
		s->active_count = s->active_capacity = 0;
		for (i = 0; i < count; i++) {
			bool has_more = length[i] > 0;

			for (; length[i] > 0; length[i]--, n++)
				has_more = deliver(s, active[i].node, active[i].edge);
			if (has_more)
				put_back(s, active[i].node, active[i].edge);
		}
		free(active);
		free(length);
	}
	return n;
}

size_t sim_run_random(struct sim *s, size_t most)
{
	size_t n, i;

	for (n = 0; s->active_count > 0 && n < most; n++) {
		uint32_t node;
		size_t edge;

		i = sim_random(s, s->active_count);
		node = s->active[i].node;
		edge = s->active[i].edge;
		s->active[i] = s->active[--s->active_count];
		if (deliver(s, node, edge))
			put_back(s, node, edge);
	}
	return n;
}

bool sim_tick(struct sim *s, uint64_t until_ms)
{
	struct sim_timer *t, *first = NULL;
	struct wire_timer *timer;
	struct wire *w;

	TAILQ_FOREACH(t, &s->timers, link)
	{
		if (!first || t->at_ms < first->at_ms)
			first = t;
	}
	if (!first || first->at_ms > until_ms)
		return false;
	s->now_ms = first->at_ms;
	timer = first->timer;
	w = first->wire;
	TAILQ_REMOVE(&s->timers, first, link);
	free(first);
	timer->handle = NULL;
	return wire_link_timer(w, timer) <= 0; /* a closed one has reported it by ops.close */
}

void sim_run_until(struct sim *s, uint64_t until_ms)
{
	do
		(void)sim_run_random(s, SIZE_MAX);
	while (sim_tick(s, until_ms));
}

void sim_kill(struct sim *s, uint32_t node)
{
	struct sim_node *n = &s->nodes[node];
	struct err err = ERR_INIT;
	size_t i, count = wire_link_edges(n->wire);
	_cleanup_free_ uint32_t *peers = must(calloc(count + 1, sizeof(*peers)));

	for (i = 0; i < count; i++)
		peers[i] = wire_link_node(n->wire, i);
	(void)wire_close(n->wire);
	(void)err_set_text(&err, -ECONNRESET, "it has closed the connection");
	for (i = 0; i < count; i++)
		lose(&s->nodes[peers[i]], node, &err);
}
