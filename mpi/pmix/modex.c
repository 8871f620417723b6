/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Direct modex: what a rank of another node has put is fetched from that node when it is asked for.
 * There libpmix parks the request until the rank commits; a rank that ends first, or a deadline,
 * ends it here.
 */
#include <string.h>

#include "mpi/pmix/rpc.h"

/* A request of another node that libpmix holds. */
struct modex_wait {
	struct modex_wait *next;
	struct px *px;
	struct rpc_request request;
	pmix_proc_t proc;
	uint64_t id;
};

/* ---- who asks ---- */

static void on_reply(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	struct call *call = userdata;
	pmix_byte_object_t bo = {.bytes = NULL, .size = 0};

	if (status == PMIX_ERR_TIMEOUT)
		serve_log(px->serve, LOG_LEVEL_ERROR,
			"PMIx_Get: rank %u of %s has put nothing until the deadline",
			call->proc.rank, call->proc.nspace);
	if (status == PMIX_SUCCESS && (!result || !unpack(result, &bo, 1, PMIX_BYTE_OBJECT)))
		status = PMIX_ERR_UNPACK_FAILURE;
	call_answer_modex(call, status, bo.bytes, bo.size);
}

void px_direct_modex(struct px *px, struct call *call)
{
	struct nspace_rank *rank = names_rank(&px->names, &call->proc);
	pmix_data_buffer_t args;

	if (!rank || rank->state == RANK_LOST) {
		call_answer_modex(call, PMIX_ERR_NOT_FOUND, NULL, 0);
		return;
	}
	PMIX_DATA_BUFFER_CONSTRUCT(&args);
	if (!pack(&args, &call->proc, 1, PMIX_PROC)) {
		PMIX_DATA_BUFFER_DESTRUCT(&args);
		call_answer_modex(call, PMIX_ERR_NOMEM, NULL, 0);
		return;
	}
	rpc_call(px, rank->node, RPC_MODEX, &args, on_reply, call,
		call_timeout_ms(call, px->host->timeout_ms));
}

/* ---- who is asked ---- */

static void reply(struct px *px, const struct rpc_request *request, pmix_status_t status,
	char *data, size_t size)
{
	pmix_byte_object_t bo = {.bytes = data, .size = size};
	pmix_data_buffer_t result;

	PMIX_DATA_BUFFER_CONSTRUCT(&result);
	if (status == PMIX_SUCCESS && !pack(&result, &bo, 1, PMIX_BYTE_OBJECT))
		status = PMIX_ERR_NOMEM;
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

static void end_wait(
	struct px *px, struct modex_wait **at, pmix_status_t status, char *data, size_t size)
{
	struct modex_wait *w = *at;

	*at = w->next;
	reply(px, &w->request, status, data, size);
	free(w);
}

/* libpmix's answer, in the loop; code is its status, text the number in digits. */
static void on_found(struct px *px, struct call *call)
{
	struct modex_wait **at = find(px, strtoull(call->text, NULL, 10));

	if (*at)
		end_wait(px, at, call->code, call->data, call->size);
	(void)call_free(call);
}

struct asked {
	struct calls *calls;
	uint64_t id;
};

/* On libpmix's thread, which keeps data. */
static void on_found_there(pmix_status_t status, char *data, size_t size, void *cbdata)
{
	struct asked *asked = cbdata;
	struct call *call = call_new(on_found, CALL_NOTE, NULL);

	if (call && asprintf(&call->text, "%llu", (unsigned long long)asked->id) < 0)
		call->text = NULL;
	if (call && call->text) {
		call->code = status;
		call->data = malloc(size ? size : 1);
		if (call->data && size)
			memcpy(call->data, data, size);
		call->size = call->data ? size : 0;
		if (!call->data)
			call->code = PMIX_ERR_NOMEM;
		call_hand_over(asked->calls, call);
	} else {
		(void)call_free(call); /* the deadline of who asks ends it */
	}
	free(asked);
}

static void serve_modex(struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	struct modex_wait *w = calloc(1, sizeof(*w));
	struct asked *asked = calloc(1, sizeof(*asked));
	struct nspace_rank *rank;
	pmix_status_t status = PMIX_ERR_NOMEM;

	if (w && asked) {
		status = unpack(args, &w->proc, 1, PMIX_PROC) ? PMIX_SUCCESS
							      : PMIX_ERR_UNPACK_FAILURE;
		rank = status == PMIX_SUCCESS ? names_rank(&px->names, &w->proc) : NULL;
		if (status == PMIX_SUCCESS && (!rank || rank->state == RANK_LOST))
			status = PMIX_ERR_NOT_FOUND;
	}
	if (status != PMIX_SUCCESS) {
		free(w);
		free(asked);
		rpc_reply(px, request, status, NULL);
		return;
	}
	w->px = px;
	w->request = *request;
	w->id = ++px->contexts;
	w->next = px->modex;
	px->modex = w;
	*asked = (struct asked){.calls = px->calls, .id = w->id};
	status = PMIx_server_dmodex_request(&w->proc, on_found_there, asked);
	if (status != PMIX_SUCCESS) {
		free(asked);
		end_wait(px, find(px, w->id), status, NULL, 0);
	}
}

void modex_open(struct px *px)
{
	rpc_register(px, RPC_MODEX, serve_modex);
}

void modex_rank_gone(struct px *px, const struct nspace *nspace, uint32_t rank)
{
	struct modex_wait **at = &px->modex;

	while (*at) {
		if ((*at)->proc.rank == rank && PMIX_CHECK_NSPACE((*at)->proc.nspace, nspace->name))
			end_wait(px, at, PMIX_ERR_NOT_FOUND, NULL, 0);
		else
			at = &(*at)->next;
	}
}

void modex_close(struct px *px)
{
	while (px->modex)
		end_wait(px, &px->modex, PMIX_ERR_LOST_CONNECTION, NULL, 0);
}
