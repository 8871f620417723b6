/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tasks of a step that was taken over, which are no children of its agent: their ends are
 * learnt by an exit_watch, a->origin.exits, and lead to what ends of children lead to. Of other
 * members see member_watch.h.
 */
#ifndef STEPD_STEP_ADOPTED_H
#define STEPD_STEP_ADOPTED_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct agent;
struct handover;
struct json_t;

/* Makes a->origin.exits, with nobody in it: the caller adds tasks by their index. Needs a->loop. */
int adopted_watch(struct agent *a) _must_check_;

/* A task has ended that is running by the books. */
void adopted_note_end(struct agent *a, uint32_t index, bool known, int wait_status);

/* Once no process of the step is left: the MPI service process of the dead agent ends by itself
 * then. One that doesn't gets SIGTERM, and SIGKILL. Waits some seconds at most. */
void adopted_end_service(struct agent *a);

/* For the program that goes on with the step (handover.h). Ends in between are reported by
 * reaping_poll() after restore: the descriptors stay, and with them what the kernel knows. */
void adopted_save(const struct agent *a, struct handover *h, struct json_t *object);
int adopted_restore(struct agent *a, const struct json_t *object, struct err *err) _must_check_;

#endif
