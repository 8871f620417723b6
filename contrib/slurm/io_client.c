/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/io_client.h"

#include <assert.h>
#include <ev.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "contrib/slurm/pack.h"
#include "contrib/slurm/unpack.h"
#include "stepd/base/clock.h"

#define CONNECT_TIMEOUT_S 10.0
#define DRAIN_MAX_MS      10000

struct io_client {
	struct io_client_options options;
	void *key;
	int fd; /* -1: gone */
	bool is_connected, finishing;
	ev_io watcher;
	ev_timer timer; /* of the connection, then of its patience */
	struct buffer out, in;
};

/* ---- to the client ------------------------------------------------------------------------- */

bool io_client_has_gone(const struct io_client *c)
{
	return c->fd < 0;
}

size_t io_client_get_pending(const struct io_client *c)
{
	return buffer_size(&c->out);
}

static void io_client_lose(struct io_client *c)
{
	ev_io_stop(c->options.loop, &c->watcher);
	ev_timer_stop(c->options.loop, &c->timer);
	c->fd = close_fd(c->fd);
	buffer_clear(&c->out);
	buffer_clear(&c->in);
}

/* Half a message would disturb all that follow. */
static void put_end(struct io_client *c, const struct pack *p)
{
	c->out = p->bytes;
	if (!p->failed)
		return;
	io_client_lose(c);
	ev_feed_event(c->options.loop, &c->timer, EV_TIMER); /* an event is due */
}

void io_client_put(struct io_client *c, const struct io_message *m)
{
	struct pack p = {.bytes = c->out};

	if (c->fd < 0)
		return;
	pack_u16(&p, (uint16_t)m->type);
	pack_u16(&p, (uint16_t)m->rank);
	pack_u16(&p, (uint16_t)m->local_id);
	pack_bytes(&p, m->data, m->size);
	put_end(c, &p);
}

void io_client_put_raw(struct io_client *c, const void *data, size_t size)
{
	struct pack p = {.bytes = c->out};

	if (c->fd < 0 || size == 0)
		return;
	pack_raw(&p, data, size);
	put_end(c, &p);
}

void io_client_put_hello(struct io_client *c, uint32_t outputs, uint32_t errors)
{
	const struct io_client_options *o = &c->options;
	_cleanup_pack_ struct pack hello = {0};
	struct pack p = {.bytes = c->out};

	if (c->fd < 0)
		return;
	pack_u16(&hello, o->version);
	pack_u32(&hello, o->node_id);
	pack_u32(&hello, outputs);
	pack_u32(&hello, errors);
	pack_bytes(&hello, c->key, o->key_size);
	pack_bytes(&p, buffer_bytes(&hello.bytes), (uint32_t)buffer_size(&hello.bytes));
	p.failed |= hello.failed;
	put_end(c, &p);
}

static void io_client_send(struct io_client *c)
{
	ssize_t n = send(
		c->fd, buffer_bytes(&c->out), buffer_size(&c->out), MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		io_client_lose(c);
		return;
	}
	buffer_drop(&c->out, (size_t)n);
	if (ev_is_active(&c->timer))
		ev_timer_again(c->options.loop, &c->timer); /* it takes something */
}

/* ---- from the client ----------------------------------------------------------------------- */

/* Takes the next message: 1; 0: it is not here yet; -errno. */
static int take_message(struct io_client *c)
{
	struct unpack u = {
		.data = (const uint8_t *)buffer_bytes(&c->in), .size = buffer_size(&c->in)};
	struct io_message m = {0};
	int r = 0;

	if (u.size < IO_HEADER_SIZE)
		return 0;
	m.type = (enum io_message_type)unpack_u16(&u);
	m.rank = unpack_u16(&u);
	m.local_id = unpack_u16(&u);
	m.size = unpack_u32(&u);
	if (m.size > IO_MESSAGE_MAX)
		return -EBADMSG;
	if (u.size - u.at < m.size)
		return 0;
	m.data = u.data + u.at;
	if (m.type == IO_TEST)
		io_client_put(c, &(struct io_message){.type = IO_TEST});
	else
		r = c->options.message(c, &m, c->options.userdata);
	if (c->fd >= 0)
		buffer_drop(&c->in, IO_HEADER_SIZE + m.size);
	return r < 0 ? r : 1;
}

static void io_client_receive(struct io_client *c)
{
	char piece[16384];
	ssize_t n = recv(c->fd, piece, sizeof(piece), MSG_DONTWAIT);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r = n > 0 ? buffer_add(&c->in, piece, (size_t)n) : -ECONNRESET;
	while (r >= 0 && c->fd >= 0 && (r = take_message(c)) > 0)
		;
	if (r < 0)
		io_client_lose(c);
}

/* ---- the connection ------------------------------------------------------------------------ */

/* An sattach that has stopped must not stop the tasks for ever. It may stop with less to take than
 * what made them wait. */
static void watch_patience(struct io_client *c)
{
	bool waits = c->options.patience_s > 0 && buffer_size(&c->out) > 0 &&
		(c->finishing || buffer_size(&c->out) >= IO_PENDING_LOW);

	if (waits && !ev_is_active(&c->timer))
		ev_timer_again(c->options.loop, &c->timer);
	else if (!waits)
		ev_timer_stop(c->options.loop, &c->timer);
}

void io_client_watch(struct io_client *c, bool reads)
{
	int events = EV_WRITE;

	if (c->fd < 0)
		return;
	if (c->is_connected) {
		events = (reads ? EV_READ : 0) | (buffer_size(&c->out) > 0 ? EV_WRITE : 0);
		watch_patience(c);
	}
	if (ev_is_active(&c->watcher) && (c->watcher.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(c->options.loop, &c->watcher);
	ev_io_set(&c->watcher, c->fd, events);
	if (events)
		ev_io_start(c->options.loop, &c->watcher);
}

void io_client_finish(struct io_client *c)
{
	c->finishing = true;
}

static void connection_end(struct io_client *c, int r)
{
	ev_timer_stop(c->options.loop, &c->timer);
	ev_timer_set(&c->timer, 0., c->options.patience_s);
	c->is_connected = r == 0;
	if (r < 0)
		io_client_lose(c);
	c->options.connected(c, r, c->options.userdata);
}

static void connection_check(struct io_client *c)
{
	socklen_t size = sizeof(int);
	int error = 0, on = 1;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	/* Short messages must not wait for each other. */
	(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	connection_end(c, -error);
}

static void io_client_on_io(_unused_ struct ev_loop *loop, ev_io *watcher, int revents)
{
	struct io_client *c = watcher->data;

	assert(c);
	if (!c->is_connected) {
		connection_check(c);
	} else {
		if (revents & EV_READ)
			io_client_receive(c);
		if (c->fd >= 0 && (revents & EV_WRITE))
			io_client_send(c);
	}
	c->options.event(c, c->options.userdata);
}

static void io_client_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct io_client *c = timer->data;

	assert(c);
	if (c->is_connected)
		io_client_lose(c);
	else
		connection_end(c, -ETIMEDOUT);
	c->options.event(c, c->options.userdata);
}

static int io_client_connect(struct io_client *c, struct err *err)
{
	const struct sockaddr_in *address = &c->options.address;

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return err_set(err, -errno, "connect to srun");
	/* A refusal that is known at once is reported from the loop as well. */
	if (connect(c->fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		errno != EINPROGRESS)
		ev_timer_set(&c->timer, 0., 0.);
	ev_timer_start(c->options.loop, &c->timer);
	io_client_watch(c, false);
	return 0;
}

int io_client_new(
	const struct io_client_options *options, struct io_client **ret_client, struct err *err)
{
	struct io_client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "connect to srun");
	c->options = *options;
	c->fd = -1;
	ev_init(&c->watcher, io_client_on_io);
	c->watcher.data = c;
	ev_timer_init(&c->timer, io_client_on_timer, CONNECT_TIMEOUT_S, 0.);
	c->timer.data = c;
	c->key = malloc(options->key_size + 1);
	if (c->key)
		memcpy(c->key, options->key, options->key_size);
	r = c->key ? io_client_connect(c, err) : err_set(err, -ENOMEM, "connect to srun");
	if (r < 0)
		c = io_client_free(c);
	*ret_client = c;
	return r;
}

void io_client_drain(struct io_client *c)
{
	const int64_t end_ms = clock_now_ms() + DRAIN_MAX_MS;
	struct pollfd ready = {.events = POLLIN};
	int64_t now_ms;
	char piece[4096];
	ssize_t n;

	if (!c || c->fd < 0 || !c->is_connected || shutdown(c->fd, SHUT_WR) < 0)
		return;
	ready.fd = c->fd;
	while ((now_ms = clock_now_ms()) < end_ms && poll(&ready, 1, (int)(end_ms - now_ms)) >= 0) {
		n = recv(c->fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
	}
}

struct io_client *io_client_free(struct io_client *c)
{
	if (!c)
		return NULL;
	io_client_lose(c);
	free(c->key);
	free(c);
	return NULL;
}
