/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi/manager.h"

#include <errno.h>

ssize_t manager_frame_read(struct slice data, struct manager_frame *ret_frame)
{
	struct slice rest = data, body;
	uint32_t size, type;

	if (!slice_take_u32(&rest, &size) || !slice_take_u32(&rest, &type))
		return 0;
	if (size > MANAGER_BODY_MAX || type == 0 || type >= MANAGER_TYPE_MAX)
		return -EBADMSG;
	if (!slice_take(&rest, size, &body))
		return 0;
	*ret_frame = (struct manager_frame){(enum manager_type)type, body};
	return (ssize_t)(MANAGER_HEAD_SIZE + size);
}

void manager_frame_add(struct bytes *out, enum manager_type type, struct slice body)
{
	if (body.size > MANAGER_BODY_MAX)
		out->failed = true;
	bytes_add_u32(out, (uint32_t)body.size);
	bytes_add_u32(out, type);
	bytes_add(out, body.data, body.size);
}

void manager_pair_add(struct bytes *pairs, struct slice key, struct slice value)
{
	bytes_add_sized(pairs, key);
	bytes_add_sized(pairs, value);
}

bool manager_pair_take(struct slice *pairs, struct slice *ret_key, struct slice *ret_value)
{
	return slice_take_sized(pairs, ret_key) && slice_take_sized(pairs, ret_value);
}
