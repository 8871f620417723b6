/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What tools send to the stdin of ranks. A call is answered when all the ranks' pipes have it: the
 * tool goes at the pace of the slowest of the ranks that it names.
 */
#include <string.h>

#include "mpi/pmix/iof.h"

#define PUSH_MAX ((size_t)16 << 20) /* bytes of a call, and of all that wait on a node */

/* ---- the tool's node ---- */

struct pushing {
	struct px *px;
	struct call *call;
	uint32_t pending; /* nodes */
	pmix_status_t status;
};

static void pushed(struct pushing *p, pmix_status_t status)
{
	if (status != PMIX_SUCCESS && p->status == PMIX_SUCCESS)
		p->status = status;
	if (--p->pending > 0)
		return;
	call_answer(p->call, p->status);
	if (p->px->iof) {
		p->px->iof->pushes--;
		iof_check(p->px->iof);
	}
	free(p);
}

static void on_node_done(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)result;
	pushed(userdata, status);
}

static bool pack_push(pmix_data_buffer_t *args, const struct call *call)
{
	pmix_byte_object_t bytes = {.bytes = call->data, .size = call->size};
	uint8_t end = call->size == 0 || call_is_true(call, PMIX_IOF_COMPLETE);

	PMIX_DATA_BUFFER_CONSTRUCT(args);
	if (pack(args, &end, 1, PMIX_UINT8) && pack(args, &bytes, 1, PMIX_BYTE_OBJECT) &&
		pack_procs(args, call->procs, call->nprocs))
		return true;
	PMIX_DATA_BUFFER_DESTRUCT(args);
	return false;
}

static void push_to_nodes(struct px *px, struct call *call, const struct bitset *nodes)
{
	struct pushing *p = calloc(1, sizeof(*p));

	if (!p) {
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	*p = (struct pushing){.px = px, .call = call, .pending = 1};
	px->iof->pushes++;
	px->iof->used++;
	for (uint32_t node = bitset_next(nodes, 0); node != BITSET_NONE;
		node = bitset_next(nodes, node + 1)) {
		pmix_data_buffer_t args;

		p->pending++;
		if (pack_push(&args, call))
			rpc_call(px, node, RPC_INPUT, &args, on_node_done, p, 0);
		else
			pushed(p, PMIX_ERR_NOMEM);
	}
	pushed(p, PMIX_SUCCESS);
}

void px_push(struct px *px, struct call *call)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	int r = bitset_init(&nodes, px->nnodes);

	if (r == 0)
		r = names_nodes(&px->names, call->procs, call->nprocs, px->node, &nodes);
	if (r == 0 && bitset_count(&nodes) == 0)
		r = -ESRCH;
	if (r < 0 || call->size > PUSH_MAX)
		call_answer(call, r < 0 ? call_status_of(r) : PMIX_ERR_OUT_OF_RESOURCE);
	else
		push_to_nodes(px, call, &nodes);
}

/* ---- on the node of the ranks ---- */

/* Bytes for ranks of this node. */
struct push {
	struct px *px;
	struct rpc_request request;
	pmix_byte_object_t bytes;
	bool end;
	uint32_t pending; /* ranks */
	int r;            /* the first failure */
};

/* The same for one rank: each rank's stand in their order. */
struct pending_write {
	struct pending_write *next;
	struct push *push;
	uint32_t rank; /* in the step */
	size_t at, size;
	bool sent; /* size bytes from at on are the agent's */
};

static void push_release(struct push *f, int r)
{
	if (r < 0 && f->r == 0)
		f->r = r;
	if (--f->pending > 0)
		return;
	f->px->iof->pushing_bytes -= f->bytes.size;
	rpc_reply(f->px, &f->request, f->r == -EPIPE ? PMIX_ERR_IOF_FAILURE : call_status_of(f->r),
		NULL);
	iof_check(f->px->iof);
	PMIX_BYTE_OBJECT_DESTRUCT(&f->bytes);
	free(f);
}

static void write_next(struct iof *iof, uint32_t rank);

static void end_write(struct iof *iof, struct pending_write *write, int r)
{
	struct pending_write **at = &iof->writes;
	struct push *f = write->push;

	while (*at != write)
		at = &(*at)->next;
	*at = write->next;
	free(write);
	push_release(f, r);
}

static void on_taken(void *userdata, int r, const struct err *err)
{
	struct pending_write *write = userdata;
	struct iof *iof = write->push->px->iof;
	uint32_t rank = write->rank;

	(void)err;
	if (!iof)
		return; /* this process ends */
	write->sent = false;
	write->at += write->size;
	if (r < 0 || write->at >= write->push->bytes.size)
		end_write(iof, write, r);
	write_next(iof, rank);
}

/* The next piece for the rank, if it has had the one before. */
static void write_next(struct iof *iof, uint32_t rank)
{
	struct pending_write *write = iof->writes;
	struct err err = ERR_INIT;
	struct push *f;
	int r;

	while (write && write->rank != rank)
		write = write->next;
	if (!write || write->sent)
		return;
	f = write->push;
	write->size = f->bytes.size - write->at;
	if (write->size > LINK_INPUT_MAX)
		write->size = LINK_INPUT_MAX;
	write->sent = true;
	r = serve_input(iof->px->serve, rank, f->bytes.bytes + write->at, write->size,
		f->end && write->at + write->size == f->bytes.size, on_taken, write, &err);
	if (r < 0)
		on_taken(write, r, &err);
}

struct locals {
	struct push *push;
	struct pending_write **last;
};

static int add_write(struct nspace *nspace, uint32_t rank, void *userdata)
{
	struct locals *locals = userdata;
	struct push *f = locals->push;
	struct pending_write *write;

	if (nspace->ranks[rank].node != f->px->node)
		return 0;
	write = calloc(1, sizeof(*write));
	if (!write)
		return -ENOMEM;
	write->push = f;
	write->rank = nspace->first_rank + rank;
	f->pending++;
	*locals->last = write;
	locals->last = &write->next;
	return 0;
}

/* The ranks, apart from the list first: each call ends writes. */
static void write_all(struct iof *iof, struct pending_write *writes)
{
	struct pending_write **end = &iof->writes, *write;
	_cleanup_free_ uint32_t *ranks = NULL;
	size_t n = 0, i = 0;

	for (write = writes; write; write = write->next)
		n++;
	ranks = calloc(n + 1, sizeof(*ranks));
	for (write = writes; ranks && write; write = write->next)
		ranks[i++] = write->rank;
	while (*end)
		end = &(*end)->next;
	*end = writes;
	for (i = 0; ranks && i < n; i++)
		write_next(iof, ranks[i]);
}

static void serve_push(struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	struct push *f = calloc(1, sizeof(*f));
	struct pending_write *writes = NULL, *write;
	struct locals locals = {.push = f, .last = &writes};
	size_t count;
	uint8_t end = 0;
	int r = 0;

	if (!f) {
		rpc_reply(px, request, PMIX_ERR_NOMEM, NULL);
		return;
	}
	*f = (struct push){.px = px, .request = *request, .pending = 1};
	if (!unpack(args, &end, 1, PMIX_UINT8) || !unpack(args, &f->bytes, 1, PMIX_BYTE_OBJECT) ||
		!unpack_procs(args, &procs, &count))
		r = -EINVAL;
	f->end = end;
	px->iof->pushing_bytes += f->bytes.size;
	if (r == 0 && px->iof->pushing_bytes > PUSH_MAX)
		r = -EBUSY;
	if (r == 0)
		r = names_each(&px->names, procs, count, px->node, add_write, &locals);
	if (r == 0 && !writes)
		r = -ESRCH;
	while (r < 0 && (write = writes)) {
		writes = write->next;
		f->pending--;
		free(write);
	}
	if (r == 0)
		write_all(px->iof, writes);
	push_release(f, r);
}

bool iof_push_is_idle(const struct iof *iof)
{
	return !iof->writes && iof->pushes == 0;
}

void iof_push_open(struct iof *iof)
{
	rpc_register(iof->px, RPC_INPUT, serve_push);
}
