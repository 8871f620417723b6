/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the library's files share. A connection has one pending call at most. A failure that leaves
 * open which reply belongs to which call makes it unusable, and every later call fails with that.
 */
#ifndef STEPD_CLIENT_CLIENT_IMPL_H
#define STEPD_CLIENT_CLIENT_IMPL_H

#include "stepd/client/client.h"

#define STEP_INTERFACE "io.stepd.Step."

struct stepd_client {
	struct stream stream;
	int timeout_ms;
	char *name;      /* of the step, "n1/7.0" */
	char *directory; /* as it was given */
	char *method;    /* of the pending call, "ListPids"; NULL: there is none */
	bool more;       /* it may have several replies */
	bool broken;
	bool split;    /* client_split_calls() */
	bool followed; /* stepd_follow()'s events have come to their end */
};

/* The socket of the step in directory, connected to its agent: the descriptor, or a failure. */
int client_connect_socket(const char *directory, const char *step, int timeout_ms,
	struct stepd_error *error) _must_check_;

/* "n1/7.0" of ".../n1_7.0": the caller frees it; NULL without memory. */
char *client_step_name(const char *directory);

bool client_is_pending(const struct stepd_client *client, const char *method);

/* client_start_take() for a function that then waits. In two halves: -EAGAIN at the end of the
 * first; the second sends nothing. */
int client_begin_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	unsigned flags, struct stepd_error *error) _must_check_;

/* client_next() for such a function: a timeout makes the connection unusable. */
int client_next_in_time(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error) _must_check_;

/* client_call_take() with another timeout; ret_reply may be NULL. */
int client_call_within_take(struct stepd_client *client, const char *method,
	struct json_t *parameters, int timeout_ms, struct json_t **ret_reply,
	struct stepd_error *error) _must_check_;

/* The text of a JSON object, which it takes over. */
int client_dump_take(
	struct json_t *object, char **ret_json, struct stepd_error *error) _must_check_;

/* A reply whose parameters are not those of the interface: -EPROTO, and the connection is unusable.
 */
int client_refuse(struct stepd_client *client, const char *method, const char *why,
	struct stepd_error *error);

#endif
