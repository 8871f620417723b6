/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/engine/bookings.h"

#include <errno.h>

#include "contrib/jobd/abi/bits.h"

#define BLOCK_S    900
#define BLOCKS_MAX 4096u /* the last one is without end */
#define LONG_S     (64 * BLOCK_S)

/* ---- life ---------------------------------------------------------------------------------------
 */

int bookings_make(struct bookings *b)
{
	uint32_t cores = 0;
	int i;

	for (i = 0; i < node_record_count; i++) {
		if (node_record_table_ptr[i].tot_cores > cores)
			cores = node_record_table_ptr[i].tot_cores;
	}
	*b = (struct bookings){
		.last_parts = calloc((size_t)node_record_count + 1, sizeof(*b->last_parts)),
		.core_mask = calloc(cores / 64 + 1, sizeof(*b->core_mask)),
		.shared = bit_alloc(node_record_count)};
	return b->last_parts && b->core_mask ? 0 : -ENOMEM;
}

void bookings_clear(struct bookings *b)
{
	size_t i;

	for (i = 0; i < b->blocks.count; i++) {
		bit_free(b->blocks.items[i].nodes);
		free(b->blocks.items[i].active.items);
		free(b->blocks.items[i].begun.items);
	}
	free(b->blocks.items);
	free(b->long_ones.items);
	free(b->core_mask);
	free(b->list.items);
	free(b->parts.items);
	free(b->shares.items);
	free(b->cores.items);
	free(b->last_parts);
	bit_free(b->shared);
	bit_free(b->exc_cores);
	free(b->exc_shares.items);
}

static void clear_exc_cores(struct bookings *b)
{
	size_t i;
	uint32_t k;

	for (i = 0; i < b->exc_shares.count; i++) {
		const struct share *share = &b->shares.items[b->exc_shares.items[i] - 1];

		for (k = 0; k < share->cores_count; k++)
			bits_clear(b->exc_cores, b->cores.items[share->first_core + k]);
	}
	b->exc_shares.count = 0;
}

void bookings_begin(struct bookings *b, time_t now)
{
	size_t i;

	clear_exc_cores(b);
	for (i = 0; i < b->parts.count; i++)
		b->last_parts[b->parts.items[i].node] = 0;
	for (i = 0; i < b->blocks_used; i++) {
		bit_clear_all(b->blocks.items[i].nodes);
		b->blocks.items[i].active.count = b->blocks.items[i].begun.count = 0;
	}
	bit_clear_all(b->shared);
	b->now = now;
	b->blocks_used = b->whole_parts = 0;
	b->list.count = b->parts.count = b->shares.count = b->cores.count = 0;
	b->long_ones.count = 0;
}

/* ---- blocks of time -----------------------------------------------------------------------------
 */

static size_t block_of(const struct bookings *b, time_t t)
{
	time_t i = (t - b->now) / BLOCK_S;

	return i < (time_t)BLOCKS_MAX - 1 ? (size_t)i : BLOCKS_MAX - 1;
}

static bool is_long(const struct booking *booking)
{
	return booking->end - booking->begin > LONG_S;
}

static void add_to_blocks(struct bookings *b, uint32_t place)
{
	const struct booking *booking = &b->list.items[place - 1];
	size_t i = block_of(b, booking->begin), last = block_of(b, booking->end - 1);

	if (is_long(booking)) {
		ADD(&b->long_ones, place);
		return;
	}
	for (; b->blocks_used <= last; b->blocks_used++) {
		if (b->blocks_used == b->blocks.count)
			ADD(&b->blocks, (struct block){.nodes = bit_alloc(node_record_count)});
	}
	ADD(&b->blocks.items[i].begun, place);
	for (; i <= last; i++)
		ADD(&b->blocks.items[i].active, place);
}

static void add_node_to_blocks(struct bookings *b, const struct booking *booking, uint32_t node)
{
	size_t i = block_of(b, booking->begin), last = block_of(b, booking->end - 1);

	b->whole_parts++;
	for (; i <= last && !is_long(booking); i++)
		bits_set(b->blocks.items[i].nodes, node);
}

/* ---- making one ---------------------------------------------------------------------------------
 */

uint32_t bookings_add(struct bookings *b, time_t begin, time_t end, bool runs)
{
	ADD(&b->list,
		(struct booking){.begin = begin,
			.end = end,
			.first_part = (uint32_t)b->parts.count,
			.runs = runs});
	if (!runs)
		add_to_blocks(b, (uint32_t)b->list.count);
	return (uint32_t)b->list.count;
}

static struct part *add_part(struct bookings *b, uint32_t booking, uint32_t node)
{
	ADD(&b->parts,
		(struct part){.node = node, .next = b->last_parts[node], .booking = booking});
	b->last_parts[node] = (uint32_t)b->parts.count;
	b->list.items[booking - 1].parts_count++;
	return &b->parts.items[b->parts.count - 1];
}

void bookings_add_node(struct bookings *b, uint32_t booking, uint32_t node)
{
	(void)add_part(b, booking, node);
	add_node_to_blocks(b, &b->list.items[booking - 1], node);
}

static void list_cores(struct bookings *b, const bitstr_t *cores, uint32_t node)
{
	const node_record_t *record = &node_record_table_ptr[node];
	bitoff_t i = record->core_offset, end = i + record->tot_cores;

	for (; i < end && (i = bit_ffs_from_bit(cores, i)) >= 0 && i < end; i++)
		ADD(&b->cores, i);
}

struct share *bookings_add_share(struct bookings *b, uint32_t booking, uint32_t node,
	const job_resources_t *r, uint32_t k, bool holds_cores)
{
	struct part *part = add_part(b, booking, node);
	uint32_t first = (uint32_t)b->cores.count;

	if (holds_cores && r->core_bitmap)
		list_cores(b, r->core_bitmap, node);
	ADD(&b->shares,
		(struct share){.memory = r->memory_allocated[k],
			.cpus = holds_cores ? r->cpus[k] : 0,
			.first_core = first,
			.cores_count = (uint32_t)b->cores.count - first});
	part->share = (uint32_t)b->shares.count;
	b->list.items[booking - 1].has_shares = true;
	bits_set(b->shared, node);
	return &b->shares.items[b->shares.count - 1];
}

bool bookings_is_share(const job_resources_t *r, uint32_t node, uint32_t k)
{
	return r && r->core_bitmap && r->cpus[k] < node_record_table_ptr[node].cpus;
}

/* ---- of one node --------------------------------------------------------------------------------
 */

static const struct part *part_at(const struct bookings *b, uint32_t place)
{
	return place ? &b->parts.items[place - 1] : NULL;
}

static const struct booking *booking_of(const struct bookings *b, const struct part *part)
{
	return &b->list.items[part->booking - 1];
}

static bool overlaps(const struct booking *booking, time_t from, time_t to)
{
	return booking->begin < to && booking->end > from;
}

uint32_t bookings_get_free(const struct bookings *b, uint32_t node, time_t t)
{
	const struct part *part = part_at(b, b->last_parts[node]);
	uint32_t cpus = node_record_table_ptr[node].cpus;

	for (; part; part = part_at(b, part->next)) {
		const struct share *share = bookings_get_share(b, part);

		if (overlaps(booking_of(b, part), t, t + 1))
			cpus -= share && share->cpus < cpus ? share->cpus : cpus;
	}
	return cpus;
}

static void mask_cores(struct bookings *b, const node_record_t *node, const struct share *share)
{
	uint32_t k;

	for (k = 0; k < share->cores_count; k++) {
		bitoff_t core = b->cores.items[share->first_core + k] - node->core_offset;

		b->core_mask[core / 64] |= UINT64_C(1) << (core % 64);
	}
}

/* Cores of the mask, which is clear then. */
static uint32_t take_mask(struct bookings *b, const node_record_t *node)
{
	uint32_t n = 0, i;

	for (i = 0; i <= node->tot_cores / 64; i++) {
		n += (uint32_t)__builtin_popcountll(b->core_mask[i]);
		b->core_mask[i] = 0;
	}
	return n;
}

uint32_t bookings_get_cpus(struct bookings *b, uint32_t node, time_t from, time_t to)
{
	const node_record_t *record = &node_record_table_ptr[node];
	const struct part *part = part_at(b, b->last_parts[node]);
	uint32_t others = 0, taken; /* CPUs of which the cores are not known */
	bool whole = false;

	for (; part; part = part_at(b, part->next)) {
		const struct share *share = bookings_get_share(b, part);

		if (!overlaps(booking_of(b, part), from, to))
			continue;
		whole |= !share;
		if (share && share->cores_count)
			mask_cores(b, record, share);
		else if (share)
			others += share->cpus;
	}
	taken = take_mask(b, record) * record->threads + others;
	return whole || taken > record->cpus ? 0 : record->cpus - taken;
}

static uint64_t memory_at(const struct bookings *b, uint32_t node, time_t t)
{
	const struct part *part = part_at(b, b->last_parts[node]);
	uint64_t memory = node_memory_limit(&node_record_table_ptr[node]);

	for (; part; part = part_at(b, part->next)) {
		const struct share *share = bookings_get_share(b, part);

		if (overlaps(booking_of(b, part), t, t + 1))
			memory -= share && share->memory < memory ? share->memory : memory;
	}
	return memory;
}

/* The least is that of the first moment, or where a booking begins. */
uint64_t bookings_get_memory(const struct bookings *b, uint32_t node, time_t from, time_t to)
{
	const struct part *part = part_at(b, b->last_parts[node]);
	uint64_t least = memory_at(b, node, from), memory;

	for (; part; part = part_at(b, part->next)) {
		time_t begin = booking_of(b, part)->begin;

		if (begin <= from || begin >= to)
			continue;
		memory = memory_at(b, node, begin);
		least = memory < least ? memory : least;
	}
	return least;
}

bool bookings_is_booked(const struct bookings *b, uint32_t node, time_t from, time_t to)
{
	const struct part *part = part_at(b, b->last_parts[node]);

	for (; part; part = part_at(b, part->next)) {
		if (!booking_of(b, part)->runs && overlaps(booking_of(b, part), from, to))
			return true;
	}
	return false;
}

static bool has_core_of(
	const struct bookings *b, const job_resources_t *r, const struct share *share)
{
	uint32_t k;

	for (k = 0; k < share->cores_count; k++) {
		if (bits_test(r->core_bitmap, b->cores.items[share->first_core + k]))
			return true;
	}
	return false;
}

bool bookings_has_capacity(const struct bookings *b, const job_resources_t *r, uint32_t node,
	uint32_t k, time_t from, time_t to)
{
	const struct part *part = part_at(b, b->last_parts[node]);
	bool booked = false;

	for (; part; part = part_at(b, part->next)) {
		const struct share *share = bookings_get_share(b, part);

		if (booking_of(b, part)->runs || !overlaps(booking_of(b, part), from, to))
			continue;
		if (!share || has_core_of(b, r, share))
			return false;
		booked = true;
	}
	/* else the plugin has seen to it */
	return !booked || r->memory_allocated[k] <= bookings_get_memory(b, node, from, to);
}

/* ---- of all nodes -------------------------------------------------------------------------------
 */

static void except_share(struct bookings *b, uint32_t place)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	const struct share *share = &b->shares.items[place - 1];
	uint32_t k;

	if (!b->exc_cores)
		b->exc_cores = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
	for (k = 0; k < share->cores_count; k++)
		bits_set(b->exc_cores, b->cores.items[share->first_core + k]);
	ADD(&b->exc_shares, place);
}

/* Of one, if it overlaps: whole nodes, and the cores of others. */
static void leave_one(struct bookings *b, uint32_t place, time_t from, time_t to, bitstr_t *nodes)
{
	const struct booking *booking = &b->list.items[place - 1];
	const struct part *part = &b->parts.items[booking->first_part];
	uint32_t k;

	if (!overlaps(booking, from, to))
		return;
	for (k = 0; k < booking->parts_count; k++, part++) {
		if (!part->share)
			bits_clear(nodes, part->node);
		else if (bits_test(nodes, part->node))
			except_share(b, part->share);
	}
}

/* Blocks that lie between both times as a whole are done by their bitmaps, where many nodes are
 * booked; what has no part of these, or shares, one booking after the other. */
const bitstr_t *bookings_leave(struct bookings *b, time_t from, time_t to, bitstr_t *nodes)
{
	size_t first = block_of(b, from), last = block_of(b, to - 1), i, k;
	bool by_blocks = last > first + 1 &&
		b->whole_parts > (last - first) * ((size_t)node_record_count / 256 + 1);
	time_t done_from = b->now + (time_t)(first + 1) * BLOCK_S;
	time_t done_to = b->now + (time_t)last * BLOCK_S;

	clear_exc_cores(b);
	for (i = 0; i < b->long_ones.count; i++)
		leave_one(b, b->long_ones.items[i], from, to, nodes);
	for (i = first; i <= last && i < b->blocks_used; i++) {
		const struct block *block = &b->blocks.items[i];
		const uint32_t *places = i > first ? block->begun.items : block->active.items;
		size_t count = i > first ? block->begun.count : block->active.count;

		if (by_blocks && i > first && i < last)
			bit_and_not(nodes, block->nodes);
		for (k = 0; k < count; k++) {
			const struct booking *booking = &b->list.items[places[k] - 1];

			if (!by_blocks || booking->has_shares ||
				!overlaps(booking, done_from, done_to))
				leave_one(b, places[k], from, to, nodes);
		}
	}
	return b->exc_shares.count ? b->exc_cores : NULL;
}
