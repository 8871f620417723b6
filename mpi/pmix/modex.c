/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Direct modex: what a rank of another node has put is fetched from that node on request.
 * There libpmix parks the request until the rank commits for the first time; a rank that ends
 * first, or a deadline, ends it here. A key that is not among the data by then may be committed
 * later: libpmix gets the request again when its trace shows that the rank has committed.
 */
#include <string.h>

#include "mpi/pmix/rpc.h"
#include "mpi/pmix/trace.h"

/* Without a deadline of its own a key is waited for as long as libpmix waits for one of a rank of
 * the same node. */
#define KEY_WAIT_MS 2000u

/* The requester gives up at its own deadline; this node a bit later. */
#define DEADLINE_SLACK_MS 1000u

/* In a request: PMIX_TIMEOUT was not given. */
#define NO_DEADLINE UINT64_MAX

/* A request of another node that libpmix holds, or whose key is still to be committed. */
struct modex_wait {
	struct modex_wait *next;
	struct px *px;
	struct rpc_request request;
	pmix_proc_t proc;
	uint64_t id;

	char *key;            /* that has to be among the data; NULL: whatever there is will do */
	bool is_pending;      /* libpmix has still to answer */
	bool has_commit;      /* the rank may have committed more since libpmix got the request */
	bool is_last;         /* what libpmix answers next is what there is */
	pmix_status_t status; /* libpmix's last answer */
	char *data;
	size_t size;
	uint64_t limit_ms;
	ev_timer limit; /* then it gets the last answer */
};

/* ---- the requesting node ---- */

static bool has_ended(struct px *px, const pmix_proc_t *proc)
{
	const struct nspace_rank *rank = names_rank(&px->names, proc);

	return rank && rank->state >= RANK_ENDED;
}

static void on_reply(struct px *px, void *userdata, const struct rpc_result *result)
{
	struct call *call = userdata;
	pmix_byte_object_t bo = {.bytes = NULL, .size = 0};
	pmix_status_t status = result->status;

	if (status == PMIX_ERR_TIMEOUT)
		serve_log(px->serve, LOG_LEVEL_ERROR,
			"PMIx_Get: rank %u of %s has not put the requested key until the deadline",
			call->proc.rank, call->proc.nspace);
	/* Its node has ended with it. */
	if (status == PMIX_ERR_UNREACH && has_ended(px, &call->proc))
		status = PMIX_ERR_NOT_FOUND;
	if (status == PMIX_SUCCESS &&
		(!result->data || !unpack(result->data, &bo, PMIX_BYTE_OBJECT)))
		status = PMIX_ERR_UNPACK_FAILURE;
	call_answer_modex(call, status, bo.bytes, bo.size);
}

/* Reserved keys are the servers', if they give them: none comes later. */
static void pack_request(const struct call *call, struct message *args)
{
	const pmix_info_t *info = call_find(call, PMIX_REQUIRED_KEY);
	const char *key = info && info->value.type == PMIX_STRING ? info->value.data.string : NULL;
	uint64_t limit_ms = call_timeout_ms(call, NO_DEADLINE);

	pack(args, &call->proc, PMIX_PROC);
	if (!key || strncmp(key, "pmix", 4) == 0)
		return;
	pack(args, &key, PMIX_STRING);
	pack(args, &limit_ms, PMIX_UINT64);
}

void px_direct_modex(struct px *px, struct call *call)
{
	struct nspace_rank *rank = names_rank(&px->names, &call->proc);
	struct message args = MESSAGE_INIT;

	if (!rank || rank->state == RANK_LOST) {
		call_answer_modex(call, PMIX_ERR_NOT_FOUND, NULL, 0);
		return;
	}
	if (px->managed) {
		managed_modex(px, call);
		return;
	}
	pack_request(call, &args);
	rpc_call(px, rank->node, RPC_MODEX, &args, on_reply, call,
		call_timeout_ms(call, px->host->timeout_ms));
}

/* ---- the node of the rank ---- */

static void reply(struct px *px, const struct rpc_request *request, pmix_status_t status,
	char *data, size_t size)
{
	pmix_byte_object_t bo = {.bytes = data, .size = size};
	struct message result = MESSAGE_INIT;

	if (px->managed) {
		managed_reply(px, request->id, status, data, size);
		return;
	}
	if (status == PMIX_SUCCESS)
		pack(&result, &bo, PMIX_BYTE_OBJECT);
	rpc_reply(px, request, status, &result);
}

/* By its number: it may have been ended before libpmix had its answer. */
static struct modex_wait **find(struct px *px, uint64_t id)
{
	struct modex_wait **at = &px->modex;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	return at;
}

static bool has_keyed(const struct px *px)
{
	const struct modex_wait *w = px->modex;

	while (w && !w->key)
		w = w->next;
	return w;
}

static void wait_free(struct modex_wait *w)
{
	ev_timer_stop(w->px->loop, &w->limit);
	free(w->key);
	free(w->data);
	free(w);
}

static void end_wait(struct px *px, struct modex_wait **at, pmix_status_t status)
{
	struct modex_wait *w = *at;

	*at = w->next;
	if (!has_keyed(px))
		trace_watch_commits(px->trace, NULL, NULL);
	reply(px, &w->request, status, w->data, w->size);
	wait_free(w);
}

/* ---- libpmix ---- */

static void on_found(struct px *px, struct call *call);

struct query {
	struct calls *calls;
	uint64_t id;
};

/* On libpmix's thread, which owns data. */
static void on_found_there(pmix_status_t status, char *data, size_t size, void *cbdata)
{
	_cleanup_free_ struct query *query = cbdata;
	struct call *call = call_new(on_found, CALL_NOTE, NULL);

	if (!call)
		return; /* the requester's deadline ends it */
	call->number = query->id;
	call->data = malloc(size + 1);
	call->code = call->data ? status : PMIX_ERR_NOMEM;
	if (call->data && size)
		memcpy(call->data, data, size);
	call->size = call->data ? size : 0;
	call_submit(query->calls, call);
}

static pmix_status_t query_libpmix(struct px *px, struct modex_wait *w)
{
	struct query *query = calloc(1, sizeof(*query));
	pmix_status_t status;

	if (!query)
		return PMIX_ERR_NOMEM;
	*query = (struct query){.calls = px->calls, .id = w->id};
	w->has_commit = false;
	w->is_pending = true;
	status = PMIx_server_dmodex_request(&w->proc, on_found_there, query);
	if (status != PMIX_SUCCESS)
		free(query);
	return status;
}

/* Whether the key's name stands in libpmix's packed data, in which it does as it is. A value that
 * reads so, too, only ends the wait too early. */
static bool has_key(const struct modex_wait *w)
{
	return w->size && memmem(w->data, w->size, w->key, strlen(w->key) + 1);
}

/* The same by libpmix itself, which takes its time; for data that does not look like it. */
static bool is_known(const struct modex_wait *w)
{
	pmix_value_t *value = NULL;
	pmix_info_t here;
	bool yes = true, known;

	PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, &yes, PMIX_BOOL); /* its host gets no request */
	known = PMIx_Get(&w->proc, w->key, &here, 1, &value) == PMIX_SUCCESS;
	PMIX_INFO_DESTRUCT(&here);
	if (value)
		PMIX_VALUE_RELEASE(value);
	return known;
}

static void query_again(struct px *px, struct modex_wait **at)
{
	pmix_status_t status = query_libpmix(px, *at);

	if (status != PMIX_SUCCESS)
		end_wait(px, at, status);
}

/* libpmix's answer, in the loop; code is its status. */
static void on_found(struct px *px, struct call *call)
{
	struct modex_wait **at = find(px, call->number), *w = *at;

	if (w) {
		w->is_pending = false;
		w->status = call->code;
		free(w->data);
		w->data = take_ptr(call->data);
		w->size = call->size;
	}
	(void)call_free(call);
	if (!w)
		return;
	if (!w->key || w->is_last || has_key(w)) {
		end_wait(px, at, w->status);
		return;
	}
	w->is_last = is_known(w);
	if (w->is_last || w->has_commit)
		query_again(px, at);
	else if (w->limit_ms && !ev_is_active(&w->limit))
		ev_timer_start(px->loop, &w->limit);
}

static void on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct modex_wait *w = timer->data;

	end_wait(w->px, find(w->px, w->id), w->status);
}

/* ---- commits ---- */

/* call->proc is about to commit, or has. */
static void on_commit(struct px *px, struct call *call)
{
	struct modex_wait **at = &px->modex, *w;

	while ((w = *at)) {
		bool is_meant = w->key && PMIX_CHECK_PROCID(&w->proc, &call->proc);

		if (is_meant && w->is_pending)
			w->has_commit = true;
		else if (is_meant)
			query_again(px, at);
		if (*at == w)
			at = &w->next;
	}
	(void)call_free(call);
}

/* On the trace's thread. */
static void on_commit_there(void *userdata, const char *nspace, uint32_t rank)
{
	struct call *call = call_new(on_commit, CALL_NOTE, NULL);

	if (!call)
		return; /* the limit ends the wait */
	PMIX_LOAD_PROCID(&call->proc, nspace, rank);
	call_submit(userdata, call);
}

/* ---- a request ---- */

static pmix_status_t unpack_request(struct px *px, struct modex_wait *w, struct message *args)
{
	const struct nspace_rank *rank;
	uint64_t limit_ms;

	if (!unpack(args, &w->proc, PMIX_PROC))
		return PMIX_ERR_UNPACK_FAILURE;
	rank = names_rank(&px->names, &w->proc);
	if (!rank || rank->state == RANK_LOST)
		return PMIX_ERR_NOT_FOUND;
	if (!unpack(args, &w->key, PMIX_STRING))
		return PMIX_SUCCESS; /* there is none */
	if (!unpack(args, &limit_ms, PMIX_UINT64))
		return PMIX_ERR_UNPACK_FAILURE;
	w->limit_ms = limit_ms == NO_DEADLINE ? KEY_WAIT_MS
		: limit_ms                    ? limit_ms + DEADLINE_SLACK_MS
					      : 0;
	/* A rank that has ended commits no more. */
	w->is_last = rank->state == RANK_ENDED;
	return PMIX_SUCCESS;
}

static struct modex_wait *wait_new(struct px *px, const struct rpc_request *request)
{
	struct modex_wait *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->px = px;
	w->request = *request;
	w->id = ++px->contexts;
	ev_init(&w->limit, on_limit);
	w->limit.data = w;
	return w;
}

/* Without a key: whatever the rank has committed first. */
void modex_serve_managed(struct px *px, const pmix_proc_t *proc, uint64_t id)
{
	const struct rpc_request request = {.from = px->node, .id = id};
	const struct nspace_rank *rank = names_rank(&px->names, proc);
	struct modex_wait *w = rank && rank->state != RANK_LOST ? wait_new(px, &request) : NULL;

	if (!w) {
		managed_reply(px, id, PMIX_ERR_NOT_FOUND, NULL, 0);
		return;
	}
	w->proc = *proc;
	w->next = px->modex;
	px->modex = w;
	query_again(px, &px->modex);
}

void serve_modex(struct px *px, const struct rpc_request *request, struct message *args)
{
	struct modex_wait *w = wait_new(px, request);
	pmix_status_t status = PMIX_ERR_NOMEM;

	if (w) {
		status = unpack_request(px, w, args);
		ev_timer_set(&w->limit, (double)w->limit_ms / 1e3, 0.);
	}
	if (status != PMIX_SUCCESS) {
		if (w)
			wait_free(w);
		rpc_reply(px, request, status, NULL);
		return;
	}
	w->next = px->modex;
	px->modex = w;
	if (w->key) /* before libpmix gets the request: then no commit goes unseen */
		trace_watch_commits(px->trace, on_commit_there, px->calls);
	query_again(px, &px->modex);
}

void modex_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	struct modex_wait **at = &px->modex, *w;

	while ((w = *at)) {
		if (w->proc.rank == rank && PMIX_CHECK_NSPACE(w->proc.nspace, nspace->name))
			end_wait(px, at, w->data ? w->status : PMIX_ERR_NOT_FOUND);
		else
			at = &w->next;
	}
}

void modex_leave(struct px *px)
{
	while (px->modex)
		end_wait(px, &px->modex, px->modex->data ? px->modex->status : PMIX_ERR_NOT_FOUND);
}

void modex_close(struct px *px)
{
	while (px->modex)
		end_wait(px, &px->modex, PMIX_ERR_LOST_CONNECTION);
}
