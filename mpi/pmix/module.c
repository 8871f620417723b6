/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of functions that libpmix calls, on its own threads: each copies its arguments and
 * queues them for the loop. What is not supported for any caller (allocations, credentials,
 * fabrics, what libpmix can't monitor itself) is NULL there: every libpmix from 4.2 on answers it
 * with PMIX_ERR_NOT_SUPPORTED.
 */
#include <string.h>

#include "mpi/pmix/call.h"
#include "mpi/pmix/px.h"

/* libpmix passes nothing of ours to most upcalls, and knows one host a process. */
static struct calls *queue;

/* ---- copies of the arguments ----
 *
 * Deep ones, as libpmix frees its own when the upcall returns. False: no memory, or no call for the
 * lack of it; what was copied by then goes with the call.
 */

static bool copy_bytes(struct call *call, const pmix_byte_object_t *bytes)
{
	if (!call || !bytes || bytes->size == 0 || !bytes->bytes)
		return call;
	call->data = malloc(bytes->size);
	if (!call->data)
		return false;
	memcpy(call->data, bytes->bytes, bytes->size);
	call->size = bytes->size;
	return true;
}

static bool copy_procs(struct call *call, const pmix_proc_t *procs, size_t count)
{
	if (!call || !procs || count == 0)
		return call;
	call->procs = calloc(count, sizeof(*procs));
	if (!call->procs)
		return false;
	memcpy(call->procs, procs, count * sizeof(*procs));
	call->nprocs = count;
	return true;
}

static bool duplicate(const char *from, char **ret_copy)
{
	*ret_copy = from ? strdup(from) : NULL;
	return *ret_copy || !from;
}

static bool copy_text(struct call *call, const char *text)
{
	return call && duplicate(text, &call->text);
}

static bool duplicate_vector(char *const *from, char ***ret_copy)
{
	size_t n = 0;

	while (from && from[n])
		n++;
	*ret_copy = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; *ret_copy && i < n; i++) {
		if (!duplicate(from[i], &(*ret_copy)[i]))
			return false;
	}
	return *ret_copy;
}

static bool copy_keys(struct call *call, char *const *keys)
{
	return call && duplicate_vector(keys, &call->keys);
}

static bool duplicate_infos(const pmix_info_t *a, size_t a_count, const pmix_info_t *b,
	size_t b_count, pmix_info_t **ret_copy, size_t *ret_count)
{
	size_t n = (a ? a_count : 0) + (b ? b_count : 0), at = 0;
	pmix_info_t *copy;

	if (n == 0)
		return true;
	PMIX_INFO_CREATE(copy, n);
	if (!copy)
		return false;
	for (size_t i = 0; a && i < a_count; i++)
		PMIX_INFO_XFER(&copy[at++], &a[i]);
	for (size_t i = 0; b && i < b_count; i++)
		PMIX_INFO_XFER(&copy[at++], &b[i]);
	*ret_copy = copy;
	*ret_count = n;
	return true;
}

static bool copy_info(struct call *call, const pmix_info_t *info, size_t count)
{
	return call && duplicate_infos(info, count, NULL, 0, &call->info, &call->ninfo);
}

static bool copy_apps(struct call *call, const pmix_app_t *from, size_t count)
{
	if (!call || count == 0)
		return call;
	PMIX_APP_CREATE(call->apps, count);
	if (!call->apps)
		return false;
	call->napps = count;
	for (pmix_app_t *to = call->apps; to < call->apps + count; to++, from++) {
		to->maxprocs = from->maxprocs;
		if (!duplicate(from->cmd, &to->cmd) || !duplicate(from->cwd, &to->cwd) ||
			!duplicate_vector(from->argv, &to->argv) ||
			!duplicate_vector(from->env, &to->env) ||
			!duplicate_infos(from->info, from->ninfo, NULL, 0, &to->info, &to->ninfo))
			return false;
	}
	return true;
}

static bool copy_queries(struct call *call, const pmix_query_t *from, size_t count)
{
	if (!call || count == 0)
		return call;
	PMIX_QUERY_CREATE(call->queries, count);
	if (!call->queries)
		return false;
	call->nqueries = count;
	for (pmix_query_t *to = call->queries; to < call->queries + count; to++, from++) {
		if (!duplicate_vector(from->keys, &to->keys) ||
			!duplicate_infos(from->qualifiers, from->nqual, NULL, 0, &to->qualifiers,
				&to->nqual))
			return false;
	}
	return true;
}

/* libpmix makes one event of what it finds at about the same time: source is the first rank,
 * and each further one an info. */
static bool copy_sources(
	struct call *call, const pmix_proc_t *source, const pmix_info_t *info, size_t ninfo)
{
	if (call)
		call->procs = calloc(ninfo + 1, sizeof(*call->procs));
	if (!call || !call->procs)
		return false;
	if (source)
		call->procs[call->nprocs++] = *source;
	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_PROCID) && info[i].value.type == PMIX_PROC)
			call->procs[call->nprocs++] = *info[i].value.data.proc;
	}
	return true;
}

/* ---- the way to the loop ---- */

/* proc may be NULL. NULL: no memory; the functions here take that for a call. */
static struct call *call_begin(call_fn run, enum call_kind kind, union call_give give, void *cbdata,
	const pmix_proc_t *proc)
{
	struct call *call = call_new(run, kind, cbdata);

	if (call)
		call->give = give;
	if (call && proc)
		call->proc = *proc;
	return call;
}

static struct call *begin_op(
	call_fn run, pmix_op_cbfunc_t cbfunc, void *cbdata, const pmix_proc_t *proc)
{
	return call_begin(run, CALL_OP, (union call_give){.op = cbfunc}, cbdata, proc);
}

static struct call *begin_info(
	call_fn run, pmix_info_cbfunc_t cbfunc, void *cbdata, const pmix_proc_t *proc)
{
	return call_begin(run, CALL_INFO, (union call_give){.info = cbfunc}, cbdata, proc);
}

/* Nobody waits for it. */
static struct call *begin_notice(call_fn run, int code, const pmix_proc_t *proc)
{
	struct call *call = call_begin(run, CALL_NOTE, (union call_give){.op = NULL}, NULL, proc);

	if (call)
		call->code = code;
	return call;
}

/* Takes the call. has_all: all that it needs was copied. */
static pmix_status_t submit(struct call *call, bool has_all)
{
	if (!has_all || !queue) {
		(void)call_free(call);
		return PMIX_ERR_NOMEM;
	}
	call_submit(queue, call);
	return PMIX_SUCCESS;
}

/* The same for what is done as soon as it is queued. */
static pmix_status_t submit_notice(struct call *call, bool has_all)
{
	pmix_status_t status = submit(call, has_all);

	return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}

/* ---- clients ---- */

static pmix_status_t client_connected(const pmix_proc_t *proc, _unused_ void *server_object,
	_unused_ pmix_info_t info[], _unused_ size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_connected, cbfunc, cbdata, proc);

	return submit(call, call);
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, _unused_ void *server_object,
	pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_finalized, cbfunc, cbdata, proc);

	return submit(call, call);
}

static pmix_status_t abort_fn(const pmix_proc_t *proc, _unused_ void *server_object, int status,
	const char msg[], pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_abort, cbfunc, cbdata, proc);

	if (call)
		call->code = status;
	return submit(call, copy_text(call, msg) && copy_procs(call, procs, nprocs));
}

/* ---- collectives and modex ---- */

/* Takes data, as libpmix expects of a host that takes the call. */
static pmix_status_t fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
	size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call =
		call_begin(px_fence, CALL_MODEX, (union call_give){.modex = cbfunc}, cbdata, NULL);

	if (!call) {
		free(data);
		return PMIX_ERR_NOMEM;
	}
	call->data = data;
	call->size = data ? ndata : 0;
	return submit(call, copy_procs(call, procs, nprocs) && copy_info(call, info, ninfo));
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
	pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_begin(
		px_direct_modex, CALL_MODEX, (union call_give){.modex = cbfunc}, cbdata, proc);

	return submit(call, copy_info(call, info, ninfo));
}

static pmix_status_t connect_fn(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
	size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_connect, cbfunc, cbdata, NULL);

	return submit(call, copy_procs(call, procs, nprocs) && copy_info(call, info, ninfo));
}

static pmix_status_t disconnect_fn(const pmix_proc_t procs[], size_t nprocs,
	const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_disconnect, cbfunc, cbdata, NULL);

	return submit(call, copy_procs(call, procs, nprocs) && copy_info(call, info, ninfo));
}

static bool is_local(const pmix_info_t *info, size_t ninfo)
{
	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_GROUP_LOCAL_ONLY))
			return PMIX_INFO_TRUE(&info[i]);
	}
	return false;
}

/* The end of a group that is all here is only a notice: there is nobody to wait for. libpmix 5.0
 * calls twice for it where it is not answered at once as done, and uses what it has freed. */
static pmix_status_t group(pmix_group_operation_t op, char grp[], const pmix_proc_t procs[],
	size_t nprocs, const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
	void *cbdata)
{
	struct call *call;

	if (op == PMIX_GROUP_DESTRUCT && is_local(directives, ndirs)) {
		call = begin_notice(px_group_left, op, NULL);
		return submit_notice(call, copy_text(call, grp));
	}
	call = begin_info(px_group, cbfunc, cbdata, NULL);
	if (call)
		call->code = op;
	return submit(call,
		copy_text(call, grp) && copy_procs(call, procs, nprocs) &&
			copy_info(call, directives, ndirs));
}

/* ---- published data ---- */

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
	pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_publish, cbfunc, cbdata, proc);

	return submit(call, copy_info(call, info, ninfo));
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
	size_t ninfo, pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_begin(
		px_lookup, CALL_LOOKUP, (union call_give){.lookup = cbfunc}, cbdata, proc);

	return submit(call, copy_keys(call, keys) && copy_info(call, info, ninfo));
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
	size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_unpublish, cbfunc, cbdata, proc);

	return submit(call, copy_keys(call, keys) && copy_info(call, info, ninfo));
}

/* ---- spawn ---- */

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t job_info[], size_t ninfo,
	const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call =
		call_begin(px_spawn, CALL_SPAWN, (union call_give){.spawn = cbfunc}, cbdata, proc);

	return submit(call, copy_apps(call, apps, napps) && copy_info(call, job_info, ninfo));
}

/* ---- events ---- */

/* All events that there are come to every server of the step: nothing needs to be requested. */
static pmix_status_t register_events(_unused_ pmix_status_t *codes, _unused_ size_t ncodes,
	_unused_ const pmix_info_t info[], _unused_ size_t ninfo, _unused_ pmix_op_cbfunc_t cbfunc,
	_unused_ void *cbdata)
{
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t deregister_events(_unused_ pmix_status_t *codes, _unused_ size_t ncodes,
	_unused_ pmix_op_cbfunc_t cbfunc, _unused_ void *cbdata)
{
	return PMIX_OPERATION_SUCCEEDED;
}

/* Done as soon as it is queued: libpmix 4.2 forgets the caller if the answer is "later", and then
 * uses what it has freed. */
static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source,
	pmix_data_range_t range, pmix_info_t info[], size_t ninfo, _unused_ pmix_op_cbfunc_t cbfunc,
	_unused_ void *cbdata)
{
	struct call *call = begin_notice(px_notify, code, source);

	if (call)
		call->range = range;
	return submit_notice(call, copy_info(call, info, ninfo));
}

void module_on_event(_unused_ size_t id, pmix_status_t status, const pmix_proc_t *source,
	pmix_info_t info[], size_t ninfo, _unused_ pmix_info_t results[], _unused_ size_t nresults,
	pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
	struct call *call = begin_notice(px_own_event, status, NULL);

	(void)submit(call, copy_sources(call, source, info, ninfo)); /* nobody waits */
	if (cbfunc)
		cbfunc(PMIX_SUCCESS, NULL, 0, NULL, NULL, cbdata);
}

/* ---- the rest ---- */

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries,
	pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_info(px_query, cbfunc, cbdata, proc);

	return submit(call, copy_queries(call, queries, nqueries));
}

static void tool_connected(_unused_ pmix_info_t *info, _unused_ size_t ninfo,
	pmix_tool_connection_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call =
		call_begin(px_tool, CALL_TOOL, (union call_give){.tool = cbfunc}, cbdata, NULL);

	if (submit(call, call) != PMIX_SUCCESS)
		cbfunc(PMIX_ERR_NOMEM, NULL, cbdata);
}

static void log_fn(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata,
	const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_log, cbfunc, cbdata, client);

	if (submit(call,
		    call &&
			    duplicate_infos(data, ndata, directives, ndirs, &call->info,
				    &call->ninfo)) != PMIX_SUCCESS &&
		cbfunc)
		cbfunc(PMIX_ERR_NOMEM, cbdata);
}

static pmix_status_t job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
	size_t ntargets, const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
	void *cbdata)
{
	struct call *call = begin_info(px_control, cbfunc, cbdata, requestor);

	return submit(
		call, copy_procs(call, targets, ntargets) && copy_info(call, directives, ndirs));
}

/* ---- streams ---- */

/* To end them, too: with a directive, and without procs. */
static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t nprocs,
	const pmix_info_t directives[], size_t ndirs, pmix_iof_channel_t channels,
	_unused_ pmix_op_cbfunc_t cbfunc, _unused_ void *cbdata)
{
	struct call *call = begin_notice(px_pull, channels, NULL);
	struct pending *pending = call ? pending_new() : NULL;
	pmix_status_t status;

	if (!pending) {
		(void)call_free(call);
		return PMIX_ERR_NOMEM;
	}
	call->pending = pending;
	/* On failure the call has got its answer, too. */
	(void)submit(call, copy_procs(call, procs, nprocs) && copy_info(call, directives, ndirs));
	status = pending_wait(pending, PMIX_SUCCESS);
	return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}

static pmix_status_t push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[],
	size_t ntargets, const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bo,
	pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = begin_op(px_push, cbfunc, cbdata, source);

	return submit(call,
		copy_procs(call, targets, ntargets) && copy_info(call, directives, ndirs) &&
			copy_bytes(call, bo));
}

/* No listener: libpmix then accepts connections itself. What newer majors added stays NULL, and
 * libpmix answers it as not supported. */
static pmix_server_module_t module = {
	.client_connected2 = client_connected,
	.client_finalized = client_finalized,
	.abort = abort_fn,
	.fence_nb = fence_nb,
	.direct_modex = direct_modex,
	.publish = publish,
	.lookup = lookup,
	.unpublish = unpublish,
	.spawn = spawn,
	.connect = connect_fn,
	.disconnect = disconnect_fn,
	.register_events = register_events,
	.deregister_events = deregister_events,
	.notify_event = notify_event,
	.query = query,
	.tool_connected = tool_connected,
	.log = log_fn,
	.job_control = job_control,
	.iof_pull = iof_pull,
	.push_stdin = push_stdin,
	.group = group,
};

pmix_server_module_t *module_open(struct calls *calls)
{
	queue = calls;
	return &module;
}

void module_close(void)
{
	queue = NULL;
}
