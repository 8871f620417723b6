/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tasks that join the running step: the spawns of its MPI programs. One after the other:
 *
 *   requested (mpi/link.h) -> waits while the step is suspended or the agent is about to execute a
 * new program -> forked, some in each turn of the loop, into the step's container, and held -> all
 * let go at once -> all executed: answered with their ends of the socket pairs
 *
 * All of a spawn's tasks start or none stays: where one can't be forked or executed the others are
 * killed, and the answer comes when all have ended. Such tasks have no part in the step's status.
 * Those that have started are tasks as all others: the step goes on until they have ended.
 */
#ifndef STEPD_STEP_JOIN_H
#define STEPD_STEP_JOIN_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"
#include "stepd/step/requests.h"

struct agent;
struct handover;
struct join;
struct json_t;

/* Spawns that may be queued. */
#define JOIN_WAITING_MAX 64u

struct joins {
	struct join *now;       /* under way; NULL: none */
	struct json_t *waiting; /* an array of their messages' texts; NULL: none */
};

/* The message "spawn" of the MPI service process, replied to by mpi_link_send_take(), now or
 * later, refusals included. -EBADMSG: it is not a message that could be replied to. */
int join_from_link(struct agent *a, const struct json_t *message, struct err *err) _must_check_;

/* A spawn has failed on another node: its tasks end, and do not count for the step's status. A
 * spawn under way, or queued, fails with that. answer: see requests_add_signal(). -ESRCH: none of
 * them runs here. */
int join_drop(struct agent *a, uint32_t number, const struct request_answer *answer) _must_check_;

/* Starts the next one if nothing delays it any more. */
void join_go_on(struct agent *a);

/* The step's end was requested, or it has ended: replies to all. */
void join_step_ends(struct agent *a);

/* For reaping.c: reads the reports so far, when a task has ended; then acts on them. */
void join_read_reports(struct agent *a);
void join_task_ended(struct agent *a, uint32_t local_id);
void join_act(struct agent *a);

/* The pipe whose end means that tasks of a spawn, which are let go, have been executed; -1: none.
 */
int join_get_report_fd(const struct agent *a);

/* At a re-exec (handover.h): the queued ones; none is under way. */
void join_save(const struct agent *a, struct handover *h, struct json_t *root);
int join_restore(struct agent *a, const struct json_t *root) _must_check_;

void join_clear(struct agent *a);

#endif
