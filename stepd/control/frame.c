/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/control/frame.h"

#include <assert.h>
#include <string.h>

#include "stepd/control/control.h"

int frames_first(struct frames *f, const char **ret_text, size_t *ret_size)
{
	const char *text = buffer_bytes(&f->bytes), *end = NULL;
	size_t size = buffer_size(&f->bytes);

	if (size > f->searched)
		end = memchr(text + f->searched, '\0', size - f->searched);
	if (end)
		size = (size_t)(end - text);
	f->searched = size;
	if (size > f->max)
		return -EMSGSIZE;
	if (!end)
		return 0;
	*ret_text = text;
	*ret_size = size;
	return 1;
}

void frames_drop(struct frames *f, size_t size)
{
	buffer_drop(&f->bytes, size + 1);
	f->searched = 0;
}

void frames_clear(struct frames *f)
{
	buffer_clear(&f->bytes);
	f->searched = 0;
}

/* The byte behind a string that begins at text[at], which is its quote. */
static size_t skip_string(const char *text, size_t size, size_t at)
{
	for (at++; at < size && text[at] != '"'; at++) {
		if (text[at] == '\\')
			at++;
	}
	return at + 1;
}

bool frame_is_bounded(const char *text, size_t size, size_t values_max)
{
	size_t at = 0, values = 1, depth = 0;

	while (at < size) {
		switch (text[at]) {
		case '"':
			at = skip_string(text, size, at);
			continue;
		case '{':
		case '[':
			depth++;
			values++;
			break;
		case '}':
		case ']':
			if (depth > 0)
				depth--;
			break;
		case ',':
			values++;
			break;
		default:
			break;
		}
		if (depth > CONTROL_DEPTH_MAX || values > values_max)
			return false;
		at++;
	}
	return true;
}
