/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Those through which a step's operations (stepd/operations/) are called: the control socket
 * (varlink.h) and the MPI service process's link (mpi_requests.h).
 */
#ifndef STEPD_FRONTEND_FRONTENDS_H
#define STEPD_FRONTEND_FRONTENDS_H

#include <stdbool.h>

struct frontends;

/* For the options of an agent (step/frontend.h). */
extern const struct frontend frontends;

/* Whether a call is held, to be replied to later. */
bool frontends_has_pending(const struct frontends *f);

#endif
