/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is done to the step's container, in the order of the requests (requests.h), as it concerns
 * the rest of the step: before a signal, what has ended by then is seen; after it, the event, the
 * kill sequence, the suspended state and the end.
 */
#ifndef STEPD_STEP_CONTAINER_H
#define STEPD_STEP_CONTAINER_H

#include "stepd/base/err.h"

struct agent;

/* Makes a->requests. requests_clear() ends them. */
int container_open(struct agent *a, struct err *err) _must_check_;

#endif
