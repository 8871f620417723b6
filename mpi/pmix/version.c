/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_figure(char c)
{
	return c >= '0' && c <= '9';
}

void version_find(const char *text, char version[VERSION_SIZE])
{
	static const char of_versions[] = "0123456789.abcdefghijklmnopqrstuvwxyz";
	size_t len;

	while (*text && !is_figure(*text)) {
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	len = strspn(text, of_versions);
	(void)snprintf(version, VERSION_SIZE, "%.*s", (int)len, text);
}

unsigned version_major(const char *version)
{
	return (unsigned)strtoul(version, NULL, 10);
}

bool version_is_at_least(const char *version, unsigned major, unsigned minor)
{
	const char *dot = strchr(version, '.');
	unsigned is_minor = dot ? (unsigned)strtoul(dot + 1, NULL, 10) : 0;

	return version_major(version) > major ||
		(version_major(version) == major && is_minor >= minor);
}
