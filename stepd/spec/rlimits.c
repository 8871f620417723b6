/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/spec/rlimits.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "stepd/base/cleanup.h"

static const char *const names[RLIMIT_NLIMITS] = {
	[RLIMIT_AS] = "as",
	[RLIMIT_CORE] = "core",
	[RLIMIT_CPU] = "cpu",
	[RLIMIT_DATA] = "data",
	[RLIMIT_FSIZE] = "fsize",
	[RLIMIT_LOCKS] = "locks",
	[RLIMIT_MEMLOCK] = "memlock",
	[RLIMIT_MSGQUEUE] = "msgqueue",
	[RLIMIT_NICE] = "nice",
	[RLIMIT_NOFILE] = "nofile",
	[RLIMIT_NPROC] = "nproc",
	[RLIMIT_RSS] = "rss",
	[RLIMIT_RTPRIO] = "rtprio",
	[RLIMIT_RTTIME] = "rttime",
	[RLIMIT_SIGPENDING] = "sigpending",
	[RLIMIT_STACK] = "stack",
};

int rlimits_parse(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (names[i] && strcmp(names[i], name) == 0)
			return (int)i;
	}
	return -EINVAL;
}

const char *rlimits_name(int resource)
{
	if (resource < 0 || (size_t)resource >= ARRAY_SIZE(names))
		return NULL;
	return names[resource];
}

const char *rlimits_list(char *text, size_t size)
{
	size_t i, at = 0;
	int n;

	text[0] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!names[i])
			continue;
		n = snprintf(text + at, size - at, "%s%s", at ? ", " : "", names[i]);
		if (n < 0 || (size_t)n >= size - at)
			break;
		at += (size_t)n;
	}
	return text;
}
