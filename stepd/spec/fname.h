/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Slurm's file name patterns for --output, --error and --input:
 *   %j job id   %J job.step   %s step   %t rank   %n node's index in the step   %N node's name
 *   %u user     %x job name   %% a percent sign
 * A number between the percent sign and j, J, s, t or n pads it with zeros: "%4t" is "0007" (a
 * width above 10 counts as 10); before N, u or x, and before a step's name that is no number, it
 * is ignored. A backslash anywhere in the pattern switches replacing off, as in Slurm: the name
 * is then the pattern, each backslash standing for the character behind it.
 */
#ifndef STEPD_SPEC_FNAME_H
#define STEPD_SPEC_FNAME_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct fname_vars {
	uint32_t job_id;
	const char *step_name;
	uint32_t rank;
	uint32_t node_id;
	const char *node_name;
	const char *user_name;
	const char *job_name;
};

/* Whether the pattern names a different file for each task (holds %t). */
bool fname_per_task(const char *pattern);

/* The expanded name, from malloc(). -EINVAL: an unknown conversion, named in err; -ENAMETOOLONG.
 * A '/' inside a replaced value (a user's job name) becomes '_', and a value "." or ".." becomes
 * "_" or "__", so that values can't lead to another directory. */
int fname_expand(const char *pattern, const struct fname_vars *vars, char **ret_name,
	struct err *err) _must_check_;

/* fname_expand() without a result: for the spec's check. */
int fname_check(const char *pattern, struct err *err) _must_check_;

#endif
