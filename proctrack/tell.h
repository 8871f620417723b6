/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The findings of a check-up (<stepd/plugin.h>), formed and handed to whoever listens.
 */
#ifndef PROCTRACK_TELL_H
#define PROCTRACK_TELL_H

#include "stepd/api/plugin.h"
#include "stepd/base/cleanup.h"

struct tell {
	stepd_tell_fn fn;
	void *ctx;
};

/* value and remedy may be NULL for "". fmt makes the text. */
void tell_finding(const struct tell *tell, enum stepd_finding_level level, const char *id,
	const char *value, const char *remedy, const char *fmt, ...) _printf_(6, 7);

#endif
