/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients and tools that come and go, and PMIx_Abort.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "mpi/pmix/px.h"

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
	serve_abort(px->serve, call->code & 0xff, text);
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
