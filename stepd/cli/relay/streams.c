/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/streams.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "stepd/cli/relay/channel.h"
#include "stepd/process/process.h"

#define READ_SIZE 16384u
#define MUCH_SIZE 49152u       /* bytes that nearly fill a pipe of the usual size */
#define PIPE_SIZE (256u << 10) /* of the pipe of a task that writes so much */
#define DRAIN_MAX (1u << 20)   /* bytes of a stream that are still carried at the end */

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
	if (o->fd >= 0)
		ev_io_start(o->to->loop, &o->io);
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
}

static void inlet_refuse(struct inlet *in)
{
	inlet_close(in);
	in->events->refused(in->userdata);
}

static void inlet_push(struct inlet *in)
{
	ssize_t n = 0;

	if (in->fd < 0)
		return;
	if (buffer_size(&in->bytes) > 0)
		n = write(in->fd, buffer_bytes(&in->bytes), buffer_size(&in->bytes));
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		inlet_refuse(in);
		return;
	}
	if (n > 0) {
		buffer_drop(&in->bytes, (size_t)n);
		in->events->taken((size_t)n, in->userdata);
	}
	if (buffer_size(&in->bytes) > 0)
		ev_io_start(in->loop, &in->io);
	else
		ev_io_stop(in->loop, &in->io);
	if (buffer_size(&in->bytes) == 0 && in->ends)
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

void inlet_write(struct inlet *in, const void *bytes, size_t size)
{
	if (in->fd < 0)
		return; /* refused() was called, or the step has ended */
	if (buffer_add(&in->bytes, bytes, size) < 0)
		inlet_refuse(in);
	else
		inlet_push(in);
}

void inlet_end(struct inlet *in)
{
	in->ends = true;
	inlet_push(in);
}
