/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/streams.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "stepd/base/err.h"
#include "stepd/cli/relay/channel.h"
#include "stepd/process/process.h"
#include "stepd/stdio/backlog.h"

#define READ_SIZE    16384u
#define MUCH_SIZE    49152u       /* bytes that nearly fill a pipe of the usual size */
#define PIPE_SIZE    (256u << 10) /* of the pipe of a task that writes so much */
#define DRAIN_MAX    (1u << 20)   /* bytes of a stream that are still carried at the end */
#define RELEASE_SIZE (1u << 20)   /* read from a backlog's file before its space is given back */

/* ---- the step's output --------------------------------------------------------------------- */

void outlet_close(struct outlet *o)
{
	if (o->fd >= 0)
		ev_io_stop(o->to->loop, &o->io);
	o->fd = close_fd(o->fd);
}

/* 0: there is nothing now. */
static size_t outlet_read(struct outlet *o)
{
	char bytes[READ_SIZE];
	ssize_t n;

	if (o->fd < 0)
		return 0;
	n = read(o->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0)
		channel_send_bytes(o->to->channel, o->to->index, o->verb, bytes, (size_t)n);
	else
		outlet_close(o);
	return n > 0 ? (size_t)n : 0;
}

/* What is little is read: that takes fewer system calls. False: it has to be read. */
static bool outlet_move(struct outlet *o)
{
	int there;
	ssize_t n;

	if (ioctl(o->fd, FIONREAD, &there) < 0 || there <= (int)READ_SIZE)
		return false;
	/* All of a user's pipes have a quota: no more than is needed. */
	if (!o->large && there > (int)MUCH_SIZE)
		o->large = fcntl(o->fd, F_SETPIPE_SZ, PIPE_SIZE) > 0;
	n = channel_send_pipe(o->to->channel, o->to->index, o->verb, o->fd);
	if (n == 0)
		outlet_close(o);
	return n >= 0 || n == -EAGAIN;
}

static void on_outlet_readable(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct outlet *o = w->data;

	assert(o);
	if (!outlet_move(o))
		(void)outlet_read(o);
	if (channel_is_full(o->to->channel))
		ev_io_stop(loop, w); /* outlet_resume() begins again */
	if (o->fd < 0 && o->ended)
		o->ended(o->userdata);
}

void outlet_drain(struct outlet *o)
{
	size_t total = 0, n;

	while (total < DRAIN_MAX && (n = outlet_read(o)) > 0)
		total += n;
	outlet_close(o);
}

void outlet_resume(struct outlet *o)
{
	if (o->fd >= 0 && !o->held)
		ev_io_start(o->to->loop, &o->io);
}

void outlet_hold(struct outlet *o)
{
	o->held = true;
	if (o->fd >= 0)
		ev_io_stop(o->to->loop, &o->io);
}

void outlet_release(struct outlet *o)
{
	o->held = false;
	outlet_resume(o);
}

void outlet_init_take(struct outlet *o, const struct carrier *to, const char *verb, int fd)
{
	*o = (struct outlet){.to = to, .verb = verb, .fd = fd};
	ev_io_init(&o->io, on_outlet_readable, o->fd, EV_READ);
	o->io.data = o;
	ev_io_start(to->loop, &o->io);
}

int outlet_open(struct outlet *o, const struct carrier *to, const char *verb, int *ret_fd)
{
	int ends[2], r = stdfd_pipe(true, ends);

	if (r < 0)
		return r;
	outlet_init_take(o, to, verb, ends[0]);
	*ret_fd = ends[1];
	return 0;
}

/* ---- the step's input ---------------------------------------------------------------------- */

void inlet_close(struct inlet *in)
{
	if (in->fd >= 0)
		ev_io_stop(in->loop, &in->io);
	in->fd = close_fd(in->fd);
	buffer_clear(&in->bytes);
	in->backlog = backlog_free(in->backlog);
}

static void inlet_refuse(struct inlet *in)
{
	inlet_close(in);
	in->events->refused(in->userdata);
}

static void inlet_warn(struct inlet *in, const char *text)
{
	if (!in->warned)
		in->events->warn(text, in->userdata);
	in->warned = true;
}

static void inlet_drop(struct inlet *in, int64_t limit)
{
	size_t size = (size_t)(limit - in->at);

	inlet_warn(in,
		"standard input is read too slowly here: bytes are left out of it "
		"(--input-overflow=spill and wait leave out none)");
	in->dropped += size;
	in->at = limit;
	in->events->taken(size, in->userdata);
}

/* Space for a piece. False: the step has to read first. */
static bool inlet_make_space(struct inlet *in)
{
	struct err err = ERR_INIT;
	int r = backlog_make_space(in->backlog, in->at, &err);

	if (r < 0 && in->drops) {
		inlet_drop(in, backlog_limit(in->backlog));
		r = backlog_make_space(in->backlog, in->at, &err);
	}
	if (r < 0 && r != -EAGAIN) {
		(void)err_prefix(&err, "the next input waits for the tasks here");
		inlet_warn(in, err.text);
	}
	return r == 0;
}

static void inlet_store(struct inlet *in)
{
	size_t size, left, stored = 0;
	char *piece;

	while (in->backlog && (left = buffer_size(&in->bytes)) > 0 && inlet_make_space(in)) {
		piece = backlog_piece(in->backlog, &size);
		size = size < left ? size : left;
		memcpy(piece, buffer_bytes(&in->bytes), size);
		backlog_add(in->backlog, size);
		buffer_drop(&in->bytes, size);
		stored += size;
	}
	if (stored > 0 && in->events->stored)
		in->events->stored(stored, in->userdata);
}

/* The next bytes for the pipe: how many, 0 for none now, or -errno. */
static ssize_t inlet_get(struct inlet *in, const char **ret_data)
{
	*ret_data = buffer_bytes(&in->bytes);
	return in->backlog ? backlog_get(in->backlog, in->at, ret_data)
			   : (ssize_t)buffer_size(&in->bytes);
}

/* So many of them are in the pipe. */
static void inlet_took(struct inlet *in, size_t size)
{
	if (!in->backlog) {
		buffer_drop(&in->bytes, size);
	} else {
		in->read_back += backlog_in_file(in->backlog, in->at) ? size : 0;
		in->at += (int64_t)size;
		if (in->read_back >= RELEASE_SIZE || in->at == backlog_end(in->backlog)) {
			backlog_release(in->backlog, in->at);
			in->read_back = 0;
		}
	}
	in->events->taken(size, in->userdata);
}

static void inlet_push(struct inlet *in)
{
	const char *data;
	ssize_t size, n = 0;

	if (in->fd < 0)
		return;
	size = inlet_get(in, &data);
	if (size < 0) {
		inlet_warn(in,
			"the file of the input that the tasks here have not read can't be read: "
			"it ends here");
		inlet_refuse(in);
		return;
	}
	if (size > 0)
		n = write(in->fd, data, (size_t)size);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		inlet_refuse(in);
		return;
	}
	if (n > 0) {
		inlet_took(in, (size_t)n);
		inlet_store(in);
		size = inlet_get(in, &data);
	}
	if (size != 0)
		ev_io_start(in->loop, &in->io);
	else
		ev_io_stop(in->loop, &in->io);
	if (size == 0 && in->ends)
		inlet_close(in);
}

static void on_inlet_writable(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	assert(w->data);
	inlet_push(w->data);
}

void inlet_init_take(struct inlet *in, struct ev_loop *loop, const struct inlet_events *events,
	void *userdata, int fd)
{
	*in = (struct inlet){.loop = loop, .fd = fd, .events = events, .userdata = userdata};
	ev_io_init(&in->io, on_inlet_writable, in->fd, EV_WRITE);
	in->io.data = in;
}

int inlet_open(struct inlet *in, struct ev_loop *loop, const struct inlet_events *events,
	void *userdata, int *ret_fd)
{
	int ends[2], r = stdfd_pipe(false, ends);

	if (r < 0)
		return r;
	inlet_init_take(in, loop, events, userdata, ends[1]);
	*ret_fd = ends[0];
	return 0;
}

void inlet_store_in_take(struct inlet *in, struct backlog *backlog, bool drops)
{
	in->backlog = backlog;
	in->at = backlog_end(backlog);
	in->drops = drops;
}

void inlet_write(struct inlet *in, const void *bytes, size_t size)
{
	if (in->fd < 0)
		return; /* refused() was called, or the step has ended */
	if (buffer_add(&in->bytes, bytes, size) < 0) {
		inlet_refuse(in);
		return;
	}
	if (in->backlog)
		inlet_store(in);
	else if (in->events->stored)
		in->events->stored(size, in->userdata);
	inlet_push(in);
}

void inlet_end(struct inlet *in)
{
	in->ends = true;
	inlet_push(in);
}
