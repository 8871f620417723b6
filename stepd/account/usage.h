/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step and its tasks have used: the values of <stepd/usage.h>, what the agent accumulates of
 * them while the step runs, and their texts: a table for people, samples for programs.
 */
#ifndef STEPD_ACCOUNT_USAGE_H
#define STEPD_ACCOUNT_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>

#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct handover;
struct json_t;
struct proctrack;

/* ---- the values ---------------------------------------------------------------------------- */

enum usage_unit {
	USAGE_UNIT_USEC,
	USAGE_UNIT_BYTES,
	USAGE_UNIT_COUNT,
};

struct usage_value {
	const char *name;  /* "cpu_user_usec" */
	const char *title; /* of a table's row, at most 16 letters */
	enum usage_unit unit;
	bool now;  /* a value of the moment; else it only grows */
	bool peak; /* of several tasks the largest, not the sum */
};

extern const struct usage_value usage_values[STEPD_USAGE_COUNT];

/* "cgroup", "proc", "rusage"; and their letters, with '-' for unknown. */
extern const char *const usage_source_names[STEPD_USAGE_SOURCE_COUNT];

extern const char usage_source_letters[STEPD_USAGE_SOURCE_COUNT + 1];

/* Adds "usage", the known values by name, and "usage_sources", their sources, to object. 0 or -1
 * for want of memory. */
int usage_pack(struct json_t *object, const stepd_usage_t *usage);

/* A known value for people in at most 8 bytes: "1.50 s", "2h05m", "340 KiB", "12345"; else "-". */
#define USAGE_TEXT_SIZE 24
const char *usage_text(const stepd_usage_t *usage, enum stepd_usage_value which, char *buf);

/* What wait4(2) reported of an ended process. Its peak is unknown up to floor_kib, the most that it
 * may have had before its exec: the kernel reports the larger of both. */
void usage_from_rusage(const struct rusage *ru, long floor_kib, stepd_usage_t *ret_usage);

/* Adds what another process or task used; a value that only one side knows is taken from it. */
void usage_add(stepd_usage_t *sum, const stepd_usage_t *more);

/* Updates last by values that were read later; unknown ones leave it as it is. A count never
 * decreases, even if the tracker has lost processes; a cgroup's files take precedence over all
 * other sources. */
void usage_update(stepd_usage_t *last, const stepd_usage_t *now);

/* ---- of a step and its tasks --------------------------------------------------------------- */

/* What the step and each of its tasks have used, as of the last poll: only where it is requested,
 * because a poll reads a dozen files a task. The last values outlive a task's part of the
 * container.
 *
 * A value comes from the container's files where the tracker counts it. Else, while the step
 * lives, from /proc (proctrack/procusage.h), and when a task has ended from wait4(2), which counts
 * its first process and what that one waited for. The step then has the sum over all processes
 * that the agent reaped. */

struct usage {
	bool enabled;          /* it is requested */
	stepd_usage_t step;    /* as of the last poll */
	stepd_usage_t *tasks;  /* likewise, by local id; NULL if not enabled */
	stepd_usage_t *polled; /* scratch of the next poll */
	stepd_usage_t waited;  /* by all processes that the agent reaped */
	long floor_kib;        /* usage_from_rusage(); the caller's to set */
};

/* n tasks. 0 or -ENOMEM. */
int usage_open(struct usage *u, uint32_t n) _must_check_;
void usage_clear(struct usage *u);

/* More tasks join the n that are there. 0 or -ENOMEM. */
int usage_grow(struct usage *u, uint32_t n, uint32_t more) _must_check_;

/* Reads the usage of the step and its tasks now: 0, or -errno with what was known before. */
int usage_poll(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job) _must_check_;

/* The agent has reaped a process, a task or not. */
void usage_reaped(struct usage *u, const struct rusage *ru);

/* The task has ended. counted is what its part of the container counted, or NULL; ru too may be
 * NULL, where somebody else has reaped it. */
void usage_task_ended(
	struct usage *u, uint32_t local_id, const stepd_usage_t *counted, const struct rusage *ru);

/* At a re-exec (handover.h). restore: after usage_open() with as many
 * tasks, or without where it was not enabled. */
void usage_save(const struct usage *u, uint32_t n, struct handover *h, struct json_t *object);
void usage_restore(struct usage *u, uint32_t n, const struct json_t *object);

/* All have ended; the container still stands. */
void usage_finish(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job);

/* ---- as a table ---------------------------------------------------------------------------- */

/* Usage for people: a table of at most 80 columns, one row a value. Up to four tasks have a column
 * each; of more the least, the mean and the largest are shown, with the ranks that have them. */

struct usage_view {
	const char *label;     /* "7.0" */
	uint64_t elapsed_usec; /* 0: not known */
	bool live;             /* values of the moment mean something */
	const stepd_usage_t *step;
	const stepd_usage_t *tasks;         /* n of them */
	const stepd_step_task_info_t *task; /* their ranks */
	size_t n;
};

/* The caller frees it. NULL: no memory. */
char *usage_table_format(const struct usage_view *view) _must_check_;

/* ---- as samples ---------------------------------------------------------------------------- */

/* A sample as text: one line for the step, one for each task. */

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
