/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/text.h"

#include <string.h>

#include "stepd/base/cleanup.h"

void text_make_printable(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = ' ';
	}
}

/* Columns of UTF-8 text without wide characters. */
static int columns_of(const char *text, size_t len)
{
	int n = 0;
	size_t i;

	for (i = 0; i < len; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

void text_wrap(FILE *out, const char *text, int indent, int width)
{
	int at = indent, columns;
	size_t len;

	for (text += strspn(text, " "); *text; text += len, text += strspn(text, " ")) {
		len = strcspn(text, " ");
		columns = columns_of(text, len);
		if (at > indent && at + 1 + columns > width) {
			(void)fprintf(out, "\n%*s", indent, "");
			at = indent;
		} else if (at > indent) {
			(void)fputc(' ', out);
			at++;
		}
		(void)fwrite(text, 1, len, out);
		at += columns;
	}
	(void)fputc('\n', out);
}
