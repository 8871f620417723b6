/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>

/* How long a reader that takes nothing may hold up the agent for a line. */
#define LOG_PATIENCE_MS 50

static const char *const level_names[LOG_LEVEL_MAX] = {
	[LOG_LEVEL_ERROR] = "error: ",
	[LOG_LEVEL_WARNING] = "warning: ",
	[LOG_LEVEL_INFO] = "",
	[LOG_LEVEL_DEBUG] = "debug: ",
};

void log_make_printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
	}
}

void log_line(const struct log *log, enum log_level level, const char *fmt, ...)
{
	struct pollfd p = {.events = POLLOUT};
	char line[2048];
	size_t at;
	va_list ap;
	int n;

	if (!log || level > log->most)
		return;
	p.fd = log->fd;
	n = snprintf(line, sizeof(line) - 1, "%s: %s", log->ident, level_names[level]);
	at = (size_t)n < sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;
	va_start(ap, fmt);
	(void)vsnprintf(line + at, sizeof(line) - 1 - at, fmt, ap);
	va_end(ap);
	log_make_printable(line);
	if (log->send && log->send(log, level, line + at) == 0)
		return;
	at = strlen(line);
	line[at++] = '\n';
	/* A pipe that polls writable takes so short a line whole. */
	if (poll(&p, 1, LOG_PATIENCE_MS) > 0)
		(void)!write(
			log->fd, line, at); /* see the header: there is no one left to report to */
}
