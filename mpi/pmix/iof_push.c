/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What tools send to the stdin of ranks. A call is answered when all the ranks' pipes have it: the
 * tool goes at the pace of the slowest of the ranks that it names.
 */
#include <string.h>

#include "mpi/pmix/iof.h"

#define PUSH_MAX ((size_t)16 << 20) /* bytes of a call, and of all that wait on a node */

/* ---- the tool's node ---- */

static void on_pushed(
	struct px *px, void *userdata, pmix_status_t status, _unused_ uint32_t succeeded)
{
	call_answer(userdata, status);
	if (px->iof) {
		px->iof->pushes--;
		iof_check(px->iof);
	}
}

void px_push(struct px *px, struct call *call)
{
	pmix_byte_object_t bytes = {.bytes = call->data, .size = call->size};
	uint8_t end = call->size == 0 || call_is_true(call, PMIX_IOF_COMPLETE);
	struct message args = MESSAGE_INIT;

	if (call->size > PUSH_MAX) {
		call_answer(call, PMIX_ERR_OUT_OF_RESOURCE);
		return;
	}
	px->iof->pushes++;
	px->iof->used++;
	pack(&args, &end, PMIX_UINT8);
	pack(&args, &bytes, PMIX_BYTE_OBJECT);
	pack_procs(&args, call->procs, call->nprocs);
	rpc_call_ranks(px, call->procs, call->nprocs, RPC_INPUT, &args, on_pushed, call, 0);
}

/* ---- on the node of the ranks ---- */

/* Of a push, for one rank. */
struct pending_write {
	struct push *push;
	uint32_t rank; /* in the step */
	size_t at, size;
	bool sent; /* size bytes from at on are the agent's */
	bool done;
};

/* Bytes for ranks of this node: each of them gets those of one push after the other. */
struct push {
	struct push *next;
	struct px *px;
	struct rpc_request request;
	pmix_byte_object_t bytes;
	bool end;
	struct pending_write *writes;
	size_t count;
	size_t pending; /* writes, and serve_push() itself */
	int r;          /* the first failure */
};

static void push_release(struct push *p, int r)
{
	struct iof *iof = p->px->iof;
	struct push **at = &iof->writing;

	if (r < 0 && p->r == 0)
		p->r = r;
	if (--p->pending > 0)
		return;
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	iof->pushing_bytes -= p->bytes.size;
	rpc_reply(p->px, &p->request, p->r == -EPIPE ? PMIX_ERR_IOF_FAILURE : call_status_of(p->r),
		NULL);
	iof_check(iof);
	PMIX_BYTE_OBJECT_DESTRUCT(&p->bytes);
	free(p->writes);
	free(p);
}

static void write_next(struct iof *iof, uint32_t rank);

static void on_taken(void *userdata, int r, _unused_ const struct err *err)
{
	struct pending_write *write = userdata;
	struct iof *iof = write->push->px->iof;
	uint32_t rank = write->rank;

	if (!iof)
		return; /* this process ends */
	write->sent = false;
	write->at += write->size;
	if (r < 0 || write->at >= write->push->bytes.size) {
		write->done = true;
		push_release(write->push, r);
	}
	write_next(iof, rank);
}

/* The rank's first that is not done; NULL: there is none. */
static struct pending_write *first_write(const struct iof *iof, uint32_t rank)
{
	for (const struct push *p = iof->writing; p; p = p->next) {
		for (size_t i = 0; i < p->count; i++) {
			if (p->writes[i].rank == rank && !p->writes[i].done)
				return &p->writes[i];
		}
	}
	return NULL;
}

/* The next piece for the rank, if it has had the one before. */
static void write_next(struct iof *iof, uint32_t rank)
{
	struct pending_write *write = first_write(iof, rank);
	struct err err = ERR_INIT;
	const struct push *p;
	int r;

	if (!write || write->sent)
		return;
	p = write->push;
	write->size = p->bytes.size - write->at;
	if (write->size > LINK_INPUT_MAX)
		write->size = LINK_INPUT_MAX;
	write->sent = true;
	r = serve_input(iof->px->serve, rank, p->bytes.bytes + write->at, write->size,
		p->end && write->at + write->size == p->bytes.size, on_taken, write, &err);
	if (r < 0)
		on_taken(write, r, &err);
}

static int push_begin(struct push *p, const uint32_t *ranks, size_t count)
{
	struct push **end = &p->px->iof->writing;

	p->writes = calloc(count, sizeof(*p->writes));
	if (!p->writes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		p->writes[i] = (struct pending_write){.push = p, .rank = ranks[i]};
	p->count = count;
	p->pending += count;
	while (*end)
		end = &(*end)->next;
	*end = p;
	for (size_t i = 0; i < count; i++)
		write_next(p->px->iof, ranks[i]);
	return 0;
}

void serve_push(struct px *px, const struct rpc_request *request, struct message *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	_cleanup_free_ uint32_t *ranks = NULL;
	struct push *p = calloc(1, sizeof(*p));
	size_t count;
	uint8_t end = 0;
	int r = 0;

	if (!p) {
		rpc_reply(px, request, PMIX_ERR_NOMEM, NULL);
		return;
	}
	*p = (struct push){.px = px, .request = *request, .pending = 1};
	if (!unpack(args, &end, PMIX_UINT8) || !unpack(args, &p->bytes, PMIX_BYTE_OBJECT) ||
		!unpack_procs(args, &procs, &count))
		r = -EINVAL;
	p->end = end;
	px->iof->pushing_bytes += p->bytes.size;
	if (r == 0 && px->iof->pushing_bytes > PUSH_MAX)
		r = -EBUSY;
	if (r == 0)
		r = names_local_ranks(&px->names, procs, count, px->node, false, &ranks, &count);
	if (r == 0)
		r = push_begin(p, ranks, count);
	push_release(p, r);
}

bool iof_push_is_idle(const struct iof *iof)
{
	return !iof->writing && iof->pushes == 0;
}
