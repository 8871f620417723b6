/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/buffer.h"

#include <assert.h>
#include <string.h>

struct wire_buffer *wire_buffer_new(size_t size)
{
	struct wire_buffer *b = malloc(sizeof(*b) + size);

	if (!b)
		return NULL;
	b->refs = 1;
	b->size = size;
	return b;
}

struct wire_buffer *wire_buffer_copy(const struct iovec *iov, int iovcnt)
{
	struct wire_buffer *b;
	size_t size = 0, at = 0;
	int i;

	for (i = 0; i < iovcnt; i++) {
		if (__builtin_add_overflow(size, iov[i].iov_len, &size) || size > WIRE_BLOCK_MAX) {
			errno = EMSGSIZE;
			return NULL;
		}
	}
	b = wire_buffer_new(size);
	for (i = 0; b && i < iovcnt; i++) {
		if (iov[i].iov_len > 0)
			memcpy(b->bytes + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	return b;
}

struct wire_buffer *wire_hold(struct wire_buffer *buffer)
{
	assert(!buffer || buffer->refs > 0);
	if (buffer)
		buffer->refs++;
	return buffer;
}

struct wire_buffer *wire_release(struct wire_buffer *buffer)
{
	assert(!buffer || buffer->refs > 0);
	if (buffer && --buffer->refs == 0)
		free(buffer);
	return NULL;
}
