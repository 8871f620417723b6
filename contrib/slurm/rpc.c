/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/rpc.h"

#include <endian.h>
#include <string.h>

#include "contrib/slurm/k12.h"
#include "contrib/slurm/unpack.h"
#include "stepd/base/munge_client.h"

#define PLUGIN_MUNGE 101u
#define HASH_K12     2

/* A flag of the header. */
#define WITHOUT_SENDER 0x40

/* 0 or -errno. */
static int make_credential(const struct munge_client *munge, uint16_t type, const struct pack *body,
	uid_t reader, char **ret_credential, struct err *err)
{
	uint8_t payload[1 + K12_SIZE] = {HASH_K12};
	uint16_t custom = htobe16(type);

	k12_hash(buffer_bytes(&body->bytes), buffer_size(&body->bytes), &custom, sizeof(custom),
		payload + 1);
	return munge_client_encode(munge, reader, payload, sizeof(payload), ret_credential, err);
}

static void put_header(struct pack *p, uint16_t version, uint16_t type, const struct pack *body)
{
	pack_u16(p, version);
	pack_u16(p, 0);
	pack_u16(p, type);
	pack_u32(p, (uint32_t)buffer_size(&body->bytes));
	pack_u16(p, 0);
	pack_u16(p, 0);
	pack_u16(p, 0);
}

int slurm_rpc_encode(const struct munge_client *munge, uint16_t version, uint16_t type,
	const struct pack *body, uid_t reader, struct pack *message, struct err *err)
{
	_cleanup_free_ char *credential = NULL;
	_cleanup_pack_ struct pack p = {0};
	int r = body->failed ? -ENOMEM : 0;

	if (r == 0)
		r = make_credential(munge, type, body, reader, &credential, err);
	if (r < 0)
		return r == -ENOMEM ? err_set(err, r, "make a message") : r;
	put_header(&p, version, type, body);
	pack_u32(&p, PLUGIN_MUNGE);
	pack_text(&p, credential);
	pack_raw(&p, buffer_bytes(&body->bytes), buffer_size(&body->bytes));
	pack_bytes(message, buffer_bytes(&p.bytes), (uint32_t)buffer_size(&p.bytes));
	return p.failed || message->failed ? err_set(err, -ENOMEM, "make a message") : 0;
}

void slurm_rpc_put_step(struct pack *body, uint16_t version, const struct slurm_step_id *id)
{
	if (version >= SLURM_24_11)
		pack_u64(body, id->sluid);
	pack_u32(body, id->job);
	pack_u32(body, id->step);
	pack_u32(body, id->het_component);
}

ssize_t slurm_rpc_size(const void *data, size_t size)
{
	uint32_t length;

	if (size < sizeof(length))
		return 0;
	memcpy(&length, data, sizeof(length));
	length = be32toh(length);
	return length > SLURM_REPLY_MAX ? -EMSGSIZE : (ssize_t)(sizeof(length) + length);
}

int slurm_rpc_decode_result(const void *data, size_t size, uint32_t *ret_result)
{
	struct unpack u = {.data = data, .size = size};
	uint16_t flags, type, forwards, replies;
	uint32_t result;

	(void)unpack_u32(&u);
	(void)unpack_u16(&u);
	flags = unpack_u16(&u);
	type = unpack_u16(&u);
	(void)unpack_u32(&u);
	forwards = unpack_u16(&u);
	replies = unpack_u16(&u);
	unpack_skip(&u, UNPACK_ADDR);
	if (!(flags & WITHOUT_SENDER)) {
		(void)unpack_u32(&u);
		unpack_skip(&u, UNPACK_BYTES);
	}
	result = unpack_u32(&u);
	if (u.bad || type != SLURM_RESPONSE_RC || forwards || replies)
		return -EBADMSG;
	*ret_result = result;
	return 0;
}
