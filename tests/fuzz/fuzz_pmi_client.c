/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what an engine's PMI server sends: the first one chooses the protocol. What is found
 * lies within them, and is taken apart within its bounds or refused.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mpi/pmi_client/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check(const struct message *m, const char *text, size_t size)
{
	const struct message_field *f;
	size_t i;

	require(m->count > 0 && m->count <= MESSAGE_FIELDS_MAX && message_get(m, "cmd"));
	for (i = 0; i < m->count; i++) {
		f = &m->fields[i];
		require(f->key >= text && f->key + strlen(f->key) < f->value);
		require(f->value + strlen(f->value) <= text + size && *f->key);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned version = size > 0 && data[0] & 1 ? 1 : 2;
	size_t found = 0, text = 0, len;
	const char *at;
	struct message m;
	int r;

	for (at = (const char *)data + 1, size -= size > 0; size > 0; at += found, size -= found) {
		r = message_find(version, at, size, &found, &text);
		if (r < 0) {
			require(r == -EAGAIN || r == -EMSGSIZE || r == -EPROTO);
			require(r != -EAGAIN || size <= MESSAGE_MAX + MESSAGE_LENGTH_SIZE);
			break;
		}
		require(found > 0 && found <= size && text <= found);
		len = found - text - (version == 1);
		require(len <= MESSAGE_MAX);
		_cleanup_free_ char *copy = strndup(at + text, len);
		require(copy);
		len = strlen(copy);
		if (message_parse(version, copy, &m) == 0)
			check(&m, copy, len);
	}
	return 0;
}
