/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The control socket's frontend: io.stepd.Step over Varlink. The service itself
 * (stepd/control/control.h) knows connections, frames, who calls and what that one may; here its
 * calls become calls of operations, and their replies its replies.
 */
#ifndef STEPD_FRONTEND_VARLINK_H
#define STEPD_FRONTEND_VARLINK_H

#include "stepd/base/err.h"

struct control_options;
struct handover;
struct json_t;
struct operations;
struct varlink;

/* Listens in the step's directory, in its agent's loop; in a new program with what varlink_save()
 * has put into the object saved of h, else NULL. o is borrowed until varlink_close(). */
int varlink_open(struct operations *o, const struct handover *h, const struct json_t *saved,
	struct varlink **ret_varlink, struct err *err) _must_check_;

/* NULL is fine for all that follow: there is no socket.
 *
 * Calls of OP_WHEN_READY run from now on. */
void varlink_set_ready(struct varlink *v);

/* No more calls; runs the loop until the last replies are taken by those who take any, at most for
 * 5 s. */
void varlink_finish(struct varlink *v);

/* Calls that are still held are gone. Returns NULL. */
struct varlink *varlink_close(struct varlink *v);

/* For a new program (snapshot/handover.h). */
void varlink_save(const struct varlink *v, struct handover *h, struct json_t *object);

#endif
