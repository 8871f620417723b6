/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients and tools that come and go, and what ends or signals ranks, on whatever nodes they are:
 * job control and PMIx_Abort. Their agents send the signals.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "mpi/pmix/rpc.h"

/* ---- clients that come and go ---- */

void px_connected(struct px *px, struct call *call)
{
	struct nspace_rank *rank = names_rank(&px->names, &call->proc);

	px->had_client = true;
	/* Further threads or libraries of a process may call PMIx_Init again, and a rank may come
	 * back after PMIx_Finalize. */
	if (rank &&
		(rank->state == RANK_STARTED || rank->state == RANK_FINALIZED ||
			(rank->state == RANK_CONNECTED && rank->hung_up))) {
		rank->state = RANK_CONNECTED;
		rank->hung_up = false;
		serve_count(px->serve, 1);
		ranks_connected(px, names_find(&px->names, call->proc.nspace));
	}
	call_answer(call, rank ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND);
}

void px_finalized(struct px *px, struct call *call)
{
	struct nspace_rank *rank = names_rank(&px->names, &call->proc);

	iof_proc_gone(px, &call->proc);
	if (rank && rank->state == RANK_CONNECTED) {
		if (!rank->hung_up)
			serve_count(px->serve, -1);
		rank->state = RANK_FINALIZED;
		rank->hung_up = false;
	}
	call_answer(call, PMIX_SUCCESS);
}

/* ---- tools ----------------------------------------------------------------------------------
 *
 * Tools that connect: debuggers, those that query. They find the server by the file that libpmix
 * leaves in the session directory, which only its owner and root can open. Their claimed
 * user has been compared with the kernel's, before libpmix gets the connection (admit.h).
 */

void px_tool(struct px *px, struct call *call)
{
	char nspace[PMIX_MAX_NSLEN + 1];

	(void)snprintf(
		nspace, sizeof(nspace), "%.220s.tool-%u.%u", px->names.base, px->node, ++px->tools);
	PMIX_LOAD_PROCID(&call->proc, nspace, 0);
	serve_log(px->serve, LOG_LEVEL_INFO, "a PMIx tool has connected, as %s", nspace);
	iof_tool_connected(px, &call->proc);
	call_answer(call, PMIX_SUCCESS);
}

/* ---- job control ---- */

/* Signals ranks on all nodes that have some of them, for call, which done gets. */
static void control_signal(struct px *px, const pmix_proc_t *procs, size_t count, int signal,
	struct call *call, rpc_all_done_fn done)
{
	struct message args = MESSAGE_INIT;
	int32_t number = signal;

	pack(&args, &number, PMIX_INT32);
	pack_procs(&args, procs, count);
	rpc_call_ranks(px, procs, count, RPC_SIGNAL, &args, done, call, px->host->timeout_ms);
}

/* ---- on the node of the ranks ---- */

static bool ends_programs(int signal)
{
	return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
		signal == SIGQUIT || signal == SIGABRT;
}

/* Their peers have requested their ends, which end nobody else. */
static void mark_ended_by_peer(struct px *px, const uint32_t *ranks, size_t count)
{
	struct nspace *nspace;
	uint32_t rank = 0;

	for (size_t i = 0; i < count; i++) {
		nspace = names_find_rank(&px->names, ranks[i], &rank);
		if (nspace)
			nspace->ranks[rank].is_ended_by_peer = true;
	}
}

struct answering {
	struct px *px;
	struct rpc_request request;
};

static void on_signalled(void *userdata, int r, const struct err *err)
{
	struct answering *a = userdata;

	if (r < 0)
		serve_log(a->px->serve, LOG_LEVEL_WARNING, "job control: %s",
			err ? err->text : "the signal was not sent");
	rpc_reply(a->px, &a->request, call_status_of(r), NULL);
	free(a);
}

static int signal_local(struct px *px, const struct rpc_request *request, int signal,
	const uint32_t *ranks, size_t count)
{
	struct answering *a = calloc(1, sizeof(*a));
	struct err err = ERR_INIT;
	int r;

	if (!a)
		return -ENOMEM;
	*a = (struct answering){.px = px, .request = *request};
	r = serve_signal(px->serve, signal, ranks, count, on_signalled, a, &err);
	if (r < 0) {
		serve_log(px->serve, LOG_LEVEL_WARNING, "job control: %s", err.text);
		free(a);
	} else if (ends_programs(signal)) {
		mark_ended_by_peer(px, ranks, count);
	}
	return r;
}

void serve_signals(struct px *px, const struct rpc_request *request, struct message *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	_cleanup_free_ uint32_t *ranks = NULL;
	int32_t number;
	size_t count;
	int r;

	if (!unpack(args, &number, PMIX_INT32) || !unpack_procs(args, &procs, &count)) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	r = names_local_ranks(&px->names, procs, count, px->node, true, &ranks, &count);
	if (r == 0)
		r = signal_local(px, request, number, ranks, count);
	if (r < 0)
		rpc_reply(px, request, call_status_of(r), NULL);
}

/* ---- the upcall ---- */

/* 0: it requests none of these, and none is needed; -1: it can't be done here. */
static int signal_of(const struct call *call)
{
	static const struct {
		const char *key;
		int signal;
	} table[] = {
		{PMIX_JOB_CTRL_KILL, SIGKILL},
		{PMIX_JOB_CTRL_TERMINATE, SIGTERM},
		{PMIX_JOB_CTRL_PAUSE, SIGSTOP},
		{PMIX_JOB_CTRL_RESUME, SIGCONT},
	};
	const pmix_info_t *info = call_find(call, PMIX_JOB_CTRL_SIGNAL);
	int64_t number;

	if (info)
		return info_number(info, &number) && number > 0 && number <= SIGRTMAX ? (int)number
										      : -1;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (call_is_true(call, table[i].key))
			return table[i].signal;
	}
	/* That a job may be preempted is what its scheduler decides; there is nothing to do. */
	return call_find(call, PMIX_JOB_CTRL_PREEMPTIBLE) ? 0 : -1;
}

static void control_done(
	_unused_ struct px *px, void *userdata, pmix_status_t status, _unused_ uint32_t succeeded)
{
	call_answer(userdata, status);
}

void px_control(struct px *px, struct call *call)
{
	int signal = signal_of(call);
	pmix_proc_t all;

	if (signal <= 0) {
		call_answer(call, signal < 0 ? PMIX_ERR_NOT_SUPPORTED : PMIX_SUCCESS);
		return;
	}
	PMIX_LOAD_PROCID(&all, call->proc.nspace, PMIX_RANK_WILDCARD);
	if (call->nprocs)
		control_signal(px, call->procs, call->nprocs, signal, call, control_done);
	else
		control_signal(px, &all, 1, signal, call, control_done);
}

/* ---- PMIx_Abort ---- */

/* Nobody else reports it: libpmix does not give the status to the caller of PMIx_Abort. */
static void abort_done(
	struct px *px, void *userdata, pmix_status_t status, _unused_ uint32_t succeeded)
{
	struct call *call = userdata;

	if (status != PMIX_SUCCESS)
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"rank %u of %s can't abort them: no such rank, or none that is left",
			call->proc.rank, call->proc.nspace);
	call_answer(call, status);
}

/* Open MPI's MPI_Abort has no message, and sends "N/A". */
static const char *abort_reason(const struct call *call)
{
	return call->text && call->text[0] && strcmp(call->text, "N/A") != 0 ? call->text
									     : "no reason given";
}

/* Whether procs stand for all of the caller's namespace. */
static bool is_everybody(const struct call *call)
{
	for (size_t i = 0; i < call->nprocs; i++) {
		if (PMIX_CHECK_NSPACE(call->procs[i].nspace, call->proc.nspace) &&
			call->procs[i].rank == PMIX_RANK_WILDCARD)
			return true;
	}
	return call->nprocs == 0;
}

/* All of one's own is all of the step: what it has spawned, or was spawned by, can't go on without
 * it, and only a whole step has an exit status. */
void px_abort(struct px *px, struct call *call)
{
	char text[1024];

	if (!is_everybody(call)) {
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"rank %u of %s aborts %zu other ranks or groups of them: %s",
			call->proc.rank, call->proc.nspace, call->nprocs, abort_reason(call));
		control_signal(px, call->procs, call->nprocs, SIGKILL, call, abort_done);
		return;
	}
	(void)snprintf(text, sizeof(text), "rank %u of %s has called PMIx_Abort: %s",
		call->proc.rank, call->proc.nspace, abort_reason(call));
	if (!px->managed || !managed_abort(px, call->code, text))
		serve_abort(px->serve, call->code & 0xff, text);
	call_answer(call, PMIX_SUCCESS);
}
