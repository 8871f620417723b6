/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The last bytes of a stream, by their offsets in it. Readers are positions, which they have
 * themselves: any number of them costs nothing here.
 */
#ifndef STEPD_STDIO_RING_H
#define STEPD_STDIO_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "stepd/base/cleanup.h"

/* All zero but size: empty, without memory. */
struct ring {
	char *data;     /* NULL until the first byte */
	size_t size;    /* the most that it holds */
	uint64_t begin; /* offset of its first byte */
	uint64_t end;   /* and behind its last one: all bytes that have been put */
};

/* Without memory the bytes are only counted. */
void ring_put(struct ring *ring, const void *data, size_t size);

/* The bytes from offset on, at most so many, in one or two pieces, which are valid until the next
 * ring_put(). offset is in begin..end. Returns their number. */
size_t ring_get(const struct ring *ring, uint64_t offset, size_t most, struct iovec ret_iov[2]);

void ring_clear(struct ring *ring);
#define _cleanup_ring_ _cleanup_(ring_clear)

#endif
