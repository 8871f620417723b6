/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames over a socket: bytes up to a NUL. Nothing here waits beyond its deadline, and an answer is
 * held whole in memory, STREAM_FRAME_MAX bytes at most. After a failure other than -EAGAIN and
 * -ETIMEDOUT the stream is unusable.
 */
#ifndef STEPD_CLIENT_STREAM_H
#define STEPD_CLIENT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/buffer.h"

#define STREAM_FRAME_MAX (64u << 20)

struct stream {
	int fd;           /* a connected socket */
	struct buffer in; /* received */
	size_t returned;  /* bytes of it that stream_next() has returned last */
	size_t seen;      /* so many bytes have no NUL */
	char *out;        /* what is to be sent is out[out_at..out_end) */
	size_t out_at, out_end;
	bool out_broken; /* the peer takes nothing any more; it may have sent the reason */
};

/* On CLOCK_MONOTONIC, in nanoseconds. */
#define STREAM_NEVER INT64_MAX

/* That many milliseconds from now; STREAM_NEVER for -1. */
int64_t stream_deadline(int timeout_ms);

/* How many milliseconds are left until then, rounded up, for poll(2): 0 at the deadline. */
int stream_left_ms(int64_t deadline);

/* Takes over fd. */
void stream_init(struct stream *s, int fd);
void stream_clear(struct stream *s);

/* Queues size bytes, which it takes over, and sends what can be sent at once. What was queued
 * before must have been sent. */
void stream_put_take(struct stream *s, char *data, size_t size);

/* Whether something is still to be sent. */
bool stream_wants_write(const struct stream *s);

/* Sends it. 0, -ETIMEDOUT. */
int stream_flush(struct stream *s, int64_t deadline) _must_check_;

/* Whether something has come, the end of the stream included. */
bool stream_has_input(const struct stream *s);

/* The next frame, without its NUL; valid until the next call here. Sends what is to be sent, too.
 * -ETIMEDOUT, -ECONNRESET, -EMSGSIZE above STREAM_FRAME_MAX, -ENOMEM or another of recv(2). */
int stream_next(
	struct stream *s, int64_t deadline, const char **ret_frame, size_t *ret_size) _must_check_;

#endif
