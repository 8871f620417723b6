/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the step's socket answers: the methods of io.stepd.Step, whose meaning stands in
 * stepd/control/io.stepd.Step.varlink, and their place in the step's life. The service itself
 * (stepd/control/control.h) knows connections; here is what they ask the agent.
 *
 * A NULL is fine for all functions but methods_open() and methods_restore(): an agent without a
 * socket goes on.
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

/* Opens the socket in the step's directory, which stands, with its container. Questions are
 * answered from now on, in a->loop; what changes the step waits for methods_ready(). */
int methods_open(struct agent *a, struct err *err) _must_check_;

/* What control_open() and control_restore() are told. */
void methods_get_options(struct methods *m, struct control_options *ret_options);

/* The tasks have been released, or never will be: what waited for that goes on. */
void methods_ready(struct methods *m);

/* a's state may be another one: tells all who follow it, if it is. */
void methods_state_changed(struct methods *m);

/* A suspension, or a resumption, that was asked for has come to its end. why: it has failed, with
 * that code. */
void methods_suspended(struct methods *m, bool suspend, int code, const char *why);

/* The result is on the disk: tells all who wait for it, and those who follow the last events. Runs
 * the loop for that, no longer than those take it who read at all. */
void methods_end(struct methods *m);

/* ---- a new program in the agent's place (reexec.h) ----------------------------------------- */

/* Whether an answer is being made that the new program could not go on with. Calls
 * reexec_answered() once none is. */
bool methods_is_listing(const struct methods *m);

/* The new program was not executed: tells all who asked for it why. */
void methods_not_reexeced(struct methods *m, const struct err *why);

/* The service with its connections and all calls that are kept. restore: in the place of
 * methods_open(); those who asked for the new program are told that it is there. */
void methods_save(const struct methods *m, struct handover *h, struct json_t *object);
int methods_restore(struct agent *a, const struct json_t *object, struct err *err) _must_check_;

struct methods *methods_close(struct methods *m);

#endif
