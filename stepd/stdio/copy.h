/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies of what tasks write, for the MPI service process (mpi/link.h). Nothing here waits for
 * who reads them: a copy that finds no space in the socket is left out and counted, and the count
 * goes out with what comes next of that stream. Only the ends of streams are held until they can be
 * sent. A reader that is gone ends it all.
 */
#ifndef STEPD_STDIO_COPY_H
#define STEPD_STDIO_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct copy;
struct ev_loop;
struct handover;
struct json_t;
struct log;

int copy_new(struct ev_loop *loop, const struct log *log, struct copy **ret_copy) _must_check_;

/* Opens the way if there is none: then *ret_fd is the reader's end, the caller's to hand over and
 * to close; else -1. */
int copy_open(struct copy *copy, int *ret_fd) _must_check_;

/* Nothing waits: what can't be sent now is added to *lost, the stream's own count, which goes out
 * with what comes next. */
void copy_put(struct copy *copy, uint32_t rank, unsigned stream, const void *data, size_t size,
	uint64_t *lost);

/* Nothing more comes of this stream: sent for certain, as long as there is a reader. */
void copy_end(struct copy *copy, uint32_t rank, unsigned stream, uint64_t lost);

/* The reader has the end of all streams, behind what it has not read. */
void copy_close(struct copy *copy);

/* For the program that goes on with it (handover.h). */
void copy_save(const struct copy *copy, struct handover *h, struct json_t *object);
int copy_restore(struct ev_loop *loop, const struct log *log, const struct json_t *object,
	struct copy **ret_copy) _must_check_;

struct copy *copy_free(struct copy *copy);
DEFINE_CLEANUP(struct copy *, copy_free);
#define _cleanup_copy_ _cleanup_(copy_free_p)

#endif
