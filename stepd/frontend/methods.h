/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the step's socket answers: the methods of io.stepd.Step, whose meaning stands in
 * stepd/control/io.stepd.Step.varlink, and their place in the step's life. The service itself
 * (stepd/control/control.h) knows connections; here is what they ask the agent.
 */
#ifndef STEPD_FRONTEND_METHODS_H
#define STEPD_FRONTEND_METHODS_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct agent;
struct control_method;
struct control_options;
struct handover;
struct json_t;
struct methods;

/* The one table: a row for each method of the interface. */
const struct control_method *methods_get_table(size_t *ret_count);

/* What the step reports to it: for the options of an agent (step/frontend.h). */
extern const struct frontend methods_frontend;

/* What control_open() and control_restore() are told. */
void methods_get_options(struct methods *m, struct control_options *ret_options);

#endif
