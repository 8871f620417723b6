/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bytes that several frames and results are pieces of. One thread has them: the count of references
 * is a plain number.
 */
#ifndef MPI_WIRE_BUFFER_H
#define MPI_WIRE_BUFFER_H

#include "mpi/wire/wire.h"

struct wire_buffer {
	uint32_t refs;
	size_t size;
	unsigned char bytes[];
};

/* With one reference; NULL: no memory. */
struct wire_buffer *wire_buffer_new(size_t size);

/* What iov holds; NULL with errno set: ENOMEM, or EMSGSIZE above WIRE_BLOCK_MAX. */
struct wire_buffer *wire_buffer_copy(const struct iovec *iov, int iovcnt);

DEFINE_CLEANUP(struct wire_buffer *, wire_release);
#define _cleanup_wire_buffer_ _cleanup_(wire_release_p)

#endif
