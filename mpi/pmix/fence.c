/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives: fence, connect, disconnect, the making and ending of groups. libpmix gathers the
 * ranks of a node and calls its host once all of these are there; a collective of one node alone
 * it ends by itself where it may. What is left is a fence of the wire among the nodes that hold
 * ranks of it.
 *
 * Every node brings a header and the data that libpmix gave. The number in the header is one that
 * no other collective of the step gets from this node; that of the first node counts.
 */
#include <endian.h>
#include <string.h>

#include "mpi/pmix/px.h"
#include "mpi/pmix/trace.h"

struct header {
	uint32_t status; /* a pmix_status_t */
	uint32_t unused;
	uint64_t context;
};

struct collective {
	struct collective *next;
	struct px *px;
	enum collective_kind kind;
	struct call *call;
	collective_fn done;
	struct bitset nodes;
	uint64_t id;
	bool failed; /* its end is on its way */
};

static const char *const kind_names[] = {
	[COLLECTIVE_FENCE] = "PMIx_Fence",
	[COLLECTIVE_CONNECT] = "PMIx_Connect",
	[COLLECTIVE_DISCONNECT] = "PMIx_Disconnect",
	[COLLECTIVE_GROUP_CONSTRUCT] = "PMIx_Group_construct",
	[COLLECTIVE_GROUP_DESTRUCT] = "PMIx_Group_destruct",
};

/* FNV-1a */
static uint64_t hash_add(uint64_t hash, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
	return hash;
}

static uint64_t set_id(
	enum collective_kind kind, const char *text, const pmix_proc_t *procs, size_t count)
{
	uint32_t kind_le = htole32(kind), rank_le;
	uint64_t hash = hash_add(0xcbf29ce484222325u, &kind_le, sizeof(kind_le));

	if (text)
		hash = hash_add(hash, text, strlen(text) + 1);
	for (size_t i = 0; i < count; i++) {
		rank_le = htole32(procs[i].rank);
		hash = hash_add(
			hash, procs[i].nspace, strnlen(procs[i].nspace, PMIX_MAX_NSLEN) + 1);
		hash = hash_add(hash, &rank_le, sizeof(rank_le));
	}
	return hash;
}

static int compare_procs(const void *a, const void *b)
{
	const pmix_proc_t *p = a, *q = b;
	int c = strncmp(p->nspace, q->nspace, PMIX_MAX_NSLEN);

	return c ? c : (p->rank > q->rank) - (p->rank < q->rank);
}

static struct collective *collective_free(struct collective *c)
{
	bitset_clear(&c->nodes);
	free(c);
	return NULL;
}

/* ---- its end ---- */

/* The data of all nodes in one piece, and what comes beside it. */
static pmix_status_t gather(const struct wire_block *blocks, size_t count, char **ret_data,
	size_t *ret_size, uint64_t *ret_context)
{
	pmix_status_t status = PMIX_SUCCESS;
	struct header header;
	size_t size = 0;
	char *data;

	for (size_t i = 0; i < count; i++) {
		if (blocks[i].size < sizeof(header))
			return PMIX_ERR_UNPACK_FAILURE;
		size += blocks[i].size - sizeof(header);
	}
	data = malloc(size ? size : 1);
	if (!data)
		return PMIX_ERR_NOMEM;
	size = 0;
	for (size_t i = 0; i < count; i++) {
		memcpy(&header, blocks[i].data, sizeof(header));
		if (i == 0)
			*ret_context = le64toh(header.context);
		if (status == PMIX_SUCCESS)
			status = (pmix_status_t)le32toh(header.status);
		memcpy(data + size, (const char *)blocks[i].data + sizeof(header),
			blocks[i].size - sizeof(header));
		size += blocks[i].size - sizeof(header);
	}
	*ret_data = data;
	*ret_size = size;
	return status;
}

/* done takes the call. */
static void answer(struct px *px, struct call *call, pmix_status_t status, uint64_t context,
	char *data, size_t size, collective_fn done)
{
	struct rank_cursor at = {
		.names = &px->names, .procs = call->procs, .count = call->nprocs, .node = px->node};

	while (names_next(&at)) {
		if (at.nspace->ranks[at.rank].node == px->node)
			trace_answered(px->trace, at.nspace->name, at.rank);
	}
	done(px, call, status, context, data, size);
}

/* The wire's end of it. */
static void collective_on_done(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *err)
{
	struct collective *c = userdata, **at = &c->px->collectives;
	struct px *px = c->px;
	_cleanup_free_ char *data = NULL;
	uint64_t context = 0;
	size_t size = 0;
	pmix_status_t status;
	char why[512];

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	status = r < 0 ? call_status_of(r) : gather(blocks, count, &data, &size, &context);
	/* A node whose tasks have ended has reported each one's end before. */
	if (r == -EHOSTDOWN &&
		names_find_absent(
			&px->names, c->call->procs, c->call->nprocs, px->node, why, sizeof(why)))
		serve_log(px->serve, LOG_LEVEL_ERROR, "%s: %s", kind_names[c->kind], why);
	else if (r < 0)
		serve_log(px->serve, LOG_LEVEL_ERROR, "%s: %s", kind_names[c->kind],
			err ? err->text : "it failed");
	answer(px, c->call, status, context, take_ptr(data), size, c->done);
	(void)collective_free(c);
}

/* ---- its beginning ---- */

/* The status of the local ranks at libpmix: one of them may have gone meanwhile. */
static pmix_status_t local_status(const struct call *call)
{
	const pmix_info_t *info = call_find(call, PMIX_LOCAL_COLLECTIVE_STATUS);

	return info && info->value.type == PMIX_STATUS ? info->value.data.status : PMIX_SUCCESS;
}

static int collective_new(struct px *px, enum collective_kind kind, struct call *call,
	const char *text, struct collective **ret_c)
{
	struct collective *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->px = px;
	c->kind = kind;
	c->call = call;
	r = bitset_init(&c->nodes, px->nnodes);
	if (r == 0) {
		/* Not all upcalls have them sorted, and all nodes must make the same of them. */
		qsort(call->procs, call->nprocs, sizeof(*call->procs), compare_procs);
		r = names_nodes(&px->names, call->procs, call->nprocs, px->node, &c->nodes);
	}
	if (r < 0) {
		(void)collective_free(c);
		return r;
	}
	bitset_set(&c->nodes, px->node);
	c->id = set_id(kind, text, call->procs, call->nprocs);
	*ret_c = c;
	return 0;
}

void collective_begin(struct px *px, enum collective_kind kind, struct call *call, const char *text,
	const void *data, size_t size, collective_fn done)
{
	struct err err = ERR_INIT;
	struct header header = {.status = htole32((uint32_t)local_status(call)),
		.context = htole64((uint64_t)(px->node + 1) << 32 | ++px->contexts)};
	struct iovec iov[2] = {{.iov_base = &header, .iov_len = sizeof(header)},
		{.iov_base = (void *)data, .iov_len = size}};
	struct wire_set set;
	struct collective *c;
	char why[512];
	int r;

	if (px->managed) {
		managed_begin(px, kind, call, data, size, done);
		return;
	}
	r = collective_new(px, kind, call, text, &c);
	if (r < 0) {
		answer(px, call, call_status_of(r), 0, NULL, 0, done);
		return;
	}
	c->done = done;
	if (names_find_absent(&px->names, call->procs, call->nprocs, px->node, why, sizeof(why))) {
		serve_log(px->serve, LOG_LEVEL_ERROR, "%s: %s", kind_names[kind], why);
		(void)collective_free(c);
		answer(px, call, PMIX_ERR_PROC_TERM_WO_SYNC, 0, NULL, 0, done);
		return;
	}
	set = (struct wire_set){.nodes = c->nodes, .id = c->id};
	c->next = px->collectives;
	px->collectives = c;
	r = wire_fence(px->wire, &set, iov, size ? 2 : 1,
		call_timeout_ms(call, px->host->timeout_ms), collective_on_done, c, &err);
	if (r < 0)
		collective_on_done(c, r, NULL, 0, &err);
}

/* ---- what gets in its way ---- */

const struct nspace *collective_whole(const struct px *px, uint64_t id)
{
	const struct nspace *n;
	pmix_proc_t all;

	for (n = px->names.first; n; n = n->next) {
		PMIX_LOAD_PROCID(&all, n->name, PMIX_RANK_WILDCARD);
		if (set_id(COLLECTIVE_FENCE, NULL, &all, 1) == id)
			break;
	}
	return n;
}

static bool has(
	struct px *px, const struct collective *c, const struct nspace *nspace, uint32_t rank)
{
	struct rank_cursor at = {.names = &px->names,
		.procs = c->call->procs,
		.count = c->call->nprocs,
		.node = px->node};

	while (names_next(&at)) {
		if (at.nspace == nspace && at.rank == rank)
			return true;
	}
	return false;
}

bool collective_has(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	struct collective *c = px->collectives;

	while (c && !has(px, c, nspace, rank))
		c = c->next;
	return c;
}

/* One that was lost may have made its contribution already; that it can't have left the collective
 * alive is enough. */
void collective_rank_absent(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	struct collective *c = px->collectives;
	struct wire_set set;
	char end[400], why[512];

	names_describe_end(nspace, rank, end, sizeof(end));
	(void)snprintf(why, sizeof(why), "%s while others wait for it", end);
	while (c) {
		if (c->failed || !has(px, c, nspace, rank)) {
			c = c->next;
			continue;
		}
		c->failed = true;
		set = (struct wire_set){.nodes = c->nodes, .id = c->id};
		/* -ENOENT: it has just come to its end. */
		(void)wire_fence_fail(px->wire, &set, why);
		c = px->collectives; /* its end may have come at once, and others' with it */
	}
}

void collective_close(struct px *px)
{
	struct collective *c;

	while ((c = px->collectives)) {
		px->collectives = c->next;
		c->done(px, c->call, PMIX_ERR_LOST_CONNECTION, 0, NULL, 0);
		(void)collective_free(c);
	}
}

/* ---- the plain ones ---- */

static void fence_done(_unused_ struct px *px, struct call *call, pmix_status_t status,
	_unused_ uint64_t context, char *data, size_t size)
{
	call_answer_modex(call, status, data, size);
}

void px_fence(struct px *px, struct call *call)
{
	_cleanup_free_ char *data = take_ptr(call->data);

	collective_begin(px, COLLECTIVE_FENCE, call, NULL, data, call->size, fence_done);
}

static void op_done(_unused_ struct px *px, struct call *call, pmix_status_t status,
	_unused_ uint64_t context, char *data, _unused_ size_t size)
{
	free(data);
	call_answer(call, status);
}

void px_connect(struct px *px, struct call *call)
{
	collective_begin(px, COLLECTIVE_CONNECT, call, NULL, NULL, 0, op_done);
}

void px_disconnect(struct px *px, struct call *call)
{
	collective_begin(px, COLLECTIVE_DISCONNECT, call, NULL, NULL, 0, op_done);
}
