/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a task ended and what that makes of the step. A wait status is the raw one of wait(2).
 *
 * The step's status is that of the first task, in time, that ended by a signal; with none, the
 * largest exit status. Tasks that ended after its end was requested do not count: they were
 * killed on request.
 */
#ifndef STEPD_BASE_STATUS_H
#define STEPD_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>

/* What stepd itself exits with where the tasks' statuses don't count; stepd(8) has the table. */
enum status_code {
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
	STATUS_SIGNAL_BASE = 128,
	STATUS_OUTPUT_LOST = 120, /* what tasks wrote could not be written, and none has failed */
	STATUS_LOST = 121, /* how a task ended was lost with an agent that died, and none is known
			    * to have failed */
	STATUS_OUT_OF_MEMORY = 122, /* oom_kill_step */
	STATUS_UNKILLABLE = 123,
	STATUS_TIME_LIMIT = 124,
	STATUS_FAILED = 125, /* the step could not be started, or the agent failed */
};

struct status {
	bool signalled;
	int code; /* 0 to 255 */
};

/* "exited with status 3", "killed by signal 9 (KILL)", with ", core dumped" where so. */
const char *status_text(int wait_status, char *buf, size_t size);
#define STATUS_TEXT_SIZE 64

/* 128 + signal, or the exit status. */
int status_exit_code(int wait_status);

/* Counts one more ended task, in the order of their ends. */
void status_count(struct status *status, int wait_status);

#endif
