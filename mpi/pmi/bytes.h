/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes that come in at one end and leave at the other. A failed allocation is remembered, so
 * that it is checked once, at the end.
 */
#ifndef MPI_PMI_BYTES_H
#define MPI_PMI_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "stepd/base/buffer.h"

struct slice {
	const char *data;
	size_t size;
};

struct bytes {
	struct buffer held;
	bool failed; /* something was lost for want of memory */
};

void bytes_add(struct bytes *b, const void *data, size_t size);
void bytes_add_text(struct bytes *b, const char *text);
void bytes_addf(struct bytes *b, const char *fmt, ...) _printf_(2, 3);
void bytes_add_u32(struct bytes *b, uint32_t n);       /* little-endian */
void bytes_add_sized(struct bytes *b, struct slice s); /* a u32 and that many bytes */
void bytes_drop(struct bytes *b, size_t size);         /* from the front */
void bytes_cut(struct bytes *b, size_t size);          /* what is behind size */
void bytes_clear(struct bytes *b);
#define _cleanup_bytes_ _cleanup_(bytes_clear)

/* Takes from the front of what another node has sent. False: there is less. */
bool slice_take(struct slice *from, size_t size, struct slice *ret_taken);
bool slice_take_u32(struct slice *from, uint32_t *ret_n);
bool slice_take_sized(struct slice *from, struct slice *ret_taken); /* of bytes_add_sized() */
bool slice_is(struct slice s, const char *text);

static inline size_t bytes_size(const struct bytes *b)
{
	return buffer_size(&b->held);
}

static inline struct slice slice_of(const struct bytes *b)
{
	return (struct slice){buffer_bytes(&b->held), bytes_size(b)};
}

static inline struct slice slice_of_text(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static inline struct iovec bytes_iovec(const struct bytes *b)
{
	return (struct iovec){(void *)buffer_bytes(&b->held), bytes_size(b)};
}

/* A string of its own; NULL for want of memory. */
char *slice_dup(struct slice s);

/* Decimal, with a sign or without; the whole of it. 0, or -EINVAL. */
int slice_parse_int(struct slice s, int64_t least, int64_t most, int64_t *ret_n) _must_check_;

#endif
