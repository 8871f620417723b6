/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/buffer.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>

#define CAPACITY_LEAST 256u /* bytes */
#define ELEMENTS_LEAST 16u

size_t buffer_capacity_for(const struct buffer *b, size_t size)
{
	size_t need = buffer_size(b) + size, capacity = CAPACITY_LEAST;

	if (need <= b->capacity)
		return b->capacity;
	while (capacity < need)
		capacity *= 2;
	return capacity;
}

int buffer_add(struct buffer *b, const void *data, size_t size)
{
	size_t capacity = buffer_capacity_for(b, size);
	char *grown;

	if (size == 0)
		return 0;
	if (b->at > 0 && b->end + size > b->capacity) {
		memmove(b->data, b->data + b->at, buffer_size(b));
		b->end -= b->at;
		b->at = 0;
	}
	if (capacity > b->capacity) {
		grown = realloc(b->data, capacity);
		if (!grown)
			return -ENOMEM;
		b->data = grown;
		b->capacity = capacity;
	}
	memcpy(b->data + b->end, data, size);
	b->end += size;
	return 0;
}

static ssize_t add_piece(struct buffer *b, const char *piece, ssize_t n)
{
	if (n < 0)
		return -errno;
	return buffer_add(b, piece, (size_t)n) < 0 ? -ENOMEM : n;
}

ssize_t buffer_read(struct buffer *b, int fd, size_t size)
{
	_cleanup_free_ char *piece = malloc(size);

	return piece ? add_piece(b, piece, read(fd, piece, size)) : -ENOMEM;
}

ssize_t buffer_receive(struct buffer *b, int fd, size_t size)
{
	_cleanup_free_ char *piece = malloc(size);

	return piece ? add_piece(b, piece, recv(fd, piece, size, MSG_DONTWAIT)) : -ENOMEM;
}

void buffer_drop(struct buffer *b, size_t size)
{
	assert(size <= buffer_size(b));
	b->at += size;
	if (b->at == b->end)
		buffer_clear(b);
}

void buffer_clear(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){.data = NULL};
}

void *array_grow(void *v, size_t *capacity, size_t need, size_t element_size)
{
	size_t more = *capacity * 2;
	void *grown;

	if (v && need <= *capacity)
		return v;
	if (more < ELEMENTS_LEAST)
		more = ELEMENTS_LEAST;
	if (more < need)
		more = need;
	grown = reallocarray(v, more, element_size);
	if (grown)
		*capacity = more;
	return grown;
}
