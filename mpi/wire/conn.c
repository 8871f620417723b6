/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/wire/net_impl.h"

#define READS_MOST 16 /* calls until the loop looks at others */

/* ---- the socket ----------------------------------------------------------------------------- */

/* A node that vanishes (its power, its cable) is noticed within half a minute: by what it does not
 * acknowledge, or by the kernel's questions where nothing is sent. */
void conn_set_options(int fd)
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

static size_t tag_size(const struct conn *conn)
{
	return conn->is_sealed ? WIRE_TAG_SIZE : 0;
}

/* The packet is other edges' too, so what is encrypted is a copy. */
static int seal(struct conn *conn, const struct wire_packet *p)
{
	struct wire_header h = p->header;
	struct wire_sealed frame = {
		.counter = conn->counter_out + 1, .header = conn->out_header, .size = h.length};
	size_t i, at = 0;

	if (conn->is_sealed) {
		conn->out_sealed = wire_buffer_new(frame.size + WIRE_TAG_SIZE);
		if (!conn->out_sealed)
			return -ENOMEM;
	}
	h.counter = ++conn->counter_out;
	wire_header_encode(&h, conn->out_header);
	if (!conn->is_sealed)
		return 0;
	for (i = 0; i < p->count; i++) {
		memcpy(conn->out_sealed->bytes + at, p->runs[i].data, p->runs[i].size);
		at += p->runs[i].size;
	}
	frame.data = conn->out_sealed->bytes;
	wire_seal(&conn->cipher_out, &frame);
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
static int send_packet(struct conn *conn, const struct wire_packet *p)
{
	struct iovec iov[WIRE_PACKET_RUNS_MAX + 1];
	struct msghdr msg = {.msg_iov = iov};
	const struct wire_buffer *sealed = conn->out_sealed;
	size_t skip = conn->out_sent, i;
	ssize_t n;

	assert(p->count <= WIRE_PACKET_RUNS_MAX);
	msg.msg_iovlen = add_iov(iov, 0, conn->out_header, WIRE_HEADER_SIZE, &skip);
	if (sealed)
		msg.msg_iovlen = add_iov(iov, msg.msg_iovlen, sealed->bytes, sealed->size, &skip);
	for (i = 0; !sealed && i < p->count; i++)
		msg.msg_iovlen =
			add_iov(iov, msg.msg_iovlen, p->runs[i].data, p->runs[i].size, &skip);
	n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	conn->out_sent += (size_t)n;
	return conn->out_sent == WIRE_HEADER_SIZE + p->header.length + tag_size(conn);
}

static int send_hello(struct conn *conn)
{
	ssize_t n = send(conn->fd, conn->hello_out + conn->out_sent,
		conn->hello_size - conn->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	conn->out_sent += (size_t)n;
	if (conn->out_sent < conn->hello_size)
		return 0;
	free(take_ptr(conn->hello_out));
	conn->out_sent = 0;
	return 1;
}

/* 0: what could go has gone; -ESHUTDOWN: the net is no more. */
static int conn_write(struct conn *conn)
{
	struct net *net = conn->net;
	const struct wire_packet *p;
	int r;

	conn->is_blocked = true;
	if (conn->hello_out) {
		r = send_hello(conn);
		if (r <= 0)
			return r;
	}
	while (conn->is_known && (p = wire_link_next(net->wire, conn->edge))) {
		r = conn->is_sending ? 0 : seal(conn, p);
		if (r < 0)
			return r;
		conn->is_sending = true;
		r = send_packet(conn, p);
		if (r <= 0)
			return r;
		conn->is_sending = false;
		conn->out_sealed = wire_release(conn->out_sealed);
		conn->out_sent = 0;
		r = wire_link_sent(net->wire, conn->edge);
		if (r < 0)
			return r;
	}
	conn->is_blocked = false;
	return 0;
}

/* ---- in ------------------------------------------------------------------------------------- */

static int check_header(struct conn *conn, struct err *err)
{
	int r = wire_header_decode(conn->header_bytes, &conn->header, err);

	if (r < 0)
		return r;
	if ((conn->header.type == WIRE_HELLO) == conn->is_known)
		return err_say(err, -EPROTO, "it sent a frame (%s) where none may come",
			wire_type_name(conn->header.type));
	if (!conn->is_known && conn->header.length > WIRE_PROOF_MAX)
		return err_say(err, -EPROTO, "its greeting has %u bytes", conn->header.length);
	if (conn->is_known && conn->header.counter != conn->counter_in + 1)
		return err_say(err, -EPROTO,
			"it sent frame %llu after frame %llu: something repeats or loses them",
			(unsigned long long)conn->header.counter,
			(unsigned long long)conn->counter_in);
	conn->payload = wire_buffer_new(conn->header.length + tag_size(conn));
	if (!conn->payload)
		return err_set(err, -ENOMEM, "a frame of it");
	conn->payload_have = 0;
	conn->has_header = true;
	return 0;
}

static int unseal(struct conn *conn, struct err *err)
{
	struct wire_sealed frame = {.counter = conn->counter_in,
		.header = conn->header_bytes,
		.data = conn->payload->bytes,
		.size = conn->header.length};

	if (conn->is_sealed && wire_unseal(&conn->cipher_in, &frame) < 0)
		return err_say(err, -EPROTO, "a frame of it was changed on its way");
	return 0;
}

/* A frame is here. -ESHUTDOWN: the net is no more. */
static int take_frame(struct conn *conn, struct err *err)
{
	_cleanup_wire_buffer_ struct wire_buffer *payload = NULL;
	int r;

	conn->has_header = false;
	if (!conn->is_known) {
		r = hello_receive(conn, err);
		conn->payload = wire_release(conn->payload);
		return r;
	}
	conn->counter_in++;
	r = unseal(conn, err);
	payload = take_ptr(conn->payload);
	return r < 0 ? r
		     : wire_link_frame(conn->net->wire, conn->edge, &conn->header, payload, err);
}

static size_t take_staged(struct conn *conn, unsigned char *to, size_t size)
{
	size_t n = conn->staged - conn->staged_at < size ? conn->staged - conn->staged_at : size;

	memcpy(to, conn->staging + conn->staged_at, n);
	conn->staged_at += n;
	return n;
}

static bool may_read(const struct conn *conn)
{
	return !conn->is_known || wire_link_may_read(conn->net->wire, conn->edge);
}

/* Frames out of what is staged. 1: more has to come; 0: they can't be taken now. */
static int parse(struct conn *conn, struct err *err)
{
	int r;

	conn->is_paused = false;
	while (may_read(conn)) {
		if (!conn->has_header) {
			if (conn->staged - conn->staged_at < WIRE_HEADER_SIZE)
				return 1;
			(void)take_staged(conn, conn->header_bytes, WIRE_HEADER_SIZE);
			r = check_header(conn, err);
			if (r < 0)
				return r;
		}
		conn->payload_have += take_staged(conn, conn->payload->bytes + conn->payload_have,
			conn->payload->size - conn->payload_have);
		if (conn->payload_have < conn->payload->size)
			return 1;
		r = take_frame(conn, err);
		if (r < 0)
			return r;
	}
	conn->is_paused = true;
	return 0;
}

/* Large payloads straight to where they belong. 0: nothing there; else bytes, or -errno. */
static ssize_t receive(struct conn *conn)
{
	struct iovec iov[2];
	struct msghdr msg = {.msg_iov = iov};
	size_t missing = conn->has_header ? conn->payload->size - conn->payload_have : 0;
	ssize_t n;

	if (conn->staged_at > 0)
		memmove(conn->staging, conn->staging + conn->staged_at,
			conn->staged - conn->staged_at);
	conn->staged -= conn->staged_at;
	conn->staged_at = 0;
	if (missing > 0)
		iov[msg.msg_iovlen++] =
			(struct iovec){conn->payload->bytes + conn->payload_have, missing};
	iov[msg.msg_iovlen++] =
		(struct iovec){conn->staging + conn->staged, sizeof(conn->staging) - conn->staged};
	n = recvmsg(conn->fd, &msg, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0)
		return -EPIPE;
	conn->payload_have += (size_t)n < missing ? (size_t)n : missing;
	conn->staged += (size_t)n > missing ? (size_t)n - missing : 0;
	return n;
}

static int conn_read(struct conn *conn, struct err *err)
{
	ssize_t n;
	int i, r = 0;

	for (i = 0; i < READS_MOST; i++) {
		r = parse(conn, err);
		if (r <= 0)
			return r;
		n = receive(conn);
		if (n == -EPIPE)
			return err_say(err, -EPIPE, "it has closed the connection");
		if (n < 0)
			return err_set(err, (int)n, "the connection to it");
		if (n == 0)
			return 0;
	}
	r = parse(conn, err);
	return r < 0 ? r : 0;
}

/* ---- the loop ------------------------------------------------------------------------------- */

void conn_watch(struct conn *conn)
{
	struct ev_loop *loop = conn->net->loop;
	int events = (may_read(conn) ? EV_READ : 0) | (conn->is_blocked ? EV_WRITE : 0);

	/* The call of connect(2) is still under way. */
	if (conn->is_ours && conn->stage == 0)
		events = EV_WRITE;
	if ((conn->io.events & (EV_READ | EV_WRITE)) != events || !ev_is_active(&conn->io)) {
		ev_io_stop(loop, &conn->io);
		ev_io_set(&conn->io, conn->fd, events);
		if (events != 0)
			ev_io_start(loop, &conn->io);
	}
	/* What is staged comes with no event of the socket's. */
	if ((events & EV_READ) && conn->is_paused)
		ev_feed_event(loop, &conn->io, EV_READ);
}

void conn_wake(struct conn *conn)
{
	if (!conn->is_blocked)
		ev_feed_event(conn->net->loop, &conn->io, EV_WRITE);
}

static int finish_connect(struct conn *conn, struct err *err)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error != 0)
		return err_set(err, -error, "it can't be connected to");
	return hello_start(conn, err);
}

static int serve(struct conn *conn, int revents, struct err *err)
{
	int r = 0;

	if (conn->is_ours && conn->stage == 0)
		r = finish_connect(conn, err);
	else if (revents & EV_READ)
		r = conn_read(conn, err);
	if (r == 0) {
		r = conn_write(conn);
		if (r < 0 && r != -ESHUTDOWN)
			(void)err_set(err, r, "the connection to it");
	}
	return r;
}

static void on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *conn = io->data;
	struct err err = ERR_INIT;
	int r = serve(conn, revents, &err);

	(void)loop;
	if (r >= 0)
		conn_watch(conn);
	else if (r != -ESHUTDOWN) /* else it is gone with all others */
		net_conn_failed(conn, &err);
}

static void on_greeting(struct ev_loop *loop, ev_timer *timer, int revents)
{
	struct conn *conn = timer->data;
	struct err err = ERR_INIT;

	(void)loop;
	(void)revents;
	(void)err_say(
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
	ev_io_init(&conn->io, on_io, fd, 0);
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
	(void)wire_release(conn->payload);
	(void)wire_release(conn->out_sealed);
	free(conn->hello_out);
	explicit_bzero(conn, sizeof(*conn)); /* its keys */
	free(conn);
	return NULL;
}
