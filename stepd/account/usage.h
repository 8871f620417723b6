/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the step and each of its tasks have used, as far as it was looked at: kept only where
 * somebody asked for it, because a look costs a dozen files a task. The last look stays: what a
 * task's own part of the container told is there when that is gone.
 *
 * A value comes from the container's files where the tracker counts it. Else, while the step
 * lives, from /proc (proctrack/procusage.h), and when a task has ended from wait4(2), which tells
 * of its first process and what that one waited for. The step then has the sum over all processes
 * that the agent reaped.
 */
#ifndef STEPD_ACCOUNT_USAGE_H
#define STEPD_ACCOUNT_USAGE_H

#include <stdbool.h>
#include <sys/resource.h>

#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

struct handover;
struct json_t;
struct proctrack;

struct usage {
	bool kept;            /* somebody asked for it */
	stepd_usage_t step;   /* the last look */
	stepd_usage_t *tasks; /* likewise, by local id; NULL if not kept */
	stepd_usage_t *look;  /* for the next look */
	stepd_usage_t waited; /* by all processes that the agent reaped */
	long floor_kib;       /* usage_from_rusage(); the caller's to set */
};

/* n tasks. 0 or -ENOMEM. */
int usage_open(struct usage *u, uint32_t n) _must_check_;
void usage_clear(struct usage *u);

/* More tasks join the n that are there. 0 or -ENOMEM. */
int usage_grow(struct usage *u, uint32_t n, uint32_t more) _must_check_;

/* Looks at the step and its tasks now: 0, or -errno with what was known before. */
int usage_look(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job) _must_check_;

/* The agent has reaped a process, a task or not. */
void usage_reaped(struct usage *u, const struct rusage *ru);

/* The task has ended. counted is what its part of the container told then, or NULL; ru too may be
 * NULL, where somebody else has reaped it. */
void usage_task_ended(
	struct usage *u, uint32_t local_id, const stepd_usage_t *counted, const struct rusage *ru);

/* For the program that goes on with it (handover.h). restore: after usage_open() with as many
 * tasks, or without where nothing was kept. */
void usage_save(const struct usage *u, uint32_t n, struct handover *h, struct json_t *object);
void usage_restore(struct usage *u, uint32_t n, const struct json_t *object);

/* All have ended; the container still stands. */
void usage_finish(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job);

#endif
