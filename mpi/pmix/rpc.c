/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/rpc.h"

#include <endian.h>
#include <string.h>

/* ---- packing -------------------------------------------------------------------------------- */

static void pack_array(struct message *m, const void *values, size_t count, pmix_data_type_t type)
{
	if (count > INT32_MAX ||
		(count &&
			PMIx_Data_pack(NULL, &m->buffer, (void *)values, (int32_t)count, type) !=
				PMIX_SUCCESS))
		m->failed = true;
}

static bool unpack_array(struct message *m, void *values, size_t count, pmix_data_type_t type)
{
	int32_t n = (int32_t)count;

	return count == 0 ||
		(PMIx_Data_unpack(NULL, &m->buffer, values, &n, type) == PMIX_SUCCESS &&
			(size_t)n == count);
}

void pack(struct message *m, const void *value, pmix_data_type_t type)
{
	pack_array(m, value, 1, type);
}

bool unpack(struct message *m, void *ret_value, pmix_data_type_t type)
{
	return unpack_array(m, ret_value, 1, type);
}

void pack_infos(struct message *m, const pmix_info_t *infos, size_t count)
{
	pack(m, &count, PMIX_SIZE);
	pack_array(m, infos, count, PMIX_INFO);
}

void pack_procs(struct message *m, const pmix_proc_t *procs, size_t count)
{
	pack(m, &count, PMIX_SIZE);
	pack_array(m, procs, count, PMIX_PROC);
}

bool unpack_infos(struct message *m, pmix_info_t **ret_infos, size_t *ret_count)
{
	pmix_info_t *infos = NULL;
	size_t count;

	if (!unpack(m, &count, PMIX_SIZE) || count > PACK_MAX)
		return false;
	if (count) {
		PMIX_INFO_CREATE(infos, count);
		if (!infos)
			return false;
		if (!unpack_array(m, infos, count, PMIX_INFO)) {
			PMIX_INFO_FREE(infos, count);
			return false;
		}
	}
	*ret_infos = infos;
	*ret_count = count;
	return true;
}

bool unpack_procs(struct message *m, pmix_proc_t **ret_procs, size_t *ret_count)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	size_t count;

	if (!unpack(m, &count, PMIX_SIZE) || count > PACK_MAX)
		return false;
	procs = calloc(count + 1, sizeof(*procs));
	if (!procs || !unpack_array(m, procs, count, PMIX_PROC))
		return false;
	*ret_procs = take_ptr(procs);
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

struct rpc_wait {
	struct rpc_wait *next;
	struct px *px;
	uint64_t id;
	uint32_t node;
	rpc_done_fn done;
	void *userdata;
	ev_timer timer;
};

static int send_frame(struct px *px, uint32_t node, enum rpc_channel channel,
	const struct frame *frame, const struct message *body, bool to_all)
{
	struct err err = ERR_INIT;
	struct iovec iov[2] = {{.iov_base = (void *)frame, .iov_len = sizeof(*frame)}};
	int n = 1, r;

	/* Their servers need not be ours; this node is the wire's only one then. */
	if (px->managed && (to_all || node != px->node))
		return -EOPNOTSUPP;
	if (px->managed)
		node = 0;
	if (body && body->buffer.bytes_used) {
		iov[1].iov_base = body->buffer.base_ptr;
		iov[1].iov_len = body->buffer.bytes_used;
		n = 2;
	}
	r = to_all ? wire_broadcast(px->wire, channel, iov, n, &err)
		   : wire_send(px->wire, node, channel, iov, n, &err);
	if (r < 0)
		serve_log(px->serve, LOG_LEVEL_WARNING, "%s", err.text);
	return r;
}

/* ---- the requester ---- */

/* Takes it out of the list and ends it. */
static void rpc_finish(struct rpc_wait **at, pmix_status_t status, struct message *data)
{
	struct rpc_wait *w = *at;
	struct rpc_result result = {.from = w->node, .status = status, .data = data};

	*at = w->next;
	ev_timer_stop(w->px->loop, &w->timer);
	w->done(w->px, w->userdata, &result);
	free(w);
}

static struct rpc_wait **find_request(struct px *px, const struct rpc_wait *w)
{
	struct rpc_wait **at = &px->requests;

	while (*at && *at != w)
		at = &(*at)->next;
	return at;
}

static void on_timeout(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct rpc_wait *w = timer->data;

	rpc_finish(find_request(w->px, w), PMIX_ERR_TIMEOUT, NULL);
}

static void call_node(struct px *px, uint32_t node, enum rpc_op op, const struct message *args,
	rpc_done_fn done, void *userdata, uint64_t timeout_ms)
{
	struct rpc_wait *w = args->failed ? NULL : calloc(1, sizeof(*w)), **at;
	struct rpc_result failure = {.from = node, .status = w ? PMIX_ERR_UNREACH : PMIX_ERR_NOMEM};
	struct frame frame = {.op = htole32(op)};

	if (!w || px->has_left[node]) {
		done(px, userdata, &failure);
		free(w);
		return;
	}
	w->px = px;
	w->id = ++px->last_request;
	w->node = node;
	w->userdata = userdata;
	w->done = done;
	w->next = px->requests;
	px->requests = w;
	ev_timer_init(&w->timer, on_timeout, (double)timeout_ms / 1e3, 0.);
	w->timer.data = w;
	if (timeout_ms)
		ev_timer_start(px->loop, &w->timer);
	frame.id = htole64(w->id);
	if (send_frame(px, node, CHANNEL_REQUEST, &frame, args, false) < 0) {
		at = find_request(px, w);
		if (*at)
			rpc_finish(
				at, px->managed ? PMIX_ERR_NOT_SUPPORTED : PMIX_ERR_UNREACH, NULL);
	}
}

void rpc_call(struct px *px, uint32_t node, enum rpc_op op, struct message *args, rpc_done_fn done,
	void *userdata, uint64_t timeout_ms)
{
	call_node(px, node, op, args, done, userdata, timeout_ms);
	PMIX_DATA_BUFFER_DESTRUCT(&args->buffer);
}

static void on_reply(
	struct px *px, uint32_t from, const struct frame *frame, struct message *result)
{
	for (struct rpc_wait **at = &px->requests; *at; at = &(*at)->next) {
		if ((*at)->id == le64toh(frame->id) && (*at)->node == from) {
			rpc_finish(at, (pmix_status_t)le32toh(frame->status), result);
			return;
		}
	}
	/* It came too late. */
}

/* ---- to several nodes ---- */

struct call_to_all {
	rpc_done_fn each;
	rpc_all_done_fn done;
	void *userdata;
	uint32_t pending; /* nodes, and rpc_call_nodes() itself */
	uint32_t succeeded;
	pmix_status_t status;
};

static void call_to_all_release(struct px *px, struct call_to_all *all)
{
	if (--all->pending > 0)
		return;
	all->done(px, all->userdata, all->status, all->succeeded);
	free(all);
}

static void on_node_done(struct px *px, void *userdata, const struct rpc_result *result)
{
	struct call_to_all *all = userdata;

	if (all->each)
		all->each(px, all->userdata, result);
	if (result->status == PMIX_SUCCESS)
		all->succeeded++;
	else if (all->status == PMIX_SUCCESS || all->status == PMIX_ERR_NOT_SUPPORTED)
		all->status = result->status;
	call_to_all_release(px, all);
}

void rpc_call_nodes(struct px *px, const struct bitset *nodes, enum rpc_op op, struct message *args,
	rpc_done_fn each, rpc_all_done_fn done, void *userdata, uint64_t timeout_ms)
{
	struct call_to_all *all = calloc(1, sizeof(*all));

	if (all) {
		*all = (struct call_to_all){
			.each = each, .done = done, .userdata = userdata, .pending = 1};
		for (uint32_t node = bitset_next(nodes, 0); node != BITSET_NONE;
			node = bitset_next(nodes, node + 1)) {
			all->pending++;
			call_node(px, node, op, args, on_node_done, all, timeout_ms);
		}
		call_to_all_release(px, all);
	} else {
		done(px, userdata, PMIX_ERR_NOMEM, 0);
	}
	PMIX_DATA_BUFFER_DESTRUCT(&args->buffer);
}

void rpc_call_ranks(struct px *px, const pmix_proc_t *procs, size_t count, enum rpc_op op,
	struct message *args, rpc_all_done_fn done, void *userdata, uint64_t timeout_ms)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	int r = bitset_init(&nodes, px->nnodes);

	if (r == 0)
		r = names_nodes(&px->names, procs, count, px->node, &nodes);
	if (r == 0 && bitset_count(&nodes) > 0) {
		rpc_call_nodes(px, &nodes, op, args, NULL, done, userdata, timeout_ms);
		return;
	}
	done(px, userdata, r < 0 ? call_status_of(r) : PMIX_ERR_NOT_FOUND, 0);
	PMIX_DATA_BUFFER_DESTRUCT(&args->buffer);
}

/* ---- the server ---- */

void rpc_reply(struct px *px, const struct rpc_request *request, pmix_status_t status,
	struct message *result)
{
	struct frame frame = {.id = htole64(request->id)};

	if (result && result->failed) {
		PMIX_DATA_BUFFER_DESTRUCT(&result->buffer);
		status = PMIX_ERR_NOMEM;
	}
	frame.status = htole32((uint32_t)status);
	/* A node that can't be reached does not wait for it: its own side has ended the request. */
	if (request->id != 0)
		(void)send_frame(px, request->from, CHANNEL_REPLY, &frame, result, false);
	if (result)
		PMIX_DATA_BUFFER_DESTRUCT(&result->buffer);
}

void rpc_notify(struct px *px, enum rpc_op op, struct message *args)
{
	struct frame frame = {.op = htole32(op)};

	if (px->nnodes > 1 && !args->failed)
		(void)send_frame(px, 0, CHANNEL_REQUEST, &frame, args, true);
	PMIX_DATA_BUFFER_DESTRUCT(&args->buffer);
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

/* Ends the requests to node, or also to all nodes behind it. */
static void end_requests(struct px *px, uint32_t node, bool also_behind)
{
	struct rpc_wait **at = &px->requests;

	while (*at) {
		if (also_behind ? is_behind(px, (*at)->node, node) : (*at)->node == node) {
			rpc_finish(at, PMIX_ERR_UNREACH, NULL);
			at = &px->requests; /* done() may have changed the list */
		} else {
			at = &(*at)->next;
		}
	}
}

/* Why is in the log already. */
void rpc_node_lost(void *userdata, uint32_t node, _unused_ const struct err *err)
{
	end_requests(userdata, node, true);
}

/* Its replies went before, on the same ways. */
static void serve_leaving(
	struct px *px, const struct rpc_request *request, _unused_ struct message *args)
{
	px->has_left[request->from] = true;
	end_requests(px, request->from, false);
}

/* ---- requests and replies that come ---- */

static void on_request(
	struct px *px, uint32_t from, const struct frame *frame, struct message *args)
{
	static const rpc_serve_fn handlers[RPC_MAX] = {
		[RPC_MODEX] = serve_modex,
		[RPC_PUBLISH] = serve_publish,
		[RPC_LOOKUP] = serve_lookup,
		[RPC_UNPUBLISH] = serve_unpublish,
		[RPC_SIGNAL] = serve_signals,
		[RPC_EVENT] = serve_event,
		[RPC_ENDED] = serve_ended,
		[RPC_RANKS] = serve_ranks,
		[RPC_PSET] = serve_pset,
		[RPC_STREAMS] = serve_streams,
		[RPC_OUTPUT] = serve_output,
		[RPC_INPUT] = serve_push,
		[RPC_LEAVING] = serve_leaving,
	};
	struct rpc_request request = {.from = from, .id = le64toh(frame->id)};
	uint32_t op = le32toh(frame->op);
	bool is_published = op == RPC_PUBLISH || op == RPC_LOOKUP || op == RPC_UNPUBLISH;

	/* Published data is node 0's. */
	if (op < RPC_MAX && (!is_published || px->publishing))
		handlers[op](px, &request, args);
	else
		rpc_reply(px, &request, PMIX_ERR_NOT_SUPPORTED, NULL);
}

void rpc_message(void *userdata, uint32_t from, uint16_t channel, const struct wire_block *block)
{
	struct px *px = userdata;
	struct message body = MESSAGE_INIT;
	struct frame frame;

	if (block->size < sizeof(frame))
		return;
	memcpy(&frame, block->data, sizeof(frame));
	/* Borrowed: it is never grown or freed. */
	body.buffer.base_ptr = (char *)block->data + sizeof(frame);
	body.buffer.unpack_ptr = body.buffer.base_ptr;
	body.buffer.bytes_used = block->size - sizeof(frame);
	body.buffer.pack_ptr = body.buffer.base_ptr + body.buffer.bytes_used;
	body.buffer.bytes_allocated = body.buffer.bytes_used;
	if (px->managed)
		from = px->node;
	if (channel == CHANNEL_REQUEST)
		on_request(px, from, &frame, &body);
	else if (channel == CHANNEL_REPLY)
		on_reply(px, from, &frame, &body);
}

/* ---- life ---- */

int rpc_open(struct px *px)
{
	px->has_left = calloc(px->nnodes, sizeof(*px->has_left));
	return px->has_left ? 0 : -ENOMEM;
}

void rpc_leave(struct px *px)
{
	struct message none = MESSAGE_INIT;

	rpc_notify(px, RPC_LEAVING, &none);
}

void rpc_close(struct px *px)
{
	while (px->requests)
		rpc_finish(&px->requests, PMIX_ERR_UNREACH, NULL);
	free(px->has_left);
	px->has_left = NULL;
}
