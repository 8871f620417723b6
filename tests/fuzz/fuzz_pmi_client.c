/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as what an engine's PMI server sends: the first one chooses the protocol. What is found
 * lies within them, and is taken apart within its bounds or refused.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mpi/pmi/codec.h"

#define TEXT_MAX 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static bool lies_within(struct slice s, const char *text, size_t size)
{
	return s.data >= text && s.data + s.size <= text + size;
}

static void check(const struct pmi_message *m, const char *text, size_t size)
{
	size_t i;

	require(m->count > 0 && m->count <= PMI_FIELDS_MAX);
	for (i = 0; i < m->count; i++) {
		require(m->fields[i].key.size > 0 && lies_within(m->fields[i].key, text, size));
		require(lies_within(m->fields[i].value, text, size));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum pmi_protocol protocol = size > 0 && data[0] & 1 ? PMI_1 : PMI_2;
	_cleanup_pmi_message_ struct pmi_message m = {0};
	struct pmi_frame f;
	const char *at;
	int r;

	for (at = (const char *)data + 1, size -= size > 0; size > 0;
		at += f.total, size -= f.total) {
		r = pmi_frame_find(protocol, (struct slice){at, size}, TEXT_MAX, &f);
		if (r < 0) {
			require(r == -EAGAIN || r == -EMSGSIZE || r == -EBADMSG);
			require(r != -EAGAIN || size <= TEXT_MAX + PMI2_HEAD_SIZE);
			break;
		}
		require(f.total > 0 && f.total <= size && f.begin + f.size <= f.total);
		require(f.size <= TEXT_MAX);
		_cleanup_free_ char *copy = malloc(f.size + 1);
		require(copy);
		memcpy(copy, at + f.begin, f.size);
		r = protocol == PMI_1 ? pmi1_parse((struct slice){copy, f.size}, &m)
				      : pmi2_parse(copy, f.size, &m);
		if (r == 0)
			check(&m, copy, f.size);
	}
	return 0;
}
