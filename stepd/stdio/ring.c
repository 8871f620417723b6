/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/stdio/ring.h"

#include <assert.h>
#include <string.h>

void ring_put(struct ring *ring, const void *data, size_t size)
{
	const char *from = data;
	size_t skip = size > ring->size ? size - ring->size : 0, at, first;

	if (!ring->data)
		ring->data = malloc(ring->size);
	ring->end += size;
	if (!ring->data) {
		ring->begin = ring->end;
		return;
	}
	from += skip;
	size -= skip;
	at = (size_t)((ring->end - size) % ring->size);
	first = size < ring->size - at ? size : ring->size - at;
	memcpy(ring->data + at, from, first);
	memcpy(ring->data, from + first, size - first);
	if (ring->end - ring->begin > ring->size)
		ring->begin = ring->end - ring->size;
}

size_t ring_get(const struct ring *ring, uint64_t offset, size_t most, struct iovec ret_iov[2])
{
	size_t n = (size_t)(ring->end - offset), at, first;

	assert(offset >= ring->begin && offset <= ring->end);
	if (n > most)
		n = most;
	ret_iov[0] = ret_iov[1] = (struct iovec){0};
	if (n == 0)
		return 0;
	at = (size_t)(offset % ring->size);
	first = n < ring->size - at ? n : ring->size - at;
	ret_iov[0] = (struct iovec){.iov_base = ring->data + at, .iov_len = first};
	ret_iov[1] = (struct iovec){.iov_base = ring->data, .iov_len = n - first};
	return n;
}

void ring_clear(struct ring *ring)
{
	free(ring->data);
	*ring = (struct ring){.size = ring->size};
}
