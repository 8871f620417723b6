/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How far ranks are, and how long they wait for each other.
 */
#include "mpi/pmix/px.h"
#include "mpi/pmix/rpc.h"
#include "mpi/pmix/trace.h"
#include "stepd/base/bitset.h"

/* ---- the deadline of collectives ------------------------------------------------------------
 *
 * Of those that wait for a rank of the same node. libpmix does not show them to its host before all
 * ranks of the node have come, and lets no host end one: so the step ends, with a sentence that
 * names the ranks that wait and those that are missing. What waits for other nodes only has its
 * deadline in fence.c.
 */

/* Ranks that wait for ranks of other nodes, too, get the failure of their collective from these, if
 * that is how it ends: they get the time for it. */
#define ACROSS_MS 1000u

/* How a namespace of this node stands. */
struct standing {
	struct bitset waiting, missing,
		strangers;  /* that have not called PMIx_Init, of the missing */
	uint64_t waited_ms; /* the longest; 0: nobody waits */
	const char *what;
	bool across; /* it has ranks on other nodes */
};

static void standing_clear(struct standing *s)
{
	bitset_clear(&s->waiting);
	bitset_clear(&s->missing);
	bitset_clear(&s->strangers);
}

static int standing_read(struct px *px, const struct nspace *nspace, struct standing *s)
{
	const char *what = NULL;
	uint64_t waited_ms;

	if (bitset_init(&s->waiting, nspace->size) < 0 ||
		bitset_init(&s->missing, nspace->size) < 0 ||
		bitset_init(&s->strangers, nspace->size) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < nspace->size; i++) {
		const struct nspace_rank *rank = &nspace->ranks[i];

		if (rank->node != px->node)
			s->across = true;
		if (rank->node != px->node || rank->state >= RANK_FINALIZED ||
			collective_has(px, nspace, i))
			continue;
		waited_ms = trace_waited_ms(px->trace, nspace->name, i, &what);
		bitset_set(waited_ms ? &s->waiting : &s->missing, i);
		if (!waited_ms && rank->state < RANK_CONNECTED)
			bitset_set(&s->strangers, i);
		if (waited_ms > s->waited_ms) {
			s->waited_ms = waited_ms;
			s->what = what;
		}
	}
	return 0;
}

/* "rank 3", "ranks 0-2" */
static void name_ranks(const struct bitset *ranks, char *text, size_t size)
{
	char list[200];

	(void)bitset_format_list(ranks, list, sizeof(list));
	(void)snprintf(text, size, "rank%s %s", bitset_count(ranks) == 1 ? "" : "s", list);
}

static void name_missing(const struct standing *s, char *text, size_t size)
{
	char missing[220], strangers[220];

	if (bitset_next(&s->missing, 0) == BITSET_NONE) {
		(void)snprintf(text, size, "none, they wait for one another");
		return;
	}
	name_ranks(&s->missing, missing, sizeof(missing));
	name_ranks(&s->strangers, strangers, sizeof(strangers));
	if (bitset_next(&s->strangers, 0) == BITSET_NONE)
		(void)snprintf(text, size, "%s", missing);
	else
		(void)snprintf(text, size, "%s (PMIx_Init not called: %s)", missing, strangers);
}

static void end_step(struct px *px, const struct nspace *nspace, const struct standing *s)
{
	char waiting[220], missing[500], text[1200];

	name_ranks(&s->waiting, waiting, sizeof(waiting));
	name_missing(s, missing, sizeof(missing));
	(void)snprintf(text, sizeof(text),
		"%s of %s on node %u: %s not complete after %llu ms (--pmi-timeout): missing there %s",
		waiting, nspace->name, px->node, s->what ? s->what : "a collective",
		(unsigned long long)px->host->timeout_ms, missing);
	serve_abort(px->serve, 1, text);
}

void deadline_missing(void *userdata, uint64_t set_id, char *text, size_t size)
{
	struct px *px = userdata;
	_cleanup_(standing_clear) struct standing s = {.waited_ms = 0};
	const struct nspace *nspace = collective_whole(px, set_id);
	char ranks[256];

	if (nspace && standing_read(px, nspace, &s) == 0) {
		name_missing(&s, text, size);
		return;
	}
	(void)names_show(px->names.first, px->node, RANK_CONNECTED, ranks, sizeof(ranks));
	(void)snprintf(text, size, "some of %s", ranks);
}

/* In how many ms a namespace has to be checked again. */
static uint64_t check(struct px *px, struct nspace *nspace)
{
	_cleanup_(standing_clear) struct standing s = {.waited_ms = 0};
	uint64_t limit_ms = px->host->timeout_ms;

	if (standing_read(px, nspace, &s) < 0 || !s.waited_ms)
		return limit_ms;
	limit_ms += s.across ? ACROSS_MS : 0;
	if (s.waited_ms < limit_ms)
		return limit_ms - s.waited_ms;
	end_step(px, nspace, &s);
	return 0;
}

static void deadline_on_time(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct px *px = timer->data;
	uint64_t least_ms = px->host->timeout_ms, ms;

	for (struct nspace *n = px->names.first; n; n = n->next) {
		ms = check(px, n);
		if (ms == 0)
			return; /* the step ends */
		if (ms < least_ms)
			least_ms = ms;
	}
	ev_timer_set(timer, (double)least_ms / 1e3, 0.);
	ev_timer_start(loop, timer);
}

/* From the first client on it is checked no more often than once in the time that one may wait.
 */
static void deadline_start(struct px *px)
{
	if (!px->host->timeout_ms || !px->trace || ev_is_active(&px->deadline))
		return;
	ev_timer_set(&px->deadline, (double)px->host->timeout_ms / 1e3, 0.);
	ev_timer_start(px->loop, &px->deadline);
}

/* ---- how far ranks are ----------------------------------------------------------------------
 *
 * Of each one only its own node knows the process and whether it has called PMIx_Init: the others
 * query it for a table of processes.
 *
 * Some ranks have called PMIx_Init and others have not: this is where most steps hang, and the
 * latter are named when the step's deadline is over, even if nobody waits for them.
 */

void px_task_started(void *userdata, uint32_t step_rank, pid_t pid)
{
	struct px *px = userdata;
	uint32_t i = 0;
	struct nspace *nspace = names_find_rank(&px->names, step_rank, &i);

	if (nspace)
		nspace->ranks[i].pid = pid;
}

/* ---- late ranks ---- */

static void report_late(struct px *px, struct nspace *nspace)
{
	char late[256];

	nspace->late_reported = true;
	if (names_show(nspace, px->node, RANK_STARTED, late, sizeof(late)))
		serve_log(px->serve, LOG_LEVEL_WARNING,
			"%s of %s on node %u: PMIx_Init not called %llu ms after others "
			"have; their collective operations may wait for them",
			late, nspace->name, px->node, (unsigned long long)px->host->timeout_ms);
}

/* For the namespace whose deadline is next. */
static void arm(struct px *px)
{
	double limit = (double)px->host->timeout_ms / 1e3, wait, least = -1;

	for (struct nspace *n = px->names.first; n; n = n->next) {
		if (n->init_at == 0 || n->late_reported)
			continue;
		wait = n->init_at + limit - ev_now(px->loop);
		if (wait <= 0)
			report_late(px, n);
		else if (least < 0 || wait < least)
			least = wait;
	}
	ev_timer_stop(px->loop, &px->starts);
	if (least < 0)
		return;
	ev_timer_set(&px->starts, least, 0.);
	ev_timer_start(px->loop, &px->starts);
}

static void ranks_on_time(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
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

/* Each node reports its own ranks; their ends it has reported already. */
static void note_rank(struct px *px, uint32_t node, uint32_t step_rank, int32_t pid, uint8_t state)
{
	uint32_t i = 0;
	struct nspace *nspace = names_find_rank(&px->names, step_rank, &i);

	if (!nspace || nspace->ranks[i].node != node)
		return;
	nspace->ranks[i].pid = pid;
	if (nspace->ranks[i].state < RANK_ENDED && state < RANK_ENDED)
		nspace->ranks[i].state = state;
}

static void on_ranks_reply(struct px *px, _unused_ void *userdata, const struct rpc_result *result)
{
	uint32_t count = 0, step_rank;
	uint8_t state;
	int32_t pid;

	if (result->status != PMIX_SUCCESS || !result->data ||
		!unpack(result->data, &count, PMIX_UINT32))
		return;
	while (count-- > 0 && unpack(result->data, &step_rank, PMIX_UINT32) &&
		unpack(result->data, &pid, PMIX_INT32) && unpack(result->data, &state, PMIX_UINT8))
		note_rank(px, result->from, step_rank, pid, state);
}

void ranks_query(struct px *px, struct call *call, rpc_all_done_fn done)
{
	_cleanup_bitset_ struct bitset others = {.words = NULL};
	struct message none = MESSAGE_INIT;

	if (bitset_init(&others, px->nnodes) < 0) {
		call_answer(call, PMIX_ERR_NOMEM);
		return;
	}
	for (uint32_t node = 0; node < px->nnodes; node++) {
		if (node != px->node)
			bitset_set(&others, node);
	}
	rpc_call_nodes(
		px, &others, RPC_RANKS, &none, on_ranks_reply, done, call, px->host->timeout_ms);
}

void serve_ranks(struct px *px, const struct rpc_request *request, _unused_ struct message *args)
{
	struct message result = MESSAGE_INIT;
	uint32_t count = 0;

	for (const struct nspace *n = px->names.first; n; n = n->next) {
		for (uint32_t i = 0; i < n->size; i++)
			count += n->ranks[i].node == px->node;
	}
	pack(&result, &count, PMIX_UINT32);
	for (const struct nspace *n = px->names.first; n; n = n->next) {
		for (uint32_t i = 0; i < n->size; i++) {
			uint32_t step_rank = n->first_rank + i;
			int32_t pid = n->ranks[i].pid;
			uint8_t state = (uint8_t)n->ranks[i].state;

			if (n->ranks[i].node != px->node)
				continue;
			pack(&result, &step_rank, PMIX_UINT32);
			pack(&result, &pid, PMIX_INT32);
			pack(&result, &state, PMIX_UINT8);
		}
	}
	rpc_reply(px, request, PMIX_SUCCESS, &result);
}

void ranks_open(struct px *px)
{
	ev_init(&px->starts, ranks_on_time);
	px->starts.data = px;
	ev_init(&px->deadline, deadline_on_time);
	px->deadline.data = px;
}

void ranks_close(struct px *px)
{
	ev_timer_stop(px->loop, &px->starts);
	ev_timer_stop(px->loop, &px->deadline);
}
