/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The part of a spawn that one node starts: what its tasks run, their places in the agent's tables,
 * and the answer to the service process that has requested them. For join.c.
 */
#ifndef STEPD_STEP_JOIN_PART_H
#define STEPD_STEP_JOIN_PART_H

#include "stepd/launch/plan.h"
#include "stepd/step/join_request.h"

struct agent;

struct join_part {
	struct join_request request;
	struct plan_joined joined;
	struct plan_program *programs; /* one for each group */
	uint32_t *task_program;        /* these have an entry for each task: joined.task_program */
	uint32_t *ranks;               /* in the step */
	int *errors;                   /* errno of why it could not be executed, or 0 */
	int *fds;                      /* the service's end of its socket pair, or -1 */
	struct environ_task task_env;
	bool added; /* to the agent's tables */
};

/* Checks the message and makes the tables grow for its tasks: nothing of them runs yet. */
int join_part_make(struct agent *a, const struct json_t *message, struct join_part *ret_part,
	struct err *err) _must_check_;

/* Takes them out again; none was forked. */
void join_part_undo(struct agent *a, struct join_part *part);

/* Before a task's fork, and after it in the agent. */
int join_part_open(
	struct agent *a, struct join_part *part, uint32_t place, struct err *err) _must_check_;
void join_part_close(struct agent *a, struct join_part *part, uint32_t place);

/* "spawned": all run, or none does. Only the first matters where it can't be sent. */
int join_part_answer(struct agent *a, struct join_part *part, struct err *err) _must_check_;
void join_part_refuse(struct agent *a, const struct join_part *part, const struct err *err);
void join_part_refuse_message(struct agent *a, const struct json_t *message, const struct err *err);

void join_part_clear(struct join_part *part);

#endif
