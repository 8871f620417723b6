/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection to jobd, and calls of org.stepd.jobs (server/org.stepd.jobs.varlink).
 */
#ifndef JOBD_CLI_CLIENT_H
#define JOBD_CLI_CLIENT_H

#include <jansson.h>

#include "stepd/base/err.h"

#define JOBD_SOCKET_DEFAULT "/run/jobd/socket"
#define JOBD_TIMEOUT_MS     60000
#define JOBD_FOR_EVER       (-1)

struct jobd_client;

/* Connects to $JOBD_SOCKET; else to the default one, or if nothing listens there to this user's
 * own, $XDG_RUNTIME_DIR/jobd/socket. -EPERM: the listener belongs neither to root nor to this user.
 */
int jobd_connect(struct jobd_client **ret_client, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct jobd_client *jobd_disconnect(struct jobd_client *client);
DEFINE_CLEANUP(struct jobd_client *, jobd_disconnect);
#define _cleanup_jobd_client_ _cleanup_(jobd_disconnect_p)

/* Calls a method ("Submit") and waits for its reply, a new reference that the caller releases.
 * Takes over parameters; NULL means out of memory. A refusal is -EPERM (PermissionDenied), -ESRCH
 * (NoSuchJob), -EINVAL, -EBUSY (WrongState), -EOPNOTSUPP or -EIO, with jobd's own sentence. After
 * any other error the connection is unusable. */
int jobd_call_take(struct jobd_client *client, const char *method, json_t *parameters,
	int timeout_ms, json_t **ret_reply, struct err *err) _must_check_;

/* The same in two halves, for a caller that waits for other events, too: once jobd_get_fd() is
 * readable, the reply has come, or the connection has ended. */
int jobd_send_take(struct jobd_client *client, const char *method, json_t *parameters,
	struct err *err) _must_check_;
int jobd_receive(struct jobd_client *client, const char *method, int timeout_ms, json_t **ret_reply,
	struct err *err) _must_check_;
int jobd_get_fd(const struct jobd_client *client);

/* All elements of a list that comes in pieces ("jobs" of ListJobs), and jobd's clock. parameters is
 * borrowed. */
int jobd_list(struct jobd_client *client, const char *method, const char *member,
	const json_t *parameters, json_t **ret_list, int64_t *ret_time,
	struct err *err) _must_check_;

#endif
