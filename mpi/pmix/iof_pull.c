/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tools that want the output of ranks.
 */
#include <string.h>

#include "mpi/pmix/iof.h"

/* ---- pulls ----------------------------------------------------------------------------------
 *
 * libpmix reports a tool's request for output, but not whose it is, and of one that ends not which
 * it was. So output is delivered until all requests have ended or all tools have gone; in between,
 * what perhaps no tool wants is delivered for DOUBTS_MAX bytes (libpmix 4.2 stores what it can't
 * deliver).
 */

#define DOUBTS_MAX ((uint64_t)16 << 20)

struct tool {
	struct tool *next;
	pmix_proc_t proc;
};

struct pull {
	struct pull *next;
	pmix_iof_channel_t channels;
	pmix_proc_t owner;          /* of a spawn: who gets it; else nobody */
	const struct call *request; /* of a tool, which is not answered yet; else NULL */
	size_t nprocs;
	pmix_proc_t procs[];
};

static void pack_stop(struct message *args)
{
	uint8_t none = 0;

	pack(args, &none, PMIX_UINT8);
	pack_procs(args, NULL, 0);
}

static void on_stopped(
	_unused_ struct px *px, _unused_ void *userdata, _unused_ const struct rpc_result *result)
{
}

/* Notifies all nodes, this one too, that nothing is wanted here any more. */
static void iof_pull_stop(struct iof *iof)
{
	struct message others = MESSAGE_INIT, own = MESSAGE_INIT;

	pack_stop(&others);
	rpc_notify(iof->px, RPC_STREAMS, &others);
	pack_stop(&own);
	rpc_call(iof->px, iof->px->node, RPC_STREAMS, &own, on_stopped, NULL, 0);
}

static struct pull *add_pull(
	struct iof *iof, const pmix_proc_t *procs, size_t count, pmix_iof_channel_t channels)
{
	struct pull *pull = calloc(1, sizeof(*pull) + count * sizeof(*procs));

	if (!pull)
		return NULL;
	memcpy(pull->procs, procs, count * sizeof(*procs));
	pull->nprocs = count;
	pull->channels = channels;
	pull->next = iof->pulls;
	iof->pulls = pull;
	iof->used++;
	return pull;
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
			"not report which: what of the rest may be unwanted is no longer delivered");
	iof->reported_doubts = true;
	return false;
}

static void remove_pull(struct pull **at)
{
	struct pull *pull = *at;

	*at = pull->next;
	free(pull);
}

/* Those of the owner; NULL: those that have none, once the last of them has ended. */
static void drop_pulls(struct iof *iof, const pmix_proc_t *owner)
{
	bool had = iof->pulls;

	for (struct pull **at = &iof->pulls; *at;) {
		if (owner ? has_owner(*at) && PMIX_CHECK_PROCID(&(*at)->owner, owner)
			  : !has_owner(*at))
			remove_pull(at);
		else
			at = &(*at)->next;
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
	for (struct pull **at = &px->iof->pulls; *at;) {
		if (has_owner(*at) && PMIX_CHECK_NSPACE((*at)->procs[0].nspace, nspace))
			remove_pull(at);
		else
			at = &(*at)->next;
	}
}

/* ---- tools and ranks that come and go ---- */

void iof_tool_connected(struct px *px, const pmix_proc_t *proc)
{
	struct tool *tool = calloc(1, sizeof(*tool));

	if (!tool)
		return; /* its pulls are refused */
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

	while (iof->pulls)
		remove_pull(&iof->pulls);
	while ((tool = iof->tools)) {
		iof->tools = tool->next;
		free(tool);
	}
}

/* ---- the request of a tool ----
 *
 * All nodes that have some of the ranks are requested to send their output.
 */

static uint8_t streams_of(pmix_iof_channel_t channels)
{
	return (uint8_t)((channels & PMIX_FWD_STDOUT_CHANNEL ? LINK_STDOUT : 0) |
		(channels & PMIX_FWD_STDERR_CHANNEL ? LINK_STDERR : 0));
}

/* Some nodes may have nothing to copy. */
static void on_pulled(struct px *px, void *userdata, pmix_status_t status, uint32_t succeeded)
{
	struct pull **at = px->iof ? &px->iof->pulls : NULL;

	if (status == PMIX_ERR_NOT_SUPPORTED && succeeded > 0)
		status = PMIX_SUCCESS;
	while (at && *at && (*at)->request != userdata)
		at = &(*at)->next;
	if (at && *at && status == PMIX_SUCCESS) {
		(*at)->request = NULL;
	} else if (at && *at) { /* else the tools have gone meanwhile */
		remove_pull(at);
		if (!px->iof->pulls)
			iof_pull_stop(px->iof);
	}
	call_answer(userdata, status);
}

/* The pull is there before the first byte comes. */
static pmix_status_t begin_pull(struct px *px, struct call *call)
{
	pmix_iof_channel_t channels = (pmix_iof_channel_t)call->code;
	uint8_t streams = streams_of(channels);
	struct message args = MESSAGE_INIT;
	struct pull *pull;

	if (call->nprocs == 0 || !streams)
		return PMIX_ERR_BAD_PARAM;
	/* Whose it is libpmix does not report otherwise. */
	if (!px->iof->tools)
		return PMIX_ERR_NOT_SUPPORTED;
	pull = add_pull(px->iof, call->procs, call->nprocs, channels);
	if (!pull)
		return PMIX_ERR_NOMEM;
	pull->request = call;
	iof_sockets_changed(px->iof);
	pack(&args, &streams, PMIX_UINT8);
	pack_procs(&args, call->procs, call->nprocs);
	rpc_call_ranks(px, call->procs, call->nprocs, RPC_STREAMS, &args, on_pulled, call,
		px->host->timeout_ms);
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
