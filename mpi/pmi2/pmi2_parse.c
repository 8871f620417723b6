/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/pmi2/message.h"

/* Digits, with blanks on either side of them, six bytes in all. */
int pmi2_parse_head(struct slice head)
{
	size_t i = 0, begin, size = head.size < PMI2_HEAD_SIZE ? head.size : PMI2_HEAD_SIZE;
	int n = 0;

	while (i < size && head.data[i] == ' ')
		i++;
	for (begin = i; i < size && head.data[i] >= '0' && head.data[i] <= '9'; i++)
		n = n * 10 + (head.data[i] - '0');
	if (i == begin && i < size)
		return -EBADMSG;
	while (i < size && head.data[i] == ' ')
		i++;
	if (i < size)
		return -EBADMSG;
	if (size < PMI2_HEAD_SIZE)
		return -EAGAIN;
	return n > 0 ? n : -EBADMSG;
}

/* The end of the value that begins at data: its ';', found behind all that is escaped, which is
 * undone in place. Returns the value's size and what of the text it took. */
static size_t unescape(char *data, size_t size, size_t *ret_taken)
{
	size_t from = 0, to = 0;

	while (from < size) {
		if (data[from] == ';') {
			if (from + 1 == size || data[from + 1] != ';')
				break;
			from++;
		}
		data[to++] = data[from++];
	}
	*ret_taken = from < size ? from + 1 : from;
	return to;
}

int pmi2_parse(char *body, size_t size, struct message *m)
{
	size_t key_size, value_size, taken;
	char *equals;
	int r;

	m->count = 0;
	while (size > 0) {
		equals = memchr(body, '=', size);
		if (!equals || equals == body)
			return -EBADMSG;
		key_size = (size_t)(equals - body);
		if (memchr(body, ';', key_size))
			return -EBADMSG;
		value_size = unescape(equals + 1, size - key_size - 1, &taken);
		r = message_add(
			m, (struct slice){body, key_size}, (struct slice){equals + 1, value_size});
		if (r < 0)
			return r;
		body += key_size + 1 + taken;
		size -= key_size + 1 + taken;
	}
	return m->count > 0 ? 0 : -EBADMSG;
}

size_t pmi2_escaped_size(struct slice value)
{
	size_t i, size = value.size;

	for (i = 0; i < value.size; i++)
		size += value.data[i] == ';';
	return size;
}

void pmi2_escape(struct slice value, struct bytes *b)
{
	const char *semicolon;
	size_t n;

	while (value.size > 0) {
		semicolon = memchr(value.data, ';', value.size);
		n = semicolon ? (size_t)(semicolon - value.data) + 1 : value.size;
		bytes_add(b, value.data, n);
		if (semicolon)
			bytes_add(b, ";", 1);
		value.data += n;
		value.size -= n;
	}
}
