/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of any method with JSON values in place of text: for the library's own functions, and for
 * the commands of the tree, which link its objects. A request is dumped once and a reply is parsed
 * once.
 */
#ifndef STEPD_CLIENT_CLIENT_H
#define STEPD_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/api/client.h"
#include "stepd/base/buffer.h"
#include "stepd/base/err.h"

struct json_t;

/* A reply of a Varlink service: a JSON object with "parameters", "continues" and "error", each of
 * which may be missing (https://varlink.org/Method-Call). Other members are left alone, as a
 * later version of the protocol may have them. */
struct reply {
	struct json_t *parameters; /* an object */
	char *error;               /* the error's name; NULL: not an error */
	bool continues;            /* others follow */
};

/* Parses text, size bytes without the NUL that ended it. -EPROTO: not a reply, and *ret_why is
 * the reason, a constant; -ENOMEM. */
int reply_parse(
	const char *text, size_t size, struct reply *ret_reply, const char **ret_why) _must_check_;
void reply_clear(struct reply *reply);
#define _cleanup_reply_ _cleanup_(reply_clear)

#define CLIENT_FIND_PIDS_MAX 16384 /* of one call, as the interface has it */

/* For a caller with several connections, so that the agents work at the same time. From now on a
 * function that calls a method and waits for its reply does so in two halves: it returns -EAGAIN
 * once the request has been sent, and waits when it is called again. stepd_find_pids() then takes
 * no more than CLIENT_FIND_PIDS_MAX. */
void client_split_calls(struct stepd_client *client);

/* Sends a call; takes over parameters; NULL: none (a caller without memory must not call it). */
int client_start_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	unsigned flags, struct stepd_error *error) _must_check_;

/* Its next reply, an error's sentence in *error. -EAGAIN, -ETIMEDOUT: it is still pending. */
int client_next(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error) _must_check_;

/* Both, for a call with one reply, for which the connection's own timeout counts: a new reference.
 */
int client_call_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	struct json_t **ret_reply, struct stepd_error *error) _must_check_;

/* A call with upgrade: after its reply the connection is a channel, *ret_fd, which is the caller's,
 * with the bytes of it that have come by then in *ret_rest. The client can only be disconnected. */
int client_upgrade_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	struct json_t **ret_reply, int *ret_fd, struct buffer *ret_rest,
	struct stepd_error *error) _must_check_;

/* ---- errors: they fill error, which may be NULL, and return the code ----------------------- */

/* A sentence, without and with the errno text behind it. */
int client_error(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);
int client_error_errno(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);

/* Copies the error of a lower module. */
int client_error_forward(struct stepd_error *error, const struct err *err);

int client_no_memory(struct stepd_error *error);

/* The error reply of the agent of step to a call of method: the error's name and its parameters, an
 * object. */
int client_error_remote(struct stepd_error *error, const char *step, const char *method,
	const char *name, const struct json_t *parameters);

/* ---- frames over a socket ------------------------------------------------------------------ */

/* A frame is the bytes up to a NUL. Nothing here waits beyond its deadline, and a reply is held
 * whole in memory, STREAM_FRAME_MAX bytes at most. After a failure other than -EAGAIN and
 * -ETIMEDOUT the stream is unusable. */

#define STREAM_FRAME_MAX (64u << 20)

struct stream {
	int fd;           /* a connected socket */
	struct buffer in; /* received */
	size_t returned;  /* bytes of it that stream_next() has returned last */
	size_t seen;      /* so many bytes have no NUL */
	char *out;        /* what is to be sent is out[out_at..out_end) */
	size_t out_at, out_end;
	bool out_broken; /* the peer reads no more; it may have sent the reason */
};

/* On CLOCK_MONOTONIC, in nanoseconds. */
#define STREAM_NEVER INT64_MAX

/* That many milliseconds from now; STREAM_NEVER for -1. */
int64_t stream_deadline(int timeout_ms);

/* Takes over fd. */
void stream_init(struct stream *s, int fd);
void stream_clear(struct stream *s);

/* What was received behind the last frame, and the descriptor: the caller's. */
int stream_release(struct stream *s, struct buffer *ret_rest);

/* Queues size bytes, which it takes over, and sends what can be sent at once. What was queued
 * before must have been sent. */
void stream_put_take(struct stream *s, char *data, size_t size);

/* Sends it. 0, -ETIMEDOUT. */
int stream_flush(struct stream *s, int64_t deadline) _must_check_;

/* The next frame, without its NUL; valid until the next call here. Sends what is to be sent, too.
 * -ETIMEDOUT, -ECONNRESET, -EMSGSIZE above STREAM_FRAME_MAX, -ENOMEM or another of recv(2). */
int stream_next(
	struct stream *s, int64_t deadline, const char **ret_frame, size_t *ret_size) _must_check_;

#endif
