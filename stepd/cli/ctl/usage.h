/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The reply to Usage as values of <stepd/usage.h>, for stepctl usage and top.
 */
#ifndef STEPD_CLI_CTL_USAGE_H
#define STEPD_CLI_CTL_USAGE_H

#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

struct json_t;
struct stepd_client;
struct stepd_error;

struct usage_sample {
	uint64_t time_usec, elapsed_usec;
	stepd_usage_t step;
	stepd_usage_t *tasks;
	stepd_step_task_info_t *task; /* their ranks */
	size_t n;
};

/* Starts a call of Usage that replies at each interval. */
int usage_subscribe(
	struct stepd_client *client, int64_t interval_ms, struct stepd_error *error) _must_check_;

/* Values of a newer agent that this version does not know are left out. 0 or -ENOMEM. */
int usage_read(const struct json_t *reply, struct usage_sample *ret_usage) _must_check_;

/* The processors that the step used between two samples, such as 1.5; below 0: not known. */
double usage_cpu_share(const struct usage_sample *now, const struct usage_sample *before);

/* The same of one task or step. */
double usage_cpu_share_of(
	const stepd_usage_t *now, const stepd_usage_t *before, uint64_t between_usec);

/* In percent, "-" where it is not known. */
const char *usage_cpu_text(double share, char *buf);

void usage_sample_clear(struct usage_sample *usage);
#define _cleanup_usage_sample_ _cleanup_(usage_sample_clear)

#endif
