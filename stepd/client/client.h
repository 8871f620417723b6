/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of any method with JSON values in place of text: for the library's own functions, and for
 * the commands of the tree, which link its objects. A request is dumped once and a reply is parsed
 * once.
 */
#ifndef STEPD_CLIENT_CLIENT_H
#define STEPD_CLIENT_CLIENT_H

#include "stepd/api/client.h"
#include "stepd/base/err.h"

struct json_t;

/* An answer of a Varlink service: a JSON object with "parameters", "continues" and "error", each of
 * which may be missing (https://varlink.org/Method-Call). Other members are left alone, as a later
 * version of the protocol may have them. */
struct reply {
	struct json_t *parameters; /* an object */
	char *error;               /* the name of one, NULL: it is none */
	bool continues;            /* others follow */
};

/* Takes text, size bytes without the NUL that ended it, apart. -EPROTO: it is no answer, and
 * *ret_why says why in a constant; -ENOMEM. */
int reply_parse(
	const char *text, size_t size, struct reply *ret_reply, const char **ret_why) _must_check_;
void reply_clear(struct reply *reply);
#define _cleanup_reply_ _cleanup_(reply_clear)

#define CLIENT_FIND_PIDS_MAX 16384 /* of one call, as the interface has it */

/* For a caller with several connections, whose agents shall work at the same time. From now on a
 * function that calls a method and waits for its reply does so in two halves: it returns -EAGAIN
 * once the request has been sent, and waits when it is called again. stepd_find_pids() then takes
 * no more than CLIENT_FIND_PIDS_MAX. */
void client_split_calls(struct stepd_client *client);

/* Sends a call; takes over parameters, which may be NULL for none but not for want of memory. */
int client_start_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	unsigned flags, struct stepd_error *error) _must_check_;

/* Its next reply, an error's sentence in *error. -EAGAIN, -ETIMEDOUT: it is still pending. */
int client_next(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error) _must_check_;

/* Both, for a call with one reply, for which the connection's own timeout counts: a new reference.
 */
int client_call_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	struct json_t **ret_reply, struct stepd_error *error) _must_check_;

/* ---- errors: they fill error, which may be NULL, and return the code ------------------------ */

/* A sentence, without and with the errno text behind it. */
int client_error(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);
int client_error_errno(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);

/* The error of a module below. */
int client_error_forward(struct stepd_error *error, const struct err *err);

int client_no_memory(struct stepd_error *error);

/* The error reply of the agent of step to a call of method: the error's name and its parameters, an
 * object. */
int client_error_remote(struct stepd_error *error, const char *step, const char *method,
	const char *name, const struct json_t *parameters);

#endif
