/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/message.h"

#include <string.h>

int message_add(struct message *m, struct slice key, struct slice value)
{
	size_t room = m->room ? m->room * 2 : 16;
	struct field *fields;

	if (m->count == MESSAGE_FIELD_MAX)
		return -EBADMSG;
	if (m->count == m->room) {
		fields = reallocarray(m->fields, room, sizeof(*fields));
		if (!fields)
			return -ENOMEM;
		m->fields = fields;
		m->room = room;
	}
	m->fields[m->count++] = (struct field){key, value};
	return 0;
}

bool message_get(const struct message *m, const char *key, struct slice *ret_value)
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

int message_get_int(
	const struct message *m, const char *key, int64_t least, int64_t most, int64_t *ret_n)
{
	struct slice value;

	return message_get(m, key, &value) ? slice_parse_int(value, least, most, ret_n) : -EINVAL;
}

void message_clear(struct message *m)
{
	free(m->fields);
	*m = (struct message){0};
}
