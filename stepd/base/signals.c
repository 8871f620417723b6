/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/signals.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/parse.h"

/* "RTMIN", "RTMIN+3", "RTMAX-1" */
static int parse_realtime(const char *text)
{
	const bool from_min = strncasecmp(text, "RTMIN", 5) == 0;
	uint32_t n = 0;

	if (!from_min && strncasecmp(text, "RTMAX", 5) != 0)
		return -EINVAL;
	if (text[5] && text[5] != (from_min ? '+' : '-'))
		return -EINVAL;
	if (text[5] && parse_u32(text + 6, 0, (uint32_t)(SIGRTMAX - SIGRTMIN), &n) < 0)
		return -EINVAL;
	return from_min ? SIGRTMIN + (int)n : SIGRTMAX - (int)n;
}

int signals_parse(const char *text)
{
	const char *abbrev;
	uint32_t n;
	int i;

	if (isdigit((unsigned char)text[0]))
		return parse_u32(text, 1, (uint32_t)SIGRTMAX, &n) < 0 ? -EINVAL : (int)n;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (i = 1; i < SIGRTMIN; i++) {
		abbrev = sigabbrev_np(i);
		if (abbrev && strcasecmp(text, abbrev) == 0)
			return i;
	}
	return parse_realtime(text);
}

const char *signals_name(int signal, char *buf, size_t size)
{
	const char *abbrev = sigabbrev_np(signal);

	if (abbrev)
		(void)snprintf(buf, size, "%s", abbrev);
	else if (signal >= SIGRTMIN && signal <= SIGRTMAX)
		(void)snprintf(buf, size, "RTMIN+%d", signal - SIGRTMIN);
	else
		(void)snprintf(buf, size, "%d", signal);
	return buf;
}
