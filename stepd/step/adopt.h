/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Takes over a step whose agent has died, and is its agent from then on: its processes, its limits
 * and its time, its socket, its end and its result. The tasks are not our children; their exit
 * statuses are known as far as the dead agent wrote them down or the kernel knows (reaping.h).
 * What went through the dead agent (labels, a stdin that it handed out) can't be had again.
 */
#ifndef STEPD_STEP_ADOPT_H
#define STEPD_STEP_ADOPT_H

#include <sys/types.h>

#include "stepd/api/step.h"
#include "stepd/record/state_doc.h"
#include "stepd/step/agent.h"

struct agent;
struct clean_options;
struct spec;

/* ---- an agent made of what a dead one left ------------------------------------------------- */

/* An agent made of what a dead one left in its step's directory: state.json, spec.json and
 * events.jsonl. It knows what that one knew; nothing is done to the step. */

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

/* ---- adoption ------------------------------------------------------------------------------ */

/* step is "7.0" or "n1/7.0". As agent_run(): 0 with what to exit with, also for a step that has
 * ended meanwhile; or -errno with the reason. -EEXIST: its agent lives. */
int agent_adopt(const char *step, const struct agent_options *options, int *ret_code,
	struct err *err) _must_check_;

/* As agent_adopt(), for a step that has no living process: clean_settle_fn (record/clean.h).
 * Changes this process for good, and reports nothing to anybody. */
int adopt_settle(const char *step, const struct clean_options *options);

#endif
