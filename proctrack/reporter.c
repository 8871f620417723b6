/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/reporter.h"

#include <stdarg.h>
#include <string.h>

#define TEXT_SIZE 1024

void reporter_add(const struct reporter *reporter, enum stepd_finding_level level, const char *id,
	const char *value, const char *remedy, const char *fmt, ...)
{
	char text[TEXT_SIZE];
	stepd_finding_t finding = {
		.id = id, .level = level, .value = value, .text = text, .remedy = remedy};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* cut, if it must be */
	va_end(ap);
	reporter->fn(reporter->ctx, &finding);
}

void reporter_list(char *list, size_t size, const char *name)
{
	size_t at = strlen(list);

	(void)snprintf(list + at, size - at, "%s%s", at ? " " : "", name);
}
