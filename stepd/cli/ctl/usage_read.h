/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent answers to Usage, back in the values of <stepd/usage.h>.
 */
#ifndef STEPD_CLI_CTL_USAGE_READ_H
#define STEPD_CLI_CTL_USAGE_READ_H

#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

struct json_t;

struct usage_reply {
	uint64_t time_usec, elapsed_usec;
	stepd_usage_t step;
	stepd_usage_t *tasks;
	stepd_step_task_info_t *task; /* their ranks */
	size_t n;
};

/* Values that are not known here, of a newer agent, are left out. 0 or -ENOMEM. */
int usage_read(const struct json_t *reply, struct usage_reply *ret_usage) _must_check_;

/* The processors that the step used between two looks, such as 1.5; below 0: not known. */
double usage_cpu_share(const struct usage_reply *now, const struct usage_reply *before);

/* The same of one task or step. */
double usage_cpu_share_of(
	const stepd_usage_t *now, const stepd_usage_t *before, uint64_t between_usec);

void usage_reply_clear(struct usage_reply *usage);
#define _cleanup_usage_reply_ _cleanup_(usage_reply_clear)

#endif
