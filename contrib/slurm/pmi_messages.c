/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmi_messages.h"

#include <errno.h>

#include "contrib/slurm/unpack.h"

/* A text of any bytes, with the NUL that Slurm expects behind them. */
static void pack_slice(struct pack *p, struct slice s)
{
	pack_u32(p, (uint32_t)s.size + 1);
	pack_raw(p, s.data, s.size);
	pack_u8(p, 0);
}

static struct unpack unpack_of(struct slice s)
{
	return (struct unpack){
		.data = (const uint8_t *)s.data, .size = s.size, .release = SLURM_22_05};
}

enum slurm_pmi_type slurm_pmi_type(struct slice message)
{
	struct unpack u = unpack_of(message);
	uint16_t type = unpack_u16(&u);

	return u.bad || type >= SLURM_PMI_TYPE_MAX ? SLURM_PMI_TYPE_MAX : (enum slurm_pmi_type)type;
}

int slurm_pmi_pack_pairs(struct pack *p, struct slice pairs)
{
	struct slice key, value;

	while (pairs.size > 0) {
		if (!manager_pair_take(&pairs, &key, &value))
			return -EBADMSG;
		pack_slice(p, key);
		pack_slice(p, value);
	}
	return 0;
}

void slurm_pmi_fence(struct pack *p, const struct slurm_pmi_part *part)
{
	pack_u16(p, SLURM_PMI_FENCE);
	pack_u32(p, part->node);
	pack_text(p, part->name);
	pack_u32(p, part->nodes);
	pack_u32(p, part->number);
	pack_raw(p, part->pairs.data, part->pairs.size);
}

int slurm_pmi_read_fence(struct slice message, struct slurm_pmi_part *ret_part)
{
	struct unpack u = unpack_of(message);
	struct slurm_pmi_part part;

	(void)unpack_u16(&u);
	part.node = unpack_u32(&u);
	part.name = unpack_text(&u);
	part.nodes = unpack_u32(&u);
	part.number = unpack_u32(&u);
	part.pairs = (struct slice){message.data + u.at, message.size - u.at};
	/* All nodes read them in the end. */
	while (!u.bad && u.at < u.size) {
		(void)unpack_text(&u);
		(void)unpack_text(&u);
	}
	if (u.bad)
		return -EBADMSG;
	*ret_part = part;
	return 0;
}

int slurm_pmi_fenced(struct slice message, uint32_t *ret_number, struct bytes *pairs)
{
	struct unpack u = unpack_of(message);
	const char *key, *value;
	uint32_t number;

	(void)unpack_u16(&u);
	number = unpack_u32(&u);
	while (!u.bad && u.at < u.size) {
		key = unpack_text(&u);
		value = unpack_text(&u);
		if (!u.bad && key) /* without a key there is nothing to be found */
			manager_pair_add(
				pairs, slice_of_text(key), slice_of_text(value ? value : ""));
	}
	if (u.bad || pairs->failed)
		return u.bad ? -EBADMSG : -ENOMEM;
	*ret_number = number;
	return 0;
}

int slurm_pmi_query(struct pack *p, uint32_t query, struct slice name, struct slice value)
{
	static const enum slurm_pmi_type types[MANAGER_QUERY_MAX] = {
		[MANAGER_PUBLISH] = SLURM_PMI_PUBLISH,
		[MANAGER_UNPUBLISH] = SLURM_PMI_UNPUBLISH,
		[MANAGER_LOOKUP] = SLURM_PMI_LOOKUP,
	};

	if (query >= MANAGER_QUERY_MAX)
		return -EBADMSG;
	if (name.size > SLURM_PMI_QUERY_MAX || value.size > SLURM_PMI_QUERY_MAX - name.size)
		return -EMSGSIZE;
	pack_u16(p, (uint16_t)types[query]);
	pack_slice(p, name);
	if (query == MANAGER_PUBLISH)
		pack_slice(p, value);
	return 0;
}

enum manager_status slurm_pmi_reply(uint32_t query, struct slice reply, struct slice *ret_value)
{
	struct unpack u = unpack_of(reply);
	const char *port;
	uint32_t result;

	*ret_value = (struct slice){"", 0};
	if (query != MANAGER_LOOKUP) {
		result = unpack_u32(&u);
		return u.bad || result ? MANAGER_FAILED : MANAGER_DONE;
	}
	port = unpack_text(&u);
	if (u.bad)
		return MANAGER_FAILED;
	if (!port)
		return MANAGER_UNKNOWN;
	*ret_value = slice_of_text(port);
	return MANAGER_DONE;
}
