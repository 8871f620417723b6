/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls of any method with JSON values in place of text: for the library's own functions, and for
 * the commands of the tree, which link its objects. A request is dumped once and a reply is parsed
 * once.
 */
#ifndef STEPD_CLIENT_CLIENT_H
#define STEPD_CLIENT_CLIENT_H

#include "stepd/api/client.h"
#include "stepd/client/reply.h"

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

#endif
