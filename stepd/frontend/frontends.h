/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The frontends call the step's operations (stepd/operations/), and decide nothing themselves. This
 * one is the control socket, io.stepd.Step over Varlink: the service (stepd/control/control.h)
 * knows connections, frames, callers and their access; its calls become calls of operations, whose
 * replies become its replies. The other one is the MPI service process's link (mpi_requests.c).
 */
#ifndef STEPD_FRONTEND_FRONTENDS_H
#define STEPD_FRONTEND_FRONTENDS_H

#include <stdbool.h>

struct frontends;
struct json_t;
struct operations;

/* For the options of an agent (step/agent_impl.h). */
extern const struct frontend frontends;

/* Whether a call is held, to be replied to later. */
bool frontends_has_pending(const struct frontends *f);

/* The frontend of the MPI service process (mpi_requests.c): its requests over the link
 * (mpi/link.h), which are the step's owner's. Takes the request of that name, and replies over
 * the link, now or later. False: there is no such request. */
bool mpi_requests_take(struct operations *o, const char *name, const struct json_t *request);

#endif
