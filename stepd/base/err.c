/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

/* Copies src behind dst[at], control bytes as \xNN, and ends with NUL. Cuts at size. */
static size_t append_printable(char *dst, size_t size, size_t at, const char *src)
{
	static const char hex[] = "0123456789abcdef";

	for (; *src; src++) {
		unsigned char c = (unsigned char)*src;

		if (c >= 0x20 && c != 0x7f) {
			if (at + 1 >= size)
				break;
			dst[at++] = (char)c;
			continue;
		}
		if (at + 4 >= size)
			break;
		dst[at++] = '\\';
		dst[at++] = 'x';
		dst[at++] = hex[c >> 4];
		dst[at++] = hex[c & 15];
	}
	dst[at] = '\0';
	return at;
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

int err_say(struct err *err, int code, const char *fmt, ...)
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
