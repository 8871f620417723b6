/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/engine/releases.h"

#include "contrib/jobd/abi/bits.h"

#define STEP 16u /* releases from one checkpoint to the next */

void releases_clear(struct releases *r)
{
	size_t i;

	for (i = 0; i < r->checkpoints.count; i++) {
		bit_free(r->checkpoints.items[i].some);
		bit_free(r->checkpoints.items[i].clear);
	}
	free(r->checkpoints.items);
	free(r->list.items);
}

/* The next one; its bitmaps are to be filled. */
static struct checkpoint *checkpoint_add(struct releases *r, bitoff_t nodes)
{
	if (r->checkpoints_made == r->checkpoints.count)
		ADD(&r->checkpoints,
			(struct checkpoint){.some = bit_alloc(nodes), .clear = bit_alloc(nodes)});
	return &r->checkpoints.items[r->checkpoints_made++];
}

void releases_begin(
	struct releases *r, const bitstr_t *some, const bitstr_t *clear, const bitstr_t *up)
{
	struct checkpoint *first;

	r->list.count = r->checkpoints_made = 0;
	r->up = up;
	r->of_nodes = !bit_equal(some, clear);
	first = checkpoint_add(r, bit_size(some));
	bit_copybits(first->some, some);
	bit_copybits(first->clear, clear);
}

void releases_add(struct releases *r, const struct release *release)
{
	ADD(&r->list, *release);
	r->of_nodes |= !release->nodes;
}

static void add_some(bitstr_t *some, const struct release *release)
{
	if (release->nodes)
		bit_or(some, release->nodes);
	else if (release->some)
		bits_set(some, release->node);
}

static void add_clear(bitstr_t *clear, const struct release *release)
{
	if (release->nodes)
		bit_or(clear, release->nodes);
	else if (release->all)
		bits_set(clear, release->node);
}

/* Both from a checkpoint on after n releases; clear may be NULL. */
static void go_on(const struct releases *r, const struct checkpoint *from, size_t n, bitstr_t *some,
	bitstr_t *clear)
{
	size_t first = (size_t)(from - r->checkpoints.items) * STEP, i;

	bit_copybits(some, from->some);
	for (i = first; i < n; i++)
		add_some(some, &r->list.items[i]);
	if (r->up)
		bit_and(some, r->up);
	if (!clear)
		return;
	bit_copybits(clear, r->of_nodes ? from->clear : some);
	for (i = first; r->of_nodes && i < n; i++)
		add_clear(clear, &r->list.items[i]);
	if (r->up)
		bit_and(clear, r->up);
}

/* The last one before this many releases. */
static const struct checkpoint *find_checkpoint(struct releases *r, size_t n)
{
	while (r->checkpoints_made <= n / STEP) {
		struct checkpoint *next = checkpoint_add(r, bit_size(r->checkpoints.items[0].some));

		go_on(r, next - 1, (r->checkpoints_made - 1) * STEP, next->some, next->clear);
	}
	return &r->checkpoints.items[n / STEP];
}

/* How many there are by then. */
static size_t count_by(const struct releases *r, time_t t)
{
	size_t low = 0, high = r->list.count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (r->list.items[middle].when <= t)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void releases_get(struct releases *r, time_t t, bitstr_t *ret_some, bitstr_t *ret_clear)
{
	size_t n = count_by(r, t);

	go_on(r, find_checkpoint(r, n), n, ret_some, ret_clear);
}

/* Of these nodes, how many more have something free by this release. */
static uint32_t count_released(const struct release *release, const bitstr_t *nodes)
{
	if (release->nodes)
		return (uint32_t)bit_overlap(release->nodes, nodes);
	return release->some && bits_test(nodes, release->node);
}

/* The last checkpoint, before most releases, at which there are not yet as many; else the first
 * one.
 */
static const struct checkpoint *find_before(
	struct releases *r, size_t most, const bitstr_t *nodes, uint32_t wanted)
{
	const struct checkpoint *last = find_checkpoint(r, most), *all = r->checkpoints.items;
	size_t low = 0, high = (size_t)(last - all) + 1, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if ((uint32_t)bit_overlap(all[middle].some, nodes) < wanted)
			low = middle;
		else
			high = middle;
	}
	return &all[low];
}

bool releases_find(
	struct releases *r, time_t t, const bitstr_t *nodes, uint32_t wanted, bitstr_t *ret_some)
{
	size_t most = count_by(r, t), i;
	const struct checkpoint *from = find_before(r, most, nodes, wanted);
	const struct release *list = r->list.items;
	uint32_t n = (uint32_t)bit_overlap(from->some, nodes);

	i = (size_t)(from - r->checkpoints.items) * STEP;
	/* all that are released at one time */
	while (i < most && (n < wanted || (i > 0 && list[i].when == list[i - 1].when)))
		n += count_released(&list[i++], nodes);
	go_on(r, from, i, ret_some, NULL);
	return n >= wanted;
}
