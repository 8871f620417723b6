/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any frames, from any neighbour, to a node in the middle of a tree, between what the node does
 * itself: nothing breaks, every fence ends once at most, and when the wire is closed nothing is
 * held. Half of the frames have a sound header, so that the input gets behind it.
 *
 * The input is a row of steps: a byte that selects it, and its arguments.
 */
#include <stddef.h>
#include <string.h>

#include "mpi/wire/wire_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TIMERS_MAX 64u
#define STEP       0x700000001ull
#define FENCES_MAX 64u

struct rig {
	struct wire *wire;
	struct wire_timer *timers[TIMERS_MAX];
	size_t timers_count;
	unsigned ended[FENCES_MAX];
	unsigned fences;
	bool is_lost[8];
	const uint8_t *at, *end;
};

struct fence {
	struct rig *rig;
	unsigned number;
};

static void require(bool holds)
{
	if (!holds)
		abort();
}

static uint8_t next(struct rig *rig)
{
	return rig->at < rig->end ? *rig->at++ : 0;
}

static void on_wake(void *carrier, size_t edge)
{
	const struct rig *rig = carrier;

	require(!rig->wire || wire_link_next(rig->wire, edge));
}

static void on_flow(void *carrier)
{
	(void)carrier;
}

static int on_start(void *carrier, struct wire_timer *timer, uint64_t timeout_ms)
{
	struct rig *rig = carrier;

	(void)timeout_ms;
	if (rig->timers_count == TIMERS_MAX)
		return -ENOMEM;
	timer->handle = timer;
	rig->timers[rig->timers_count++] = timer;
	return 0;
}

static void on_stop(void *carrier, struct wire_timer *timer)
{
	struct rig *rig = carrier;
	size_t i = 0;

	while (rig->timers[i] != timer)
		require(++i < rig->timers_count);
	rig->timers[i] = rig->timers[--rig->timers_count];
	timer->handle = NULL;
}

static void on_drop(void *carrier, size_t edge)
{
	struct rig *rig = carrier;

	rig->is_lost[edge] = true;
}

static void on_close(void *carrier)
{
	const struct rig *rig = carrier;

	require(rig->timers_count == 0);
}

static const struct wire_carrier ops = {.wake = on_wake,
	.flow = on_flow,
	.timer_start = on_start,
	.timer_stop = on_stop,
	.drop = on_drop,
	.close = on_close};

static void on_message(
	void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	volatile unsigned char last = 0;

	(void)userdata;
	(void)channel;
	require(from < 7 && block->node == from);
	if (block->size > 0)
		last = ((const unsigned char *)block->data)[block->size - 1];
	(void)last;
}

static void on_missing(void *userdata, uint64_t set_id, char *text, size_t size)
{
	(void)userdata;
	(void)set_id;
	memset(text, 'x', size - 1);
	text[size - 1] = '\0';
}

static const struct wire_events events = {.message = on_message, .missing = on_missing};

static void on_done(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *err)
{
	struct fence *f = userdata;
	unsigned char seen = 0;
	size_t i;

	require((r == 0) == !err && (r == 0 || strlen(err->text) > 0));
	require(f->rig->ended[f->number]++ == 0);
	for (i = 0; i < count; i++)
		seen ^= blocks[i].size ? *(const volatile unsigned char *)blocks[i].data : 0;
	(void)seen; /* a read, for a sanitizer */
}

static void take_set(struct rig *rig, struct wire_set *set)
{
	unsigned char bits = next(rig);
	uint32_t n;

	set->id = bits & 0x80 ? 1 : 2;
	require(bitset_init(&set->nodes, 7) == 0);
	for (n = 0; n < 7; n++) {
		if (n == 1 || (bits & 1u << n))
			bitset_set(&set->nodes, n);
	}
}

static void step_fence(struct rig *rig, struct fence *fences)
{
	struct wire_set set;
	unsigned char byte = 7;
	struct iovec iov = {&byte, 1};
	struct err err = ERR_INIT;
	struct fence *f = &fences[rig->fences];
	unsigned char timeout_ms;
	int r;

	if (rig->fences == FENCES_MAX)
		return;
	take_set(rig, &set);
	f->rig = rig;
	f->number = rig->fences;
	timeout_ms = next(rig);
	if (timeout_ms < 0xf0)
		r = wire_fence(rig->wire, &set, &iov, 1, timeout_ms, on_done, f, &err);
	else
		r = wire_fence_abandon(rig->wire, &set, timeout_ms,
			timeout_ms & 1 ? "it is in vain" : NULL, on_done, f, &err);
	if (r == 0)
		rig->fences++;
	bitset_clear(&set.nodes);
}

static void step_fail(struct rig *rig)
{
	struct wire_set set;

	take_set(rig, &set);
	require(wire_fence_fail(rig->wire, &set, "a rank has died") == 0);
	bitset_clear(&set.nodes);
}

static void lose(struct rig *rig, size_t edge, const struct err *err)
{
	if (rig->is_lost[edge])
		return;
	rig->is_lost[edge] = true;
	require(wire_link_lost(rig->wire, edge, err) == 0);
}

static void sound_header(struct rig *rig, size_t edge, struct wire_header *h)
{
	uint8_t bits = next(rig);

	*h = (struct wire_header){.type = next(rig) % WIRE_TYPE_MAX,
		.flags = bits & WIRE_FLAGS,
		.source = wire_link_node(rig->wire, edge),
		.target = bits & 0x10 ? 1
			: bits & 0x20 ? WIRE_NODE_ALL
				      : next(rig) % 8,
		.step = STEP,
		.set = bits & 0x40 ? 1 : 2,
		.generation = next(rig) % 4,
		.length = next(rig),
		.total = next(rig),
		.offset = bits & 0x80 ? 0 : next(rig),
		.blocks = next(rig) % 4};
}

static void step_frame(struct rig *rig, size_t edge, bool is_sound)
{
	unsigned char bytes[WIRE_HEADER_SIZE];
	_cleanup_wire_buffer_ struct wire_buffer *payload = NULL;
	struct wire_header h;
	struct err err = ERR_INIT;
	size_t i;

	if (rig->is_lost[edge])
		return;
	for (i = 0; !is_sound && i < sizeof(bytes); i++)
		bytes[i] = next(rig);
	if (is_sound)
		sound_header(rig, edge, &h);
	else if (wire_header_decode(bytes, &h, &err) < 0)
		return;
	payload = wire_buffer_new(h.length);
	require(payload != NULL);
	for (i = 0; i < h.length; i++)
		payload->bytes[i] = next(rig);
	if (wire_link_frame(rig->wire, edge, &h, payload, &err) < 0) {
		require(err.code < 0 && strlen(err.text) > 0);
		/* Most inputs go on as if it had not been sent, to get further. */
		if (next(rig) & 1)
			lose(rig, edge, &err);
	}
}

static void step_drain(struct rig *rig, size_t edge)
{
	const struct wire_packet *p;
	size_t i, size;

	while ((p = wire_link_next(rig->wire, edge))) {
		for (i = size = 0; i < p->count; i++)
			size += p->runs[i].size;
		require(size == p->header.length && size <= WIRE_PAYLOAD_MAX);
		require(wire_link_sent(rig->wire, edge) == 0);
	}
}

static void step_timer(struct rig *rig)
{
	struct wire_timer *timer;
	size_t i;

	if (rig->timers_count == 0)
		return;
	i = next(rig) % rig->timers_count;
	timer = rig->timers[i];
	rig->timers[i] = rig->timers[--rig->timers_count];
	timer->handle = NULL;
	require(wire_link_timer(rig->wire, timer) == 0);
}

static void step_send(struct rig *rig)
{
	struct iovec iov = {(void *)rig->at, (size_t)(rig->end - rig->at)};
	struct err err = ERR_INIT;

	if (wire_send(rig->wire, next(rig) % 8, 9, &iov, 1, &err) < 0)
		require(strlen(err.text) > 0);
	require(wire_broadcast(rig->wire, 9, &iov, 1, &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rig rig = {.at = data, .end = data + size};
	struct fence fences[FENCES_MAX];
	struct wire_link_options o = {.node = 1,
		.node_count = 7,
		.fanout = 2,
		.step = STEP,
		.events = &events,
		.userdata = &rig,
		.ops = &ops,
		.carrier = &rig};
	struct err err = ERR_INIT, gone = ERR_INIT;

	require(wire_link_open(&o, &rig.wire, &err) == 0);
	(void)err_set_text(&gone, -EPIPE, "gone");
	while (rig.at < rig.end) {
		uint8_t what = next(&rig);
		size_t edge = (what >> 4) % wire_link_edges(rig.wire);

		switch (what & 0xf) {
		case 0:
			step_fence(&rig, fences);
			break;
		case 1:
			step_fail(&rig);
			break;
		case 2:
			step_timer(&rig);
			break;
		case 3:
			step_drain(&rig, edge);
			break;
		case 4:
			step_send(&rig);
			break;
		case 5:
			lose(&rig, edge, &gone);
			break;
		case 6:
			wire_leave(rig.wire);
			break;
		case 7:
		case 8:
			step_frame(&rig, edge, false);
			break;
		default:
			step_frame(&rig, edge, true);
		}
	}
	(void)wire_close(rig.wire);
	return 0;
}
