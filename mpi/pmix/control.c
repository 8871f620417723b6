/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Job control: signals to ranks, on whatever nodes they are. Their agents send them.
 */
#include <signal.h>

#include "mpi/pmix/rpc.h"

/* One that goes to several nodes. */
struct signalling {
	struct px *px;
	struct call *call;
	control_fn done;
	uint32_t pending; /* nodes */
	int r;            /* the first failure */
};

static void signalled(struct signalling *s, int r)
{
	if (r < 0 && s->r == 0)
		s->r = r;
	if (--s->pending > 0)
		return;
	if (s->done)
		s->done(s->px, s->call, s->r);
	free(s);
}

static void on_node_done(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result)
{
	(void)px;
	(void)result;
	signalled(userdata,
		status == PMIX_SUCCESS                 ? 0
			: status == PMIX_ERR_NOT_FOUND ? -ESRCH
			: status == PMIX_ERR_UNREACH   ? -EHOSTUNREACH
						       : -EIO);
}

void control_signal(struct px *px, const pmix_proc_t *procs, size_t count, int signal,
	struct call *call, control_fn done)
{
	_cleanup_bitset_ struct bitset nodes = {.words = NULL};
	struct signalling *s = calloc(1, sizeof(*s));
	int r = s ? bitset_init(&nodes, px->nnodes) : -ENOMEM;
	int32_t number = signal;

	if (r == 0)
		r = names_nodes(&px->names, procs, count, px->node, &nodes);
	if (r < 0 || bitset_count(&nodes) == 0) {
		free(s);
		if (done)
			done(px, call, r < 0 ? r : -ESRCH);
		return;
	}
	*s = (struct signalling){.px = px, .call = call, .done = done, .pending = 1};
	for (uint32_t node = bitset_next(&nodes, 0); node != BITSET_NONE;
		node = bitset_next(&nodes, node + 1)) {
		pmix_data_buffer_t args;

		PMIX_DATA_BUFFER_CONSTRUCT(&args);
		s->pending++;
		if (!pack(&args, &number, 1, PMIX_INT32) || !pack_procs(&args, procs, count)) {
			PMIX_DATA_BUFFER_DESTRUCT(&args);
			signalled(s, -ENOMEM);
			continue;
		}
		rpc_call(px, node, RPC_SIGNAL, &args, on_node_done, s, px->host->timeout_ms);
	}
	signalled(s, 0);
}

/* ---- on the node of the ranks ---- */

struct ranks {
	struct px *px;
	uint32_t *v;
	size_t n;
	size_t capacity;
};

static int add_local(struct nspace *nspace, uint32_t rank, void *userdata)
{
	struct ranks *ranks = userdata;
	uint32_t *grown;

	if (nspace->ranks[rank].node != ranks->px->node || nspace->ranks[rank].state >= RANK_ENDED)
		return 0;
	if (ranks->n == ranks->capacity) {
		ranks->capacity = ranks->capacity ? 2 * ranks->capacity : 64;
		grown = realloc(ranks->v, ranks->capacity * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		ranks->v = grown;
	}
	ranks->v[ranks->n++] = nspace->first_rank + rank;
	return 0;
}

static bool ends_programs(int signal)
{
	return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP ||
		signal == SIGQUIT || signal == SIGABRT;
}

/* Their peers have requested their ends, which end nobody else. */
static void mark_ended_by_peer(struct px *px, const struct ranks *ranks)
{
	struct nspace *nspace;
	uint32_t i = 0;

	for (size_t n = 0; n < ranks->n; n++) {
		nspace = names_find_rank(&px->names, ranks->v[n], &i);
		if (nspace)
			nspace->ranks[i].is_ended_by_peer = true;
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

static void serve_signals(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args)
{
	_cleanup_free_ pmix_proc_t *procs = NULL;
	struct ranks ranks = {.px = px};
	struct err err = ERR_INIT;
	struct answering *a;
	int32_t number;
	size_t count;
	int r;

	if (!unpack(args, &number, 1, PMIX_INT32) || !unpack_procs(args, &procs, &count)) {
		rpc_reply(px, request, PMIX_ERR_UNPACK_FAILURE, NULL);
		return;
	}
	r = names_each(&px->names, procs, count, px->node, add_local, &ranks);
	a = calloc(1, sizeof(*a));
	if (r == 0 && !a)
		r = -ENOMEM;
	if (r == 0 && ranks.n == 0)
		r = -ESRCH;
	if (r == 0) {
		*a = (struct answering){.px = px, .request = *request};
		r = serve_signal(px->serve, number, ranks.v, ranks.n, on_signalled, a, &err);
		if (r < 0)
			serve_log(px->serve, LOG_LEVEL_WARNING, "job control: %s", err.text);
	}
	if (r == 0 && ends_programs(number))
		mark_ended_by_peer(px, &ranks);
	free(ranks.v);
	if (r < 0) {
		free(a);
		rpc_reply(px, request, call_status_of(r), NULL);
	}
}

void control_open(struct px *px)
{
	rpc_register(px, RPC_SIGNAL, serve_signals);
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

static void control_done(struct px *px, struct call *call, int r)
{
	(void)px;
	call_answer(call, call_status_of(r));
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
