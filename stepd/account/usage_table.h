/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage for people: a table of at most 80 columns, one row a value. Up to four tasks have a column
 * each; of more the least, the mean and the largest are shown, with the ranks that have them.
 */
#ifndef STEPD_ACCOUNT_USAGE_TABLE_H
#define STEPD_ACCOUNT_USAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

struct usage_view {
	const char *label;     /* "7.0" */
	uint64_t elapsed_usec; /* 0: not known */
	bool live;             /* values of the moment mean something */
	const stepd_usage_t *step;
	const stepd_usage_t *tasks;         /* n of them */
	const stepd_step_task_info_t *task; /* who they are */
	size_t n;
};

/* The caller frees it. NULL: no memory. */
char *usage_table_format(const struct usage_view *view) _must_check_;

#endif
