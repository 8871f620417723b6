/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/rpc.h"

#include <endian.h>
#include <string.h>

/* ---- packing -------------------------------------------------------------------------------- */

bool pack(pmix_data_buffer_t *buffer, const void *values, size_t count, pmix_data_type_t type)
{
	return count <= INT32_MAX &&
		PMIx_Data_pack(NULL, buffer, (void *)values, (int32_t)count, type) == PMIX_SUCCESS;
}

bool unpack(pmix_data_buffer_t *buffer, void *values, size_t count, pmix_data_type_t type)
{
	int32_t n = (int32_t)count;

	return count <= INT32_MAX &&
		PMIx_Data_unpack(NULL, buffer, values, &n, type) == PMIX_SUCCESS &&
		(size_t)n == count;
}

bool pack_infos(pmix_data_buffer_t *buffer, const pmix_info_t *infos, size_t count)
{
	return pack(buffer, &count, 1, PMIX_SIZE) &&
		(count == 0 || pack(buffer, infos, count, PMIX_INFO));
}

bool unpack_infos(pmix_data_buffer_t *buffer, pmix_info_t **ret_infos, size_t *ret_count)
{
	pmix_info_t *infos = NULL;
	size_t count;

	if (!unpack(buffer, &count, 1, PMIX_SIZE) || count > PACK_MAX)
		return false;
	if (count) {
		PMIX_INFO_CREATE(infos, count);
		if (!infos)
			return false;
		if (!unpack(buffer, infos, count, PMIX_INFO)) {
			PMIX_INFO_FREE(infos, count);
			return false;
		}
	}
	*ret_infos = infos;
	*ret_count = count;
	return true;
}

bool pack_procs(pmix_data_buffer_t *buffer, const pmix_proc_t *procs, size_t count)
{
	return pack(buffer, &count, 1, PMIX_SIZE) &&
		(count == 0 || pack(buffer, procs, count, PMIX_PROC));
}

bool unpack_procs(pmix_data_buffer_t *buffer, pmix_proc_t **ret_procs, size_t *ret_count)
{
	pmix_proc_t *procs = NULL;
	size_t count;

	if (!unpack(buffer, &count, 1, PMIX_SIZE) || count > PACK_MAX)
		return false;
	if (count) {
		procs = calloc(count, sizeof(*procs));
		if (!procs)
			return false;
		if (!unpack(buffer, procs, count, PMIX_PROC)) {
			free(procs);
			return false;
		}
	}
	*ret_procs = procs;
	*ret_count = count;
	return true;
}

/* ---- requests ------------------------------------------------------------------------------- */

enum rpc_channel {
	CHANNEL_REQUEST = SERVE_CHANNEL_PLUGIN,
	CHANNEL_REPLY,
};

/* Little-endian, before the arguments. */
struct frame {
	uint64_t id;
	uint32_t op;     /* of a request */
	uint32_t status; /* of a reply, a pmix_status_t */
};

struct waiting {
	struct waiting *next;
	struct px *px;
	uint64_t id;
	uint32_t node;
	rpc_done_fn done;
	void *userdata;
	ev_timer timer;
};

struct rpc {
	rpc_serve_fn serve[RPC_MAX];
	struct waiting *waiting;
	uint64_t last_id;
	bool *has_left; /* by node */
};

static void serve_leaving(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args);

int rpc_open(struct px *px)
{
	px->rpc = calloc(1, sizeof(*px->rpc));
	if (!px->rpc)
		return -ENOMEM;
	px->rpc->has_left = calloc(px->nnodes, sizeof(*px->rpc->has_left));
	if (!px->rpc->has_left)
		return -ENOMEM;
	rpc_register(px, RPC_LEAVING, serve_leaving);
	return 0;
}

void rpc_register(struct px *px, enum rpc_op op, rpc_serve_fn serve)
{
	px->rpc->serve[op] = serve;
}

static int send_frame(struct px *px, uint32_t node, enum rpc_channel channel,
	const struct frame *frame, pmix_data_buffer_t *body, bool to_all)
{
	struct err err = ERR_INIT;
	struct iovec iov[2] = {{.iov_base = (void *)frame, .iov_len = sizeof(*frame)}};
	int n = 1, r;

	if (body && body->bytes_used) {
		iov[1].iov_base = body->base_ptr;
		iov[1].iov_len = body->bytes_used;
		n = 2;
	}
	r = to_all ? wire_broadcast(px->wire, channel, iov, n, &err)
		   : wire_send(px->wire, node, channel, iov, n, &err);
	if (r < 0)
		serve_log(px->serve, LOG_LEVEL_WARNING, "%s", err.text);
	if (body)
		PMIX_DATA_BUFFER_DESTRUCT(body);
	return r;
}

/* ---- the requester ---- */

/* Takes it out of the list and ends it. */
static void finish(
	struct px *px, struct waiting **at, pmix_status_t status, pmix_data_buffer_t *result)
{
	struct waiting *w = *at;

	*at = w->next;
	ev_timer_stop(px->loop, &w->timer);
	w->done(px, w->userdata, status, result);
	free(w);
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct waiting *w = timer->data, **at = &w->px->rpc->waiting;

	(void)loop;
	(void)revents;
	while (*at != w)
		at = &(*at)->next;
	finish(w->px, at, PMIX_ERR_TIMEOUT, NULL);
}

void rpc_call(struct px *px, uint32_t node, enum rpc_op op, pmix_data_buffer_t *args,
	rpc_done_fn done, void *userdata, uint64_t timeout_ms)
{
	struct waiting *w = calloc(1, sizeof(*w));
	struct frame frame = {.op = htole32(op)};

	if (!w || px->rpc->has_left[node]) {
		PMIX_DATA_BUFFER_DESTRUCT(args);
		done(px, userdata, w ? PMIX_ERR_UNREACH : PMIX_ERR_NOMEM, NULL);
		free(w);
		return;
	}
	w->px = px;
	w->id = ++px->rpc->last_id;
	w->node = node;
	w->userdata = userdata;
	w->done = done;
	w->next = px->rpc->waiting;
	px->rpc->waiting = w;
	ev_timer_init(&w->timer, on_timeout, (double)timeout_ms / 1e3, 0.);
	w->timer.data = w;
	if (timeout_ms)
		ev_timer_start(px->loop, &w->timer);
	frame.id = htole64(w->id);
	if (send_frame(px, node, CHANNEL_REQUEST, &frame, args, false) < 0) {
		struct waiting **at = &px->rpc->waiting;

		while (*at && *at != w)
			at = &(*at)->next;
		if (*at)
			finish(px, at, PMIX_ERR_UNREACH, NULL);
	}
}

static void on_reply(
	struct px *px, uint32_t from, const struct frame *frame, pmix_data_buffer_t *result)
{
	for (struct waiting **at = &px->rpc->waiting; *at; at = &(*at)->next) {
		if ((*at)->id == le64toh(frame->id) && (*at)->node == from) {
			finish(px, at, (pmix_status_t)le32toh(frame->status), result);
			return;
		}
	}
	/* It came too late. */
}

/* ---- the server ---- */

void rpc_reply(struct px *px, const struct rpc_request *request, pmix_status_t status,
	pmix_data_buffer_t *result)
{
	struct frame frame = {.id = htole64(request->id), .status = htole32((uint32_t)status)};

	if (request->id == 0) {
		if (result)
			PMIX_DATA_BUFFER_DESTRUCT(result);
		return;
	}
	/* A node that can't be reached does not wait for it: its own side has ended the request. */
	(void)send_frame(px, request->from, CHANNEL_REPLY, &frame, result, false);
}

void rpc_notify(struct px *px, enum rpc_op op, pmix_data_buffer_t *args)
{
	struct frame frame = {.op = htole32(op)};

	if (px->nnodes > 1)
		(void)send_frame(px, 0, CHANNEL_REQUEST, &frame, args, true);
	else
		PMIX_DATA_BUFFER_DESTRUCT(args);
}

static void on_request(
	struct px *px, uint32_t from, const struct frame *frame, pmix_data_buffer_t *args)
{
	struct rpc_request request = {.from = from, .id = le64toh(frame->id)};
	uint32_t op = le32toh(frame->op);

	if (op < RPC_MAX && px->rpc->serve[op])
		px->rpc->serve[op](px, &request, args);
	else
		rpc_reply(px, &request, PMIX_ERR_NOT_SUPPORTED, NULL);
}

void rpc_message(struct px *px, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	pmix_data_buffer_t body;
	struct frame frame;

	if (block->size < sizeof(frame))
		return;
	memcpy(&frame, block->data, sizeof(frame));
	PMIX_DATA_BUFFER_CONSTRUCT(&body);
	/* Borrowed: it is never grown or freed. */
	body.base_ptr = (char *)block->data + sizeof(frame);
	body.unpack_ptr = body.base_ptr;
	body.pack_ptr = body.base_ptr + (block->size - sizeof(frame));
	body.bytes_used = block->size - sizeof(frame);
	body.bytes_allocated = body.bytes_used;
	if (channel == CHANNEL_REQUEST)
		on_request(px, from, &frame, &body);
	else if (channel == CHANNEL_REPLY)
		on_reply(px, from, &frame, &body);
}

/* ---- ends ---- */

static uint32_t fanout(const struct px *px)
{
	return px->host->wire && px->host->wire->fanout ? px->host->wire->fanout
							: WIRE_FANOUT_DEFAULT;
}

/* Whether node is in the part of the tree below top. */
static bool is_below(const struct px *px, uint32_t node, uint32_t top)
{
	while (node > top)
		node = (node - 1) / fanout(px);
	return node == top;
}

static bool is_behind(const struct px *px, uint32_t node, uint32_t lost)
{
	if (node == px->node)
		return false;
	return is_below(px, px->node, lost) ? !is_below(px, node, px->node)
					    : is_below(px, node, lost);
}

void rpc_node_lost(struct px *px, uint32_t node)
{
	struct waiting **at = &px->rpc->waiting;

	while (*at) {
		if (!is_behind(px, (*at)->node, node)) {
			at = &(*at)->next;
			continue;
		}
		finish(px, at, PMIX_ERR_UNREACH, NULL);
		at = &px->rpc->waiting; /* done() may have changed the list */
	}
}

/* Its replies went before, on the same ways. */
static void serve_leaving(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct waiting **at = &px->rpc->waiting;

	(void)args;
	px->rpc->has_left[request->from] = true;
	while (*at) {
		if ((*at)->node != request->from) {
			at = &(*at)->next;
			continue;
		}
		finish(px, at, PMIX_ERR_UNREACH, NULL);
		at = &px->rpc->waiting; /* done() may have changed the list */
	}
}

void rpc_leave(struct px *px)
{
	pmix_data_buffer_t none;

	PMIX_DATA_BUFFER_CONSTRUCT(&none);
	rpc_notify(px, RPC_LEAVING, &none);
}

void rpc_close(struct px *px)
{
	if (!px->rpc)
		return;
	while (px->rpc->waiting)
		finish(px, &px->rpc->waiting, PMIX_ERR_UNREACH, NULL);
	free(px->rpc->has_left);
	free(px->rpc);
	px->rpc = NULL;
}
