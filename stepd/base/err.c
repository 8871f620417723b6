/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/err.h"

#include <assert.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

size_t err_utf8_size(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t size, i;

	if (c[0] < 0x80)
		return 1;
	if (c[0] < 0xc2 || c[0] > 0xf4)
		return 0;
	size = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
	for (i = 1; i < size; i++) {
		if ((c[i] & 0xc0) != 0x80) /* the end of the text, too */
			return 0;
	}
	if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
		(c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
		return 0;
	return size;
}

bool err_is_utf8(const char *text)
{
	size_t size;

	for (; *text; text += size) {
		size = err_utf8_size(text);
		if (size == 0)
			return false;
	}
	return true;
}

/* The size of a character that may be printed as it is; 0: a control character (also of the C1
 * set, which terminals obey), or not UTF-8. */
static size_t printable_size(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;

	if (c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0))
		return 0;
	return err_utf8_size(text);
}

/* Appends src at dst[at], bytes that are not printable as \xNN, and a NUL. Cuts at size. */
static size_t append_printable(char *dst, size_t size, size_t at, const char *src)
{
	size_t n;

	while (*src) {
		n = printable_size(src);
		if (at + (n ? n : 4) >= size)
			break;
		if (n) {
			memcpy(dst + at, src, n);
			at += n;
			src += n;
			continue;
		}
		at += (size_t)snprintf(dst + at, size - at, "\\x%02x", (unsigned char)*src++);
	}
	dst[at] = '\0';
	return at;
}

void err_printable(char *dst, size_t size, const char *src)
{
	(void)append_printable(dst, size, 0, src);
}

/* Formats fmt, and the errno text behind it where there is one. Returns code. */
static int set_text(struct err *err, int code, const char *errno_text, const char *fmt, va_list ap)
{
	char raw[ERR_TEXT_SIZE];
	size_t at;

	assert(code < 0);
	if (!err)
		return code;
	(void)vsnprintf(raw, sizeof(raw), fmt, ap);
	err->code = code;
	at = append_printable(err->text, sizeof(err->text), 0, raw);
	if (errno_text) {
		at = append_printable(err->text, sizeof(err->text), at, ": ");
		(void)append_printable(err->text, sizeof(err->text), at, errno_text);
	}
	return code;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set_text(err, code, strerror(-code), fmt, ap);
	va_end(ap);
	return code;
}

int err_set_text(struct err *err, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)set_text(err, code, NULL, fmt, ap);
	va_end(ap);
	return code;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char raw[ERR_TEXT_SIZE], old[ERR_TEXT_SIZE];
	va_list ap;
	size_t at;

	va_start(ap, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	memcpy(old, err->text, sizeof(old));
	at = append_printable(err->text, sizeof(err->text), 0, raw);
	at = append_printable(err->text, sizeof(err->text), at, ": ");
	(void)append_printable(err->text, sizeof(err->text), at, old);
	return err->code;
}

bool err_collect(struct err *err)
{
	struct err_list *list = err ? err->list : NULL;
	char *text;

	if (!list || err->code == -ENOMEM)
		return false;
	if (!err->text[0] && list->count > 0)
		return true;
	if (list->count == ERR_LIST_MAX) {
		list->more++;
	} else {
		text = strdup(err->text);
		if (!text)
			return false;
		list->texts[list->count++] = text;
	}
	err->text[0] = '\0';
	return true;
}

void err_list_clear(struct err_list *list)
{
	while (list->count > 0)
		free(list->texts[--list->count]);
	list->more = 0;
}

/* ---- the log ------------------------------------------------------------------------------- */

/* How long a reader that reads nothing may delay the agent for a line. */
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
	n = snprintf(line, sizeof(line) - 2, "%s: %s", log->ident, level_names[level]);
	at = (size_t)n < sizeof(line) - 2 ? (size_t)n : sizeof(line) - 3;
	va_start(ap, fmt);
	(void)vsnprintf(line + at, sizeof(line) - 2 - at, fmt, ap);
	va_end(ap);
	log_make_printable(line);
	if (log->send && log->send(log, level, line + at) == 0)
		return;
	at = strlen(line);
	if (log->crlf)
		line[at++] = '\r';
	line[at++] = '\n';
	/* So short a line is written whole to a pipe that polls writable. */
	if (poll(&p, 1, LOG_PATIENCE_MS) > 0)
		(void)!write(
			log->fd, line, at); /* see the header: there is no one left to report to */
}
