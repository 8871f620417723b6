/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/pmix_peers.h"

#include <assert.h>
#include <endian.h>
#include <ev.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "contrib/slurm/auth.h"
#include "contrib/slurm/delivery.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/spool.h"
#include "mpi/wire/listener.h"

#define RELAYED_MAX     16u
#define NODE_CONNS_MAX  8u /* each side may begin one, and another when it is lost */
#define CALLER_SIZE_MAX 65536u
#define LIMIT_S         30.0
#define BYTES_MAX       ((size_t)256 << 20)
#define PIECE_SIZE      65536u
#define BACKLOG         128

/* As slurmstepd's. */
static const struct delivery_retry by_slurmd = {
	.tries = 7, .first_s = 0.5, .longest_s = 32, .needs_success = true};

enum conn_kind {
	CONN_RELAYED, /* slurmd's, with one message */
	CONN_CALLER,  /* of a node that is not known yet */
	CONN_NODE,
};

struct conn {
	LIST_ENTRY(conn) link;
	struct pmix_peers *peers;
	enum conn_kind kind;
	struct peer *peer; /* of CONN_NODE */
	int fd;
	struct in_addr address; /* of CONN_CALLER */
	struct bytes in, out;
	ev_io readable, writable;
	ev_timer limit; /* until it is known, or has its message */
};

/* A message that waits. */
struct waiting {
	STAILQ_ENTRY(waiting) link;
	struct slurm_pmix_head head;
	struct pack body;
};

struct peer {
	struct pmix_peers *peers;
	uint32_t node;
	bool offered;      /* it has been sent this node's port */
	struct conn *conn; /* by which it gets messages; NULL: none */
	unsigned conns_count;
	struct delivery *delivery;
	size_t delivery_size;
	STAILQ_HEAD(waiting_list, waiting) waiting;
};

struct pmix_peers {
	struct pmix_peers_options options;
	struct peer *peers; /* by node */
	struct spool *spool;
	struct spool_socket *socket;
	struct wire_listener relay_listener, port_listener;
	int port_fd;
	uint16_t port;
	char *path; /* of the sockets, on each node */
	LIST_HEAD(conn_list, conn) conns;
	unsigned relayed_count;
	struct conn *callers[PMIX_PEERS_CALLERS_MAX]; /* in the order of their coming */
	size_t callers_count;
	size_t in_bytes, out_bytes;
	bool has_failed, is_closing;
};

static void peer_pump(struct peer *peer);

static void peers_fail(struct pmix_peers *p, const char *why)
{
	if (p->has_failed)
		return;
	p->has_failed = true;
	p->options.failed(p->options.userdata, why);
	p->options.drained(p->options.userdata);
}

/* So many bytes wait no more. */
static void peers_drop(struct pmix_peers *p, size_t size)
{
	p->out_bytes -= size;
	if (p->out_bytes == 0 && size > 0 && !p->is_closing)
		p->options.drained(p->options.userdata);
}

bool pmix_peers_are_pending(const struct pmix_peers *p)
{
	return p->out_bytes > 0 && !p->has_failed;
}

/* ---- callers ------------------------------------------------------------------------------- */

static bool is_loopback(struct in_addr address)
{
	return ntohl(address.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool is_same_origin(struct in_addr a, struct in_addr b)
{
	return a.s_addr == b.s_addr || (is_loopback(a) && is_loopback(b));
}

size_t pmix_peers_choose_caller(const struct in_addr *addresses, size_t n)
{
	size_t chosen = 0, most = 0, count, i, k;

	for (i = 0; i < n; i++) {
		for (count = 0, k = i; k < n; k++)
			count += is_same_origin(addresses[i], addresses[k]);
		if (count > most) { /* only the first one of an address has counted all */
			most = count;
			chosen = i;
		}
	}
	return chosen;
}

static struct conn *choose_caller(const struct pmix_peers *p)
{
	struct in_addr addresses[PMIX_PEERS_CALLERS_MAX];
	size_t i;

	for (i = 0; i < p->callers_count; i++)
		addresses[i] = p->callers[i]->address;
	return p->callers[pmix_peers_choose_caller(addresses, p->callers_count)];
}

/* It has closed, or is known. */
static void forget_caller(struct conn *c)
{
	struct pmix_peers *p = c->peers;
	size_t i;

	for (i = 0; p->callers[i] != c; i++)
		;
	p->callers_count--;
	memmove(&p->callers[i], &p->callers[i + 1], (p->callers_count - i) * sizeof(p->callers[0]));
}

/* ---- connections --------------------------------------------------------------------------- */

/* Messages to the peer that it had not taken are lost, as between slurmstepds. */
static void conn_close(struct conn *c)
{
	struct pmix_peers *p = c->peers;
	struct peer *peer = c->peer;

	ev_io_stop(p->options.loop, &c->readable);
	ev_io_stop(p->options.loop, &c->writable);
	ev_timer_stop(p->options.loop, &c->limit);
	LIST_REMOVE(c, link);
	if (c->kind == CONN_RELAYED && p->relayed_count-- == RELAYED_MAX && p->socket)
		wire_listener_start(&p->relay_listener, spool_socket_get_fd(p->socket));
	if (c->kind == CONN_CALLER)
		forget_caller(c);
	if (peer)
		peer->conns_count--;
	p->in_bytes -= bytes_size(&c->in);
	peers_drop(p, bytes_size(&c->out));
	(void)close_fd(c->fd);
	bytes_clear(&c->in);
	bytes_clear(&c->out);
	if (peer && peer->conn == c) {
		peer->conn = NULL;
		peer->offered = false;
	}
	free(c);
}

static void conn_flush(struct conn *c)
{
	struct slice out = slice_of(&c->out);
	ssize_t n;

	while (out.size > 0) {
		n = send(c->fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		bytes_drop(&c->out, (size_t)n);
		peers_drop(c->peers, (size_t)n);
		out = slice_of(&c->out);
	}
	/* Another error shows when it is read from. */
	if (out.size > 0 && (errno == EAGAIN || errno == EINPROGRESS || errno == ENOTCONN))
		ev_io_start(c->peers->options.loop, &c->writable);
	else
		ev_io_stop(c->peers->options.loop, &c->writable);
}

static void conn_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	assert(io->data);
	conn_flush(io->data);
}

static void conn_add(struct conn *c, const struct pack *message)
{
	size_t size = buffer_size(&message->bytes);

	if (!message->failed)
		bytes_add(&c->out, buffer_bytes(&message->bytes), size);
	if (message->failed || c->out.failed) {
		peers_fail(c->peers, "there is no memory for a message");
		return;
	}
	c->peers->out_bytes += size;
}

static void conn_on_readable(struct ev_loop *loop, ev_io *io, int revents);
static void conn_on_limit(struct ev_loop *loop, ev_timer *timer, int revents);

/* fd is taken over, on failure too. */
static struct conn *conn_new(struct pmix_peers *p, enum conn_kind kind, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)close_fd(fd);
		return NULL;
	}
	*c = (struct conn){.peers = p, .kind = kind, .fd = fd};
	ev_io_init(&c->readable, conn_on_readable, fd, EV_READ);
	ev_io_init(&c->writable, conn_on_writable, fd, EV_WRITE);
	ev_timer_init(&c->limit, conn_on_limit, LIMIT_S, 0.);
	c->readable.data = c->writable.data = c->limit.data = c;
	ev_io_start(p->options.loop, &c->readable);
	LIST_INSERT_HEAD(&p->conns, c, link);
	if (kind != CONN_NODE)
		ev_timer_start(p->options.loop, &c->limit);
	if (kind == CONN_RELAYED)
		p->relayed_count++;
	if (kind == CONN_CALLER)
		p->callers[p->callers_count++] = c;
	return c;
}

static void conn_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	conn_close(timer->data);
}

static void send_small_ones_at_once(int fd)
{
	int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
}

/* ---- to the other nodes -------------------------------------------------------------------- */

/* The whole message. has_port: it has this node's, too. */
static void put_message(const struct pmix_peers *p, struct pack *out,
	const struct slurm_pmix_head *head, const struct pack *body, bool has_port, bool native)
{
	struct slurm_pmix_head h = *head;

	h.node = p->options.nodes[p->options.node].job_node;
	h.size = (uint32_t)buffer_size(&body->bytes) + (has_port ? SLURM_PMIX_PORT_SIZE : 0);
	h.has_port = has_port;
	slurm_pmix_put_head(out, &h, native);
	if (has_port)
		slurm_pmix_put_port(out, p->port);
	pack_raw(out, buffer_bytes(&body->bytes), buffer_size(&body->bytes));
	out->failed |= body->failed;
}

static void waiting_free(struct peer *peer, struct waiting *w)
{
	STAILQ_REMOVE_HEAD(&peer->waiting, link);
	peers_drop(peer->peers, buffer_size(&w->body.bytes));
	pack_clear(&w->body);
	free(w);
}

static void peer_on_delivered(const struct err *err, void *userdata)
{
	struct peer *peer = userdata;
	char why[ERR_TEXT_SIZE];
	size_t size;

	assert(peer);
	peer->delivery = NULL;      /* it is no more */
	size = peer->delivery_size; /* of the one before the next */
	if (err->code) {
		(void)snprintf(why, sizeof(why), "node %u of the step can't be reached: %.200s",
			peer->node, err->text);
		peers_fail(peer->peers, why);
		return;
	}
	peer_pump(peer);
	peers_drop(peer->peers, size);
}

static void send_by_slurmd(struct peer *peer, struct waiting *w)
{
	struct pmix_peers *p = peer->peers;
	const struct delivery_options to = {.loop = p->options.loop,
		.auth = p->options.auth,
		.retry = &by_slurmd,
		.hosts = hosts_of_one(p->options.nodes[peer->node].address),
		.version = p->options.init->frame.release,
		.type = SLURM_REQUEST_FORWARD_DATA,
		.reader = 0, /* slurmd's user */
		.done = peer_on_delivered,
		.userdata = peer};
	_cleanup_pack_ struct pack message = {0};
	struct pack body = {0};
	struct err err = ERR_INIT;

	put_message(p, &message, &w->head, &w->body, p->options.direct, false);
	peer->offered = p->options.direct;
	pack_text(&body, p->path);
	pack_u32(&body, (uint32_t)buffer_size(&message.bytes));
	pack_bytes(&body, buffer_bytes(&message.bytes), (uint32_t)buffer_size(&message.bytes));
	body.failed |= message.failed;
	peer->delivery_size = buffer_size(&body.bytes);
	p->out_bytes += peer->delivery_size;
	if (delivery_begin_take(&to, &body, &peer->delivery, &err) < 0) {
		p->out_bytes -= peer->delivery_size;
		peers_fail(p, err.text);
	}
}

/* Sends what can be sent now. */
static void peer_pump(struct peer *peer)
{
	struct pmix_peers *p = peer->peers;
	struct waiting *w;

	while (!peer->delivery && (w = STAILQ_FIRST(&peer->waiting))) {
		_cleanup_pack_ struct pack message = {0};

		if (peer->conn) {
			put_message(p, &message, &w->head, &w->body, false, p->options.native);
			conn_add(peer->conn, &message);
		} else if (peer->offered) {
			return; /* it connects */
		} else {
			send_by_slurmd(peer, w);
		}
		waiting_free(peer, w);
	}
	if (peer->conn)
		conn_flush(peer->conn);
}

void pmix_peers_send_take(
	struct pmix_peers *p, uint32_t node, const struct slurm_pmix_head *head, struct pack *body)
{
	_cleanup_pack_ struct pack taken = take_struct(*body);
	size_t size = buffer_size(&taken.bytes);
	struct peer *peer = &p->peers[node];
	bool fits =
		size <= SLURM_PMIX_MAX - SLURM_PMIX_PORT_SIZE && p->out_bytes + size <= BYTES_MAX;
	struct waiting *w = taken.failed || !fits ? NULL : calloc(1, sizeof(*w));

	if (!w) {
		peers_fail(p, "its nodes don't take messages, or memory is short");
		return;
	}
	w->head = *head;
	w->body = take_struct(taken);
	p->out_bytes += size;
	STAILQ_INSERT_TAIL(&peer->waiting, w, link);
	peer_pump(peer);
}

/* ---- a connection to a node ---------------------------------------------------------------- */

/* As the step's user, whose processes can have it, by a port of their own: with one of root's they
 * would be admitted to the steps of others. Real and saved uid stay root's. */
static int make_credential(struct pmix_peers *p, char **ret_credential, struct err *err)
{
	uid_t own = geteuid(), uid = p->options.init->launch.uid;
	int r;

	if (uid != own && setresuid((uid_t)-1, uid, (uid_t)-1) < 0)
		return err_set(err, -errno, "make a credential as uid %u", (unsigned)uid);
	r = slurm_auth_encode(p->options.auth, 0, NULL, 0, ret_credential, err);
	if (uid != own && setresuid((uid_t)-1, own, (uid_t)-1) < 0)
		abort(); /* root's real uid allows it */
	return r;
}

/* Who makes it: the first message. */
static int put_introduction(struct pmix_peers *p, struct pack *out, struct err *err)
{
	static const struct slurm_pmix_head head = {.type = SLURM_PMIX_CONNECT};
	_cleanup_free_ char *credential = NULL;
	_cleanup_pack_ struct pack body = {0};
	int r = make_credential(p, &credential, err);

	if (r < 0)
		return r;
	slurm_pmix_put_credential(&body, slurm_auth_plugin(p->options.auth), credential);
	put_message(p, out, &head, &body, true, p->options.native);
	return out->failed ? err_set(err, -ENOMEM, "make a message") : 0;
}

static int begin_connection(const struct sockaddr_in *address)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	send_small_ones_at_once(fd);
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		errno != EINPROGRESS)
		return -errno;
	return take_fd(&fd);
}

static void peer_connect(struct peer *peer, uint16_t port)
{
	struct pmix_peers *p = peer->peers;
	struct sockaddr_in address = p->options.nodes[peer->node].address;
	_cleanup_pack_ struct pack introduction = {0};
	struct err err = ERR_INIT;
	int fd;

	address.sin_port = htons(port);
	if (put_introduction(p, &introduction, &err) < 0) {
		peers_fail(p, err.text);
		return;
	}
	fd = begin_connection(&address);
	peer->conn = fd < 0 ? NULL : conn_new(p, CONN_NODE, fd);
	if (!peer->conn) {
		(void)err_set(&err, fd < 0 ? fd : -ENOMEM, "connect to node %u", peer->node);
		peers_fail(p, err.text);
		return;
	}
	peer->conn->peer = peer;
	peer->conns_count++;
	conn_add(peer->conn, &introduction);
	peer_pump(peer);
}

/* The node has sent its port. Where both have, slurmstepd compares the other's number in the job
 * with its own in the step: so there may be one of which neither side connects, and then this one
 * does. */
static void peer_take_port(struct peer *peer, uint16_t port)
{
	const struct pmix_peers_options *o = &peer->peers->options;
	bool other_connects = o->nodes[o->node].job_node < peer->node;

	if (peer->conn || !o->direct)
		return;
	if (!peer->offered || o->nodes[peer->node].job_node < o->node || !other_connects)
		peer_connect(peer, port);
}

/* What waits goes by slurmd then, and offers a new connection. */
static void conn_lose(struct conn *c)
{
	struct peer *peer = c->peer;
	bool cut = peer && bytes_size(&c->out) > 0;
	char why[80];

	conn_close(c);
	if (cut) {
		(void)snprintf(why, sizeof(why), "the connection to node %u of the step has ended",
			peer->node);
		peers_fail(peer->peers, why);
	} else if (peer) {
		peer_pump(peer);
	}
}

/* ---- from the other nodes ------------------------------------------------------------------ */

static struct peer *find_peer(struct pmix_peers *p, uint32_t job_node)
{
	uint32_t i;

	for (i = 0; i < p->options.nnodes; i++) {
		if (p->options.nodes[i].job_node == job_node && i != p->options.node)
			return &p->peers[i];
	}
	return NULL;
}

static bool is_nodes(struct pmix_peers *p, struct slice body)
{
	const struct slurm_init *init = p->options.init;
	const char *credential =
		slurm_pmix_read_credential(body, slurm_auth_plugin(p->options.auth));
	struct err err = ERR_INIT;
	uid_t uid;

	/* Others that root makes, as for a job or a message, users have, too: those have bytes. */
	return credential && slurm_auth_check(p->options.auth, credential, &uid, &err) == 0 &&
		(uid == 0 || uid == init->launch.uid);
}

/* The first message of a connection at the port. False: it is closed. */
static bool admit_caller(struct conn *c, const struct slurm_pmix_head *head, struct slice body)
{
	struct pmix_peers *p = c->peers;
	struct peer *peer = find_peer(p, head->node);
	uint16_t port;

	if (head->type != SLURM_PMIX_CONNECT || !peer || !head->has_port ||
		peer->conns_count >= NODE_CONNS_MAX || !slurm_pmix_take_port(&body, &port) ||
		!is_nodes(p, body)) {
		conn_close(c);
		return false;
	}
	forget_caller(c);
	c->kind = CONN_NODE;
	c->peer = peer;
	peer->conns_count++;
	ev_timer_stop(p->options.loop, &c->limit);
	if (!peer->conn)
		peer->conn = c;
	peer_pump(peer);
	return true;
}

static void take_message(
	struct pmix_peers *p, const struct slurm_pmix_head *head, struct slice body)
{
	struct peer *peer = find_peer(p, head->node);
	uint16_t port;

	if (!peer || (head->has_port && !slurm_pmix_take_port(&body, &port)))
		return;
	if (head->has_port)
		peer_take_port(peer, port);
	if (head->type != SLURM_PMIX_CONNECT)
		p->options.message(p->options.userdata, peer->node, head, body);
}

/* 1: a message is whole, of *ret_size bytes; 0: more has to come; -EBADMSG. */
static int conn_find_message(const struct conn *c, struct slurm_pmix_head *ret_head,
	struct slice *ret_body, size_t *ret_size)
{
	struct slice in = slice_of(&c->in);
	size_t before = c->kind == CONN_RELAYED ? SLURM_PMIX_RELAY_SIZE : 0;
	bool native = c->kind != CONN_RELAYED && c->peers->options.native;

	if (in.size < before + SLURM_PMIX_HEAD_SIZE)
		return 0;
	in.data += before;
	in.size -= before;
	if (slurm_pmix_read_head(in, native, ret_head) < 0 ||
		(c->kind == CONN_CALLER && ret_head->size > CALLER_SIZE_MAX))
		return -EBADMSG;
	*ret_size = before + SLURM_PMIX_HEAD_SIZE + ret_head->size;
	*ret_body = (struct slice){in.data + SLURM_PMIX_HEAD_SIZE, ret_head->size};
	return in.size - SLURM_PMIX_HEAD_SIZE >= ret_head->size;
}

/* Of a node nothing more can come by it: the others would wait for what is lost. */
static void conn_fail(struct conn *c, const char *why)
{
	struct pmix_peers *p = c->peers;

	conn_close(c);
	peers_fail(p, why);
}

static void conn_take_messages(struct conn *c)
{
	struct slurm_pmix_head head;
	struct slice body;
	size_t size;
	int r;

	while ((r = conn_find_message(c, &head, &body, &size)) > 0) {
		if (c->kind == CONN_CALLER) {
			if (!admit_caller(c, &head, body))
				return;
		} else {
			take_message(c->peers, &head, body);
		}
		bytes_drop(&c->in, size);
		c->peers->in_bytes -= size;
		if (c->kind == CONN_RELAYED) {
			conn_close(c);
			return;
		}
	}
	if (r < 0 && c->kind == CONN_NODE)
		conn_fail(c, "a node has sent what is no message of PMIx");
	else if (r < 0)
		conn_close(c); /* slurmd relays what any process of the user's sends */
}

static void conn_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct conn *c = io->data;
	char piece[PIECE_SIZE];
	ssize_t n;

	assert(c);
	n = recv(c->fd, piece, sizeof(piece), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_lose(c);
		return;
	}
	if (c->peers->in_bytes + (size_t)n <= BYTES_MAX)
		bytes_add(&c->in, piece, (size_t)n);
	else
		c->in.failed = true;
	if (c->in.failed && c->kind != CONN_CALLER) {
		conn_fail(c, "messages of its nodes are too large, or memory is short");
		return;
	}
	if (c->in.failed) {
		conn_close(c);
		return;
	}
	c->peers->in_bytes += (size_t)n;
	conn_take_messages(c);
}

/* ---- who connects -------------------------------------------------------------------------- */

static bool is_admitted(const struct pmix_peers *p, int fd)
{
	const struct slurm_init *init = p->options.init;
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0 || size != sizeof(cred))
		return false;
	return cred.uid == 0 || cred.uid == init->site->slurm_user || cred.uid == init->launch.uid;
}

static void on_relayed(int accepted_fd, void *userdata)
{
	struct pmix_peers *p = userdata;
	_cleanup_close_ int fd = accepted_fd;

	assert(p);
	if (fd < 0 || !is_admitted(p, fd) || !conn_new(p, CONN_RELAYED, take_fd(&fd)))
		return; /* the sender tries again */
	if (p->relayed_count == RELAYED_MAX)
		wire_listener_stop(&p->relay_listener); /* the others wait */
}

static void on_caller(int accepted_fd, void *userdata)
{
	struct pmix_peers *p = userdata;
	_cleanup_close_ int fd = accepted_fd;
	struct sockaddr_in from;
	socklen_t size = sizeof(from);
	struct conn *c;

	assert(p);
	if (fd < 0 || getpeername(fd, (struct sockaddr *)&from, &size) < 0)
		return; /* it may have gone again */
	if (p->callers_count == PMIX_PEERS_CALLERS_MAX)
		conn_close(choose_caller(p));
	send_small_ones_at_once(fd);
	c = conn_new(p, CONN_CALLER, take_fd(&fd));
	if (c) /* without memory the node goes by slurmd */
		c->address = from.sin_addr;
}

/* ---- its life ------------------------------------------------------------------------------ */

static int listen_at_socket(struct pmix_peers *p, struct err *err)
{
	const struct slurm_init *init = p->options.init;
	const char *dir = init->site->spool_pattern; /* the default is every node's */
	char name[64];
	int r = spool_open_slurmds(init->conf.spool_dir, &p->spool, err);

	(void)snprintf(name, sizeof(name), "stepd.slurm.pmix.%u.%u", init->launch.id.job,
		init->launch.id.step);
	if (r == 0)
		r = spool_listen(p->spool, name, &p->socket, err);
	if (r < 0)
		return r;
	if (asprintf(&p->path, "%s/%s", dir ? dir : init->conf.spool_dir, name) < 0) {
		p->path = NULL;
		return err_set(err, -ENOMEM, "listen for PMIx");
	}
	wire_listener_start(&p->relay_listener, spool_socket_get_fd(p->socket));
	return 0;
}

/* Of any address: which the other nodes use is not known. The port is any, or, as slurmstepd from
 * 24.05 on has it, one of SrunPortRange: a firewall may let these pass alone. Steps of a node begin
 * to look at different ones. */
static int bind_port(int fd, const struct slurm_node_conf *conf)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
	uint32_t first = conf->srun_port_min, last = conf->srun_port_max, i;
	uint32_t count = first && last >= first ? last - first + 1 : 0;

	for (i = 0; i == 0 || i < count; i++) {
		if (count)
			address.sin_port =
				htons((uint16_t)(first + ((uint32_t)getpid() + i) % count));
		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
	}
	return -EADDRINUSE;
}

static int listen_at_port(struct pmix_peers *p, struct err *err)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);
	int r;

	p->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = p->port_fd < 0 ? -errno : bind_port(p->port_fd, &p->options.init->conf);
	if (r < 0)
		return err_set(err, r, "listen for the other nodes' PMIx");
	if (listen(p->port_fd, BACKLOG) < 0 ||
		getsockname(p->port_fd, (struct sockaddr *)&address, &size) < 0)
		return err_set(err, -errno, "listen for the other nodes' PMIx");
	p->port = ntohs(address.sin_port);
	wire_listener_start(&p->port_listener, p->port_fd);
	return 0;
}

int pmix_peers_open(
	const struct pmix_peers_options *options, struct pmix_peers **ret_peers, struct err *err)
{
	struct pmix_peers *p = calloc(1, sizeof(*p));
	uint32_t i;
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "listen for PMIx");
	p->options = *options;
	p->port_fd = -1;
	LIST_INIT(&p->conns);
	wire_listener_init(&p->relay_listener, options->loop, on_relayed, p);
	wire_listener_init(&p->port_listener, options->loop, on_caller, p);
	p->peers = calloc(options->nnodes, sizeof(*p->peers));
	for (i = 0; p->peers && i < options->nnodes; i++) {
		p->peers[i] = (struct peer){.peers = p, .node = i};
		STAILQ_INIT(&p->peers[i].waiting);
	}
	r = p->peers ? 0 : err_set(err, -ENOMEM, "listen for PMIx");
	if (r == 0 && options->direct)
		r = listen_at_port(p, err);
	if (r == 0)
		r = listen_at_socket(p, err);
	if (r < 0)
		(void)pmix_peers_close(p);
	else
		*ret_peers = p;
	return r;
}

static void peer_clear(struct peer *peer)
{
	struct waiting *w;

	peer->delivery = delivery_cancel(peer->delivery);
	while ((w = STAILQ_FIRST(&peer->waiting)))
		waiting_free(peer, w);
}

struct pmix_peers *pmix_peers_close(struct pmix_peers *p)
{
	uint32_t i;

	if (!p)
		return NULL;
	p->is_closing = true;
	wire_listener_stop(&p->relay_listener);
	wire_listener_stop(&p->port_listener);
	p->socket = spool_socket_close(p->socket);
	while (!LIST_EMPTY(&p->conns))
		conn_close(LIST_FIRST(&p->conns));
	for (i = 0; p->peers && i < p->options.nnodes; i++)
		peer_clear(&p->peers[i]);
	free(p->peers);
	p->port_fd = close_fd(p->port_fd);
	p->spool = spool_close(p->spool);
	free(p->path);
	free(p);
	return NULL;
}
