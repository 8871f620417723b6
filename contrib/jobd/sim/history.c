/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/history.h"

#include <stdlib.h>
#include <string.h>

void history_add_take(struct history *h, struct job_state state)
{
	if (h->n == h->capacity) {
		h->capacity = h->capacity ? 2 * h->capacity : 64;
		h->v = reallocarray(h->v, h->capacity, sizeof(*h->v));
		if (!h->v)
			abort();
	}
	h->v[h->n++] = state;
}

void history_clear(struct history *h)
{
	size_t i;

	for (i = 0; i < h->n; i++)
		free(h->v[i].where);
	free(h->v);
	*h = (struct history){.v = NULL};
}

static int compare_begins(const void *a, const void *b)
{
	const struct job_state *x = a, *y = b;

	return x->from_ms < y->from_ms ? -1 : x->from_ms > y->from_ms;
}

void history_sort(struct history *h)
{
	if (h->n > 0)
		qsort(h->v, h->n, sizeof(*h->v), compare_begins);
}

/* Of the first one that begins at that time or later; h->n: none. */
static size_t index_from(const struct history *h, uint64_t ms)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (h->v[middle].from_ms < ms)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct job_state *history_at(const struct history *h, uint64_t ms)
{
	size_t i = index_from(h, ms + 1);

	if (i > 0)
		return &h->v[i - 1];
	return h->n > 0 && h->v[0].from_ms <= ms + HISTORY_TOLERANCE_MS ? &h->v[0] : NULL;
}

static bool is_same(const struct job_state *a, const struct job_state *b)
{
	return strcmp(a->code, b->code) == 0 && strcmp(a->where, b->where) == 0;
}

static bool runs_as_long(const struct job_state *a, const struct job_state *b)
{
	return a->run_s < 0 || b->run_s < 0 ||
		(uint64_t)llabs(a->run_s - b->run_s) * 1000 <= HISTORY_TOLERANCE_MS;
}

/* Within the tolerance of that time. */
static bool comes(const struct history *h, const struct job_state *state, uint64_t ms)
{
	size_t i;

	for (i = 0; i < h->n && h->v[i].from_ms <= ms + HISTORY_TOLERANCE_MS; i++) {
		const struct job_state *s = &h->v[i];

		if (s->until_ms + HISTORY_TOLERANCE_MS >= ms && is_same(s, state) &&
			runs_as_long(s, state))
			return true;
	}
	return false;
}

bool history_comes(const struct history *h, const struct job_state *state)
{
	return comes(h, state, state->from_ms);
}

bool history_has(
	const struct history *ours, const struct history *recorded, const struct job_state *state)
{
	const struct job_state *now = history_at(ours, state->from_ms);

	if (comes(ours, state, state->from_ms))
		return true;
	/* the same state can only differ in how long it has run */
	return now && !is_same(now, state) && comes(recorded, now, state->from_ms);
}

/* A state of ours that is as long as the tolerance at most: from its first sample to its last. */
static bool passes(const struct history *ours, size_t i)
{
	size_t first = i, last = i;

	while (first > 0 && is_same(&ours->v[first - 1], &ours->v[i]))
		first--;
	while (last + 1 < ours->n && is_same(&ours->v[last + 1], &ours->v[i]))
		last++;
	/* of the first and the last one nobody knows how long they were */
	return first > 0 && last + 1 < ours->n &&
		ours->v[last + 1].from_ms - ours->v[first].from_ms <= HISTORY_TOLERANCE_MS;
}

const struct job_state *history_find_difference(
	const struct history *ours, const struct history *recorded, const struct job_state *state)
{
	bool passing = state->until_ms - state->from_ms <= HISTORY_TOLERANCE_MS;
	size_t i;

	for (i = index_from(ours, state->from_ms); i < ours->n; i++) {
		const struct job_state *now = &ours->v[i];

		if (now->from_ms >= state->until_ms)
			break;
		if (is_same(now, state))
			continue;
		if (!passing && !comes(ours, state, now->from_ms))
			return now;
		if (!comes(recorded, now, now->from_ms) && !passes(ours, i))
			return now;
	}
	return NULL;
}
