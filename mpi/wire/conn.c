/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection: its greeting, then the frames of an edge.
 */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/wire/net_impl.h"

/* ---- the greeting ---------------------------------------------------------------------------
 *
 * Four frames of type HELLO, by their channel:
 *	1 child to parent	which step and nodes (in the header), how to authenticate, a nonce
 *	2 parent to child	the same
 *	3 child to parent	its proof
 *	4 parent to child	its proof
 * or 5, from the parent, a sentence: why it goes no further. So the parent, whom anybody can
 * connect to, does what is costly only for those who have proved themselves.
 */

#define OFFER_SIZE (4u + WIRE_NONCE_SIZE)

enum {
	HELLO_CHILD = 1,
	HELLO_PARENT,
	HELLO_CHILD_PROOF,
	HELLO_PARENT_PROOF,
	HELLO_REFUSED
};

static int hello_put(
	struct conn *conn, unsigned stage, const void *data, size_t size, struct err *err)
{
	struct wire_header h = {.type = WIRE_HELLO,
		.source = conn->net->node,
		.target = conn->is_ours ? conn->handshake.parent : conn->handshake.child,
		.step = conn->net->step,
		.channel = (uint16_t)stage,
		.length = (uint32_t)size};

	free(conn->out.hello);
	conn->out.hello = malloc(WIRE_HEADER_SIZE + size);
	if (!conn->out.hello)
		return err_set(err, -ENOMEM, "a greeting");
	wire_header_encode(&h, conn->out.hello);
	if (size > 0)
		memcpy(conn->out.hello + WIRE_HEADER_SIZE, data, size);
	conn->out.hello_size = WIRE_HEADER_SIZE + size;
	conn->out.sent = 0;
	conn->stage = stage;
	return 0;
}

static int hello_put_offer(struct conn *conn, unsigned stage, enum wire_role role, struct err *err)
{
	unsigned char offer[OFFER_SIZE];
	int r = wire_auth_random(conn->handshake.nonce[role], WIRE_NONCE_SIZE, err);

	if (r < 0)
		return r;
	wire_put_u32(offer, conn->net->auth.kind);
	memcpy(offer + 4, conn->handshake.nonce[role], WIRE_NONCE_SIZE);
	return hello_put(conn, stage, offer, sizeof(offer), err);
}

static int hello_put_proof(struct conn *conn, unsigned stage, enum wire_role role, struct err *err)
{
	unsigned char proof[WIRE_PROOF_MAX];
	size_t size;
	int r = wire_auth_prove(&conn->net->auth, &conn->handshake, role, proof, &size, err);

	return r < 0 ? r : hello_put(conn, stage, proof, size, err);
}

static int hello_start(struct conn *conn, struct err *err)
{
	conn->handshake.step = conn->net->step;
	conn->handshake.child = conn->net->node;
	conn->handshake.parent = wire_link_node(conn->net->wire, 0);
	return hello_put_offer(conn, HELLO_CHILD, WIRE_ROLE_CHILD, err);
}

void conn_refuse(struct conn *conn, const char *why)
{
	struct err err = ERR_INIT;

	if (conn->is_ours || hello_put(conn, HELLO_REFUSED, why, strnlen(why, 512), &err) < 0)
		return;
	(void)send(conn->fd, conn->out.hello, conn->out.hello_size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- what has come -------------------------------------------------------------------------- */

static int hello_take_offer(struct conn *conn, enum wire_role role, struct err *err)
{
	const struct wire_header *h = &conn->in.header;
	uint32_t kind;

	if (h->length != OFFER_SIZE)
		return err_set_text(err, -EPROTO, "its greeting can't be read");
	kind = wire_get_u32(conn->in.payload->bytes);
	if (kind != conn->net->auth.kind)
		return err_set_text(err, -EACCES, "it authenticates by %s and this node by %s",
			wire_auth_name(kind), wire_auth_name(conn->net->auth.kind));
	memcpy(conn->handshake.nonce[role], conn->in.payload->bytes + 4, WIRE_NONCE_SIZE);
	return 0;
}

/* Which node the child claims to be. */
static int hello_check_child(struct conn *conn, struct err *err)
{
	const struct wire_header *h = &conn->in.header;
	const struct net *net = conn->net;
	size_t i, first = net->node > 0;

	if (h->step != net->step)
		return err_set_text(err, -EACCES, "it is of step %u.%u and this node of step %u.%u",
			(uint32_t)(h->step >> 32), (uint32_t)h->step, (uint32_t)(net->step >> 32),
			(uint32_t)net->step);
	if (h->target != net->node)
		return err_set_text(err, -EACCES, "it connects to node %u, and this is node %u",
			h->target, net->node);
	for (i = first; i < net->edges_count; i++) {
		if (wire_link_node(net->wire, i) == h->source)
			break;
	}
	if (i == net->edges_count)
		return err_set_text(err, -EACCES,
			"it claims to be node %u, which is no child of node %u in the tree"
			" (is the fanout the same on all nodes?)",
			h->source, net->node);
	if (net->edge[i].conn || net->edge[i].is_over)
		return err_set_text(err, -EALREADY, "node %u has connected before", h->source);
	conn->edge = i;
	conn->handshake.step = net->step;
	conn->handshake.child = h->source;
	conn->handshake.parent = net->node;
	return 0;
}

static void hello_make_keys(struct conn *conn)
{
	enum wire_role own = conn->is_ours ? WIRE_ROLE_CHILD : WIRE_ROLE_PARENT;
	enum wire_role other = conn->is_ours ? WIRE_ROLE_PARENT : WIRE_ROLE_CHILD;

	if (conn->net->auth.kind == WIRE_AUTH_NONE)
		return;
	conn->is_sealed = true;
	wire_auth_key(&conn->net->auth, &conn->handshake, own, &conn->out.cipher);
	wire_auth_key(&conn->net->auth, &conn->handshake, other, &conn->in.cipher);
}

static int hello_check_proof(struct conn *conn, enum wire_role role, struct err *err)
{
	return wire_auth_check(&conn->net->auth, &conn->handshake, role, conn->in.payload->bytes,
		conn->in.header.length, err);
}

/* 0: the greeting goes on; 1: it is over, and the child has proved itself. */
static int hello_from_child(struct conn *conn, struct err *err)
{
	int r;

	if (conn->stage == 0 && conn->in.header.channel == HELLO_CHILD) {
		r = hello_check_child(conn, err);
		if (r == 0)
			r = hello_take_offer(conn, WIRE_ROLE_CHILD, err);
		return r < 0 ? r : hello_put_offer(conn, HELLO_PARENT, WIRE_ROLE_PARENT, err);
	}
	if (conn->stage != HELLO_PARENT || conn->in.header.channel != HELLO_CHILD_PROOF)
		return err_set_text(err, -EPROTO, "its greeting can't be read");
	r = hello_check_proof(conn, WIRE_ROLE_CHILD, err);
	if (r < 0)
		return r;
	if (conn->net->edge[conn->edge].conn || conn->net->edge[conn->edge].is_over)
		return err_set_text(
			err, -EALREADY, "node %u has connected before", conn->handshake.child);
	r = hello_put_proof(conn, HELLO_PARENT_PROOF, WIRE_ROLE_PARENT, err);
	return r < 0 ? r : 1;
}

/* Likewise. */
static int hello_from_parent(struct conn *conn, struct err *err)
{
	int r;

	if (conn->in.header.channel == HELLO_REFUSED)
		return err_set_text(err, -EACCES, "it refuses this node: %.*s",
			(int)conn->in.header.length, (const char *)conn->in.payload->bytes);
	if (conn->in.header.step != conn->net->step ||
		conn->in.header.source != conn->handshake.parent)
		return err_set_text(err, -EACCES,
			"another step answers there, node %u of step %u.%u", conn->in.header.source,
			(uint32_t)(conn->in.header.step >> 32), (uint32_t)conn->in.header.step);
	if (conn->stage == HELLO_CHILD && conn->in.header.channel == HELLO_PARENT) {
		r = hello_take_offer(conn, WIRE_ROLE_PARENT, err);
		return r < 0 ? r : hello_put_proof(conn, HELLO_CHILD_PROOF, WIRE_ROLE_CHILD, err);
	}
	if (conn->stage != HELLO_CHILD_PROOF || conn->in.header.channel != HELLO_PARENT_PROOF)
		return err_set_text(err, -EPROTO, "its greeting can't be read");
	r = hello_check_proof(conn, WIRE_ROLE_PARENT, err);
	return r < 0 ? r : 1;
}

/* A message of the greeting has come, whole. Negative: the stranger is to go. */
static int hello_receive(struct conn *conn, struct err *err)
{
	int r = conn->is_ours ? hello_from_parent(conn, err) : hello_from_child(conn, err);

	if (r > 0) {
		hello_make_keys(conn);
		net_known(conn->net, conn);
	}
	return r < 0 ? r : 0;
}

#define READS_MOST 16 /* calls until the loop serves others */

/* ---- the socket ----------------------------------------------------------------------------- */

/* A node that vanishes (its power, its cable) is noticed within half a minute: by what it does not
 * acknowledge, or by the kernel's questions where nothing is sent. */
static void conn_set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 10},
		{IPPROTO_TCP, TCP_KEEPINTVL, 5},
		{IPPROTO_TCP, TCP_KEEPCNT, 4},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, 30000},
	};
	size_t i;

	/* Without one of them it is slower to notice, and works. */
	for (i = 0; i < ARRAY_SIZE(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			sizeof(options[i].value));
}

/* ---- out ------------------------------------------------------------------------------------ */

static size_t conn_tag_size(const struct conn *conn)
{
	return conn->is_sealed ? WIRE_TAG_SIZE : 0;
}

/* The packet is other edges' too, so what is encrypted is a copy. */
static int conn_seal(struct conn *conn, const struct wire_packet *p)
{
	struct wire_header h = p->header;
	struct wire_sealed frame = {
		.counter = conn->out.counter + 1, .header = conn->out.header, .size = h.length};
	size_t i, at = 0;

	if (conn->is_sealed) {
		conn->out.sealed = wire_buffer_new(frame.size + WIRE_TAG_SIZE);
		if (!conn->out.sealed)
			return -ENOMEM;
	}
	h.counter = ++conn->out.counter;
	wire_header_encode(&h, conn->out.header);
	if (!conn->is_sealed)
		return 0;
	for (i = 0; i < p->count; i++) {
		memcpy(conn->out.sealed->bytes + at, p->runs[i].data, p->runs[i].size);
		at += p->runs[i].size;
	}
	frame.data = conn->out.sealed->bytes;
	wire_seal(&conn->out.cipher, &frame);
	return 0;
}

static size_t add_iov(struct iovec *iov, size_t n, const void *data, size_t size, size_t *skip)
{
	if (*skip >= size) {
		*skip -= size;
		return n;
	}
	iov[n].iov_base = (unsigned char *)data + *skip;
	iov[n].iov_len = size - *skip;
	*skip = 0;
	return n + 1;
}

/* Sends on, from out_sent. 1: all of it has gone. */
static int conn_send_packet(struct conn *conn, const struct wire_packet *p)
{
	struct iovec iov[WIRE_PACKET_RUNS_MAX + 1];
	struct msghdr msg = {.msg_iov = iov};
	const struct wire_buffer *sealed = conn->out.sealed;
	size_t skip = conn->out.sent, i;
	ssize_t n;

	assert(p->count <= WIRE_PACKET_RUNS_MAX);
	msg.msg_iovlen = add_iov(iov, 0, conn->out.header, WIRE_HEADER_SIZE, &skip);
	if (sealed)
		msg.msg_iovlen = add_iov(iov, msg.msg_iovlen, sealed->bytes, sealed->size, &skip);
	for (i = 0; !sealed && i < p->count; i++)
		msg.msg_iovlen =
			add_iov(iov, msg.msg_iovlen, p->runs[i].data, p->runs[i].size, &skip);
	n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	conn->out.sent += (size_t)n;
	return conn->out.sent == WIRE_HEADER_SIZE + p->header.length + conn_tag_size(conn);
}

static int conn_send_hello(struct conn *conn)
{
	ssize_t n = send(conn->fd, conn->out.hello + conn->out.sent,
		conn->out.hello_size - conn->out.sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	conn->out.sent += (size_t)n;
	if (conn->out.sent < conn->out.hello_size)
		return 0;
	free(take_ptr(conn->out.hello));
	conn->out.sent = 0;
	return 1;
}

/* 0: what could go has gone; -ESHUTDOWN: the net is no more. */
static int conn_write(struct conn *conn)
{
	struct net *net = conn->net;
	const struct wire_packet *p;
	int r;

	conn->out.is_blocked = true;
	if (conn->out.hello) {
		r = conn_send_hello(conn);
		if (r <= 0)
			return r;
	}
	while (conn->is_known && (p = wire_link_next(net->wire, conn->edge))) {
		r = conn->out.is_sending ? 0 : conn_seal(conn, p);
		if (r < 0)
			return r;
		conn->out.is_sending = true;
		r = conn_send_packet(conn, p);
		if (r <= 0)
			return r;
		conn->out.is_sending = false;
		conn->out.sealed = wire_release(conn->out.sealed);
		conn->out.sent = 0;
		r = wire_link_sent(net->wire, conn->edge);
		if (r < 0)
			return r;
	}
	conn->out.is_blocked = false;
	return 0;
}

/* ---- in ------------------------------------------------------------------------------------- */

static int conn_check_header(struct conn *conn, struct err *err)
{
	int r = wire_header_decode(conn->in.header_bytes, &conn->in.header, err);

	if (r < 0)
		return r;
	if ((conn->in.header.type == WIRE_HELLO) == conn->is_known)
		return err_set_text(err, -EPROTO, "it sent an unexpected frame (%s)",
			wire_type_name(conn->in.header.type));
	if (!conn->is_known && conn->in.header.length > WIRE_PROOF_MAX)
		return err_set_text(
			err, -EPROTO, "its greeting has %u bytes", conn->in.header.length);
	if (conn->is_known && conn->in.header.counter != conn->in.counter + 1)
		return err_set_text(err, -EPROTO,
			"it sent frame %llu after frame %llu: something repeats or loses them",
			(unsigned long long)conn->in.header.counter,
			(unsigned long long)conn->in.counter);
	conn->in.payload = wire_buffer_new(conn->in.header.length + conn_tag_size(conn));
	if (!conn->in.payload)
		return err_set(err, -ENOMEM, "a frame of it");
	conn->in.payload_have = 0;
	conn->in.has_header = true;
	return 0;
}

static int conn_unseal(struct conn *conn, struct err *err)
{
	struct wire_sealed frame = {.counter = conn->in.counter,
		.header = conn->in.header_bytes,
		.data = conn->in.payload->bytes,
		.size = conn->in.header.length};

	if (conn->is_sealed && wire_unseal(&conn->in.cipher, &frame) < 0)
		return err_set_text(err, -EPROTO, "a frame of it was changed on its way");
	return 0;
}

/* A frame is here. -ESHUTDOWN: the net is no more. */
static int conn_take_frame(struct conn *conn, struct err *err)
{
	_cleanup_wire_buffer_ struct wire_buffer *payload = NULL;
	int r;

	conn->in.has_header = false;
	if (!conn->is_known) {
		r = hello_receive(conn, err);
		conn->in.payload = wire_release(conn->in.payload);
		return r;
	}
	conn->in.counter++;
	r = conn_unseal(conn, err);
	payload = take_ptr(conn->in.payload);
	return r < 0 ? r
		     : wire_link_frame(conn->net->wire, conn->edge, &conn->in.header, payload, err);
}

static size_t conn_take_staged(struct conn *conn, unsigned char *to, size_t size)
{
	size_t n = conn->in.staged - conn->in.staged_at < size
		? conn->in.staged - conn->in.staged_at
		: size;

	memcpy(to, conn->in.staging + conn->in.staged_at, n);
	conn->in.staged_at += n;
	return n;
}

static bool conn_may_read(const struct conn *conn)
{
	return !conn->is_known || wire_link_may_read(conn->net->wire, conn->edge);
}

/* Frames out of what is staged. 1: more has to come; 0: they can't be taken now. */
static int conn_parse(struct conn *conn, struct err *err)
{
	int r;

	conn->in.is_paused = false;
	while (conn_may_read(conn)) {
		if (!conn->in.has_header) {
			if (conn->in.staged - conn->in.staged_at < WIRE_HEADER_SIZE)
				return 1;
			(void)conn_take_staged(conn, conn->in.header_bytes, WIRE_HEADER_SIZE);
			r = conn_check_header(conn, err);
			if (r < 0)
				return r;
		}
		conn->in.payload_have +=
			conn_take_staged(conn, conn->in.payload->bytes + conn->in.payload_have,
				conn->in.payload->size - conn->in.payload_have);
		if (conn->in.payload_have < conn->in.payload->size)
			return 1;
		r = conn_take_frame(conn, err);
		if (r < 0)
			return r;
	}
	conn->in.is_paused = true;
	return 0;
}

/* Large payloads straight to where they belong. 0: nothing there; else bytes, or -errno. */
static ssize_t conn_receive(struct conn *conn)
{
	struct iovec iov[2];
	struct msghdr msg = {.msg_iov = iov};
	size_t missing = conn->in.has_header ? conn->in.payload->size - conn->in.payload_have : 0;
	ssize_t n;

	if (conn->in.staged_at > 0)
		memmove(conn->in.staging, conn->in.staging + conn->in.staged_at,
			conn->in.staged - conn->in.staged_at);
	conn->in.staged -= conn->in.staged_at;
	conn->in.staged_at = 0;
	if (missing > 0)
		iov[msg.msg_iovlen++] =
			(struct iovec){conn->in.payload->bytes + conn->in.payload_have, missing};
	iov[msg.msg_iovlen++] = (struct iovec){
		conn->in.staging + conn->in.staged, sizeof(conn->in.staging) - conn->in.staged};
	n = recvmsg(conn->fd, &msg, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	conn->in.payload_have += (size_t)n < missing ? (size_t)n : missing;
	conn->in.staged += (size_t)n > missing ? (size_t)n - missing : 0;
	return n;
}

static int conn_read(struct conn *conn, struct err *err)
{
	ssize_t n;
	int i, r = 0;

	for (i = 0; i < READS_MOST; i++) {
		r = conn_parse(conn, err);
		if (r <= 0)
			return r;
		n = conn_receive(conn);
		if (n == -EPIPE)
			return err_set_text(err, -EPIPE, "it has closed the connection");
		if (n < 0)
			return err_set(err, (int)n, "the connection to it");
		if (n == 0)
			return 0;
	}
	r = conn_parse(conn, err);
	return r < 0 ? r : 0;
}

/* ---- the loop ------------------------------------------------------------------------------- */

void conn_watch(struct conn *conn)
{
	struct ev_loop *loop = conn->net->loop;
	int events = (conn_may_read(conn) ? EV_READ : 0) | (conn->out.is_blocked ? EV_WRITE : 0);

	/* The call of connect(2) is still under way. */
	if (conn->is_ours && conn->stage == 0)
		events = EV_WRITE;
	if ((conn->io.events & (EV_READ | EV_WRITE)) != events || !ev_is_active(&conn->io)) {
		ev_io_stop(loop, &conn->io);
		ev_io_set(&conn->io, conn->fd, events);
		if (events != 0)
			ev_io_start(loop, &conn->io);
	}
	/* Staged bytes come with no event of the socket's. */
	if ((events & EV_READ) && conn->in.is_paused)
		ev_feed_event(loop, &conn->io, EV_READ);
}

void conn_wake(struct conn *conn)
{
	if (!conn->out.is_blocked)
		ev_feed_event(conn->net->loop, &conn->io, EV_WRITE);
}

static int conn_finish_connect(struct conn *conn, struct err *err)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error != 0)
		return err_set(err, -error, "it can't be connected to");
	return hello_start(conn, err);
}

static int conn_serve(struct conn *conn, int revents, struct err *err)
{
	int r = 0;

	if (conn->is_ours && conn->stage == 0)
		r = conn_finish_connect(conn, err);
	else if (revents & EV_READ)
		r = conn_read(conn, err);
	if (r == 0) {
		r = conn_write(conn);
		if (r < 0 && r != -ESHUTDOWN)
			(void)err_set(err, r, "the connection to it");
	}
	return r;
}

static void conn_on_io(_unused_ struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *conn = io->data;
	struct err err = ERR_INIT;
	int r = conn_serve(conn, revents, &err);

	if (r >= 0)
		conn_watch(conn);
	else if (r != -ESHUTDOWN) /* else it is gone with all others */
		net_conn_failed(conn, &err);
}

static void on_greeting(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct conn *conn = timer->data;
	struct err err = ERR_INIT;

	(void)err_set_text(
		&err, -ETIMEDOUT, "it did not answer the greeting within %u ms", NET_GREETING_MS);
	net_conn_failed(conn, &err);
}

struct conn *conn_new(struct net *net, int fd, bool is_ours)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (!conn) {
		(void)close_fd(fd);
		return NULL;
	}
	conn->net = net;
	conn->fd = fd;
	conn->edge = is_ours ? 0 : SIZE_MAX;
	conn->is_ours = is_ours;
	conn_set_options(fd);
	ev_io_init(&conn->io, conn_on_io, fd, 0);
	conn->io.data = conn;
	ev_timer_init(&conn->greeting, on_greeting, NET_GREETING_MS / 1000., 0.);
	conn->greeting.data = conn;
	ev_timer_start(net->loop, &conn->greeting);
	TAILQ_INSERT_TAIL(&net->strangers, conn, link);
	net->strangers_count++;
	return conn;
}

struct conn *conn_free(struct conn *conn)
{
	if (!conn)
		return NULL;
	if (!conn->is_known) {
		TAILQ_REMOVE(&conn->net->strangers, conn, link);
		conn->net->strangers_count--;
	}
	ev_io_stop(conn->net->loop, &conn->io);
	ev_clear_pending(conn->net->loop, &conn->io);
	ev_timer_stop(conn->net->loop, &conn->greeting);
	(void)close_fd(conn->fd);
	(void)wire_release(conn->in.payload);
	(void)wire_release(conn->out.sealed);
	free(conn->out.hello);
	explicit_bzero(conn, sizeof(*conn)); /* its keys */
	free(conn);
	return NULL;
}
