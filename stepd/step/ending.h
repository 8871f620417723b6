/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What ends a step: its tasks' ends, exec failures, policies, time limits and signals to the
 * agent. All of them come down to one call, ending_begin(), and one condition: every task is
 * reaped and the container is empty.
 */
#ifndef STEPD_STEP_ENDING_H
#define STEPD_STEP_ENDING_H

#include "stepd/base/err.h"
#include "stepd/step/agent_impl.h"

struct handover;
struct json_t;

/* Watches the container, the children, the report pipe, signals and limits. Before the first
 * fork: from then on no event is lost. */
int ending_watch(struct agent *a, struct err *err) _must_check_;

/* All tasks have been released: limits begin to count. */
void ending_started(struct agent *a);

/* Ends the step by its kill sequence; the first reason stays. */
void ending_begin(struct agent *a, enum agent_reason reason);

/* The same with SIGKILL at once. */
void ending_kill(struct agent *a, enum agent_reason reason);

/* SIGKILL to all processes of the step, before all other requests: 0 or -errno. Does not end an
 * extern step. */
int ending_send_kill(struct agent *a);

/* Ends the step because a task has aborted it: why is logged, code is its exit status. */
void ending_abort(struct agent *a, int code, enum log_level level, const char *why);

/* Ends the step as if the agent had got SIGTERM, by this sequence, or by the step's own for NULL.
 * A running one is cut short, if this one ends earlier. */
void ending_terminate_take(struct agent *a, struct spec_kill *steps, size_t count);

/* Moves on to the next state if the step is over. */
void ending_check(struct agent *a);

void ending_unwatch(struct agent *a);

/* In a new program: continues where the old one stopped, with the events in between. */
void ending_go_on(struct agent *a);

/* The step's streams, or its MPI service process, have ended after its last process: ends the
 * wait once both have. */
void ending_settle(struct agent *a);

/* stdio_finish()'s done. */
void ending_streams_done(void *userdata);

/* At a re-exec (handover.h): the escalation, the limits, the
 * suspension. restore: instead of ending_watch() and ending_started(). */
void ending_save(struct agent *a, struct handover *h, struct json_t *object);
int ending_restore(struct agent *a, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_;

/* Ends the step (userdata: struct agent) if the spec requests that at the first process killed
 * for lack of memory, and one was. */
void ending_on_oom(void *userdata);

#endif
