/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the library's files share. A connection has one call under way at most; what fails in a way
 * that leaves open which answer belongs to which call makes it unusable, and every later call says
 * so.
 */
#ifndef STEPD_CLIENT_CLIENT_IMPL_H
#define STEPD_CLIENT_CLIENT_IMPL_H

#include "stepd/api/client.h"
#include "stepd/client/error.h"
#include "stepd/client/reply.h"
#include "stepd/client/stream.h"

#define STEP_INTERFACE "io.stepd.Step."

struct stepd_client {
	struct stream stream;
	int timeout_ms;
	char *name;      /* of the step, "n1/7.0" */
	char *directory; /* as it was given */
	char *method;    /* of the call under way, "ListPids"; NULL: there is none */
	bool more;       /* it may have several answers */
	bool broken;
	bool followed; /* stepd_follow()'s events have come to their end */
};

/* The socket of the step in directory, connected to its agent: the descriptor, or a failure. */
int connect_agent(const char *directory, const char *step, int timeout_ms,
	struct stepd_error *error) _must_check_;

/* "n1/7.0" of ".../n1_7.0": the caller frees it; NULL without memory. */
char *connect_step_name(const char *directory);

/* Sends a call; takes over parameters, which may be NULL for none but not for want of memory. */
int client_start_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	unsigned flags, struct stepd_error *error) _must_check_;

/* Its next answer, an error's sentence in *error. -EAGAIN, -ETIMEDOUT: it is still under way. */
int client_next(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error) _must_check_;

/* Both, for a call with one answer: a new reference in *ret_parameters, which may be NULL. */
int client_call_take(struct stepd_client *client, const char *method, struct json_t *parameters,
	int timeout_ms, struct json_t **ret_parameters, struct stepd_error *error) _must_check_;

/* The next answer with the connection's own timeout. One that does not come makes it unusable. */
int client_next_in_time(struct stepd_client *client, int timeout_ms, struct reply *ret_reply,
	struct stepd_error *error) _must_check_;

/* The text of a JSON object, which it takes over. */
int client_dump_take(
	struct json_t *object, char **ret_json, struct stepd_error *error) _must_check_;

/* An answer whose parameters are not those of the interface: -EPROTO, and it is of no more use. */
int client_refuse(struct stepd_client *client, const char *method, const char *why,
	struct stepd_error *error);

int client_no_memory(struct stepd_error *error);

#endif
