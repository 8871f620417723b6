/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events. Those that a rank raises go to all nodes of their range, and there libpmix delivers them
 * to the ranks that have registered for them. What happens to a rank's process its agent reports:
 * to all nodes, and there to ranks that want it.
 */
#include <signal.h>
#include <sys/wait.h>

#include "mpi/pmix/keys.h"
#include "mpi/pmix/rpc.h"

/* ---- here ---- */

static void on_delivered(_unused_ pmix_status_t status, void *cbdata)
{
	struct keys *keys = cbdata;

	keys_clear(keys);
	free(keys);
}

/* To this node's ranks. Takes what keys hold. */
static void deliver(pmix_status_t code, const pmix_proc_t *source, uint8_t range, struct keys *keys)
{
	struct keys *copy = keys->failed ? NULL : calloc(1, sizeof(*copy));
	pmix_status_t status;

	if (!copy) {
		keys_clear(keys);
		return;
	}
	*copy = *keys; /* until libpmix is done with it */
	*keys = (struct keys){.v = NULL};
	status = PMIx_Notify_event(code, source, range, copy->v, copy->n, on_delivered, copy);
	if (status != PMIX_SUCCESS)
		on_delivered(status, copy);
}

/* ---- events of ranks ---- */

/* The range is about ranks; nodes without any of them have no receiver. */
static void notify_others(struct px *px, const struct call *call)
{
	struct message args = MESSAGE_INIT;
	int32_t code = call->code;

	pack(&args, &code, PMIX_INT32);
	pack(&args, &call->proc, PMIX_PROC);
	pack(&args, &call->range, PMIX_UINT8);
	pack_infos(&args, call->info, call->ninfo);
	rpc_notify(px, RPC_EVENT, &args);
}

/* libpmix has notified this node's ranks already. */
void px_notify(struct px *px, struct call *call)
{
	if (call->code == PMIX_GROUP_CONSTRUCT_COMPLETE)
		group_complete(px, call->info, call->ninfo);
	if (call->range != PMIX_RANGE_LOCAL && call->range != PMIX_RANGE_PROC_LOCAL)
		notify_others(px, call);
	call_answer(call, PMIX_SUCCESS);
}

void serve_event(
	_unused_ struct px *px, _unused_ const struct rpc_request *request, struct message *args)
{
	struct keys keys = {.v = NULL};
	pmix_proc_t source;
	int32_t code;
	uint8_t range;

	if (!unpack(args, &code, PMIX_INT32) || !unpack(args, &source, PMIX_PROC) ||
		!unpack(args, &range, PMIX_UINT8) || !unpack_infos(args, &keys.v, &keys.n))
		return;
	if (code == PMIX_GROUP_CONSTRUCT_COMPLETE)
		group_complete(px, keys.v, keys.n);
	deliver(code, &source, range, &keys);
}

/* ---- the end of ranks ---- */

static pmix_status_t code_of(enum rank_state state, int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return PMIX_ERR_PROC_ABORTED_BY_SIG;
	if (state == RANK_LOST)
		return PMIX_ERR_PROC_TERM_WO_SYNC;
	return WEXITSTATUS(wait_status) ? PMIX_ERR_EXIT_NONZERO_TERM : PMIX_EVENT_PROC_TERMINATED;
}

static void raise_ended(const struct nspace *nspace, uint32_t i)
{
	const struct nspace_rank *rank = &nspace->ranks[i];
	pmix_status_t code = code_of(rank->state, rank->wait_status);
	struct keys keys = {.v = NULL};
	pmix_proc_t proc;
	int exit_code = names_exit_code(rank);

	PMIX_LOAD_PROCID(&proc, nspace->name, i);
	keys_add(&keys, PMIX_EVENT_AFFECTED_PROC, &proc, PMIX_PROC);
	keys_add(&keys, PMIX_EXIT_CODE, &exit_code, PMIX_INT);
	/* Only those that have registered for it: a default handler of Open MPI's would abort at
	 * any event. */
	keys_add_bool(&keys, PMIX_EVENT_NON_DEFAULT, true);
	deliver(code, &proc, PMIX_RANGE_SESSION, &keys);
}

/* How a rank has ended, as its node reports it to all. */
struct ending {
	int32_t wait_status;
	uint8_t is_lost;
	uint8_t is_absent;
};

/* On every node. What its node knew to be complete is complete here: on each edge of the tree the
 * result went before this notice. */
static void ended(struct px *px, struct nspace *nspace, uint32_t i, const struct ending *ending)
{
	struct nspace_rank *rank = &nspace->ranks[i];

	if (rank->state >= RANK_ENDED)
		return;
	rank->state = ending->is_lost ? RANK_LOST : RANK_ENDED;
	rank->absent = ending->is_absent;
	rank->wait_status = ending->wait_status;
	nspace->gone++;
	publish_rank_gone(px, nspace, i);
	modex_rank_gone(px, nspace, i);
	if (rank->absent)
		collective_rank_absent(px, nspace, i);
	raise_ended(nspace, i);
}

/* A rank of this node that was connected has ended: others may wait for it. */
static bool leaves_others(const struct px *px, const struct nspace_rank *rank)
{
	const struct nspace *first = px->names.first;

	return rank->state == RANK_CONNECTED && !rank->is_ended_by_peer &&
		(first->size > 1 || first->next);
}

void px_task_ended(void *userdata, uint32_t step_rank, int wait_status, bool end_step)
{
	struct px *px = userdata;
	uint32_t i = 0;
	struct nspace *nspace = names_find_rank(&px->names, step_rank, &i);
	struct ending ending = {.wait_status = wait_status};
	enum rank_state state;
	struct message args = MESSAGE_INIT;

	if (!nspace || nspace->ranks[i].state >= RANK_ENDED)
		return;
	state = nspace->ranks[i].state;
	if (end_step && leaves_others(px, &nspace->ranks[i]))
		serve_abort_died(px->serve, step_rank, wait_status);
	if (state == RANK_CONNECTED && !nspace->ranks[i].hung_up)
		serve_count(px->serve, -1);
	/* Killed before PMIx_Init it can't join the others either; one that has ended well without
	 * it may never have wanted to. */
	ending.is_lost = state == RANK_CONNECTED ||
		(state == RANK_STARTED &&
			!(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0));
	/* A rank that has finalized may have contributed to a collective that it did not wait for.
	 */
	ending.is_absent = ending.is_lost || !collective_has(px, nspace, i);
	pack(&args, &step_rank, PMIX_UINT32);
	pack(&args, &ending.wait_status, PMIX_INT32);
	pack(&args, &ending.is_lost, PMIX_UINT8);
	pack(&args, &ending.is_absent, PMIX_UINT8);
	rpc_notify(px, RPC_ENDED, &args);
	ended(px, nspace, i, &ending);
}

void serve_ended(struct px *px, const struct rpc_request *request, struct message *args)
{
	struct nspace *nspace;
	struct ending ending;
	uint32_t step_rank, i = 0;

	if (!unpack(args, &step_rank, PMIX_UINT32) ||
		!unpack(args, &ending.wait_status, PMIX_INT32) ||
		!unpack(args, &ending.is_lost, PMIX_UINT8))
		return;
	if (!unpack(args, &ending.is_absent, PMIX_UINT8))
		ending.is_absent = ending.is_lost; /* a node of an older stepd */
	nspace = names_find_rank(&px->names, step_rank, &i);
	/* Each node reports its own ranks. */
	if (nspace && nspace->ranks[i].node == request->from)
		ended(px, nspace, i, &ending);
}

/* A connection has ended. Its agent reports the process; but a server whose agent is gone waits
 * for its clients alone. */
static void lost(struct px *px, const pmix_proc_t *proc)
{
	struct nspace_rank *rank = names_rank(&px->names, proc);

	if (px->iof)
		iof_proc_gone(px, proc);
	if (rank && rank->state == RANK_CONNECTED && !rank->hung_up) {
		rank->hung_up = true;
		serve_count(px->serve, -1);
	}
}

/* A monitor of libpmix's has found a rank to stand still, and the ranks of this node know it. The
 * node that the rank is on notifies the others; libpmix gives no range. */
static void alerted(struct px *px, struct call *call)
{
	const struct nspace_rank *rank;

	call->range = PMIX_RANGE_NAMESPACE;
	for (size_t i = 0; i < call->nprocs; i++) {
		call->proc = call->procs[i];
		rank = names_rank(&px->names, &call->proc);
		if (rank && rank->node == px->node)
			notify_others(px, call);
	}
}

void px_own_event(struct px *px, struct call *call)
{
	if (call->code != PMIX_ERR_LOST_CONNECTION)
		alerted(px, call);
	for (size_t i = 0; call->code == PMIX_ERR_LOST_CONNECTION && i < call->nprocs; i++)
		lost(px, &call->procs[i]);
	(void)call_free(call);
}
