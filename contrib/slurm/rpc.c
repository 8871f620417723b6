/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/rpc.h"

#include <endian.h>
#include <string.h>

#include "contrib/slurm/auth.h"
#include "contrib/slurm/k12.h"
#include "contrib/slurm/unpack.h"

#define HASH_K12 2

/* Of the tree by which one node is reached. */
#define FORWARD_WIDTH 2
/* From 24.11 on; slurmd of 26.05 divides by it. */
#define FORWARD_DEPTH 1

/* A flag of the header. */
#define WITHOUT_SENDER 0x40

/* 0 or -errno. */
static int make_credential(const struct slurm_auth *auth, uint16_t type, const struct pack *body,
	uid_t reader, char **ret_credential, struct err *err)
{
	uint8_t payload[1 + K12_SIZE] = {HASH_K12};
	uint16_t custom = htobe16(type);

	k12_hash(buffer_bytes(&body->bytes), buffer_size(&body->bytes), &custom, sizeof(custom),
		payload + 1);
	return slurm_auth_encode(auth, reader, payload, sizeof(payload), ret_credential, err);
}

static void put_header(struct pack *p, const struct slurm_rpc *rpc, const struct pack *body)
{
	pack_u16(p, rpc->version);
	pack_u16(p, 0);
	pack_u16(p, rpc->type);
	pack_u32(p, (uint32_t)buffer_size(&body->bytes));
	pack_u16(p, rpc->forward != NULL);
	if (rpc->forward) {
		pack_text(p, rpc->forward);
		pack_u32(p, rpc->forward_ms);
		pack_u16(p, FORWARD_WIDTH);
		if (rpc->version >= SLURM_24_11)
			pack_u16(p, FORWARD_DEPTH);
	}
	pack_u16(p, 0);
	pack_u16(p, 0);
}

int slurm_rpc_encode(const struct slurm_auth *auth, const struct slurm_rpc *rpc,
	const struct pack *body, struct pack *message, struct err *err)
{
	_cleanup_free_ char *credential = NULL;
	_cleanup_pack_ struct pack p = {0};
	int r = body->failed ? -ENOMEM : 0;

	if (r == 0)
		r = make_credential(auth, rpc->type, body, rpc->reader, &credential, err);
	if (r < 0)
		return r == -ENOMEM ? err_set(err, r, "make a message") : r;
	put_header(&p, rpc, body);
	pack_u32(&p, slurm_auth_plugin(auth));
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

/* Those of other nodes. A failure to reach one has no body. */
static uint32_t unpack_replies(struct unpack *u, uint16_t n)
{
	uint32_t found = 0, error, result;
	uint16_t type;

	for (; n > 0 && !u->bad; n--) {
		error = unpack_u32(u);
		type = unpack_u16(u);
		unpack_skip(u, UNPACK_TEXT);
		result = error ? error : SLURM_RESPONSE_FORWARD_FAILED;
		if (type == SLURM_RESPONSE_RC)
			result = unpack_u32(u);
		else if (type != SLURM_RESPONSE_FORWARD_FAILED)
			unpack_fail(u, "not a result");
		found = found ? found : result;
	}
	return found;
}

int slurm_rpc_decode_result(const void *data, size_t size, uint32_t *ret_result)
{
	struct unpack u = {.data = data, .size = size};
	uint16_t flags, type, forwards;
	uint32_t result, of_others;

	(void)unpack_u32(&u);
	(void)unpack_u16(&u);
	flags = unpack_u16(&u);
	type = unpack_u16(&u);
	(void)unpack_u32(&u);
	forwards = unpack_u16(&u);
	of_others = unpack_replies(&u, unpack_u16(&u));
	unpack_skip(&u, UNPACK_ADDR);
	if (!(flags & WITHOUT_SENDER)) {
		(void)unpack_u32(&u);
		unpack_skip(&u, UNPACK_BYTES);
	}
	result = unpack_u32(&u);
	if (u.bad || type != SLURM_RESPONSE_RC || forwards)
		return -EBADMSG;
	*ret_result = result ? result : of_others;
	return 0;
}
