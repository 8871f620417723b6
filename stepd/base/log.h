/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent's own messages: one line each, to one descriptor, written in one write(2) so that
 * lines of several processes don't mix. Only main and event callbacks log above debug; what fails
 * below them returns a struct err.
 */
#ifndef STEPD_BASE_LOG_H
#define STEPD_BASE_LOG_H

#include "stepd/base/cleanup.h"

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_MAX,
};

struct log {
	/* Takes a line, without ident and newline, instead of fd. NULL, and below 0: fd has it. */
	int (*send)(const struct log *log, enum log_level level, const char *text);
	int fd;              /* borrowed */
	enum log_level most; /* what is less urgent is not written */
	char ident[96];      /* "stepd" or "stepd 7.0" */
};

/* A line is lost if fd can't take it, or its reader takes nothing for 50 ms: there is nobody left
 * to tell. */
void log_line(const struct log *log, enum log_level level, const char *fmt, ...) _printf_(3, 4);

/* Replaces what could break a line or steer a terminal: names of commands and files come from
 * users. */
void log_make_printable(char *text);

#define log_error(log, ...)   log_line(log, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(log, ...) log_line(log, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(log, ...)    log_line(log, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(log, ...)   log_line(log, LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
