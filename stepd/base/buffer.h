/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that grows: bytes, added behind and taken from the front, and arrays. What grows has at
 * least twice its size, so that adding one by one costs no more than adding all at once.
 */
#ifndef STEPD_BASE_BUFFER_H
#define STEPD_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "stepd/base/cleanup.h"

/* All zero: empty. An empty one holds no memory. */
struct buffer {
	char *data;
	size_t at, end; /* the bytes are those of data[at..end) */
	size_t capacity;
};

static inline size_t buffer_size(const struct buffer *b)
{
	return b->end - b->at;
}

static inline const char *buffer_bytes(const struct buffer *b)
{
	return b->data ? b->data + b->at : NULL;
}

/* The capacity that is needed to add so many bytes; it may be what there is. */
size_t buffer_capacity_for(const struct buffer *b, size_t size);

/* 0 or -ENOMEM. */
int buffer_add(struct buffer *b, const void *data, size_t size) _must_check_;

/* Adds what read(2) gives of at most size bytes: how many; 0 at the end, or -errno. A large array
 * on the stack would have each of its pages in memory from then on, whatever is read. */
ssize_t buffer_read(struct buffer *b, int fd, size_t size) _must_check_;

/* The same for a socket, which is not waited for. */
ssize_t buffer_receive(struct buffer *b, int fd, size_t size) _must_check_;

void buffer_drop(struct buffer *b, size_t size);
void buffer_clear(struct buffer *b);
#define _cleanup_buffer_ _cleanup_(buffer_clear)

/* Grows the array v to at least need elements, and sets capacity. 0, or -ENOMEM with the array
 * unchanged. */
#define array_reserve(v, capacity, need)                                                           \
	({                                                                                         \
		void *array_grown_ = array_grow((v), &(capacity), (need), sizeof(*(v)));           \
		if (array_grown_)                                                                  \
			(v) = array_grown_;                                                        \
		array_grown_ ? 0 : -ENOMEM;                                                        \
	})
void *array_grow(void *v, size_t *capacity, size_t need, size_t element_size) _must_check_;

#endif
