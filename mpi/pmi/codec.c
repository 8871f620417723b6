/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi/codec.h"

#include <inttypes.h>
#include <string.h>

/* ---- frames -------------------------------------------------------------------------------- */

static int find_line(struct slice bytes, size_t text_max, struct pmi_frame *ret_frame)
{
	const char *end = bytes.size > 0 ? memchr(bytes.data, '\n', bytes.size) : NULL;
	size_t size = end ? (size_t)(end - bytes.data) : bytes.size;

	if (size > text_max)
		return -EMSGSIZE;
	if (!end)
		return -EAGAIN;
	*ret_frame = (struct pmi_frame){.begin = 0, .size = size, .total = size + 1};
	return 0;
}

/* Digits, with blanks on either side of them, six bytes in all. A wrong byte is found as soon as it
 * is there. */
static int parse_length(struct slice head, size_t *ret_length)
{
	size_t i = 0, begin, n = 0;
	size_t size = head.size < PMI2_HEAD_SIZE ? head.size : PMI2_HEAD_SIZE;

	while (i < size && head.data[i] == ' ')
		i++;
	for (begin = i; i < size && head.data[i] >= '0' && head.data[i] <= '9'; i++)
		n = n * 10 + (size_t)(head.data[i] - '0');
	if (i == begin && i < size)
		return -EBADMSG;
	while (i < size && head.data[i] == ' ')
		i++;
	if (i < size)
		return -EBADMSG;
	if (size < PMI2_HEAD_SIZE)
		return -EAGAIN;
	*ret_length = n;
	return n > 0 ? 0 : -EBADMSG;
}

int pmi_frame_find(enum pmi_protocol protocol, struct slice bytes, size_t text_max,
	struct pmi_frame *ret_frame)
{
	size_t length = 0;
	int r;

	if (protocol == PMI_1)
		return find_line(bytes, text_max, ret_frame);
	r = parse_length(bytes, &length);
	if (r < 0)
		return r;
	if (length > text_max)
		return -EMSGSIZE;
	if (bytes.size < PMI2_HEAD_SIZE + length)
		return -EAGAIN;
	*ret_frame = (struct pmi_frame){
		.begin = PMI2_HEAD_SIZE, .size = length, .total = PMI2_HEAD_SIZE + length};
	return 0;
}

/* ---- fields -------------------------------------------------------------------------------- */

static int add_field(struct pmi_message *m, struct slice key, struct slice value)
{
	if (m->count == PMI_FIELDS_MAX)
		return -EBADMSG;
	if (array_reserve(m->fields, m->capacity, m->count + 1) < 0)
		return -ENOMEM;
	m->fields[m->count++] = (struct pmi_field){key, value};
	return 0;
}

bool pmi_message_get(const struct pmi_message *m, const char *key, struct slice *ret_value)
{
	size_t i;

	for (i = 0; i < m->count; i++) {
		if (slice_is(m->fields[i].key, key)) {
			*ret_value = m->fields[i].value;
			return true;
		}
	}
	return false;
}

int pmi_message_get_int(
	const struct pmi_message *m, const char *key, int64_t least, int64_t most, int64_t *ret_n)
{
	struct slice value;

	return pmi_message_get(m, key, &value) ? slice_parse_int(value, least, most, ret_n)
					       : -EINVAL;
}

void pmi_message_clear(struct pmi_message *m)
{
	free(m->fields);
	*m = (struct pmi_message){0};
}

/* ---- PMI-1 --------------------------------------------------------------------------------- */

static int add_token(struct pmi_message *m, struct slice token)
{
	const char *equals = memchr(token.data, '=', token.size);
	size_t n;

	if (!equals || equals == token.data)
		return -EBADMSG;
	n = (size_t)(equals - token.data);
	return add_field(
		m, (struct slice){token.data, n}, (struct slice){equals + 1, token.size - n - 1});
}

/* The value of a key may hold blanks, as some clients put them: it is the rest of the line. */
static bool takes_rest(const struct pmi_message *m, struct slice token)
{
	static const char value[] = "value=";

	return m->count > 0 && slice_is(m->fields[0].key, "cmd") &&
		(slice_is(m->fields[0].value, "put") ||
			slice_is(m->fields[0].value, "get_result")) &&
		token.size >= sizeof(value) - 1 &&
		memcmp(token.data, value, sizeof(value) - 1) == 0;
}

int pmi1_parse(struct slice line, struct pmi_message *m)
{
	struct slice token;
	const char *blank;
	int r;

	m->count = 0;
	while (line.size > 0) {
		if (line.data[0] == ' ') {
			line.data++;
			line.size--;
			continue;
		}
		token = line;
		blank = memchr(line.data, ' ', line.size);
		if (blank && !takes_rest(m, token))
			token.size = (size_t)(blank - line.data);
		r = add_token(m, token);
		if (r < 0)
			return r;
		line.data += token.size;
		line.size -= token.size;
	}
	return m->count > 0 ? 0 : -EBADMSG;
}

int pmi1_parse_block_line(struct slice line, struct pmi_message *m)
{
	return add_token(m, line);
}

/* ---- PMI-2 --------------------------------------------------------------------------------- */

/* The end of the value that begins at data: its ';', found behind all that is escaped, which is
 * undone in place. Returns the value's size and how much of the text it took. */
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

int pmi2_parse(char *body, size_t size, struct pmi_message *m)
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
		r = add_field(
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

static void add_escaped(struct bytes *out, struct slice value)
{
	const char *semicolon;
	size_t n;

	while (value.size > 0) {
		semicolon = memchr(value.data, ';', value.size);
		n = semicolon ? (size_t)(semicolon - value.data) + 1 : value.size;
		bytes_add(out, value.data, n);
		if (semicolon)
			bytes_add(out, ";", 1);
		value.data += n;
		value.size -= n;
	}
}

/* ---- writing ------------------------------------------------------------------------------- */

void pmi_write_begin(struct pmi_writer *w, struct bytes *out, enum pmi_protocol protocol)
{
	*w = (struct pmi_writer){.out = out, .begin = bytes_size(out), .protocol = protocol};
	if (protocol == PMI_2)
		bytes_add(out, "      ", PMI2_HEAD_SIZE);
}

void pmi_write_field(struct pmi_writer *w, const char *key, struct slice value)
{
	if (w->protocol == PMI_1 && bytes_size(w->out) > w->begin)
		bytes_add(w->out, " ", 1);
	bytes_add_text(w->out, key);
	bytes_add(w->out, "=", 1);
	if (w->protocol == PMI_2) {
		add_escaped(w->out, value);
		bytes_add(w->out, ";", 1);
	} else {
		bytes_add(w->out, value.data, value.size);
	}
}

void pmi_write_text(struct pmi_writer *w, const char *key, const char *value)
{
	pmi_write_field(w, key, slice_of_text(value));
}

void pmi_write_int(struct pmi_writer *w, const char *key, int64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	pmi_write_text(w, key, text);
}

int pmi_write_end(struct pmi_writer *w)
{
	char head[16];
	size_t size;

	if (w->protocol == PMI_1) {
		bytes_add(w->out, "\n", 1);
		return 0;
	}
	if (w->out->failed)
		return 0;
	size = bytes_size(w->out) - w->begin - PMI2_HEAD_SIZE;
	if (size > PMI2_BODY_MAX) {
		bytes_cut(w->out, w->begin);
		return -EMSGSIZE;
	}
	(void)snprintf(head, sizeof(head), "%-6zu", size);
	memcpy(w->out->held.data + w->out->held.at + w->begin, head, PMI2_HEAD_SIZE);
	return 0;
}
