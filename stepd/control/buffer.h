/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes on their way: added behind, taken from the front. An empty one holds no memory.
 */
#ifndef STEPD_CONTROL_BUFFER_H
#define STEPD_CONTROL_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "stepd/base/cleanup.h"

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

/* The capacity that adding so many bytes would need: more than there is, or what there is. */
size_t buffer_capacity_for(const struct buffer *b, size_t size);

/* 0 or -ENOMEM. */
int buffer_add(struct buffer *b, const void *data, size_t size) _must_check_;

void buffer_drop(struct buffer *b, size_t size);
void buffer_clear(struct buffer *b);

#endif
