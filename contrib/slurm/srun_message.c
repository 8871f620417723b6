/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/srun_message.h"

#include <assert.h>
#include <endian.h>
#include <ev.h>
#include <string.h>
#include <sys/socket.h>

#define TRIES     5u
#define TIMEOUT_S 10.0
#define PAUSE_S   1.0

struct srun_message {
	struct srun_message_options options;
	struct pack body; /* with its length */
	size_t sent;
	struct buffer in;
	unsigned tries;
	double pause_s;
	int fd; /* -1 between tries */
	ev_io io;
	ev_timer timer; /* the end of a try, or of a pause */
};

static void message_close(struct srun_message *m)
{
	ev_io_stop(m->options.loop, &m->io);
	ev_timer_stop(m->options.loop, &m->timer);
	m->fd = close_fd(m->fd);
	buffer_clear(&m->in);
	m->sent = 0;
}

struct srun_message *srun_message_cancel(struct srun_message *m)
{
	if (!m)
		return NULL;
	message_close(m);
	pack_clear(&m->body);
	free(m);
	return NULL;
}

static void message_end(struct srun_message *m, const struct err *err)
{
	const struct srun_message_options o = m->options;
	_cleanup_buffer_ struct buffer in = take_struct(m->in);
	struct slice reply = {"", 0};

	if (!err->code && o.replies)
		reply = (struct slice){
			buffer_bytes(&in) + sizeof(uint32_t), buffer_size(&in) - sizeof(uint32_t)};
	(void)srun_message_cancel(m);
	o.done(o.userdata, err, reply);
}

static void message_fail(struct srun_message *m, int r, const char *what)
{
	struct err err = ERR_INIT;

	message_close(m);
	if (++m->tries >= TRIES) {
		(void)err_set(&err, r, "%s srun", what);
		message_end(m, &err);
		return;
	}
	ev_timer_set(&m->timer, m->pause_s, 0.);
	ev_timer_start(m->options.loop, &m->timer);
	m->pause_s *= 2;
}

/* ---- a try --------------------------------------------------------------------------------- */

static void send_rest(struct srun_message *m)
{
	static const struct err success = ERR_INIT;
	size_t size = buffer_size(&m->body.bytes);
	ssize_t n = send(m->fd, buffer_bytes(&m->body.bytes) + m->sent, size - m->sent,
		MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		message_fail(m, -errno, "send a message to");
		return;
	}
	m->sent += (size_t)n;
	if (m->sent < size)
		return;
	if (!m->options.replies) {
		message_end(m, &success);
		return;
	}
	ev_io_stop(m->options.loop, &m->io);
	ev_io_set(&m->io, m->fd, EV_READ);
	ev_io_start(m->options.loop, &m->io);
}

/* 1: it is whole; 0: more has to come; -EMSGSIZE. */
static int check_reply(const struct srun_message *m)
{
	uint32_t size;

	if (buffer_size(&m->in) < sizeof(size))
		return 0;
	memcpy(&size, buffer_bytes(&m->in), sizeof(size));
	size = be32toh(size);
	if (size > SRUN_REPLY_MAX || buffer_size(&m->in) > sizeof(size) + size)
		return -EMSGSIZE;
	return buffer_size(&m->in) == sizeof(size) + size;
}

static void receive_rest(struct srun_message *m)
{
	static const struct err success = ERR_INIT;
	char piece[4096];
	ssize_t n = recv(m->fd, piece, sizeof(piece), MSG_DONTWAIT);
	int r;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r = n > 0 ? buffer_add(&m->in, piece, (size_t)n) : n < 0 ? -errno : -ECONNRESET;
	if (r == 0)
		r = check_reply(m);
	if (r < 0)
		message_fail(m, r, "read the reply of");
	else if (r > 0)
		message_end(m, &success);
}

static void message_on_io(_unused_ struct ev_loop *loop, ev_io *io, int revents)
{
	struct srun_message *m = io->data;

	assert(m);
	if (revents & EV_WRITE)
		send_rest(m);
	else
		receive_rest(m);
}

static void message_try(struct srun_message *m)
{
	const struct sockaddr_in *address = &m->options.address;

	m->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->fd < 0 ||
		(connect(m->fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
			errno != EINPROGRESS)) {
		message_fail(m, -errno, "connect to");
		return;
	}
	ev_io_set(&m->io, m->fd, EV_WRITE);
	ev_io_start(m->options.loop, &m->io);
	ev_timer_set(&m->timer, TIMEOUT_S, 0.);
	ev_timer_start(m->options.loop, &m->timer);
}

static void message_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct srun_message *m = timer->data;

	assert(m);
	if (m->fd < 0)
		message_try(m);
	else
		message_fail(m, -ETIMEDOUT, "wait for");
}

int srun_message_begin_take(const struct srun_message_options *options, struct pack *body,
	struct srun_message **ret_message, struct err *err)
{
	_cleanup_pack_ struct pack taken = take_struct(*body);
	struct srun_message *m = taken.failed ? NULL : calloc(1, sizeof(*m));

	if (m)
		pack_bytes(
			&m->body, buffer_bytes(&taken.bytes), (uint32_t)buffer_size(&taken.bytes));
	if (!m || m->body.failed) {
		if (m)
			pack_clear(&m->body);
		free(m);
		return err_set(err, -ENOMEM, "send a message to srun");
	}
	m->options = *options;
	m->pause_s = PAUSE_S;
	m->fd = -1;
	ev_init(&m->io, message_on_io);
	m->io.data = m;
	/* The first try is the loop's, too: done() is never called before this returns. */
	ev_timer_init(&m->timer, message_on_timer, 0., 0.);
	m->timer.data = m;
	ev_timer_start(options->loop, &m->timer);
	*ret_message = m;
	return 0;
}
