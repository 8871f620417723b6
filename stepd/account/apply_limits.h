/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Applies the limits of a spec, or of a request, to a container and to the tasks in it.
 */
#ifndef STEPD_ACCOUNT_APPLY_LIMITS_H
#define STEPD_ACCOUNT_APPLY_LIMITS_H

#include "stepd/base/err.h"
#include "stepd/spec/limits.h"

struct log;
struct proctrack;
struct spec;

/* Whose limits they are, and what happens if one can't be set. */
struct limits_target {
	struct proctrack *pt;
	uint64_t cont_id;
	enum limits_mode mode;
	const char *where;     /* the limits' name in messages, "task_limits" */
	const struct log *log; /* for best effort: a warning for each that can't be set */
};

/* Applies limits to the container, or with ranks to each of these tasks. An error names the field
 * ("limits.pids_max: ..."); those that were applied before it stay. */
int limits_apply(const struct limits_target *target, const struct limits *limits,
	const uint32_t *ranks, size_t ranks_count, struct err *err) _must_check_;

/* Whether a spec has any. */
bool limits_are_given(const struct spec *spec);

/* Those of a spec: the step's, then each task's, none of which is running yet. */
int limits_apply_spec(const struct spec *spec, struct proctrack *pt, uint64_t cont_id,
	const struct log *log, struct err *err) _must_check_;

#endif
