/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/subscriber.h"

#include <string.h>

#include "mpi/pmix/iof.h"

struct subscriber *subscriber_find(const struct iof *iof, uint32_t node)
{
	struct subscriber *sub = iof->subscribers;

	while (sub && sub->node != node)
		sub = sub->next;
	return sub;
}

struct subscriber *subscriber_get(struct iof *iof, uint32_t node)
{
	struct subscriber *sub = subscriber_find(iof, node);

	if (sub)
		return sub;
	sub = calloc(1, sizeof(*sub));
	if (!sub)
		return NULL;
	sub->node = node;
	sub->number = ++iof->subscribed;
	sub->last = &sub->first;
	sub->next = iof->subscribers;
	iof->subscribers = sub;
	return sub;
}

/* The place of the rank among them, or where it would be. */
static size_t place_of(const struct subscriber *sub, uint32_t rank)
{
	size_t low = 0, high = sub->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sub->wants[mid].rank < rank)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct want *subscriber_want(const struct subscriber *sub, uint32_t rank)
{
	size_t i = place_of(sub, rank);

	return i < sub->count && sub->wants[i].rank == rank ? &sub->wants[i] : NULL;
}

int subscriber_add_want(struct subscriber *sub, uint32_t rank, unsigned streams)
{
	size_t i = place_of(sub, rank);
	struct want *grown;

	if (i < sub->count && sub->wants[i].rank == rank) {
		sub->wants[i].streams |= streams;
		return 0;
	}
	grown = realloc(sub->wants, (sub->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	sub->wants = grown;
	memmove(&grown[i + 1], &grown[i], (sub->count - i) * sizeof(*grown));
	grown[i] = (struct want){.rank = rank, .streams = streams};
	sub->count++;
	return 0;
}

unsigned subscribers_want(const struct iof *iof, uint32_t rank)
{
	unsigned streams = 0;

	for (const struct subscriber *sub = iof->subscribers; sub; sub = sub->next) {
		const struct want *want = subscriber_want(sub, rank);

		streams |= want ? want->streams : 0;
	}
	return streams;
}

struct subscriber *subscriber_numbered(const struct iof *iof, uint64_t number)
{
	struct subscriber *sub = iof->subscribers;

	while (sub && sub->number != number)
		sub = sub->next;
	return sub;
}

struct subscriber *subscriber_next(const struct iof *iof, uint64_t number)
{
	struct subscriber *next = NULL;

	for (struct subscriber *sub = iof->subscribers; sub; sub = sub->next) {
		if (sub->number > number && (!next || sub->number < next->number))
			next = sub;
	}
	return next;
}

void subscriber_end(struct iof *iof, struct subscriber *sub)
{
	struct subscriber **at = &iof->subscribers;
	struct chunk *chunk;

	while (*at != sub)
		at = &(*at)->next;
	*at = sub->next;
	while ((chunk = sub->first)) {
		sub->first = chunk->next;
		free(chunk);
	}
	free(sub->wants);
	free(sub);
}
