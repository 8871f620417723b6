/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ends of tasks: seen, written down, reaped, and what the step's policies make of them; and
 * what the tasks report of their starts.
 */
#ifndef STEPD_STEP_REAPING_H
#define STEPD_STEP_REAPING_H

#include "stepd/step/agent_impl.h"

/* Notes all that have ended by now, and no more: what follows for the step comes by reaping_act()
 * and ending_check(). */
void reaping_poll(struct agent *a);

/* What follows from what was noted: a task that could not be executed, or ran out of memory, may
 * end the step. */
void reaping_act(struct agent *a);

/* A child has ended: all three. */
void reaping_on_child(struct agent *a);

/* The tasks have been forked: reads what they report. */
void reaping_watch_reports(struct agent *a);

/* A task of a step that was taken over has ended, whose parent we are not; and, after all that have
 * ended were reported, what follows from it. */
void reaping_adopted_task(struct agent *a, uint32_t index, bool known, int wait_status);
void reaping_report_lost(struct agent *a, const struct task *task);
void reaping_settled(struct agent *a);

#endif
