/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The values of <stepd/usage.h>, a row each: what the result, the samples, the tables and stepd(8)
 * call them, and how they are written for programs and for people.
 */
#ifndef STEPD_ACCOUNT_USAGE_VALUES_H
#define STEPD_ACCOUNT_USAGE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#include "stepd/api/usage.h"

struct json_t;

enum usage_unit {
	USAGE_UNIT_USEC,
	USAGE_UNIT_BYTES,
	USAGE_UNIT_COUNT,
};

struct usage_value {
	const char *name;  /* "cpu_user_usec" */
	const char *title; /* of a table's row, at most 16 letters */
	enum usage_unit unit;
	bool now;  /* of the moment; else it only grows */
	bool peak; /* over several tasks the largest, no sum */
};

extern const struct usage_value usage_values[STEPD_USAGE_COUNT];

/* "cgroup", "proc", "rusage"; and their letters, with '-' for unknown. */
extern const char *const usage_source_words[STEPD_USAGE_SOURCE_COUNT];
/* What a value is called in a table, which can depend on its source. */
const char *usage_title(enum stepd_usage_value which, uint8_t source);

extern const char usage_source_letters[STEPD_USAGE_SOURCE_COUNT + 1];

/* Adds "usage", the known values by name, and "usage_sources", their sources, to object. 0 or -1
 * for want of memory. */
int usage_pack(struct json_t *object, const stepd_usage_t *usage);

/* A known value for people in at most 8 bytes: "1.50 s", "2h05m", "340 KiB", "12345"; else "-". */
#define USAGE_TEXT_SIZE 24
const char *usage_text(const stepd_usage_t *usage, enum stepd_usage_value which, char *buf);

/* What wait4(2) told of an ended process. Its peak is unknown up to floor_kib, the most that it may
 * have had before its exec: the kernel keeps the larger of both. */
void usage_from_rusage(const struct rusage *ru, long floor_kib, stepd_usage_t *ret_usage);

/* Adds what another process or task used; what is unknown of one side is what the other says. */
void usage_add(stepd_usage_t *sum, const stepd_usage_t *more);

/* Takes a later look at the same thing into last, which keeps what the look doesn't tell. A count
 * never goes back: who loses sight of processes does not undo what was seen of them; and a cgroup's
 * files know better than all others. */
void usage_update(stepd_usage_t *last, const stepd_usage_t *look);

#endif
