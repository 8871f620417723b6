/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What events.jsonl (stepd/record/events.h) tells of a step's tasks: which had ended, and how. A
 * last line that is not whole, and lines that nobody understands, are passed over.
 */
#ifndef STEPD_RECORD_HISTORY_H
#define STEPD_RECORD_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct history_end {
	uint32_t rank;
	bool lost; /* how was not known then either */
	int wait_status;
	int exit_code;
	bool on_request;    /* the step had been told to end */
	uint64_t time_usec; /* since the epoch */
};

/* Calls ended for each task_exit, in their order. 0, also where there is no file, or -errno. */
typedef void (*history_fn)(const struct history_end *end, void *userdata);
int history_read(int dir_fd, history_fn ended, void *userdata) _must_check_;

#endif
