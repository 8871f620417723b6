/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "mpi/wire/wire_impl.h"

bool wire_is_all(const struct wire *w, const struct bitset *nodes)
{
	return bitset_count(nodes) == w->tree.count;
}

/* What a frame of a fence begins with, and a text behind it; sets the flag in h. NULL: no memory.
 */
struct wire_buffer *wire_nodes_encode(
	const struct wire *w, const struct bitset *nodes, const char *text, struct wire_header *h)
{
	bool is_all = wire_is_all(w, nodes);
	size_t size = is_all ? 0 : (w->tree.count + 7) / 8, text_size = strlen(text);
	struct wire_buffer *b;
	uint32_t n;

	text_size = text_size < WIRE_TEXT_MAX ? text_size : WIRE_TEXT_MAX;
	b = wire_buffer_new(size + text_size);
	if (!b)
		return NULL;
	memset(b->bytes, 0, size);
	for (n = is_all ? BITSET_NONE : bitset_next(nodes, 0); n != BITSET_NONE;
		n = bitset_next(nodes, n + 1))
		b->bytes[n / 8] |= (unsigned char)(1u << n % 8);
	memcpy(b->bytes + size, text, text_size);
	h->flags |= is_all ? WIRE_ALL : WIRE_NODES;
	return b;
}

static int decode_bitmap(const struct wire *w, const unsigned char *bytes, struct bitset *nodes)
{
	uint32_t i;

	for (i = 0; i < (w->tree.count + 7) / 8 * 8; i++) {
		if (!(bytes[i / 8] & 1u << i % 8))
			continue;
		if (i >= w->tree.count)
			return -EPROTO;
		bitset_set(nodes, i);
	}
	return bitset_next(nodes, 0) == BITSET_NONE ? -EPROTO : 0;
}

/* ret_nodes: no words where the frame does not name them; *ret_size: bytes that they take. */
int wire_nodes_decode(const struct wire *w, const struct wire_header *h,
	const struct wire_buffer *payload, struct bitset *ret_nodes, size_t *ret_size,
	struct err *err)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	size_t size = h->flags & WIRE_NODES ? (w->tree.count + 7) / 8 : 0;

	if (size > h->length)
		return err_say(err, -EPROTO, "it sent a frame (%s) that is cut off",
			wire_type_name(h->type));
	*ret_size = size;
	if (!(h->flags & (WIRE_NODES | WIRE_ALL)))
		return 0;
	if (bitset_init(&nodes, w->tree.count) < 0)
		return err_set(err, -ENOMEM, "the nodes of a fence");
	if (h->flags & WIRE_ALL)
		wire_tree_add_below(&w->tree, &nodes, 0);
	else if (decode_bitmap(w, payload->bytes, &nodes) < 0)
		return err_say(err, -EPROTO, "it sent a fence of no nodes, or of unknown ones");
	*ret_nodes = nodes;
	nodes.words = NULL;
	return 0;
}

/* Both as wide as the step. */
bool wire_nodes_equal(const struct bitset *a, const struct bitset *b)
{
	return memcmp(a->words, b->words, a->width * sizeof(a->words[0])) == 0;
}

bool wire_takes_part(const struct wire *w, const struct group *g)
{
	return bitset_test(&g->nodes, w->node);
}

uint32_t wire_first_common(const struct bitset *a, const struct bitset *b)
{
	uint32_t n;

	for (n = bitset_next(a, 0); n != BITSET_NONE; n = bitset_next(a, n + 1)) {
		if (bitset_test(b, n))
			break;
	}
	return n;
}
