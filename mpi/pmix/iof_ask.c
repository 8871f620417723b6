/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A tool's request for output: all nodes that have some of the ranks are asked to send it.
 */
#include "mpi/pmix/iof.h"

/* Asks nodes for what ranks write; streams 0: for nothing any more. */
static bool pack_ask(
	pmix_data_buffer_t *args, uint8_t streams, const pmix_proc_t *procs, size_t count)
{
	PMIX_DATA_BUFFER_CONSTRUCT(args);
	if (pack(args, &streams, 1, PMIX_UINT8) && pack_procs(args, procs, count))
		return true;
	PMIX_DATA_BUFFER_DESTRUCT(args);
	return false;
}

static void on_stopped(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)userdata;
	(void)status;
	(void)result;
}

void iof_ask_stop(struct iof *iof)
{
	struct px *px = iof->px;
	pmix_data_buffer_t args;

	if (pack_ask(&args, 0, NULL, 0))
		rpc_tell(px, RPC_STREAMS, &args);
	if (pack_ask(&args, 0, NULL, 0))
		rpc_call(px, px->node, RPC_STREAMS, &args, on_stopped, NULL, 0);
}

/* ---- the request ---- */

struct asking {
	struct px *px;
	struct call *call;
	uint64_t pull;    /* its number */
	uint32_t pending; /* nodes */
	bool some;
	pmix_status_t status; /* the first failure, but for those that have nothing to copy */
};

static void answered(struct asking *a)
{
	if (--a->pending > 0)
		return;
	if (a->some && a->status == PMIX_ERR_NOT_SUPPORTED)
		a->status = PMIX_SUCCESS;
	if (a->status != PMIX_SUCCESS && a->px->iof)
		iof_pulls_forget(a->px->iof, a->pull);
	call_answer(a->call, a->status);
	free(a);
}

static void asked(struct asking *a, pmix_status_t status)
{
	a->some |= status == PMIX_SUCCESS;
	if (status != PMIX_SUCCESS &&
		(a->status == PMIX_SUCCESS || a->status == PMIX_ERR_NOT_SUPPORTED))
		a->status = status;
	answered(a);
}

static void on_node_asked(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)result;
	asked(userdata, status);
}

static uint8_t streams_of(pmix_iof_channel_t channels)
{
	return (uint8_t)((channels & PMIX_FWD_STDOUT_CHANNEL ? LINK_STDOUT : 0) |
		(channels & PMIX_FWD_STDERR_CHANNEL ? LINK_STDERR : 0));
}

static void ask_nodes(struct px *px, struct asking *a, const struct bitset *nodes)
{
	struct call *call = a->call;
	uint8_t streams = streams_of((pmix_iof_channel_t)call->code);

	a->pending = 1;
	if (bitset_count(nodes) == 0)
		a->status = PMIX_ERR_NOT_FOUND;
	for (uint32_t node = bitset_next(nodes, 0); node != BITSET_NONE;
		node = bitset_next(nodes, node + 1)) {
		pmix_data_buffer_t args;

		a->pending++;
		if (pack_ask(&args, streams, call->procs, call->nprocs))
			rpc_call(px, node, RPC_STREAMS, &args, on_node_asked, a,
				px->host->timeout_ms);
		else
			asked(a, PMIX_ERR_NOMEM);
	}
	answered(a);
}

/* The pull is there before the first byte comes. */
static pmix_status_t begin_pull(struct px *px, struct call *call)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct asking *a;
	int r = bitset_init(&nodes, px->nnodes);

	if (call->nprocs == 0 || !streams_of((pmix_iof_channel_t)call->code))
		return PMIX_ERR_BAD_PARAM;
	/* Whose it is could not be told from libpmix otherwise. */
	if (!px->iof->tools)
		return PMIX_ERR_NOT_SUPPORTED;
	if (r == 0)
		r = names_nodes(&px->names, call->procs, call->nprocs, px->node, &nodes);
	if (r < 0)
		return call_status_of(r);
	a = calloc(1, sizeof(*a));
	if (!a)
		return PMIX_ERR_NOMEM;
	*a = (struct asking){.px = px, .call = call};
	a->pull = iof_pulls_add(px->iof, call);
	if (!a->pull) {
		free(a);
		return PMIX_ERR_NOMEM;
	}
	iof_room_changed(px->iof);
	ask_nodes(px, a, &nodes);
	return PMIX_SUCCESS;
}

void px_pull(struct px *px, struct call *call)
{
	pmix_status_t status;

	if (call_find(call, PMIX_IOF_STOP)) {
		iof_pulls_end_one(px->iof);
		call_answer(call, PMIX_SUCCESS);
		return;
	}
	status = begin_pull(px, call);
	if (status != PMIX_SUCCESS)
		call_answer(call, status);
}
