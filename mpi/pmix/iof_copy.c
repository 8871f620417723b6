/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the servers want of this node's ranks, this one perhaps among them, and the agent copies.
 */
#include "mpi/pmix/iof.h"
#include "mpi/pmix/subscriber.h"

/* ---- the agent ---- */

/* Several questions to the agent, with one answer to who asked. */
struct telling {
	struct px *px;
	struct rpc_request request; /* id 0: nobody waits */
	uint64_t subscriber;
	uint32_t *ranks;
	size_t count;
	unsigned streams;
	unsigned pending;
	bool some;
	int r;
};

static void take_back(const struct telling *t)
{
	struct subscriber *sub = subscriber_numbered(t->px->iof, t->subscriber);

	for (size_t i = 0; sub && i < t->count; i++) {
		struct want *want = subscriber_want(sub, t->ranks[i]);

		if (want)
			want->streams &= ~t->streams;
	}
}

static void told(struct telling *t)
{
	if (--t->pending > 0)
		return;
	if (t->px->iof && t->r < 0 && !t->some)
		take_back(t);
	if (t->px->iof) /* else this node has left the others */
		rpc_reply(t->px, &t->request, call_status_of(t->some ? 0 : t->r), NULL);
	free(t->ranks);
	free(t);
}

static void on_told(void *userdata, int r, const struct err *err)
{
	struct telling *t = userdata;

	(void)err;
	t->some |= r == 0;
	if (r < 0 && t->r == 0)
		t->r = r;
	told(t);
}

/* Those of the ranks that are wanted like this. */
static void tell_some(struct telling *t, unsigned streams, uint32_t *some)
{
	struct iof *iof = t->px->iof;
	struct err err = ERR_INIT;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < t->count; i++) {
		if (subscribers_want(iof, t->ranks[i]) == streams)
			some[n++] = t->ranks[i];
	}
	if (n == 0)
		return;
	t->pending++;
	r = serve_copy(iof->px->serve, some, n, streams, on_told, t, &err);
	if (r < 0)
		on_told(t, r, &err);
}

/* Has the agent copy what is wanted of these ranks, which it takes. */
static void tell_agent(const struct telling *from)
{
	struct telling *t = calloc(1, sizeof(*t));
	uint32_t *some = calloc(from->count + 1, sizeof(*some));

	if (!t || !some) {
		rpc_reply(from->px, &from->request, PMIX_ERR_NOMEM, NULL);
		take_back(from);
		free(from->ranks);
		free(t);
		free(some);
		return;
	}
	*t = *from;
	t->pending = 1;
	for (unsigned streams = 0; streams <= LINK_STREAMS; streams++)
		tell_some(t, streams, some);
	free(some);
	told(t);
}

void iof_copy_stop(struct iof *iof, struct subscriber *sub)
{
	struct telling t = {.px = iof->px, .count = sub->count};

	t.ranks = calloc(sub->count + 1, sizeof(*t.ranks));
	for (size_t i = 0; t.ranks && i < sub->count; i++)
		t.ranks[i] = sub->wants[i].rank;
	subscriber_end(iof, sub);
	if (t.ranks)
		tell_agent(&t);
}

/* ---- what is asked ---- */

struct locals {
	struct px *px;
	uint32_t *v;
	size_t n;
	size_t room;
};

static int add_local(struct nspace *nspace, uint32_t rank, void *userdata)
{
	struct locals *locals = userdata;
	uint32_t *grown;

	if (nspace->ranks[rank].node != locals->px->node)
		return 0;
	if (locals->n == locals->room) {
		locals->room = locals->room ? 2 * locals->room : 64;
		grown = realloc(locals->v, locals->room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		locals->v = grown;
	}
	locals->v[locals->n++] = nspace->first_rank + rank;
	return 0;
}

static int subscribe(struct iof *iof, uint32_t node, const uint32_t *ranks, size_t count,
	unsigned streams, struct subscriber **ret_sub)
{
	struct subscriber *sub = subscriber_get(iof, node);
	int r = sub ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++)
		r = subscriber_add_want(sub, ranks[i], streams);
	*ret_sub = sub;
	return r;
}

static void serve_streams(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	struct locals locals = {.px = px};
	struct telling t = {.px = px, .request = *request};
	struct subscriber *sub = subscriber_find(px->iof, request->from);
	uint8_t streams;
	size_t count;
	int r;

	if (!unpack(args, &streams, 1, PMIX_UINT8) || !unpack_procs(args, &procs, &count)) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	if (!streams) {
		if (sub)
			iof_copy_stop(px->iof, sub);
		rpc_reply(px, request, PMIX_SUCCESS, NULL);
		return;
	}
	r = names_each(&px->names, procs, count, px->node, add_local, &locals);
	if (r == 0 && locals.n == 0)
		r = -ESRCH;
	if (r == 0)
		r = subscribe(
			px->iof, request->from, locals.v, locals.n, streams & LINK_STREAMS, &sub);
	if (r < 0) {
		free(locals.v);
		rpc_reply(px, request, call_status_of(r), NULL);
		return;
	}
	t.subscriber = sub->number;
	t.streams = streams;
	t.ranks = locals.v;
	t.count = locals.n;
	tell_agent(&t);
}

int iof_subscribe_spawn(struct px *px, uint32_t node, const struct nspace *nspace, unsigned streams)
{
	struct subscriber *sub;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < nspace->size; i++) {
		uint32_t rank = nspace->first_rank + i;

		if (nspace->ranks[i].node == px->node)
			r = subscribe(px->iof, node, &rank, 1, streams, &sub);
	}
	return r;
}

/* ---- life ---- */

void iof_copy_open(struct iof *iof)
{
	rpc_register(iof->px, RPC_STREAMS, serve_streams);
}

/* Nothing more is asked of the agent. */
void iof_copy_close(struct iof *iof)
{
	while (iof->subscribers)
		subscriber_end(iof, iof->subscribers);
}
