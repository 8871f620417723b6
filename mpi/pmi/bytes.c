/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi/bytes.h"

#include <endian.h>
#include <stdarg.h>
#include <string.h>

void bytes_add(struct bytes *b, const void *data, size_t size)
{
	if (!b->failed)
		b->failed = buffer_add(&b->held, data, size) < 0;
}

void bytes_add_text(struct bytes *b, const char *text)
{
	bytes_add(b, text, strlen(text));
}

void bytes_addf(struct bytes *b, const char *fmt, ...)
{
	char text[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n > 0)
		bytes_add(b, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void bytes_add_u32(struct bytes *b, uint32_t n)
{
	n = htole32(n);
	bytes_add(b, &n, sizeof(n));
}

void bytes_add_sized(struct bytes *b, struct slice s)
{
	bytes_add_u32(b, (uint32_t)s.size);
	bytes_add(b, s.data, s.size);
}

void bytes_drop(struct bytes *b, size_t size)
{
	buffer_drop(&b->held, size);
}

void bytes_cut(struct bytes *b, size_t size)
{
	b->held.end = b->held.at + size;
}

void bytes_clear(struct bytes *b)
{
	buffer_clear(&b->held);
	b->failed = false;
}

bool slice_take(struct slice *from, size_t size, struct slice *ret_taken)
{
	if (size > from->size)
		return false;
	*ret_taken = (struct slice){from->data, size};
	if (size > 0) /* nothing has no address that could be added to */
		from->data += size;
	from->size -= size;
	return true;
}

bool slice_take_u32(struct slice *from, uint32_t *ret_n)
{
	struct slice s;
	uint32_t n;

	if (!slice_take(from, sizeof(n), &s))
		return false;
	memcpy(&n, s.data, sizeof(n));
	*ret_n = le32toh(n);
	return true;
}

bool slice_take_sized(struct slice *from, struct slice *ret_taken)
{
	uint32_t size;

	return slice_take_u32(from, &size) && slice_take(from, size, ret_taken);
}

bool slice_is(struct slice s, const char *text)
{
	size_t n = strlen(text);

	return s.size == n && (n == 0 || memcmp(s.data, text, n) == 0);
}

char *slice_dup(struct slice s)
{
	char *text = malloc(s.size + 1);

	if (!text)
		return NULL;
	if (s.size > 0)
		memcpy(text, s.data, s.size);
	text[s.size] = '\0';
	return text;
}

int slice_parse_int(struct slice s, int64_t least, int64_t most, int64_t *ret_n)
{
	size_t i = s.size > 0 && (s.data[0] == '-' || s.data[0] == '+') ? 1 : 0;
	int64_t n = 0;

	if (i == s.size || s.size - i > 18)
		return -EINVAL;
	for (; i < s.size; i++) {
		if (s.data[i] < '0' || s.data[i] > '9')
			return -EINVAL;
		n = n * 10 + (s.data[i] - '0');
	}
	if (s.data[0] == '-')
		n = -n;
	if (n < least || n > most)
		return -EINVAL;
	*ret_n = n;
	return 0;
}
