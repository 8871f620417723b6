/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/delivery.h"

#include <assert.h>
#include <ev.h>
#include <string.h>
#include <sys/socket.h>

#define READ_SIZE 4096

const struct delivery_retry delivery_to_srun = {.tries = 5, .first_s = 0.1, .longest_s = 0.8};
const struct delivery_retry delivery_to_controller = {.first_s = 1, .longest_s = 60};

struct delivery {
	struct delivery_options options;
	struct pack body;
	unsigned tries;
	unsigned host; /* of this try */
	bool connected;
	double pause_s;
	int fd; /* -1 between tries */
	struct buffer out, in;
	ev_io io;
	ev_timer timer; /* the end of a try, or of a pause */
	struct err err; /* of the last try */
};

static void try_begin(struct delivery *d);

static void try_close(struct delivery *d)
{
	ev_io_stop(d->options.loop, &d->io);
	ev_timer_stop(d->options.loop, &d->timer);
	d->fd = close_fd(d->fd);
	buffer_clear(&d->out);
	buffer_clear(&d->in);
}

struct delivery *delivery_cancel(struct delivery *d)
{
	if (!d)
		return NULL;
	try_close(d);
	pack_clear(&d->body);
	free(d);
	return NULL;
}

static void delivery_end(struct delivery *d)
{
	const struct delivery_options o = d->options;
	const struct err err = d->err;

	if (!err.code && o.kept_fd)
		*o.kept_fd = take_fd(&d->fd);
	(void)delivery_cancel(d); /* always NULL */
	o.done(&err, o.userdata);
}

/* No host has taken it, with the reason in d->err. */
static void try_fail(struct delivery *d)
{
	const struct delivery_retry *retry = d->options.retry;

	try_close(d);
	d->host = 0;
	if (retry->tries && ++d->tries >= retry->tries) {
		delivery_end(d);
		return;
	}
	ev_timer_set(&d->timer, d->pause_s, 0.);
	ev_timer_start(d->options.loop, &d->timer);
	d->pause_s = d->pause_s * 2 < retry->longest_s ? d->pause_s * 2 : retry->longest_s;
}

/* This host does not serve: the next one is asked at once, from the loop. */
static void try_next(struct delivery *d)
{
	if (++d->host >= d->options.hosts.n) {
		try_fail(d);
		return;
	}
	try_close(d);
	ev_timer_set(&d->timer, 0., 0.);
	ev_timer_start(d->options.loop, &d->timer);
}

/* ---- a try --------------------------------------------------------------------------------- */

static void watch_for(struct delivery *d, int events)
{
	ev_io_stop(d->options.loop, &d->io);
	ev_io_set(&d->io, d->fd, events);
	ev_io_start(d->options.loop, &d->io);
}

static void set_timeout(struct delivery *d, double timeout_s)
{
	ev_timer_stop(d->options.loop, &d->timer);
	ev_timer_set(&d->timer, timeout_s, 0.);
	ev_timer_start(d->options.loop, &d->timer);
}

static void send_more(struct delivery *d)
{
	ssize_t n = send(
		d->fd, buffer_bytes(&d->out), buffer_size(&d->out), MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		(void)err_set(&d->err, -errno, "send a message");
		try_next(d);
		return;
	}
	if (!d->connected)
		set_timeout(d, DELIVERY_TIMEOUT_S);
	d->connected = true;
	buffer_drop(&d->out, (size_t)n);
	if (buffer_size(&d->out) == 0)
		watch_for(d, EV_READ);
}

/* So many bytes are the message's for certain: of the connection's later ones none is to be taken.
 */
static size_t get_missing(const struct delivery *d)
{
	size_t had = buffer_size(&d->in);
	ssize_t size = slurm_rpc_size(buffer_bytes(&d->in), had);

	return size > 0 ? (size_t)size - had : sizeof(uint32_t) - had;
}

static void receive_more(struct delivery *d)
{
	char piece[READ_SIZE];
	uint32_t result;
	size_t most = d->options.kept_fd ? get_missing(d) : sizeof(piece);
	ssize_t n = recv(d->fd, piece, most < sizeof(piece) ? most : sizeof(piece), MSG_DONTWAIT),
		size;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		(void)err_set(&d->err, n < 0 ? -errno : -ECONNRESET, "wait for a result");
		try_next(d);
		return;
	}
	size = buffer_add(&d->in, piece, (size_t)n);
	if (size == 0)
		size = slurm_rpc_size(buffer_bytes(&d->in), buffer_size(&d->in));
	if (size >= 0 && (size == 0 || buffer_size(&d->in) < (size_t)size))
		return;
	if (size > 0)
		size = slurm_rpc_decode_result(buffer_bytes(&d->in), buffer_size(&d->in), &result);
	if (size < 0) {
		(void)err_set(&d->err, (int)size, "read a result");
		try_next(d);
		return;
	}
	if (result == SLURM_ERROR_STANDBY || result == SLURM_ERROR_STANDBY_USE_BACKUP) {
		(void)err_set_text(&d->err, -EREMOTEIO, "it stands by");
		try_next(d);
		return;
	}
	if (result == SLURM_ERROR_BACKOFF || (result && d->options.retry->needs_success)) {
		(void)err_set_text(&d->err, -EREMOTEIO, "it has answered with error %u", result);
		try_fail(d);
		return;
	}
	d->err = (struct err)ERR_INIT;
	delivery_end(d);
}

static void delivery_on_io(_unused_ struct ev_loop *loop, ev_io *io, int revents)
{
	struct delivery *d = io->data;

	assert(d);
	if (revents & EV_WRITE)
		send_more(d);
	else
		receive_more(d);
}

static void delivery_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct delivery *d = timer->data;

	assert(d);
	if (d->fd < 0) {
		try_begin(d);
		return;
	}
	(void)err_set(&d->err, -ETIMEDOUT, d->connected ? "wait for a result" : "connect");
	try_next(d);
}

/* A credential of its own for each try: it counts once, and for five minutes. */
static int make_message(struct delivery *d)
{
	_cleanup_pack_ struct pack message = {0};
	const struct delivery_options *o = &d->options;
	const struct slurm_rpc rpc = {.version = o->version,
		.type = o->type,
		.reader = o->reader,
		.forward = o->forward,
		.forward_ms = (uint32_t)(DELIVERY_TIMEOUT_S * 1000)};
	int r = slurm_rpc_encode(o->auth, &rpc, &d->body, &message, &d->err);

	if (r == 0)
		d->out = take_struct(message.bytes);
	return r;
}

static int begin_connection(struct delivery *d)
{
	const struct sockaddr_in *address = &d->options.hosts.address[d->host];

	d->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->fd < 0 ||
		(connect(d->fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
			errno != EINPROGRESS))
		return err_set(&d->err, -errno, "connect");
	return 0;
}

static void try_begin(struct delivery *d)
{
	d->connected = false;
	if (make_message(d) < 0) {
		try_fail(d);
	} else if (begin_connection(d) < 0) {
		try_next(d);
	} else {
		watch_for(d, EV_WRITE);
		set_timeout(d,
			d->options.hosts.n > 1 ? DELIVERY_CONNECT_TIMEOUT_S : DELIVERY_TIMEOUT_S);
	}
}

int delivery_begin_take(const struct delivery_options *options, struct pack *body,
	struct delivery **ret_delivery, struct err *err)
{
	struct delivery *d = body->failed ? NULL : calloc(1, sizeof(*d));

	if (!d) {
		pack_clear(body);
		return err_set(err, -ENOMEM, "send a message");
	}
	d->options = *options;
	d->body = take_struct(*body);
	d->pause_s = options->retry->first_s;
	d->fd = -1;
	ev_init(&d->io, delivery_on_io);
	d->io.data = d;
	/* The first try is the loop's, too: done() is never called before this returns. */
	ev_timer_init(&d->timer, delivery_on_timer, 0., 0.);
	d->timer.data = d;
	ev_timer_start(options->loop, &d->timer);
	*ret_delivery = d;
	return 0;
}
