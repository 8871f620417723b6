/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi_client/message.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* "52    " or "    52" */
static int parse_length(const char *data, size_t *ret_length)
{
	size_t i = 0, n = 0, digits = 0;

	for (; i < MESSAGE_LENGTH_SIZE && data[i] == ' '; i++)
		;
	for (; i < MESSAGE_LENGTH_SIZE && isdigit((unsigned char)data[i]); i++, digits++)
		n = n * 10 + (size_t)(data[i] - '0');
	for (; i < MESSAGE_LENGTH_SIZE && data[i] == ' '; i++)
		;
	if (i < MESSAGE_LENGTH_SIZE || digits == 0)
		return -EPROTO;
	*ret_length = n;
	return 0;
}

static int find_line(const char *data, size_t size, size_t *ret_size)
{
	const char *end = memchr(data, '\n', size);

	if (!end)
		return size > MESSAGE_MAX ? -EMSGSIZE : -EAGAIN;
	if (end - data > (ptrdiff_t)MESSAGE_MAX)
		return -EMSGSIZE;
	*ret_size = (size_t)(end - data) + 1;
	return 0;
}

int message_find(
	unsigned version, const char *data, size_t size, size_t *ret_size, size_t *ret_text)
{
	size_t length = 0;
	int r;

	if (version == 1) {
		*ret_text = 0;
		return find_line(data, size, ret_size);
	}
	if (size < MESSAGE_LENGTH_SIZE)
		return -EAGAIN;
	r = parse_length(data, &length);
	if (r < 0)
		return r;
	if (length > MESSAGE_MAX)
		return -EMSGSIZE;
	if (size < MESSAGE_LENGTH_SIZE + length)
		return -EAGAIN;
	*ret_size = MESSAGE_LENGTH_SIZE + length;
	*ret_text = MESSAGE_LENGTH_SIZE;
	return 0;
}

static int add_field(struct message *m, char *field)
{
	char *equals = strchr(field, '=');

	if (!equals || equals == field || m->count == MESSAGE_FIELDS_MAX)
		return -EPROTO;
	*equals = '\0';
	m->fields[m->count++] = (struct message_field){.key = field, .value = equals + 1};
	return 0;
}

/* A value is the last field, and may hold blanks. */
static int parse_line(char *text, struct message *m)
{
	char *end;
	int r = 0;

	for (text += strspn(text, " "); *text && r == 0; text = end + strspn(end, " ")) {
		end = text + strcspn(text, strncmp(text, "value=", 6) == 0 ? "" : " ");
		if (*end)
			*end++ = '\0';
		r = add_field(m, text);
	}
	return r;
}

/* Ends a field at its ';' and puts one in the place of two. Returns what is behind it. */
static char *cut_field(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == ';' && text[1] != ';')
			break;
		if (*text == ';')
			text++;
		*to++ = *text;
	}
	if (*text)
		text++;
	*to = '\0';
	return text;
}

static int parse_fields(char *text, struct message *m)
{
	char *field;
	int r = 0;

	while (*text && r == 0) {
		field = text;
		text = cut_field(text);
		r = add_field(m, field);
	}
	return r;
}

int message_parse(unsigned version, char *text, struct message *ret_message)
{
	struct message *m = ret_message;
	int r;

	*m = (struct message){.buf = text};
	r = version == 1 ? parse_line(text, m) : parse_fields(text, m);
	if (r == 0 && (m->count == 0 || strcmp(m->fields[0].key, "cmd") != 0))
		r = -EPROTO;
	return r;
}

const char *message_get(const struct message *m, const char *key)
{
	size_t i;

	for (i = 0; i < m->count; i++) {
		if (strcmp(m->fields[i].key, key) == 0)
			return m->fields[i].value;
	}
	return NULL;
}
