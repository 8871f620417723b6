/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent's accounting: when the step and its tasks are looked at, and who is told. usage.h is
 * what is kept, oom.h who ran out of memory, sample.h what is written while the step runs.
 */
#ifndef STEPD_ACCOUNT_ACCOUNT_H
#define STEPD_ACCOUNT_ACCOUNT_H

#include <sys/resource.h>

#include "stepd/base/err.h"

struct agent;
struct handover;
struct json_t;
struct task;

/* Before the first fork. */
int account_open(struct agent *a, struct err *err) _must_check_;

/* The tasks have been released. */
void account_started(struct agent *a);

/* Live values, now: refreshes a->usage and the verdicts. Where usage is not kept it does nothing.
 */
void account_look(struct agent *a);

/* A process was reaped; task is NULL where it is none. Before what stands for the task goes. */
void account_reaped(struct agent *a, struct task *task, const struct rusage *ru);

/* The same of a task that is not our child: what it has used is what its part of the container
 * tells. */
void account_look_at_task(struct agent *a, struct task *task);

/* No process is left, or none can be ended; the container still stands. */
void account_finish(struct agent *a);

/* The last sample, and what people asked to see at the end. */
void account_report(struct agent *a);

/* For the program that goes on with the step (handover.h). restore: in the place of account_open()
 * and account_started(). */
void account_save(const struct agent *a, struct handover *h, struct json_t *object);
int account_restore(struct agent *a, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_;

void account_close(struct agent *a);

#endif
