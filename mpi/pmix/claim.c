/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/claim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

/* Numbers of libpmix, of which none has changed since PMIx 2. */
enum claim_kind {
	KIND_CLIENT,
	KIND_LEGACY_TOOL,
	KIND_LEGACY_LAUNCHER,
	KIND_TOOL_NEEDS_ID,
	KIND_TOOL_GIVEN_ID,
	KIND_TOOL_CLIENT,
	KIND_LAUNCHER_NEEDS_ID,
	KIND_LAUNCHER_GIVEN_ID,
	KIND_LAUNCHER_CLIENT,
	KIND_SINGLETON,
	KIND_SCHEDULER,
	KIND_MAX,
};

static const struct {
	bool has_uid, has_proc;
} kinds[KIND_MAX] = {
	[KIND_CLIENT] = {.has_proc = true},
	[KIND_LEGACY_TOOL] = {.has_uid = true},
	[KIND_LEGACY_LAUNCHER] = {.has_uid = true},
	[KIND_TOOL_NEEDS_ID] = {.has_uid = true},
	[KIND_TOOL_GIVEN_ID] = {.has_uid = true, .has_proc = true},
	[KIND_TOOL_CLIENT] = {.has_uid = true, .has_proc = true},
	[KIND_LAUNCHER_NEEDS_ID] = {.has_uid = true},
	[KIND_LAUNCHER_GIVEN_ID] = {.has_uid = true, .has_proc = true},
	[KIND_LAUNCHER_CLIENT] = {.has_uid = true, .has_proc = true},
	[KIND_SINGLETON] = {.has_uid = true, .has_proc = true},
	[KIND_SCHEDULER] = {.has_uid = true, .has_proc = true},
};

struct cursor {
	const char *at, *end;
};

static bool skip(struct cursor *c, size_t size)
{
	if ((size_t)(c->end - c->at) < size)
		return false;
	c->at += size;
	return true;
}

static bool read_u32(struct cursor *c, uint32_t *ret_number)
{
	uint32_t number;

	if (!skip(c, sizeof(number)))
		return false;
	memcpy(&number, c->at - sizeof(number), sizeof(number));
	*ret_number = ntohl(number);
	return true;
}

static bool read_text(struct cursor *c, const char **ret_text)
{
	const char *nul = memchr(c->at, '\0', (size_t)(c->end - c->at));

	if (!nul)
		return false;
	*ret_text = c->at;
	c->at = nul + 1;
	return true;
}

static bool read_proc(struct cursor *c, struct claim *claim)
{
	const char *nspace;
	size_t len;

	if (!read_text(c, &nspace) || !read_u32(c, &claim->rank))
		return false;
	len = strlen(nspace);
	if (len >= sizeof(claim->nspace))
		return false;
	memcpy(claim->nspace, nspace, len + 1);
	return true;
}

size_t claim_size(const char *header)
{
	uint32_t size; /* as it is in memory: both are on one machine */

	memcpy(&size, header + 2 * sizeof(uint32_t), sizeof(size));
	return size > CLAIM_SIZE_MAX - CLAIM_HEADER_SIZE ? CLAIM_SIZE_MAX
							 : CLAIM_HEADER_SIZE + size;
}

int claim_parse(const char *bytes, size_t size, struct claim *ret_claim)
{
	struct cursor c = {.at = bytes, .end = bytes + size};
	struct claim claim = {.is_tool = false};
	const char *module;
	uint32_t cred_size, gid;
	unsigned char kind;

	if (!skip(&c, CLAIM_HEADER_SIZE) || !read_text(&c, &module) || !read_u32(&c, &cred_size) ||
		!skip(&c, cred_size) || !skip(&c, 1))
		return -EBADMSG;
	kind = (unsigned char)c.at[-1];
	if (kind >= KIND_MAX)
		return -EBADMSG;
	claim.is_tool = kind != KIND_CLIENT;
	claim.has_proc = kinds[kind].has_proc;
	if (kinds[kind].has_uid && (!read_u32(&c, &claim.uid) || !read_u32(&c, &gid)))
		return -EBADMSG;
	if (claim.has_proc && !read_proc(&c, &claim))
		return -EBADMSG;
	*ret_claim = claim;
	return 0;
}
