/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of functions that libpmix calls.
 */
#include <string.h>

#include "mpi/pmix/call.h"
#include "mpi/pmix/px.h"

/* ---- what is refused ------------------------------------------------------------------------
 *
 * Not supported for any caller. They are there all the same: what a
 * client gets for one that is NULL, each version of libpmix decides for itself.
 */

/* The step's resources are the scheduler's, and an agent knows none. */
static pmix_status_t allocate(const pmix_proc_t *client, pmix_alloc_directive_t directive,
	const pmix_info_t data[], size_t ndata, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	(void)client;
	(void)directive;
	(void)data;
	(void)ndata;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

/* libpmix watches heartbeats and files itself; this is what it can't. */
static pmix_status_t monitor(const pmix_proc_t *requestor, const pmix_info_t *what,
	pmix_status_t error, const pmix_info_t directives[], size_t ndirs,
	pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	(void)requestor;
	(void)what;
	(void)error;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t get_credential(const pmix_proc_t *proc, const pmix_info_t directives[],
	size_t ndirs, pmix_credential_cbfunc_t cbfunc, void *cbdata)
{
	(void)proc;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t validate_credential(const pmix_proc_t *proc, const pmix_byte_object_t *cred,
	const pmix_info_t directives[], size_t ndirs, pmix_validation_cbfunc_t cbfunc, void *cbdata)
{
	(void)proc;
	(void)cred;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t fabric(const pmix_proc_t *requestor, pmix_fabric_operation_t op,
	const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	(void)requestor;
	(void)op;
	(void)directives;
	(void)ndirs;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_SUPPORTED;
}

/* What is refused for every caller. */
static void refused_fill(pmix_server_module_t *table)
{
	table->allocate = allocate;
	table->monitor = monitor;
	table->get_credential = get_credential;
	table->validate_credential = validate_credential;
	table->fabric = fabric;
}

/* ---- the upcalls ----------------------------------------------------------------------------
 *
 * The upcalls: each copies its arguments and queues them for the loop. Nothing else here, but for
 * what is refused at once, runs on libpmix's threads.
 */

/* libpmix passes nothing of ours to most upcalls, and knows one host a process. */
static struct calls *queue;

#define HAND_OVER(call, complete)                                                                  \
	do {                                                                                       \
		if (!(call) || !queue || !(complete)) {                                            \
			(void)call_free(call);                                                     \
			return PMIX_ERR_NOMEM;                                                     \
		}                                                                                  \
		call_hand_over(queue, call);                                                       \
		return PMIX_SUCCESS;                                                               \
	} while (0)

static struct call *new_op(call_fn run, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(run, CALL_OP, cbdata);

	if (call)
		call->give.op = cbfunc;
	return call;
}

static struct call *new_info(call_fn run, pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(run, CALL_INFO, cbdata);

	if (call)
		call->give.info = cbfunc;
	return call;
}

static bool copy_proc(struct call *call, const pmix_proc_t *proc)
{
	if (proc)
		call->proc = *proc;
	return true;
}

/* ---- clients ---- */

static pmix_status_t client_connected(const pmix_proc_t *proc, void *server_object,
	pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_connected, cbfunc, cbdata);

	(void)server_object;
	(void)info;
	(void)ninfo;
	HAND_OVER(call, copy_proc(call, proc));
}

static pmix_status_t client_finalized(
	const pmix_proc_t *proc, void *server_object, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_finalized, cbfunc, cbdata);

	(void)server_object;
	HAND_OVER(call, copy_proc(call, proc));
}

static pmix_status_t abort_fn(const pmix_proc_t *proc, void *server_object, int status,
	const char msg[], pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_abort, cbfunc, cbdata);

	(void)server_object;
	if (call)
		call->code = status;
	HAND_OVER(call,
		copy_proc(call, proc) && call_copy_text(call, msg) &&
			call_copy_procs(call, procs, nprocs));
}

/* ---- collectives and modex ---- */

/* Takes data, as libpmix expects of a host that takes the call. */
static pmix_status_t fence_nb(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
	size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_fence, CALL_MODEX, cbdata);

	if (!call) {
		free(data);
		return PMIX_ERR_NOMEM;
	}
	call->give.modex = cbfunc;
	call->data = data;
	call->size = data ? ndata : 0;
	HAND_OVER(call,
		call_copy_procs(call, procs, nprocs) && call_copy_info(call, info, ninfo, NULL, 0));
}

static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
	pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_direct_modex, CALL_MODEX, cbdata);

	if (call)
		call->give.modex = cbfunc;
	HAND_OVER(call, copy_proc(call, proc) && call_copy_info(call, info, ninfo, NULL, 0));
}

static pmix_status_t connect_fn(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
	size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_connect, cbfunc, cbdata);

	HAND_OVER(call,
		call_copy_procs(call, procs, nprocs) && call_copy_info(call, info, ninfo, NULL, 0));
}

static pmix_status_t disconnect_fn(const pmix_proc_t procs[], size_t nprocs,
	const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_disconnect, cbfunc, cbdata);

	HAND_OVER(call,
		call_copy_procs(call, procs, nprocs) && call_copy_info(call, info, ninfo, NULL, 0));
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
static pmix_status_t group_left(const char *name)
{
	struct call *call = call_new(px_group_left, CALL_NOTE, NULL);

	if (!call || !queue || !call_copy_text(call, name)) {
		(void)call_free(call);
		return PMIX_ERR_NOMEM;
	}
	call_hand_over(queue, call);
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t group(pmix_group_operation_t op, char grp[], const pmix_proc_t procs[],
	size_t nprocs, const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
	void *cbdata)
{
	struct call *call;

	if (op == PMIX_GROUP_DESTRUCT && is_local(directives, ndirs))
		return group_left(grp);
	call = new_info(px_group, cbfunc, cbdata);
	if (call)
		call->code = op;
	HAND_OVER(call,
		call_copy_text(call, grp) && call_copy_procs(call, procs, nprocs) &&
			call_copy_info(call, directives, ndirs, NULL, 0));
}

/* ---- published data ---- */

static pmix_status_t publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
	pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_publish, cbfunc, cbdata);

	HAND_OVER(call, copy_proc(call, proc) && call_copy_info(call, info, ninfo, NULL, 0));
}

static pmix_status_t lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
	size_t ninfo, pmix_lookup_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_lookup, CALL_LOOKUP, cbdata);

	if (call)
		call->give.lookup = cbfunc;
	HAND_OVER(call,
		copy_proc(call, proc) && call_copy_keys(call, keys) &&
			call_copy_info(call, info, ninfo, NULL, 0));
}

static pmix_status_t unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[],
	size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_unpublish, cbfunc, cbdata);

	HAND_OVER(call,
		copy_proc(call, proc) && call_copy_keys(call, keys) &&
			call_copy_info(call, info, ninfo, NULL, 0));
}

/* ---- spawn ---- */

static pmix_status_t spawn(const pmix_proc_t *proc, const pmix_info_t job_info[], size_t ninfo,
	const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_spawn, CALL_SPAWN, cbdata);

	if (call)
		call->give.spawn = cbfunc;
	HAND_OVER(call,
		copy_proc(call, proc) && call_copy_apps(call, apps, napps) &&
			call_copy_info(call, job_info, ninfo, NULL, 0));
}

/* ---- events ---- */

/* All events that there are come to every server of the step: nothing needs to be requested. */
static pmix_status_t register_events(pmix_status_t *codes, size_t ncodes, const pmix_info_t info[],
	size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	(void)codes;
	(void)ncodes;
	(void)info;
	(void)ninfo;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t deregister_events(
	pmix_status_t *codes, size_t ncodes, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	(void)codes;
	(void)ncodes;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_OPERATION_SUCCEEDED;
}

/* Done as soon as it is queued: libpmix 4.2 forgets the caller if the answer is "later", and then
 * uses what it has freed. */
static pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t *source,
	pmix_data_range_t range, pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t cbfunc,
	void *cbdata)
{
	struct call *call = call_new(px_notify, CALL_NOTE, NULL);

	(void)cbfunc;
	(void)cbdata;
	if (!call || !queue || !call_copy_info(call, info, ninfo, NULL, 0)) {
		(void)call_free(call);
		return PMIX_ERR_NOMEM;
	}
	call->code = code;
	call->range = range;
	(void)copy_proc(call, source);
	call_hand_over(queue, call);
	return PMIX_OPERATION_SUCCEEDED;
}

/* libpmix makes one event of what it finds at about the same time: source is the first rank,
 * and each further one an info. */
static bool copy_sources(
	struct call *call, const pmix_proc_t *source, const pmix_info_t *info, size_t ninfo)
{
	call->procs = calloc(ninfo + 1, sizeof(*call->procs));
	if (!call->procs)
		return false;
	if (source)
		call->procs[call->nprocs++] = *source;
	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], PMIX_PROCID) && info[i].value.type == PMIX_PROC)
			call->procs[call->nprocs++] = *info[i].value.data.proc;
	}
	return true;
}

void module_on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[],
	size_t ninfo, pmix_info_t results[], size_t nresults,
	pmix_event_notification_cbfunc_fn_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_own_event, CALL_NOTE, NULL);

	(void)id;
	(void)results;
	(void)nresults;
	if (call && queue && copy_sources(call, source, info, ninfo)) {
		call->code = status;
		call_hand_over(queue, call);
	} else {
		(void)call_free(call);
	}
	if (cbfunc)
		cbfunc(PMIX_SUCCESS, NULL, 0, NULL, NULL, cbdata);
}

/* ---- the rest ---- */

static pmix_status_t query(pmix_proc_t *proc, pmix_query_t *queries, size_t nqueries,
	pmix_info_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_info(px_query, cbfunc, cbdata);

	HAND_OVER(call, copy_proc(call, proc) && call_copy_queries(call, queries, nqueries));
}

static void tool_connected(
	pmix_info_t *info, size_t ninfo, pmix_tool_connection_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_tool, CALL_TOOL, cbdata);

	if (call)
		call->give.tool = cbfunc;
	if (!call || !queue || !call_copy_info(call, info, ninfo, NULL, 0)) {
		(void)call_free(call);
		cbfunc(PMIX_ERR_NOMEM, NULL, cbdata);
		return;
	}
	call_hand_over(queue, call);
}

static void log_fn(const pmix_proc_t *client, const pmix_info_t data[], size_t ndata,
	const pmix_info_t directives[], size_t ndirs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_log, cbfunc, cbdata);

	if (!call || !queue || !copy_proc(call, client) ||
		!call_copy_info(call, data, ndata, directives, ndirs)) {
		(void)call_free(call);
		if (cbfunc)
			cbfunc(PMIX_ERR_NOMEM, cbdata);
		return;
	}
	call_hand_over(queue, call);
}

static pmix_status_t job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
	size_t ntargets, const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t cbfunc,
	void *cbdata)
{
	struct call *call = new_info(px_control, cbfunc, cbdata);

	HAND_OVER(call,
		copy_proc(call, requestor) && call_copy_procs(call, targets, ntargets) &&
			call_copy_info(call, directives, ndirs, NULL, 0));
}

/* ---- streams ---- */

/* To end them, too: with a directive, and without procs. */
static pmix_status_t iof_pull(const pmix_proc_t procs[], size_t nprocs,
	const pmix_info_t directives[], size_t ndirs, pmix_iof_channel_t channels,
	pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = call_new(px_pull, CALL_NOTE, NULL);
	struct pending *pending = pending_new();
	pmix_status_t status;

	(void)cbfunc;
	(void)cbdata;
	if (!call || !pending || !queue || !call_copy_procs(call, procs, nprocs) ||
		!call_copy_info(call, directives, ndirs, NULL, 0)) {
		(void)call_free(call);
		if (!pending)
			return PMIX_ERR_NOMEM;
		pending_answer(pending, PMIX_ERR_NOMEM);
		return pending_wait(pending, PMIX_ERR_NOMEM);
	}
	call->code = channels;
	call->pending = pending;
	call_hand_over(queue, call);
	status = pending_wait(pending, PMIX_SUCCESS);
	return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}

static bool copy_bytes(struct call *call, const pmix_byte_object_t *bytes)
{
	if (!bytes || bytes->size == 0 || !bytes->bytes)
		return true;
	call->data = malloc(bytes->size);
	if (!call->data)
		return false;
	memcpy(call->data, bytes->bytes, bytes->size);
	call->size = bytes->size;
	return true;
}

static pmix_status_t push_stdin(const pmix_proc_t *source, const pmix_proc_t targets[],
	size_t ntargets, const pmix_info_t directives[], size_t ndirs, const pmix_byte_object_t *bo,
	pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	struct call *call = new_op(px_push, cbfunc, cbdata);

	HAND_OVER(call,
		copy_proc(call, source) && call_copy_procs(call, targets, ntargets) &&
			call_copy_info(call, directives, ndirs, NULL, 0) && copy_bytes(call, bo));
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
	refused_fill(&module);
	queue = calls;
	return &module;
}

void module_close(void)
{
	queue = NULL;
}
