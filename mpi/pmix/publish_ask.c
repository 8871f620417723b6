/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Publish, lookup and unpublish, where a rank has called them: they are put to node 0 (publish.c).
 */
#include "mpi/pmix/rpc.h"

static void on_status(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)result;
	call_answer(userdata, status);
}

void px_publish(struct px *px, struct call *call)
{
	pmix_data_buffer_t args;

	PMIX_DATA_BUFFER_CONSTRUCT(&args);
	if (!pack(&args, &call->proc, 1, PMIX_PROC) ||
		!pack_infos(&args, call->info, call->ninfo)) {
		PMIX_DATA_BUFFER_DESTRUCT(&args);
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	rpc_call(px, 0, RPC_PUBLISH, &args, on_status, call, px->host->timeout_ms);
}

/* What lookup and unpublish say. */
static bool pack_lookup(struct px *px, struct call *call, pmix_data_buffer_t *args)
{
	const pmix_info_t *wait = call_find(call, PMIX_WAIT), *range = call_find(call, PMIX_RANGE);
	uint8_t range_value = range ? range->value.data.range : PMIX_RANGE_SESSION;
	uint64_t timeout_ms = call_timeout_ms(call, px->host->timeout_ms);
	size_t wanted = 0, count = 0;
	int64_t number;

	while (call->keys && call->keys[count])
		count++;
	if (wait) /* for all of them, or for so many; libraries also write a plain "true" */
		wanted = info_number(wait, &number) && number > 0 ? (size_t)number : count;
	if (wait && wait->value.type == PMIX_BOOL && !wait->value.data.flag)
		wanted = 0;
	if (!pack(args, &call->proc, 1, PMIX_PROC) || !pack(args, &range_value, 1, PMIX_UINT8) ||
		!pack(args, &wanted, 1, PMIX_SIZE) || !pack(args, &timeout_ms, 1, PMIX_UINT64) ||
		!pack(args, &count, 1, PMIX_SIZE))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!pack(args, &call->keys[i], 1, PMIX_STRING))
			return false;
	}
	return true;
}

static pmix_status_t take_found(struct call *call, pmix_data_buffer_t *result)
{
	size_t count;
	pmix_info_t info;

	if (!result || !unpack(result, &count, 1, PMIX_SIZE) || count > PACK_MAX || count == 0)
		return PMIX_ERR_UNPACK_FAILURE;
	PMIX_PDATA_CREATE(call->found, count);
	if (!call->found)
		return PMIX_ERR_NOMEM;
	call->nfound = count;
	for (size_t i = 0; i < count; i++) {
		PMIX_INFO_CONSTRUCT(&info);
		if (!unpack(result, &call->found[i].proc, 1, PMIX_PROC) ||
			!unpack(result, &info, 1, PMIX_INFO))
			return PMIX_ERR_UNPACK_FAILURE;
		PMIX_LOAD_KEY(call->found[i].key, info.key);
		call->found[i].value = info.value; /* moved */
	}
	return PMIX_SUCCESS;
}

static void on_found(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	struct call *call = userdata;

	(void)px;
	if (status == PMIX_SUCCESS)
		status = take_found(call, result);
	call_answer(call, status);
}

static void ask(struct px *px, struct call *call, enum rpc_op op, rpc_done_fn done)
{
	pmix_data_buffer_t args;

	PMIX_DATA_BUFFER_CONSTRUCT(&args);
	if (!pack_lookup(px, call, &args)) {
		PMIX_DATA_BUFFER_DESTRUCT(&args);
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	/* The deadline is node 0's. */
	rpc_call(px, 0, op, &args, done, call, 0);
}

void px_lookup(struct px *px, struct call *call)
{
	ask(px, call, RPC_LOOKUP, on_found);
}

void px_unpublish(struct px *px, struct call *call)
{
	ask(px, call, RPC_UNPUBLISH, on_status);
}
