/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/pmi2/message.h"

static int add_word(struct message *m, struct slice word)
{
	const char *equals = memchr(word.data, '=', word.size);
	size_t n;

	if (!equals || equals == word.data)
		return -EBADMSG;
	n = (size_t)(equals - word.data);
	return message_add(
		m, (struct slice){word.data, n}, (struct slice){equals + 1, word.size - n - 1});
}

/* Some clients put values with blanks: what is put is the rest of the line. */
static bool takes_rest(const struct message *m, struct slice word)
{
	static const char value[] = "value=";

	return m->count > 0 && slice_is(m->fields[0].key, "cmd") &&
		slice_is(m->fields[0].value, "put") && word.size >= sizeof(value) - 1 &&
		memcmp(word.data, value, sizeof(value) - 1) == 0;
}

int pmi1_parse(struct slice line, struct message *m)
{
	struct slice word;
	const char *blank;
	int r;

	m->count = 0;
	while (line.size > 0) {
		if (line.data[0] == ' ') {
			line.data++;
			line.size--;
			continue;
		}
		word = line;
		blank = memchr(line.data, ' ', line.size);
		if (blank && !takes_rest(m, word))
			word.size = (size_t)(blank - line.data);
		r = add_word(m, word);
		if (r < 0)
			return r;
		line.data += word.size;
		line.size -= word.size;
	}
	return m->count > 0 ? 0 : -EBADMSG;
}

int pmi1_parse_block_line(struct slice line, struct message *m)
{
	return add_word(m, line);
}
