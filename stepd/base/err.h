/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An error that an operator will read: a code for the program and one sentence for the person.
 * The sentence names the thing, the value and the remedy; the errno text comes last, added here.
 * It is formed once, where the failure is seen, and travels up unchanged.
 */
#ifndef STEPD_BASE_ERR_H
#define STEPD_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

#include "stepd/base/cleanup.h"

#define ERR_TEXT_SIZE 1024

/* Failures that are collected, one after the other: err_collect(). */
#define ERR_LIST_MAX 50

struct err_list {
	char *texts[ERR_LIST_MAX]; /* from malloc() */
	size_t count;
	size_t more; /* that did not fit */
};

struct err {
	int code;              /* -errno, 0 while nothing failed */
	struct err_list *list; /* NULL: only the first failure is reported */
	char text[ERR_TEXT_SIZE];
};

#define ERR_INIT                                                                                   \
	{                                                                                          \
		.code = 0, .text = ""                                                              \
	}

/* Fills err (which may be NULL) and returns code, a negative errno. Bytes of the text that are
 * not UTF-8, or would disturb a terminal or break the line, are shown as \xNN. */
int err_set(struct err *err, int code, const char *fmt, ...) _printf_(3, 4);

/* The same without the errno text, where the sentence is enough. Returns code. */
int err_set_text(struct err *err, int code, const char *fmt, ...) _printf_(3, 4);

/* Puts "WHERE: " in front of the text, if there is one. Returns err->code. */
int err_prefix(struct err *err, const char *fmt, ...) _printf_(2, 3);

/* Moves a failure into the list, where there is one: true, and the caller goes on to find more.
 * Lack of memory is never collected. False: it stays, and is to be returned. What was collected
 * before, and is returned without a text, counts once. */
bool err_collect(struct err *err);
void err_list_clear(struct err_list *list);
#define _cleanup_err_list_ _cleanup_(err_list_clear)

/* The bytes of the UTF-8 character that text begins with (RFC 3629); 0: it is not UTF-8. */
size_t err_utf8_size(const char *text);
bool err_is_utf8(const char *text); /* all of it */

/* Copies src with the same \xNN, for texts that are printed but not errors. Cuts at size. */
void err_printable(char *dst, size_t size, const char *src);

/* ---- the log ------------------------------------------------------------------------------- */

/* The agent's own messages: one line each, to one descriptor, written in one write(2) so that
 * lines of several processes don't mix. Only main and event callbacks log above debug; functions
 * below them return a struct err. */

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
	LOG_LEVEL_MAX,
};

struct log {
	/* Takes a line, without ident and newline, instead of fd. NULL, or a result below 0: fd
	 * gets it. */
	int (*send)(const struct log *log, enum log_level level, const char *text);
	int fd;              /* borrowed */
	enum log_level most; /* what is less urgent is not written */
	bool crlf;           /* fd is a terminal that may be raw */
	char ident[96];      /* "stepd" or "stepd 7.0" */
};

/* A line is lost if fd can't take it, or its reader reads nothing for 50 ms: no one is left to
 * report to. */
void log_line(const struct log *log, enum log_level level, const char *fmt, ...) _printf_(3, 4);

/* Replaces what could break a line or steer a terminal: names of commands and files come from
 * users. */
void log_make_printable(char *text);

#define log_error(log, ...)   log_line(log, LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(log, ...) log_line(log, LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(log, ...)    log_line(log, LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(log, ...)   log_line(log, LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
