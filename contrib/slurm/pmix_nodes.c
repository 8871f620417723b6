/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmix_nodes.h"

#include <assert.h>
#include <ev.h>
#include <string.h>
#include <sys/queue.h>

#include "contrib/slurm/manager_socket.h"
#include "contrib/slurm/pmix_fence.h"
#include "contrib/slurm/pmix_peers.h"
#include "contrib/slurm/pmix_settings.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/site_nodes.h"
#include "contrib/slurm/srun_abort.h"
#include "contrib/slurm/step_spec.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define SOCKET_NAME "pmix"
#define MODEX_MAX   4096u
#define NODES_MAX   65536u
#define END_LIMIT_S 10.0
/* Of the PMIx server: what waits for it, and a frame. */
#define SERVER_OUT_MAX ((size_t)512 << 20)
#define SERVER_IN_MAX  ((size_t)128 << 20)

/* What mpi/pmix answers where a rank is unknown, or its node does not answer: of PMIx. */
#define PMIX_FAILED (-1)

/* Data of a rank that one side has requested of the other. */
struct modex {
	LIST_ENTRY(modex) link;
	struct pmix_nodes *nodes;
	bool is_ours;    /* the server's request; else another node's */
	uint32_t id;     /* of the request that this process has made */
	uint32_t theirs; /* of the request for which it has */
	uint32_t node;   /* the other one */
	uint32_t rank;
	ev_timer limit;
};

struct pmix_nodes {
	struct pmix_nodes_options options;
	char nspace[64];
	struct pmix_node *nodes;
	uint32_t *rank_nodes;
	struct manager_socket *server;
	struct pmix_peers *peers;
	struct pmix_fences *fences;
	LIST_HEAD(modexes, modex) modexes;
	unsigned modex_count;
	uint32_t last_id;
	struct srun_abort *abort;
	bool has_aborted;
	bool has_failed; /* a fence, which has been reported */
	bool has_ended;  /* what has not been sent by now never is */
	ev_timer end_limit;
};

/* ---- the end of the step ------------------------------------------------------------------- */

/* As slurmstepd has it: no task waits for ever. */
static void break_step(void *userdata, const char *why)
{
	struct pmix_nodes *n = userdata;

	assert(n);
	pmix_fences_fail(n->fences, EIO);
	n->options.abort(why, n->options.userdata);
}

static void nodes_on_aborted(void *userdata)
{
	struct pmix_nodes *n = userdata;

	assert(n);
	n->abort = NULL; /* it is no more */
	n->options.abort(NULL, n->options.userdata);
}

/* srun exits with the status if it knows it before the step's end. */
static void take_abort(struct pmix_nodes *n, struct slice body)
{
	const struct slurm_launch *launch = &n->options.init->launch;
	const char *text = step_spec_getenv(launch, "SLURM_PMIXP_ABORT_AGENT_PORT");
	struct sockaddr_in address = launch->srun;
	uint32_t status = 1, port;

	if (n->has_aborted)
		return; /* a user may call for it again and again */
	n->has_aborted = true;
	(void)!slice_take_u32(&body, &status); /* without one it is a failure */
	if (status == 0) {
		n->options.stop(n->options.userdata);
		return;
	}
	if (text && parse_u32(text, 1, UINT16_MAX, &port) == 0) {
		address.sin_port = htons((uint16_t)port);
		if (srun_abort_begin(
			    n->options.loop, &address, status, nodes_on_aborted, n, &n->abort) == 0)
			return;
	}
	nodes_on_aborted(n);
}

/* ---- the data of single ranks -------------------------------------------------------------- */

static void modex_free(struct modex *m)
{
	ev_timer_stop(m->nodes->options.loop, &m->limit);
	LIST_REMOVE(m, link);
	m->nodes->modex_count--;
	free(m);
}

static struct modex *find_modex(struct pmix_nodes *n, bool is_ours, uint32_t id)
{
	struct modex *m;

	LIST_FOREACH(m, &n->modexes, link)
	{
		if (m->is_ours == is_ours && m->id == id)
			return m;
	}
	return NULL;
}

static void answer_server(struct pmix_nodes *n, uint32_t id, int32_t status, struct slice data)
{
	_cleanup_bytes_ struct bytes body = {0};

	bytes_add_u32(&body, id);
	bytes_add_u32(&body, (uint32_t)status);
	bytes_add(&body, data.data, data.size);
	manager_socket_send(n->server, MANAGER_MODEXED, &body);
}

static void answer_node(struct pmix_nodes *n, uint32_t node, uint32_t seq, uint32_t rank,
	int32_t status, struct slice data)
{
	const struct slurm_pmix_head head = {.type = SLURM_PMIX_MODEX, .seq = seq};
	const struct slurm_pmix_modex modex = {.is_reply = true,
		.nspace = slice_of_text(n->nspace),
		.sender = slice_of_text(n->nspace),
		.rank = rank,
		.status = status,
		.data = data};
	struct pack body = {0};

	slurm_pmix_put_modex(&body, &modex);
	pmix_peers_send_take(n->peers, node, &head, &body);
}

static void modex_answer(struct modex *m, int32_t status, struct slice data)
{
	struct pmix_nodes *n = m->nodes;
	const struct modex was = *m;

	modex_free(m);
	if (was.is_ours)
		answer_server(n, was.theirs, status, data);
	else
		answer_node(n, was.node, was.theirs, was.rank, status, data);
}

static void modex_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	modex_answer(timer->data, PMIX_FAILED, (struct slice){"", 0});
}

/* NULL: there are too many of them, or memory is short. */
static struct modex *modex_new(struct pmix_nodes *n, bool is_ours, uint32_t theirs)
{
	struct modex *m = n->modex_count < MODEX_MAX ? calloc(1, sizeof(*m)) : NULL;

	if (!m)
		return NULL;
	*m = (struct modex){.nodes = n, .is_ours = is_ours, .theirs = theirs, .id = ++n->last_id};
	ev_timer_init(&m->limit, modex_on_limit, n->options.settings->timeout_s, 0.);
	m->limit.data = m;
	ev_timer_start(n->options.loop, &m->limit);
	LIST_INSERT_HEAD(&n->modexes, m, link);
	n->modex_count++;
	return m;
}

/* The server wants what a rank of another node has. */
static void take_own_modex(struct pmix_nodes *n, struct slice body)
{
	struct slurm_pmix_head head = {.type = SLURM_PMIX_MODEX};
	struct slurm_pmix_modex modex = {.sender = slice_of_text(n->nspace)};
	struct pack message = {0};
	struct modex *m;
	uint32_t id;

	if (!slice_take_u32(&body, &id) || !slice_take_sized(&body, &modex.nspace) ||
		!slice_take_u32(&body, &modex.rank)) {
		manager_socket_lose(n->server, "sends what is no request");
		return;
	}
	if (!slice_is(modex.nspace, n->nspace) || modex.rank >= n->options.init->launch.ntasks ||
		n->rank_nodes[modex.rank] == n->options.node_id || !(m = modex_new(n, true, id))) {
		answer_server(n, id, PMIX_FAILED, (struct slice){"", 0});
		return;
	}
	head.seq = m->id;
	m->node = n->rank_nodes[modex.rank];
	slurm_pmix_put_modex(&message, &modex);
	pmix_peers_send_take(n->peers, m->node, &head, &message);
}

/* Another node wants what a rank of this one has. */
static void take_nodes_modex(
	struct pmix_nodes *n, uint32_t node, uint32_t seq, const struct slurm_pmix_modex *modex)
{
	_cleanup_bytes_ struct bytes body = {0};
	struct modex *m;

	if (!slice_is(modex->nspace, n->nspace) || modex->rank >= n->options.init->launch.ntasks ||
		n->rank_nodes[modex->rank] != n->options.node_id ||
		!(m = modex_new(n, false, seq))) {
		answer_node(n, node, seq, modex->rank, PMIX_FAILED, (struct slice){"", 0});
		return;
	}
	m->node = node;
	m->rank = modex->rank;
	bytes_add_u32(&body, m->id);
	bytes_add_sized(&body, modex->nspace);
	bytes_add_u32(&body, modex->rank);
	manager_socket_send(n->server, MANAGER_MODEX, &body);
}

static void take_modexed(struct pmix_nodes *n, struct slice body)
{
	struct modex *m;
	uint32_t id, status;

	if (!slice_take_u32(&body, &id) || !slice_take_u32(&body, &status)) {
		manager_socket_lose(n->server, "sends what is no answer");
		return;
	}
	m = find_modex(n, false, id);
	if (m) /* else it comes too late */
		modex_answer(m, (int32_t)status, body);
}

/* ---- fences -------------------------------------------------------------------------------- */

static void nodes_on_fenced(void *userdata, uint32_t id, int error, struct slice data)
{
	struct pmix_nodes *n = userdata;
	_cleanup_bytes_ struct bytes body = {0};

	assert(n);
	if (error && !n->has_failed) { /* a user may make others fail */
		log_warning(n->options.log, "step %s: a fence of PMIx fails: %s", n->options.label,
			strerror(error));
		n->has_failed = true;
	}
	bytes_add_u32(&body, id);
	bytes_add_u32(&body, (uint32_t)error);
	bytes_add(&body, data.data, data.size);
	manager_socket_send(n->server, MANAGER_COLLECTED, &body);
}

/* All nodes come to the same. */
static enum slurm_pmix_kind choose_kind(const struct pmix_settings *s, bool collects, size_t size)
{
	if (!s->direct)
		return SLURM_PMIX_BY_TREE;
	if (s->kind != SLURM_PMIX_KIND_MAX)
		return s->kind;
	return collects && size > 0 ? SLURM_PMIX_BY_RING : SLURM_PMIX_BY_TREE;
}

static void take_collect(struct pmix_nodes *n, struct slice body)
{
	_cleanup_pack_ struct pack set = {0};
	struct slice nspace = {"", 0}, key;
	uint32_t id, collects, count, rank;
	bool good = slice_take_u32(&body, &id) && slice_take_u32(&body, &collects) &&
		slice_take_u32(&body, &count);
	int r;

	slurm_pmix_begin_set(&set, good ? count : 0);
	while (good && count-- > 0) {
		good = slice_take_sized(&body, &nspace) && slice_take_u32(&body, &rank);
		if (good)
			slurm_pmix_add_rank(&set, nspace, rank);
	}
	if (!good) {
		manager_socket_lose(n->server, "sends what is no fence");
		return;
	}
	key = (struct slice){buffer_bytes(&set.bytes), buffer_size(&set.bytes)};
	r = set.failed
		? -ENOMEM
		: pmix_fences_begin(n->fences,
			  choose_kind(n->options.settings, collects, body.size), key, id, body);
	if (r < 0)
		nodes_on_fenced(n, id, -r, (struct slice){"", 0});
}

/* ---- from both sides ----------------------------------------------------------------------- */

static void nodes_on_frame(void *userdata, const struct manager_frame *frame)
{
	struct pmix_nodes *n = userdata;

	assert(n);
	switch (frame->type) {
	case MANAGER_COLLECT:
		take_collect(n, frame->body);
		break;
	case MANAGER_MODEX:
		take_own_modex(n, frame->body);
		break;
	case MANAGER_MODEXED:
		take_modexed(n, frame->body);
		break;
	case MANAGER_ABORT:
		take_abort(n, frame->body);
		break;
	default:
		manager_socket_lose(n->server, "sends what it should not");
	}
}

static void nodes_on_message(
	void *userdata, uint32_t node, const struct slurm_pmix_head *head, struct slice body)
{
	struct pmix_nodes *n = userdata;
	struct slurm_pmix_modex modex;
	struct modex *m;

	assert(n);
	if (head->type != SLURM_PMIX_MODEX) {
		pmix_fences_take(n->fences, node, head, body);
		return;
	}
	if (!slurm_pmix_read_modex(body, &modex))
		return; /* the requester's time ends it */
	if (!modex.is_reply) {
		take_nodes_modex(n, node, head->seq, &modex);
		return;
	}
	m = find_modex(n, true, head->seq);
	if (m && m->node == node)
		modex_answer(m, modex.status, modex.data);
}

static void nodes_on_send(
	void *userdata, uint32_t node, const struct slurm_pmix_head *head, struct pack *body)
{
	struct pmix_nodes *n = userdata;

	assert(n);
	pmix_peers_send_take(n->peers, node, head, body);
}

/* ---- the end on this node ------------------------------------------------------------------ */

static void nodes_on_drained(void *userdata)
{
	struct pmix_nodes *n = userdata;

	assert(n);
	n->options.drained(n->options.userdata);
}

static void nodes_on_end_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct pmix_nodes *n = timer->data;

	assert(n);
	n->has_ended = true;
	n->options.drained(n->options.userdata);
}

bool pmix_nodes_are_pending(struct pmix_nodes *n)
{
	if (!n || n->has_ended || !pmix_peers_are_pending(n->peers))
		return false;
	if (!ev_is_active(&n->end_limit))
		ev_timer_start(n->options.loop, &n->end_limit);
	return true;
}

/* ---- its beginning ------------------------------------------------------------------------- */

static int nodes_add_name(const char *name, void *userdata)
{
	return strv_add(userdata, name);
}

static int read_list(const struct slurm_launch *launch, const char *variable, struct strv *names,
	struct err *err)
{
	const char *text = step_spec_getenv(launch, variable);
	int r = text ? hostlist_each(text, NODES_MAX, nodes_add_name, names) : -ENOENT;

	return r < 0 ? err_set(err, r, "read %s", variable) : 0;
}

/* The job's nodes, by whose numbers the other nodes know each other. */
static int read_job_nodes(const struct slurm_launch *launch, struct strv *names, struct err *err)
{
	struct err why = ERR_INIT;

	if (read_list(launch, "SLURM_JOB_NODELIST", names, &why) == 0)
		return 0;
	strv_clear(names);
	return read_list(launch, "SLURM_NODELIST", names, err);
}

static int find_nodes(struct pmix_nodes *n, struct err *err)
{
	const struct slurm_launch *launch = &n->options.init->launch;
	_cleanup_strv_ struct strv step = {0}, job = {0};
	_cleanup_strv_names_ struct strv_names order = {0}; /* both lists may be long */
	_cleanup_free_ struct sockaddr_in *addresses = NULL;
	size_t index;
	uint32_t i;
	int r = read_list(launch, "SLURM_STEP_NODELIST", &step, err);

	if (r == 0)
		r = read_job_nodes(launch, &job, err);
	if (r == 0 && step.n != launch->nnodes)
		r = err_set_text(err, -EBADMSG, "SLURM_STEP_NODELIST has %zu nodes, not %u", step.n,
			launch->nnodes);
	if (r < 0)
		return r;
	n->nodes = calloc(step.n, sizeof(*n->nodes));
	addresses = calloc(step.n, sizeof(*addresses));
	if (!n->nodes || !addresses || strv_names_make(&order, job.v, job.n) < 0)
		return err_set(err, -ENOMEM, "find the step's nodes");
	r = site_nodes_find(NULL, step.v, step.n, addresses, err);
	if (r < 0)
		return r;
	for (i = 0; i < step.n; i++) {
		index = strv_names_find(&order, step.v[i]);
		if (index == STRV_NAMES_NONE)
			return err_set_text(
				err, -EBADMSG, "node '%s' of the step is not the job's", step.v[i]);
		n->nodes[i] =
			(struct pmix_node){.job_node = (uint32_t)index, .address = addresses[i]};
	}
	return 0;
}

static int find_ranks(struct pmix_nodes *n, struct err *err)
{
	const struct slurm_launch *launch = &n->options.init->launch;
	struct slurm_array rest = launch->node_tasks, ranks;
	uint32_t node, i, rank;

	n->rank_nodes = calloc(launch->ntasks, sizeof(*n->rank_nodes));
	if (!n->rank_nodes)
		return err_set(err, -ENOMEM, "find the step's ranks");
	for (node = 0; node < launch->nnodes; node++) {
		if (!slurm_ranks_next(&rest, &ranks))
			return err_set_text(
				err, -EBADMSG, "the message has no tasks of node %u", node);
		for (i = 0; i < ranks.n; i++) {
			rank = slurm_array_u32(&ranks, i);
			if (rank >= launch->ntasks)
				return err_set_text(
					err, -EBADMSG, "the message has a rank %u", rank);
			n->rank_nodes[rank] = node;
		}
	}
	return 0;
}

static int open_fences(struct pmix_nodes *n, struct err *err)
{
	const struct pmix_settings *settings = n->options.settings;
	const struct slurm_init *init = n->options.init;
	const struct pmix_fences_options options = {.loop = n->options.loop,
		.timeout_s = settings->timeout_s,
		.nspace = n->nspace,
		.node = n->options.node_id,
		.nnodes = init->launch.nnodes,
		.rank_nodes = n->rank_nodes,
		.ntasks = init->launch.ntasks,
		.tree_width = init->site->tree_width,
		.direct = settings->direct,
		.send = nodes_on_send,
		.done = nodes_on_fenced,
		.broken = break_step,
		.userdata = n};

	return pmix_fences_new(&options, &n->fences) < 0
		? err_set(err, -ENOMEM, "serve the step's PMIx")
		: 0;
}

static int open_sockets(struct pmix_nodes *n, struct err *err)
{
	const struct pmix_nodes_options *o = &n->options;
	const struct manager_socket_options server = {.loop = o->loop,
		.log = o->log,
		.label = o->label,
		.fifos = o->fifos,
		.name = SOCKET_NAME,
		.uid = o->init->launch.uid,
		.out_max = SERVER_OUT_MAX,
		.in_max = SERVER_IN_MAX,
		.frame = nodes_on_frame,
		.userdata = n};
	const struct pmix_peers_options peers = {.loop = o->loop,
		.log = o->log,
		.label = o->label,
		.auth = o->auth,
		.init = o->init,
		.nodes = n->nodes,
		.node = o->node_id,
		.nnodes = o->init->launch.nnodes,
		.direct = o->settings->direct,
		.native = o->settings->native,
		.message = nodes_on_message,
		.failed = break_step,
		.drained = nodes_on_drained,
		.userdata = n};
	int r = manager_socket_open(&server, &n->server, err);

	return r == 0 ? pmix_peers_open(&peers, &n->peers, err) : r;
}

int pmix_nodes_open(
	const struct pmix_nodes_options *options, struct pmix_nodes **ret_nodes, struct err *err)
{
	const struct slurm_step_id *id = &options->init->launch.id;
	struct pmix_nodes *n;
	int r;

	if (options->settings->direct && options->settings->by_ucx)
		return err_set_text(err, -EOPNOTSUPP,
			"its nodes connect to each other by UCX (PMIxDirectConnUCX)");
	n = calloc(1, sizeof(*n));
	if (!n)
		return err_set(err, -ENOMEM, "serve the step's PMIx");
	n->options = *options;
	LIST_INIT(&n->modexes);
	ev_timer_init(&n->end_limit, nodes_on_end_limit, END_LIMIT_S, 0.);
	n->end_limit.data = n;
	(void)snprintf(n->nspace, sizeof(n->nspace), "slurm.pmix.%u.%u", id->job, id->step);
	r = find_nodes(n, err);
	if (r == 0)
		r = find_ranks(n, err);
	if (r == 0)
		r = open_fences(n, err);
	if (r == 0)
		r = open_sockets(n, err);
	if (r < 0)
		(void)pmix_nodes_close(n);
	else
		*ret_nodes = n;
	return r;
}

const char *pmix_nodes_get_path(const struct pmix_nodes *n)
{
	return manager_socket_get_path(n->server);
}

const char *pmix_nodes_get_nspace(const struct pmix_nodes *n)
{
	return n->nspace;
}

struct pmix_nodes *pmix_nodes_close(struct pmix_nodes *n)
{
	if (!n)
		return NULL;
	ev_timer_stop(n->options.loop, &n->end_limit);
	n->peers = pmix_peers_close(n->peers);
	n->server = manager_socket_close(n->server);
	n->fences = pmix_fences_free(n->fences);
	n->abort = srun_abort_cancel(n->abort);
	while (!LIST_EMPTY(&n->modexes))
		modex_free(LIST_FIRST(&n->modexes));
	free(n->nodes);
	free(n->rank_nodes);
	free(n);
	return NULL;
}
