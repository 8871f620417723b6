/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tools that want the output of ranks.
 */
#include <string.h>

#include "mpi/pmix/iof.h"

/* ---- pulls ----------------------------------------------------------------------------------
 *
 * Who wants the tasks' output on this node. libpmix says what is asked for, but not by whom, and of
 * a request that ends not which it was. So what is asked for goes on until all that was asked has
 * ended, or all tools have gone; in between, what perhaps nobody wants goes on for DOUBTS_MAX bytes
 * (libpmix 4.2 keeps what it can't deliver).
 */

#define DOUBTS_MAX ((uint64_t)16 << 20)

struct tool {
	struct tool *next;
	pmix_proc_t proc;
};

struct pull {
	struct pull *next;
	pmix_proc_t *procs;
	size_t nprocs;
	pmix_iof_channel_t channels;
	pmix_proc_t owner; /* of a spawn: who gets it; else nobody */
	uint64_t number;
};

/* A request to nodes for the output of ranks; streams 0: for nothing any more. */
static bool pack_pull(
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

/* Notifies all nodes that nothing is wanted here any more. */
static void iof_pull_stop(struct iof *iof)
{
	struct px *px = iof->px;
	pmix_data_buffer_t args;

	if (pack_pull(&args, 0, NULL, 0))
		rpc_notify(px, RPC_STREAMS, &args);
	if (pack_pull(&args, 0, NULL, 0))
		rpc_call(px, px->node, RPC_STREAMS, &args, on_stopped, NULL, 0);
}

static void pull_free(struct pull *pull)
{
	free(pull->procs);
	free(pull);
}

static struct pull *add_pull(
	struct iof *iof, const pmix_proc_t *procs, size_t count, pmix_iof_channel_t channels)
{
	struct pull *pull = calloc(1, sizeof(*pull));

	if (!pull)
		return NULL;
	pull->procs = calloc(count, sizeof(*procs));
	if (!pull->procs) {
		free(pull);
		return NULL;
	}
	memcpy(pull->procs, procs, count * sizeof(*procs));
	pull->nprocs = count;
	pull->channels = channels;
	pull->number = ++iof->used;
	pull->next = iof->pulls;
	iof->pulls = pull;
	return pull;
}

/* What the call asks for is wanted from now on, by the number that comes back; 0: no memory. */
static uint64_t iof_pulls_add(struct iof *iof, const struct call *call)
{
	const struct pull *pull =
		add_pull(iof, call->procs, call->nprocs, (pmix_iof_channel_t)call->code);

	return pull ? pull->number : 0;
}

static bool has_owner(const struct pull *pull)
{
	return pull->owner.nspace[0] != '\0';
}

static bool covers(const struct pull *pull, const pmix_proc_t *proc, pmix_iof_channel_t channel)
{
	if (!(pull->channels & channel))
		return false;
	for (size_t i = 0; i < pull->nprocs; i++) {
		if (PMIX_CHECK_PROCID(&pull->procs[i], proc))
			return true;
	}
	return false;
}

bool iof_is_wanted(
	struct iof *iof, const pmix_proc_t *proc, pmix_iof_channel_t channel, size_t size)
{
	size_t n = 0;

	for (const struct pull *pull = iof->pulls; pull; pull = pull->next) {
		if (!covers(pull, proc, channel))
			continue;
		if (has_owner(pull))
			return true;
		n++;
	}
	if (n == 0 || n > iof->ended)
		return n > 0;
	iof->doubts += size;
	if (iof->doubts <= DOUBTS_MAX)
		return true;
	if (!iof->reported_doubts)
		serve_log(iof->px->serve, LOG_LEVEL_WARNING,
			"PMIx tools have ended some of their requests for output, and libpmix does "
			"not say which: what of the rest may be unwanted is no longer delivered");
	iof->reported_doubts = true;
	return false;
}

/* Those of nobody that is known are left out with the last of them. */
static void drop_pulls(struct iof *iof, const pmix_proc_t *owner)
{
	struct pull **at = &iof->pulls, *pull;
	bool had = iof->pulls;

	while ((pull = *at)) {
		if (owner ? !has_owner(pull) || !PMIX_CHECK_PROCID(&pull->owner, owner)
			  : has_owner(pull)) {
			at = &pull->next;
			continue;
		}
		*at = pull->next;
		pull_free(pull);
	}
	if (!owner) {
		iof->ended = 0;
		iof->doubts = 0;
		iof->reported_doubts = false;
	}
	if (!had || iof->pulls)
		return;
	iof_deliver_drop(iof);
	iof_pull_stop(iof);
}

/* One of them has ended, whichever. */
static void iof_pulls_end_one(struct iof *iof)
{
	size_t n = 0;

	for (const struct pull *pull = iof->pulls; pull; pull = pull->next)
		n += !has_owner(pull);
	if (n == 0)
		return;
	if (++iof->ended >= n)
		drop_pulls(iof, NULL);
}

/* It can't be had. */
static void iof_pulls_forget(struct iof *iof, uint64_t number)
{
	struct pull **at = &iof->pulls, *pull;

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	pull = *at;
	if (!pull)
		return; /* the tools have gone meanwhile */
	*at = pull->next;
	pull_free(pull);
	if (!iof->pulls)
		iof_pull_stop(iof);
}

/* ---- spawns whose output somebody gets ---- */

int iof_add_spawn(struct px *px, const char *nspace, const pmix_proc_t *owner, unsigned streams)
{
	struct pull *pull;
	pmix_proc_t all;

	PMIX_LOAD_PROCID(&all, nspace, PMIX_RANK_WILDCARD);
	pull = add_pull(px->iof, &all, 1,
		(pmix_iof_channel_t)((streams & LINK_STDOUT ? PMIX_FWD_STDOUT_CHANNEL : 0) |
			(streams & LINK_STDERR ? PMIX_FWD_STDERR_CHANNEL : 0)));
	if (!pull)
		return -ENOMEM;
	pull->owner = *owner;
	iof_sockets_changed(px->iof);
	return 0;
}

void iof_drop_spawn(struct px *px, const char *nspace)
{
	struct pull **at = &px->iof->pulls, *pull;

	while ((pull = *at)) {
		if (!has_owner(pull) || !PMIX_CHECK_NSPACE(pull->procs[0].nspace, nspace)) {
			at = &pull->next;
			continue;
		}
		*at = pull->next;
		pull_free(pull);
	}
}

/* ---- tools and ranks that come and go ---- */

void iof_tool_connected(struct px *px, const pmix_proc_t *proc)
{
	struct tool *tool = calloc(1, sizeof(*tool));

	if (!tool)
		return; /* it can't pull, and is told so */
	tool->proc = *proc;
	tool->next = px->iof->tools;
	px->iof->tools = tool;
}

void iof_proc_gone(struct px *px, const pmix_proc_t *proc)
{
	struct tool **at = &px->iof->tools, *tool;

	drop_pulls(px->iof, proc);
	while (*at && !PMIX_CHECK_PROCID(&(*at)->proc, proc))
		at = &(*at)->next;
	tool = *at;
	if (!tool)
		return;
	*at = tool->next;
	free(tool);
	if (!px->iof->tools)
		drop_pulls(px->iof, NULL);
	iof_sockets_changed(px->iof);
	iof_deliver_next(px->iof);
}

/* ---- life ---- */

void iof_pulls_close(struct iof *iof)
{
	struct tool *tool;
	struct pull *pull;

	while ((pull = iof->pulls)) {
		iof->pulls = pull->next;
		pull_free(pull);
	}
	while ((tool = iof->tools)) {
		iof->tools = tool->next;
		free(tool);
	}
}

/* ---- the request of a tool ------------------------------------------------------------------
 *
 * A tool's request for output: all nodes that have some of the ranks are asked to send it.
 */

struct pull_request {
	struct px *px;
	struct call *call;
	uint64_t pull;    /* its number */
	uint32_t pending; /* nodes */
	bool some;
	pmix_status_t status; /* the first failure, but for those that have nothing to copy */
};

static void pull_request_release(struct pull_request *a)
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

static void pull_request_node_done(struct pull_request *a, pmix_status_t status)
{
	a->some |= status == PMIX_SUCCESS;
	if (status != PMIX_SUCCESS &&
		(a->status == PMIX_SUCCESS || a->status == PMIX_ERR_NOT_SUPPORTED))
		a->status = status;
	pull_request_release(a);
}

static void on_pull_node_done(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)result;
	pull_request_node_done(userdata, status);
}

static uint8_t streams_of(pmix_iof_channel_t channels)
{
	return (uint8_t)((channels & PMIX_FWD_STDOUT_CHANNEL ? LINK_STDOUT : 0) |
		(channels & PMIX_FWD_STDERR_CHANNEL ? LINK_STDERR : 0));
}

static void pull_from_nodes(struct px *px, struct pull_request *a, const struct bitset *nodes)
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
		if (pack_pull(&args, streams, call->procs, call->nprocs))
			rpc_call(px, node, RPC_STREAMS, &args, on_pull_node_done, a,
				px->host->timeout_ms);
		else
			pull_request_node_done(a, PMIX_ERR_NOMEM);
	}
	pull_request_release(a);
}

/* The pull is there before the first byte comes. */
static pmix_status_t begin_pull(struct px *px, struct call *call)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct pull_request *a;
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
	*a = (struct pull_request){.px = px, .call = call};
	a->pull = iof_pulls_add(px->iof, call);
	if (!a->pull) {
		free(a);
		return PMIX_ERR_NOMEM;
	}
	iof_sockets_changed(px->iof);
	pull_from_nodes(px, a, &nodes);
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
