/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step, or each of its tasks, may use: stepd-limits(7). One table, SPEC_TABLE_LIMITS in
 * spec_limits.c, has a row for each limit; the options of "stepd run" and "stepctl set-limits" make
 * the JSON that these rows read, and all of it ends in limits_apply().
 *
 * A spec has devices by name; they get their numbers when they are applied, on this machine.
 */
#ifndef STEPD_SPEC_LIMITS_H
#define STEPD_SPEC_LIMITS_H

#include <stdbool.h>

#include "stepd/api/limits.h"
#include "stepd/base/err.h"

struct json_t;

enum limits_mode {
	LIMITS_STRICT,      /* a limit that can't be set is an error */
	LIMITS_BEST_EFFORT, /* ... is omitted, with a warning */
	LIMITS_MODE_MAX,
};

struct limits_io {
	char *name;             /* "/dev/sda" or "8:0" */
	stepd_io_limit_t limit; /* without the device's numbers */
};

struct limits_device {
	char *name;      /* "/dev/nvidia0" or "c 195:*" */
	uint32_t access; /* enum stepd_device_access */
};

/* All zero: none. */
struct limits {
	uint32_t set; /* bits 1u << enum stepd_limit; other limits stay as they are */
	uint64_t number[STEPD_LIMIT_COUNT];
	char *cpuset_cpus, *cpuset_mems; /* "": remove the limit */
	struct limits_io *io;            /* all that are limited; none: remove the limit */
	size_t io_count;
	bool all_devices;              /* remove the device control */
	struct limits_device *devices; /* allowed in addition to the defaults */
	size_t devices_count;
};

void limits_clear(struct limits *limits);
#define _cleanup_limits_ _cleanup_(limits_clear)

/* Reads an object as in a spec's "limits". Messages begin with where. */
int limits_from_json(const char *where, const struct json_t *doc, struct limits *ret_limits,
	struct err *err) _must_check_;
int limits_mode_parse(const char *text, enum limits_mode *ret_mode) _must_check_;

/* ---- devices ------------------------------------------------------------------------------- */

/* "c 195:*", "b 8:0" or "a *:*". access stays unchanged. */
int limits_device_parse(const char *text, stepd_device_rule_t *ret_rule) _must_check_;

/* "8:0" */
int limits_device_parse_numbers(
	const char *text, uint32_t *ret_major, uint32_t *ret_minor) _must_check_;

/* Whether path is below /dev, judged by its text. */
bool limits_device_is_path(const char *text);

/* The type and the numbers of the device node at path. Symbolic links are followed only on the
 * file system that /dev itself is, where only root can create them. */
int limits_device_find(
	const char *path, stepd_device_rule_t *ret_rule, struct err *err) _must_check_;

/* The devices that are always allowed. */
const stepd_device_rule_t *limits_default_devices(size_t *ret_count);

#endif
