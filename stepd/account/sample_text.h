/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A sample as text: one line for the step, one for each task. Apart from sample.c, which has a
 * loop: stepctl reads the options of a run, too.
 */
#ifndef STEPD_ACCOUNT_SAMPLE_TEXT_H
#define STEPD_ACCOUNT_SAMPLE_TEXT_H

#include <stdio.h>

#include "stepd/api/usage.h"
#include "stepd/base/err.h"

enum sample_format {
	SAMPLE_CSV,
	SAMPLE_JSON,
	SAMPLE_FORMAT_MAX,
};

struct sample_line {
	uint64_t time_usec;    /* since 1970 */
	uint64_t elapsed_usec; /* since the agent's start */
	int64_t rank;          /* -1: the step */
	const stepd_usage_t *usage;
};

/* By the ending of a file's name. */
enum sample_format sample_format_of(const char *file);

/* The first line of CSV; of JSON there is none. */
void sample_print_heading(FILE *f, enum sample_format format);

/* What can't be written shows in ferror(f). */
void sample_print_line(FILE *f, enum sample_format format, const struct sample_line *line);

#define SAMPLE_INTERVAL_MS_LEAST 100u
#define SAMPLE_INTERVAL_MS_MOST  86400000u

/* "1s" as an interval within those bounds. */
int sample_parse_interval(const char *text, uint64_t *ret_ms, struct err *err) _must_check_;

#endif
