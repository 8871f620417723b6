/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the agent writes what tasks have written: sinks, and copies for tools.
 */
#ifndef STEPD_STDIO_OUTPUT_H
#define STEPD_STDIO_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct copy;
struct ev_loop;
struct handover;
struct json_t;
struct log;
struct sink;

/* ---- sinks --------------------------------------------------------------------------------- */

/* A destination of the tasks' bytes: a descriptor with a bounded buffer. Nothing here blocks on a
 * slow reader: its bytes are queued, and their source waits for space.
 *
 * A destination that fails (a full disk, a closed reader) is logged once, and its bytes are dropped
 * and counted, so that the tasks can go on. Where a later write may succeed (ENOSPC, EDQUOT, and
 * EIO of a file) each new piece is tried; that it is written again is logged once, too. */

#define SINK_SIZE 65536u

/* From the loop: half of the buffer is free again, or the sink has failed. May free the sink. */
typedef void (*sink_space_fn)(void *userdata);

/* fd is borrowed, or with own the sink owns it from the call on, on failure too. name is for the
 * log. */
int sink_new(struct ev_loop *loop, const struct log *log, int fd, bool own, const char *name,
	struct sink **ret_sink) _must_check_;
void sink_on_space(struct sink *sink, sink_space_fn on_space, void *userdata);

/* Called after each write with the bytes that were written, and with NULL for those that are lost
 * when the sink fails; *writing (NULL: none) is 1 from before a write until then. */
typedef void (*sink_written_fn)(const char *data, size_t size, void *userdata);
void sink_on_written(
	struct sink *sink, sink_written_fn on_written, void *userdata, uint32_t *writing);

/* If it is a pipe, whole lines are written to it, so that a reader who passes on what a read has
 * got, and mixes it with others', tears none that is shorter than PIPE_BUF. */
void sink_write_lines(struct sink *sink);

/* The descriptor; -1 once it is closed. */
int sink_get_fd(const struct sink *sink);

/* Bytes that sink_put() accepts now. */
size_t sink_space(const struct sink *sink);

/* Queued bytes; 0 once it has failed. */
size_t sink_pending(const struct sink *sink);

/* For the log and the loss: the stream of the tasks (STDOUT_FILENO or STDERR_FILENO), and the rank
 * if it has the bytes of one task only, else -1. */
void sink_describe(struct sink *sink, int stream, int64_t rank);

struct sink_loss {
	const char *name; /* the sink's */
	int stream;
	int64_t rank;
	uint64_t bytes; /* 0: it is not known */
	int error;      /* the first one */
};

/* Whether bytes that were put have been lost; *ret_loss, which may be NULL, has the details. */
bool sink_has_lost(const struct sink *sink, struct sink_loss *ret_loss);

/* Drops all bytes that are put from now on. */
bool sink_failed(const struct sink *sink);

/* The last write has failed, though a later one may succeed. */
bool sink_is_full(const struct sink *sink);

/* Counts bytes that are dropped elsewhere because the sink has failed. */
void sink_count_lost(struct sink *sink, size_t size);

/* Whether bytes have been lost since the last call: then *ret_mid_line says whether those that were
 * written before end within a line. */
bool sink_take_gap(struct sink *sink, bool *ret_mid_line);

/* size is at most sink_space(). */
void sink_put(struct sink *sink, const void *data, size_t size);

/* Writes what it can without blocking; the loop does the rest. */
void sink_flush(struct sink *sink);

/* To be called after the last byte, with an empty queue: closes an owned descriptor, and reports
 * bytes that turn out to be lost then (NFS, quotas). */
void sink_close(struct sink *sink);

/* At a re-exec (handover.h), with the queued bytes. */
void sink_save(const struct sink *sink, struct handover *h, struct json_t *object);
int sink_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, struct sink **ret_sink) _must_check_;

struct sink *sink_free(struct sink *sink);
DEFINE_CLEANUP(struct sink *, sink_free);
#define _cleanup_sink_ _cleanup_(sink_free_p)

/* ---- copies for tools ---------------------------------------------------------------------- */

/* Copies of the tasks' output, for the MPI service process (mpi/link.h). Nothing here waits for
 * the reader: a copy that finds no space in the socket is dropped and counted, and the count is
 * sent with the next copy of that stream. Only the ends of streams are queued until they can be
 * sent. When the reader is gone copying ends. */

int copy_new(struct ev_loop *loop, const struct log *log, struct copy **ret_copy) _must_check_;

/* Opens the socket unless it is open: *ret_fd is then the reader's end, for the caller to send
 * and close; else -1. */
int copy_open(struct copy *copy, int *ret_fd) _must_check_;

/* Nothing is queued: bytes that can't be sent now are added to *lost, the stream's own count,
 * which is sent with the next copy. */
void copy_put(struct copy *copy, uint32_t rank, unsigned stream, const void *data, size_t size,
	uint64_t *lost);

/* The stream's end: queued until sent, as long as there is a reader. */
void copy_end(struct copy *copy, uint32_t rank, unsigned stream, uint64_t lost);

/* Ends the socket: the reader gets the end after the bytes that it has not read. */
void copy_close(struct copy *copy);

/* At a re-exec (handover.h). */
void copy_save(const struct copy *copy, struct handover *h, struct json_t *object);
int copy_restore(struct ev_loop *loop, const struct log *log, const struct json_t *object,
	struct copy **ret_copy) _must_check_;

struct copy *copy_free(struct copy *copy);
DEFINE_CLEANUP(struct copy *, copy_free);
#define _cleanup_copy_ _cleanup_(copy_free_p)

#endif
