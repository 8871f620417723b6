/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmix_messages.h"

#include <endian.h>
#include <errno.h>

#define MAGIC         0xcafeca11u
#define RING_SIZE     32u
#define MODEX_REQUEST 1
#define MODEX_REPLY   2

/* ---- numbers and bytes --------------------------------------------------------------------- */

static bool take_u32(struct slice *from, uint32_t *ret_n)
{
	struct slice s;

	if (!slice_take(from, sizeof(*ret_n), &s))
		return false;
	memcpy(ret_n, s.data, sizeof(*ret_n));
	*ret_n = be32toh(*ret_n);
	return true;
}

static bool take_bytes(struct slice *from, struct slice *ret_bytes)
{
	uint32_t size;

	return take_u32(from, &size) && slice_take(from, size, ret_bytes);
}

/* Bytes with a NUL at their end, and no other. */
static bool take_text(struct slice *from, struct slice *ret_text)
{
	if (!take_bytes(from, ret_text) || ret_text->size == 0 ||
		memchr(ret_text->data, '\0', ret_text->size) != ret_text->data + ret_text->size - 1)
		return false;
	ret_text->size--;
	return true;
}

static void put_text(struct pack *p, struct slice text)
{
	pack_u32(p, (uint32_t)text.size + 1);
	pack_raw(p, text.data, text.size);
	pack_u8(p, 0);
}

static void put_slice(struct pack *p, struct slice s)
{
	pack_bytes(p, s.data, (uint32_t)s.size);
}

/* ---- heads --------------------------------------------------------------------------------- */

void slurm_pmix_put_head(struct pack *p, const struct slurm_pmix_head *head, bool native)
{
	const uint32_t numbers[] = {MAGIC, head->type, head->seq, head->node, head->size};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (native)
			pack_raw(p, &numbers[i], sizeof(numbers[i]));
		else
			pack_u32(p, numbers[i]);
	}
	pack_u8(p, head->has_port);
}

int slurm_pmix_read_head(struct slice data, bool native, struct slurm_pmix_head *ret_head)
{
	uint32_t numbers[5];
	size_t i;

	if (data.size < SLURM_PMIX_HEAD_SIZE)
		return -EBADMSG;
	memcpy(numbers, data.data, sizeof(numbers));
	for (i = 0; !native && i < ARRAY_SIZE(numbers); i++)
		numbers[i] = be32toh(numbers[i]);
	if (numbers[0] != MAGIC || numbers[1] == 0 || numbers[1] >= SLURM_PMIX_TYPE_MAX ||
		numbers[4] > SLURM_PMIX_MAX)
		return -EBADMSG;
	*ret_head = (struct slurm_pmix_head){.type = (enum slurm_pmix_type)numbers[1],
		.seq = numbers[2],
		.node = numbers[3],
		.size = numbers[4],
		.has_port = data.data[sizeof(numbers)] != 0};
	return 0;
}

void slurm_pmix_put_port(struct pack *p, uint16_t port)
{
	pack_bytes(p, &port, sizeof(port));
}

bool slurm_pmix_take_port(struct slice *rest, uint16_t *ret_port)
{
	struct slice port;

	if (!take_bytes(rest, &port) || port.size != sizeof(*ret_port))
		return false;
	memcpy(ret_port, port.data, sizeof(*ret_port));
	return true;
}

/* ---- sets ---------------------------------------------------------------------------------- */

void slurm_pmix_begin_set(struct pack *set, uint32_t count)
{
	pack_u32(set, count);
}

void slurm_pmix_add_rank(struct pack *set, struct slice nspace, uint32_t rank)
{
	put_text(set, nspace);
	pack_u32(set, rank);
}

void slurm_pmix_put_set(struct pack *body, enum slurm_pmix_kind kind, struct slice set)
{
	pack_u32(body, kind);
	pack_raw(body, set.data, set.size);
}

bool slurm_pmix_take_set(struct slice *body, uint32_t *ret_kind, struct slice *ret_set)
{
	struct slice begin, nspace;
	uint32_t count, rank;

	if (!take_u32(body, ret_kind))
		return false;
	begin = *body;
	if (!take_u32(body, &count))
		return false;
	while (count-- > 0) {
		if (!slurm_pmix_take_rank(body, &nspace, &rank))
			return false;
	}
	*ret_set = (struct slice){begin.data, begin.size - body->size};
	return true;
}

bool slurm_pmix_take_count(struct slice *set, uint32_t *ret_count)
{
	return take_u32(set, ret_count);
}

bool slurm_pmix_take_rank(struct slice *set, struct slice *ret_nspace, uint32_t *ret_rank)
{
	return take_text(set, ret_nspace) && take_u32(set, ret_rank);
}

/* ---- rings --------------------------------------------------------------------------------- */

void slurm_pmix_put_ring(struct pack *body, const struct slurm_pmix_ring *ring)
{
	const uint32_t numbers[] = {0, ring->contributor, ring->seq, ring->hops, ring->sender, 0};

	pack_u32(body, RING_SIZE);
	pack_raw(body, numbers, sizeof(numbers));
	pack_raw(body, &ring->size, sizeof(ring->size));
}

bool slurm_pmix_take_ring(struct slice *body, struct slurm_pmix_ring *ret_ring)
{
	uint32_t numbers[6];
	struct slice ring;

	if (!take_bytes(body, &ring) || ring.size != RING_SIZE)
		return false;
	memcpy(numbers, ring.data, sizeof(numbers));
	*ret_ring = (struct slurm_pmix_ring){.contributor = numbers[1],
		.seq = numbers[2],
		.hops = numbers[3],
		.sender = numbers[4]};
	memcpy(&ret_ring->size, ring.data + sizeof(numbers), sizeof(ret_ring->size));
	return true;
}

/* ---- data of single ranks ------------------------------------------------------------------ */

void slurm_pmix_put_modex(struct pack *body, const struct slurm_pmix_modex *modex)
{
	pack_u8(body, modex->is_reply ? MODEX_REPLY : MODEX_REQUEST);
	put_text(body, modex->nspace);
	pack_u32(body, modex->rank);
	put_text(body, modex->sender);
	pack_u32(body, (uint32_t)modex->status);
	if (modex->is_reply)
		put_slice(body, modex->data);
}

/* A reply that is a failure may have no data at all. */
bool slurm_pmix_read_modex(struct slice body, struct slurm_pmix_modex *ret_modex)
{
	struct slurm_pmix_modex m = {.data = {"", 0}};
	struct slice what;
	uint32_t status;

	if (!slice_take(&body, 1, &what) ||
		(what.data[0] != MODEX_REQUEST && what.data[0] != MODEX_REPLY) ||
		!take_text(&body, &m.nspace) || !take_u32(&body, &m.rank) ||
		!take_text(&body, &m.sender) || !take_u32(&body, &status))
		return false;
	m.is_reply = what.data[0] == MODEX_REPLY;
	m.status = (int32_t)status;
	if (m.is_reply && (body.size > 0 || m.status == 0) && !take_bytes(&body, &m.data))
		return false;
	*ret_modex = m;
	return true;
}

/* ---- connections --------------------------------------------------------------------------- */

void slurm_pmix_put_credential(struct pack *body, uint32_t plugin, const char *credential)
{
	pack_u32(body, plugin);
	pack_text(body, credential);
}

const char *slurm_pmix_read_credential(struct slice body, uint32_t plugin)
{
	struct slice text;
	uint32_t number;

	return take_u32(&body, &number) && number == plugin && take_text(&body, &text) ? text.data
										       : NULL;
}
