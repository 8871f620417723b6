/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How far ranks are. Of each one only its own node knows the process and whether it has called
 * PMIx_Init: the others ask when somebody wants to see the table of processes.
 *
 * Some ranks have called PMIx_Init and others have not: this is where most steps hang, and the
 * latter are named when the step's deadline is over, even if nobody waits for them (deadline.c).
 */
#include "mpi/pmix/rpc.h"

void px_task_started(struct px *px, uint32_t step_rank, pid_t pid)
{
	uint32_t i = 0;
	struct nspace *nspace = names_find_rank(&px->names, step_rank, &i);

	if (nspace)
		nspace->ranks[i].pid = pid;
}

/* ---- who is late ---- */

static void name_late(struct px *px, struct nspace *nspace)
{
	char late[256];

	nspace->late_told = true;
	if (names_show(nspace, px->node, RANK_STARTED, late, sizeof(late)))
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"%s of %s on node %u: PMIx_Init not called %llu ms after others have; what "
			"these do together may wait for that",
			late, nspace->name, px->node, (unsigned long long)px->host->timeout_ms);
}

/* For the namespace whose deadline is next. */
static void arm(struct px *px)
{
	double limit = (double)px->host->timeout_ms / 1e3, wait, least = -1;

	for (struct nspace *n = px->names.first; n; n = n->next) {
		if (n->init_at == 0 || n->late_told)
			continue;
		wait = n->init_at + limit - ev_now(px->loop);
		if (wait <= 0)
			name_late(px, n);
		else if (least < 0 || wait < least)
			least = wait;
	}
	ev_timer_stop(px->loop, &px->starts);
	if (least < 0)
		return;
	ev_timer_set(&px->starts, least, 0.);
	ev_timer_start(px->loop, &px->starts);
}

static void on_time(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)revents;
	arm(timer->data);
}

void ranks_connected(struct px *px, struct nspace *nspace)
{
	deadline_start(px);
	if (!px->host->timeout_ms || !nspace || nspace->init_at != 0)
		return;
	nspace->init_at = ev_now(px->loop);
	arm(px);
}

/* ---- the other nodes ---- */

struct asking {
	struct px *px;
	struct call *call;
	ranks_fn done;
	uint32_t pending; /* nodes */
};

struct asked {
	struct asking *all;
	uint32_t node;
};

static void one_less(struct asking *all)
{
	if (--all->pending > 0)
		return;
	all->done(all->px, all->call);
	free(all);
}

/* Each node speaks of its own ranks; of their ends it has told already. */
static void note(struct px *px, uint32_t node, uint32_t step_rank, int32_t pid, uint8_t state)
{
	uint32_t i = 0;
	struct nspace *nspace = names_find_rank(&px->names, step_rank, &i);

	if (!nspace || nspace->ranks[i].node != node)
		return;
	nspace->ranks[i].pid = pid;
	if (nspace->ranks[i].state < RANK_ENDED && state < RANK_ENDED)
		nspace->ranks[i].state = state;
}

static void on_answer(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	struct asked *asked = userdata;
	uint32_t count = 0, step_rank;
	uint8_t state;
	int32_t pid;

	if (status == PMIX_SUCCESS && result && unpack(result, &count, 1, PMIX_UINT32)) {
		while (count-- > 0 && unpack(result, &step_rank, 1, PMIX_UINT32) &&
			unpack(result, &pid, 1, PMIX_INT32) &&
			unpack(result, &state, 1, PMIX_UINT8))
			note(px, asked->node, step_rank, pid, state);
	}
	one_less(asked->all);
	free(asked);
}

void ranks_ask(struct px *px, struct call *call, ranks_fn done)
{
	struct asking *all = calloc(1, sizeof(*all));

	if (!all) {
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	*all = (struct asking){.px = px, .call = call, .done = done, .pending = 1};
	for (uint32_t node = 0; node < px->nnodes; node++) {
		struct asked *asked = node == px->node ? NULL : calloc(1, sizeof(*asked));
		pmix_data_buffer_t none;

		if (!asked)
			continue; /* its own, or one that stays unknown */
		PMIX_DATA_BUFFER_CONSTRUCT(&none);
		*asked = (struct asked){.all = all, .node = node};
		all->pending++;
		rpc_call(px, node, RPC_RANKS, &none, on_answer, asked, px->host->timeout_ms);
	}
	one_less(all);
}

static bool pack_rank(pmix_data_buffer_t *result, const struct nspace *nspace, uint32_t i)
{
	uint32_t step_rank = nspace->first_rank + i;
	int32_t pid = nspace->ranks[i].pid;
	uint8_t state = (uint8_t)nspace->ranks[i].state;

	return pack(result, &step_rank, 1, PMIX_UINT32) && pack(result, &pid, 1, PMIX_INT32) &&
		pack(result, &state, 1, PMIX_UINT8);
}

static void serve_ranks(struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	pmix_data_buffer_t result;
	uint32_t count = 0;
	bool good;

	(void)args;
	for (const struct nspace *n = px->names.first; n; n = n->next) {
		for (uint32_t i = 0; i < n->size; i++)
			count += n->ranks[i].node == px->node;
	}
	PMIX_DATA_BUFFER_CONSTRUCT(&result);
	good = pack(&result, &count, 1, PMIX_UINT32);
	for (const struct nspace *n = px->names.first; good && n; n = n->next) {
		for (uint32_t i = 0; good && i < n->size; i++) {
			if (n->ranks[i].node == px->node)
				good = pack_rank(&result, n, i);
		}
	}
	rpc_reply(px, request, good ? PMIX_SUCCESS : PMIX_ERR_NOMEM, &result);
}

void ranks_open(struct px *px)
{
	ev_init(&px->starts, on_time);
	px->starts.data = px;
	rpc_register(px, RPC_RANKS, serve_ranks);
}

void ranks_close(struct px *px)
{
	ev_timer_stop(px->loop, &px->starts);
}
