/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/signals.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int parse_number(const char *text, long least, long most)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL; /* strtol() takes blanks and signs */
	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || *end || n < least || n > most)
		return -EINVAL;
	return (int)n;
}

static int parse_realtime(const char *text)
{
	int r;

	if (strcasecmp(text, "RTMIN") == 0)
		return SIGRTMIN;
	if (strcasecmp(text, "RTMAX") == 0)
		return SIGRTMAX;
	if (strncasecmp(text, "RTMIN+", 6) == 0) {
		r = parse_number(text + 6, 0, SIGRTMAX - SIGRTMIN);
		return r < 0 ? r : SIGRTMIN + r;
	}
	if (strncasecmp(text, "RTMAX-", 6) == 0) {
		r = parse_number(text + 6, 0, SIGRTMAX - SIGRTMIN);
		return r < 0 ? r : SIGRTMAX - r;
	}
	return -EINVAL;
}

int signals_parse(const char *text)
{
	const char *abbrev;
	int i;

	if (isdigit((unsigned char)text[0]))
		return parse_number(text, 1, SIGRTMAX);
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
