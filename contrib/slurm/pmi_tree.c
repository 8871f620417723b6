/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmi_tree.h"

#include <assert.h>
#include <endian.h>
#include <ev.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "contrib/slurm/delivery.h"
#include "contrib/slurm/manager_socket.h"
#include "contrib/slurm/pmi_gather.h"
#include "contrib/slurm/pmi_messages.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/spool.h"
#include "contrib/slurm/srun_message.h"
#include "contrib/slurm/step_spec.h"
#include "mpi/wire/listener.h"
#include "stepd/base/parse.h"

#define SERVER_NAME    "pmi"
#define PEERS_NAME     "sock.pmi2.%u.%u"
#define PEERS_MAX      4u
#define PEERS_BYTES    (2 * (size_t)SLURM_PMI_MAX)
#define PEER_TIMEOUT_S 30.0
#define PEER_HEAD_SIZE (2 * sizeof(uint32_t)) /* who has sent it, and its size */
#define QUERIES_MAX    64u
#define PIECE_SIZE     65536u

/* A connection of slurmd's, with one message. */
struct tree_peer {
	LIST_ENTRY(tree_peer) link;
	struct pmi_tree *tree;
	int fd;
	struct bytes in;
	ev_io readable;
	ev_timer limit;
};

/* To srun, for the server. */
struct tree_query {
	LIST_ENTRY(tree_query) link;
	struct pmi_tree *tree;
	uint32_t id, query;
	struct srun_message *message;
};

struct pmi_tree {
	struct pmi_tree_options options;
	struct sockaddr_in srun;
	struct spool *spool;
	struct spool_socket *socket;
	struct wire_listener peer_listener;
	LIST_HEAD(tree_peers, tree_peer) peers;
	unsigned peers_count;
	size_t peers_bytes;
	bool had_unknown; /* which has been reported */

	struct manager_socket *server;
	struct pmi_gather gather; /* of the fence that has not been sent yet */
	bool fencing;             /* the server waits for one's end */
	bool sent;   /* ... and the last one's part has been sent, to srun or to the node above */
	bool failed; /* one of them has, and so do all others */
	char *above; /* that node; NULL: srun */
	struct srun_message *fence;
	struct delivery *delivery;
	bool had_misfit; /* which has been reported */
	LIST_HEAD(tree_queries, tree_query) queries;
	unsigned queries_count;
};

/* ---- to the server ------------------------------------------------------------------------- */

static void server_end_fence(struct pmi_tree *t, int error, struct slice body)
{
	_cleanup_bytes_ struct bytes answer = {0};

	t->fencing = false;
	bytes_add_u32(&answer, (uint32_t)error);
	bytes_add(&answer, body.data, body.size);
	manager_socket_send(t->server, MANAGER_FENCED, &answer);
}

/* As slurmstepd has it: no task waits for ever. It is reported once: a user may make others fail.
 */
static void fail_fence(struct pmi_tree *t, const char *why)
{
	t->failed = true;
	log_warning(t->options.log, "step %s: a fence of PMI-2 fails: %s", t->options.label, why);
	if (t->fencing)
		server_end_fence(t, EIO, slice_of_text(why));
	t->options.abort(why, t->options.userdata);
}

/* ---- from the server ----------------------------------------------------------------------- */

static void on_fence_sent(void *userdata, const struct err *err, _unused_ struct slice reply)
{
	struct pmi_tree *t = userdata;

	assert(t);
	t->fence = NULL;
	if (err->code && t->fencing)
		fail_fence(t, err->text);
}

static void on_fence_delivered(const struct err *err, void *userdata)
{
	struct pmi_tree *t = userdata;

	assert(t);
	t->delivery = NULL;
	if (err->code && t->fencing)
		fail_fence(t, err->text);
}

static struct srun_message_options tree_to_srun(const struct pmi_tree *t)
{
	return (struct srun_message_options){.loop = t->options.loop, .address = t->srun};
}

/* To the socket of that node, whose directory its slurmd fills in. */
static int send_above(struct pmi_tree *t, const struct pack *part, struct err *err)
{
	/* As for srun. */
	static const struct delivery_retry retry = {
		.tries = 5, .first_s = 1, .longest_s = 8, .needs_success = true};
	const struct slurm_init *init = t->options.init;
	const struct delivery_options to = {.loop = t->options.loop,
		.auth = t->options.auth,
		.retry = &retry,
		.hosts = hosts_of_one(init->frame.self),
		.version = init->frame.release,
		.type = SLURM_REQUEST_FORWARD_DATA,
		.reader = (uid_t)-1,
		.forward = t->above,
		.done = on_fence_delivered,
		.userdata = t};
	const char *dir = init->site->spool_pattern; /* the default is every node's */
	_cleanup_free_ char *address = NULL;
	struct pack body = {0};

	if (asprintf(&address, "%s/" PEERS_NAME, dir ? dir : init->conf.spool_dir,
		    slurm_whole_job(&init->launch), init->launch.id.step) < 0) {
		address = NULL;
		return err_set(err, -ENOMEM, "send a fence");
	}
	pack_text(&body, address);
	pack_u32(&body, (uint32_t)buffer_size(&part->bytes));
	pack_bytes(&body, buffer_bytes(&part->bytes), (uint32_t)buffer_size(&part->bytes));
	body.failed |= part->failed;
	return delivery_begin_take(&to, &body, &t->delivery, err);
}

/* The last one that was sent, if it is still under way. */
static void forget_part(struct pmi_tree *t)
{
	t->fence = srun_message_cancel(t->fence);
	t->delivery = delivery_cancel(t->delivery);
}

/* Once all of it is there. */
static void send_part(struct pmi_tree *t)
{
	struct srun_message_options to = tree_to_srun(t);
	_cleanup_pack_ struct pack part = {0};
	struct err err = ERR_INIT;
	int r;

	if (!pmi_gather_is_complete(&t->gather))
		return;
	forget_part(t); /* which has been given up for this one */
	t->sent = true;
	pmi_gather_take(&t->gather, t->options.init->conf.node_name, &part);
	to.done = on_fence_sent;
	to.userdata = t;
	r = t->above ? send_above(t, &part, &err)
		     : srun_message_begin_take(&to, &part, &t->fence, &err);
	if (r < 0)
		fail_fence(t, err.text);
}

static void take_fence(struct pmi_tree *t, struct slice pairs)
{
	int r;

	if (t->fencing) {
		manager_socket_lose(t->server, "does not wait for a fence");
		return;
	}
	if (t->failed) {
		server_end_fence(t, EIO, slice_of_text("an earlier fence has failed"));
		return;
	}
	t->fencing = true;
	t->sent = false;
	r = pmi_gather_add_own(&t->gather, pairs);
	if (r == -EBADMSG)
		manager_socket_lose(t->server, "sends what are no pairs");
	else if (r < 0)
		fail_fence(t, strerror(-r));
	else
		send_part(t);
}

static void answer_query(
	struct pmi_tree *t, uint32_t id, enum manager_status status, struct slice value)
{
	_cleanup_bytes_ struct bytes body = {0};

	bytes_add_u32(&body, id);
	bytes_add_u32(&body, status);
	bytes_add_sized(&body, value);
	manager_socket_send(t->server, MANAGER_ANSWER, &body);
}

static void query_free(struct tree_query *q)
{
	LIST_REMOVE(q, link);
	q->tree->queries_count--;
	q->message = srun_message_cancel(q->message);
	free(q);
}

static void on_query_done(void *userdata, const struct err *err, struct slice reply)
{
	struct tree_query *q = userdata;
	struct pmi_tree *t;
	enum manager_status status = MANAGER_FAILED;
	struct slice value = {"", 0};
	uint32_t id;

	assert(q);
	t = q->tree;
	id = q->id;
	q->message = NULL;
	if (!err->code)
		status = slurm_pmi_reply(q->query, reply, &value);
	query_free(q);
	answer_query(t, id, status, value);
}

static void take_query(struct pmi_tree *t, struct slice data)
{
	struct srun_message_options to = tree_to_srun(t);
	_cleanup_pack_ struct pack body = {0};
	struct slice name, value;
	struct err err = ERR_INIT;
	uint32_t id, query;
	struct tree_query *q;
	int r = -EBADMSG;

	if (slice_take_u32(&data, &id) && slice_take_u32(&data, &query) &&
		slice_take_sized(&data, &name) && slice_take_sized(&data, &value))
		r = slurm_pmi_query(&body, query, name, value);
	if (r == -EBADMSG) {
		manager_socket_lose(t->server, "sends what is no query");
		return;
	}
	q = r == 0 && t->queries_count < QUERIES_MAX ? calloc(1, sizeof(*q)) : NULL;
	if (!q) {
		answer_query(t, id, MANAGER_FULL, (struct slice){"", 0});
		return;
	}
	*q = (struct tree_query){.tree = t, .id = id, .query = query};
	LIST_INSERT_HEAD(&t->queries, q, link);
	t->queries_count++;
	to.replies = true;
	to.done = on_query_done;
	to.userdata = q;
	if (srun_message_begin_take(&to, &body, &q->message, &err) < 0) {
		query_free(q);
		answer_query(t, id, MANAGER_FAILED, (struct slice){"", 0});
	}
}

static void tree_on_frame(void *userdata, const struct manager_frame *frame)
{
	struct pmi_tree *t = userdata;

	assert(t);
	switch (frame->type) {
	case MANAGER_FENCE:
		take_fence(t, frame->body);
		break;
	case MANAGER_QUERY:
		take_query(t, frame->body);
		break;
	case MANAGER_ABORT:
		t->options.abort(NULL, t->options.userdata);
		break;
	default:
		manager_socket_lose(t->server, "sends what only a manager sends");
	}
}

/* Nobody waits any more. */
static void tree_on_lost(void *userdata)
{
	struct pmi_tree *t = userdata;

	assert(t);
	t->fencing = false;
	while (!LIST_EMPTY(&t->queries)) {
		query_free(LIST_FIRST(&t->queries));
	}
}

static int listen_for_server(struct pmi_tree *t, struct err *err)
{
	const struct manager_socket_options options = {.loop = t->options.loop,
		.log = t->options.log,
		.label = t->options.label,
		.fifos = t->options.fifos,
		.name = SERVER_NAME,
		.uid = t->options.init->launch.uid,
		.out_max = PEERS_BYTES,
		.in_max = SLURM_PMI_MAX,
		.frame = tree_on_frame,
		.lost = tree_on_lost,
		.userdata = t};

	return manager_socket_open(&options, &t->server, err);
}

/* ---- from srun, by slurmd ------------------------------------------------------------------ */

static void take_fenced(struct pmi_tree *t, struct slice message)
{
	_cleanup_bytes_ struct bytes pairs = {0};
	uint32_t number, last = t->gather.number - 1;
	int r = slurm_pmi_fenced(message, &number, &pairs);

	/* srun sends it again to all nodes where one of them has missed it. */
	if (!t->fencing || !t->sent || (r == 0 && number < last))
		return;
	if (r == 0 && number == last) {
		forget_part(t); /* srun has it */
		server_end_fence(t, 0, slice_of(&pairs));
	} else {
		fail_fence(
			t, r == 0 ? "srun has ended another one" : "srun's message can't be read");
	}
}

/* Of a node below, or this node's own, which slurmd has brought back. */
static void take_part(struct pmi_tree *t, struct slice message)
{
	int r = pmi_gather_add_message(&t->gather, message);

	if (r == 0) {
		send_part(t);
	} else if (r == -EMSGSIZE || r == -ENOMEM) {
		fail_fence(t, strerror(-r));
	} else if (r != -EALREADY && !t->had_misfit) { /* a user may send more of them */
		log_info(t->options.log,
			"step %s: it gets parts of a fence that are not those of nodes below, "
			"ignoring",
			t->options.label);
		t->had_misfit = true;
	}
}

static void take_message(struct pmi_tree *t, struct slice message)
{
	enum slurm_pmi_type type = slurm_pmi_type(message);

	if (type == SLURM_PMI_FENCED) {
		take_fenced(t, message);
		return;
	}
	if (type == SLURM_PMI_FENCE) {
		take_part(t, message);
		return;
	}
	if (!t->had_unknown) /* a user may send more of them */
		log_info(t->options.log,
			"step %s: it gets messages of Slurm's mpi/pmi2 that are not served here "
			"(spawns and rings), ignoring",
			t->options.label);
	t->had_unknown = true;
}

static void peer_close(struct tree_peer *peer)
{
	struct pmi_tree *t = peer->tree;

	ev_io_stop(t->options.loop, &peer->readable);
	ev_timer_stop(t->options.loop, &peer->limit);
	LIST_REMOVE(peer, link);
	t->peers_count--;
	t->peers_bytes -= bytes_size(&peer->in);
	peer->fd = close_fd(peer->fd);
	bytes_clear(&peer->in);
	free(peer);
	if (t->socket && t->peers_count == PEERS_MAX - 1)
		wire_listener_start(&t->peer_listener, spool_socket_get_fd(t->socket));
}

/* 1: *ret_message is whole; 0: more has to come; -EBADMSG. */
static int peer_read(const struct tree_peer *peer, struct slice *ret_message)
{
	struct slice in = slice_of(&peer->in);
	uint32_t size;

	if (in.size < PEER_HEAD_SIZE)
		return 0;
	memcpy(&size, in.data + sizeof(uint32_t), sizeof(size));
	size = be32toh(size);
	if (size > SLURM_PMI_MAX || in.size - PEER_HEAD_SIZE > size)
		return -EBADMSG;
	*ret_message = (struct slice){in.data + PEER_HEAD_SIZE, size};
	return in.size - PEER_HEAD_SIZE == size;
}

static void peer_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct tree_peer *peer = io->data;
	struct slice message;
	char piece[PIECE_SIZE];
	ssize_t n;
	int r;

	assert(peer);
	n = recv(peer->fd, piece, sizeof(piece), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || peer->tree->peers_bytes + (size_t)n > PEERS_BYTES) {
		peer_close(peer);
		return;
	}
	bytes_add(&peer->in, piece, (size_t)n);
	if (!peer->in.failed)
		peer->tree->peers_bytes += (size_t)n;
	r = peer->in.failed ? -ENOMEM : peer_read(peer, &message);
	if (r > 0)
		take_message(peer->tree, message);
	if (r != 0)
		peer_close(peer);
}

static void peer_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	peer_close(timer->data);
}

/* By the kernel's word. */
static bool is_admitted(const struct pmi_tree *t, int fd)
{
	const struct slurm_init *init = t->options.init;
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && size == sizeof(cred) &&
		(cred.uid == 0 || cred.uid == init->site->slurm_user ||
			cred.uid == init->launch.uid);
}

static void on_peer_connects(int accepted_fd, void *userdata)
{
	struct pmi_tree *t = userdata;
	_cleanup_close_ int fd = accepted_fd;
	struct tree_peer *peer;

	assert(t);
	if (fd < 0 || !is_admitted(t, fd))
		return;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return; /* srun tries again */
	*peer = (struct tree_peer){.tree = t, .fd = take_fd(&fd)};
	ev_io_init(&peer->readable, peer_on_readable, peer->fd, EV_READ);
	ev_timer_init(&peer->limit, peer_on_limit, PEER_TIMEOUT_S, 0.);
	peer->readable.data = peer->limit.data = peer;
	ev_io_start(t->options.loop, &peer->readable);
	ev_timer_start(t->options.loop, &peer->limit);
	LIST_INSERT_HEAD(&t->peers, peer, link);
	if (++t->peers_count == PEERS_MAX)
		wire_listener_stop(&t->peer_listener); /* the others wait */
}

static int listen_for_peers(struct pmi_tree *t, struct err *err)
{
	const struct slurm_init *init = t->options.init;
	char name[64];
	int r = spool_open_slurmds(init->conf.spool_dir, &t->spool, err);

	(void)snprintf(name, sizeof(name), PEERS_NAME, slurm_whole_job(&init->launch),
		init->launch.id.step);
	if (r == 0)
		r = spool_listen(t->spool, name, &t->socket, err);
	if (r < 0)
		return r;
	wire_listener_start(&t->peer_listener, spool_socket_get_fd(t->socket));
	return 0;
}

/* ---- its life ------------------------------------------------------------------------------ */

static int find_srun(struct pmi_tree *t, struct err *err)
{
	const struct slurm_launch *launch = &t->options.init->launch;
	const char *text = step_spec_getenv(launch, "SLURM_PMI2_SRUN_PORT");
	uint32_t port;

	if (!text || parse_u32(text, 1, UINT16_MAX, &port) < 0)
		return err_set_text(
			err, -EBADMSG, "the message has no port of srun (SLURM_PMI2_SRUN_PORT)");
	t->srun = launch->srun;
	t->srun.sin_port = htons((uint16_t)port);
	return 0;
}

static int find_place(struct pmi_tree *t, struct err *err)
{
	const struct slurm_init *init = t->options.init;
	uint32_t node = t->options.node_id, nodes = slurm_whole_nnodes(&init->launch);
	struct pmi_place place;

	/* A component's first one is srun's to say. */
	if (node >= nodes)
		return err_set_text(err, -EBADMSG, "the message has node %u of %u", node, nodes);
	place = pmi_place_find(node, nodes, step_spec_tree_width(&init->launch, init->site));
	if (pmi_gather_init(&t->gather, t->options.node_id, place) < 0)
		return err_set(err, -ENOMEM, "listen for PMI-2");
	if (place.above == PMI_PLACE_SRUN)
		return 0;
	t->above = slurm_launch_node_name(&init->launch, (uint32_t)place.above);
	return t->above ? 0
			: err_set_text(err, -EBADMSG,
				  "the message has no node %lld, which is above this one",
				  (long long)place.above);
}

int pmi_tree_open(
	const struct pmi_tree_options *options, struct pmi_tree **ret_tree, struct err *err)
{
	struct pmi_tree *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "listen for PMI-2");
	t->options = *options;
	LIST_INIT(&t->peers);
	LIST_INIT(&t->queries);
	wire_listener_init(&t->peer_listener, t->options.loop, on_peer_connects, t);
	r = find_srun(t, err);
	if (r == 0)
		r = find_place(t, err);
	if (r == 0)
		r = listen_for_server(t, err);
	if (r == 0)
		r = listen_for_peers(t, err);
	if (r < 0)
		(void)pmi_tree_close(t);
	else
		*ret_tree = t;
	return r;
}

const char *pmi_tree_get_path(const struct pmi_tree *t)
{
	return manager_socket_get_path(t->server);
}

struct pmi_tree *pmi_tree_close(struct pmi_tree *t)
{
	if (!t)
		return NULL;
	t->server = manager_socket_close(t->server);
	wire_listener_stop(&t->peer_listener);
	t->socket = spool_socket_close(t->socket);
	while (!LIST_EMPTY(&t->peers))
		peer_close(LIST_FIRST(&t->peers));
	forget_part(t);
	pmi_gather_clear(&t->gather);
	free(t->above);
	t->spool = spool_close(t->spool);
	free(t);
	return NULL;
}
