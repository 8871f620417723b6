/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An agent made of what a dead one left in its step's directory: state.json, spec.json and
 * events.jsonl. It knows what that one knew; nothing is done to the step.
 */
#ifndef STEPD_STEP_SUCCESSOR_H
#define STEPD_STEP_SUCCESSOR_H

#include <sys/types.h>

#include "stepd/api/step.h"
#include "stepd/record/state_doc.h"
#include "stepd/step/agent.h"

struct agent;
struct spec;

struct successor {
	struct state_doc state;
	struct spec *spec;
	struct agent_options options; /* those given, and for the others the dead agent's */
};

/* Fills a's plan, tasks, times and options from the directory; a->registry is the caller's, who has
 * its lock. Tasks that state.json has with a pid, and whose end is recorded nowhere, are
 * TASK_RUNNING; whether they still are is not checked. -ENOENT: there is no state.json. h lives
 * as long as a. */
int successor_load(struct agent *a, int dir_fd, struct successor *h, struct err *err) _must_check_;

void successor_clear(struct successor *h);
#define _cleanup_successor_ _cleanup_(successor_clear)

/* "7.0" or "n1/7.0" as a step that has a directory: what registry_take_over() needs of job is set,
 * its strings are the caller's to free. -ENOENT, or -ENOTUNIQ where several nodes have it. */
int successor_find(const char *runtime_dir, const char *step, stepd_step_rec_t *ret_job,
	char **ret_strings, struct err *err) _must_check_;

#endif
