/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process that stands between the doctor and the agent of a trial step. What that agent leaves
 * if it has to be killed becomes this process's children, and nobody else's: so it may kill them.
 * It outlives a doctor that is killed, for as long as it takes to end the step.
 */
#ifndef STEPD_CLI_DOCTOR_DOCTOR_SUPERVISOR_H
#define STEPD_CLI_DOCTOR_DOCTOR_SUPERVISOR_H

#include "stepd/base/cleanup.h"
#include "stepd/base/pidref.h"

#define SUPERVISOR_STEP_TIMEOUT_MS 10000u

/* The supervisor's exit status. */
enum supervisor_status {
	SUPERVISOR_GOOD,
	SUPERVISOR_FAILED, /* the step's status is other than 0 */
	SUPERVISOR_LATE,   /* it was ended after the time above */
	SUPERVISOR_LOST, /* the agent can't be started or watched; a line on standard error says why
			  */
};

struct supervisor {
	struct pidref doctor; /* the step is for it alone */
	char *const *argv, *const *env;
	int stdio[3];            /* above 2 */
	const char *runtime_dir; /* the step's own, removed at the end */
	const char *plugin_dir;
};

/* In the supervisor's process, right after the fork: runs the agent and waits for its end. */
_noreturn_ void supervisor_run(const struct supervisor *k);

#endif
