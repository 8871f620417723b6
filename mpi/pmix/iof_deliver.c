/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the nodes send for this one's tools, to libpmix, in the order in which it comes.
 */
#include "mpi/pmix/iof.h"

/* libpmix sends a message each time round of its thread, and takes all that it is given then: one
 * at a time, or they would pile up there. */
#define IN_LIBPMIX_MAX 1u

struct delivery {
	struct delivery *next;
	struct px *px;
	struct rpc_request request;
	pmix_proc_t proc;
	pmix_iof_channel_t channel;
	pmix_byte_object_t bytes; /* owned */
	pmix_info_t info[2];
	size_t ninfo;
};

/* ---- to libpmix ---- */

static void answer(struct delivery *d, pmix_status_t status)
{
	rpc_reply(d->px, &d->request, status, NULL);
	for (size_t i = 0; i < d->ninfo; i++)
		PMIX_INFO_DESTRUCT(&d->info[i]);
	PMIX_BYTE_OBJECT_DESTRUCT(&d->bytes);
	free(d);
}

static void delivered(struct px *px, struct call *call)
{
	struct delivery *d = call->cbdata;
	bool open = px->iof;

	(void)call_free(call);
	if (!open)
		return;
	px->iof->in_libpmix--;
	answer(d, PMIX_SUCCESS);
	iof_deliver_next(px->iof);
}

/* On libpmix's thread. */
static void on_delivered(pmix_status_t status, void *cbdata)
{
	struct call *call = cbdata;
	struct delivery *d = call->cbdata;

	(void)status; /* who does not get it any more does not miss it */
	call_hand_over(d->px->calls, call);
}

/* It is libpmix's until on_delivered(). */
static void give(struct delivery *d)
{
	struct call *call = call_new(delivered, CALL_NOTE, d);
	struct iof *iof = d->px->iof;

	if (!call) {
		answer(d, PMIX_ERR_OUT_OF_RESOURCE);
		return;
	}
	iof->in_libpmix++;
	if (PMIx_server_IOF_deliver(&d->proc, d->channel, &d->bytes, d->info, d->ninfo,
		    on_delivered, call) == PMIX_SUCCESS)
		return;
	iof->in_libpmix--;
	(void)call_free(call);
	answer(d, PMIX_ERR_OUT_OF_RESOURCE);
}

static struct delivery *take_first(struct iof *iof)
{
	struct delivery *d = iof->first;

	iof->first = d->next;
	if (!iof->first)
		iof->last = &iof->first;
	iof->waiting -= d->bytes.size;
	return d;
}

void iof_deliver_next(struct iof *iof)
{
	while (iof->first && iof->in_libpmix < IN_LIBPMIX_MAX && iof_has_room(iof))
		give(take_first(iof));
	iof_check(iof);
}

void iof_deliver_drop(struct iof *iof)
{
	while (iof->first)
		answer(take_first(iof), PMIX_SUCCESS);
}

/* ---- from the nodes ---- */

static bool unpack_delivery(struct px *px, struct delivery *d, pmix_data_buffer_t *args)
{
	uint32_t step_rank, rank = 0;
	struct nspace *nspace;
	uint8_t stream, end;
	uint64_t lost;
	bool yes = true;

	if (!unpack(args, &step_rank, 1, PMIX_UINT32) || !unpack(args, &stream, 1, PMIX_UINT8) ||
		!unpack(args, &end, 1, PMIX_UINT8) || !unpack(args, &lost, 1, PMIX_UINT64) ||
		!unpack(args, &d->bytes, 1, PMIX_BYTE_OBJECT))
		return false;
	nspace = names_find_rank(&px->names, step_rank, &rank);
	/* Each node speaks of its own ranks. */
	if (!nspace || nspace->ranks[rank].node != d->request.from)
		return false;
	PMIX_LOAD_PROCID(&d->proc, nspace->name, rank);
	d->channel = stream == LINK_STDERR ? PMIX_FWD_STDERR_CHANNEL : PMIX_FWD_STDOUT_CHANNEL;
	if (end) {
		PMIX_INFO_LOAD(&d->info[d->ninfo], PMIX_IOF_COMPLETE, &yes, PMIX_BOOL);
		d->ninfo++;
	}
	if (lost) {
		PMIX_INFO_LOAD(&d->info[d->ninfo], IOF_LOST, &lost, PMIX_UINT64);
		d->ninfo++;
	}
	return true;
}

static void serve_output(struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct delivery *d = calloc(1, sizeof(*d));
	struct iof *iof = px->iof;

	if (!d) {
		rpc_reply(px, request, PMIX_ERR_OUT_OF_RESOURCE, NULL);
		return;
	}
	d->px = px;
	d->request = *request;
	if (!unpack_delivery(px, d, args)) {
		answer(d, PMIX_ERR_BAD_PARAM);
		return;
	}
	if (!iof_is_wanted(iof, &d->proc, d->channel, d->bytes.size)) {
		answer(d, PMIX_SUCCESS);
		return;
	}
	if (iof->waiting + d->bytes.size > IOF_WAITING && d->bytes.size > 0) {
		answer(d, PMIX_ERR_OUT_OF_RESOURCE);
		return;
	}
	*iof->last = d;
	iof->last = &d->next;
	iof->waiting += d->bytes.size;
	iof_deliver_next(iof);
}

/* ---- life ---- */

bool iof_deliver_is_idle(const struct iof *iof)
{
	return !iof->first && iof->in_libpmix == 0;
}

void iof_deliver_open(struct iof *iof)
{
	rpc_register(iof->px, RPC_OUTPUT, serve_output);
}

/* What libpmix has stays its own until the process ends, a moment later. */
void iof_deliver_close(struct iof *iof)
{
	iof_deliver_drop(iof);
}
