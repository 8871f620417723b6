/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Takes over a step whose agent has died, and is its agent from then on: its processes, its limits
 * and its time, its socket, its end and its result. The tasks are not our children; their exit
 * statuses are known as far as the dead agent wrote them down or the kernel knows (exit_watch.h).
 * What went through the dead agent (labels, a stdin that it handed out) can't be had again.
 */
#ifndef STEPD_STEP_ADOPT_H
#define STEPD_STEP_ADOPT_H

#include "stepd/step/agent.h"

struct clean_options;

/* step is "7.0" or "n1/7.0". As agent_run(): 0 with what to exit with, also for a step that has
 * ended meanwhile; or -errno with the reason. -EEXIST: its agent lives. */
int agent_adopt(const char *step, const struct agent_options *options, int *ret_code,
	struct err *err) _must_check_;

/* As agent_adopt(), for a step that has no living process: clean_settle_fn (record/clean.h).
 * Changes this process for good, and reports nothing to anybody. */
int adopt_settle(const char *step, const struct clean_options *options);

#endif
