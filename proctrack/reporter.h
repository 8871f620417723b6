/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The findings of a check-up (<stepd/plugin.h>), formatted and handed to the caller of the plugin.
 */
#ifndef PROCTRACK_REPORTER_H
#define PROCTRACK_REPORTER_H

#include "stepd/api/plugin.h"
#include "stepd/base/cleanup.h"

struct reporter {
	stepd_tell_fn fn;
	void *ctx;
};

/* value and remedy may be NULL for "". fmt makes the text. */
void reporter_add(const struct reporter *reporter, enum stepd_finding_level level, const char *id,
	const char *value, const char *remedy, const char *fmt, ...) _printf_(6, 7);

/* Appends a name to a list of them with blanks between, as far as it fits. */
void reporter_list(char *list, size_t size, const char *name);

#endif
