/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/streams.h"

#include <assert.h>
#include <fcntl.h>

#include "stepd/cli/relay/channel.h"

#define QUEUE_MOST (256u << 10) /* bytes on their way to steprun before streams have to wait */
#define DRAIN_MOST (1u << 20)   /* bytes of a stream that are still carried at the end */

/* ---- the step's output -------------------------------------------------------------------- */

void outlet_close(struct outlet *o)
{
	if (o->fd >= 0)
		ev_io_stop(o->to->loop, &o->io);
	o->fd = close_fd(o->fd);
}

/* False: there is nothing now. */
static bool outlet_read(struct outlet *o, size_t *ret_size)
{
	char bytes[16384];
	ssize_t n;

	if (o->fd < 0)
		return false;
	n = read(o->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		outlet_close(o);
		return false;
	}
	channel_send_bytes(o->to->channel, o->to->index, o->verb, bytes, (size_t)n);
	*ret_size = (size_t)n;
	return true;
}

static void on_output(struct ev_loop *loop, ev_io *w, int revents)
{
	struct outlet *o = w->data;
	size_t n;

	assert(o);
	(void)revents;
	(void)outlet_read(o, &n);
	if (!o->untaken && channel_queued(o->to->channel) > QUEUE_MOST)
		ev_io_stop(loop, w); /* on_drained() begins again */
}

void outlet_drain(struct outlet *o)
{
	size_t total = 0, n;

	while (total < DRAIN_MOST && outlet_read(o, &n))
		total += n;
	outlet_close(o);
}

void outlet_resume(struct outlet *o)
{
	if (o->fd >= 0)
		ev_io_start(o->to->loop, &o->io);
}

int outlet_open(struct outlet *o, const struct carrier *to, const char *verb, int *ret_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*o = (struct outlet){.to = to, .verb = verb, .fd = fds[0]};
	*ret_fd = fds[1];
	ev_io_init(&o->io, on_output, o->fd, EV_READ);
	o->io.data = o;
	if (fcntl(o->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	ev_io_start(to->loop, &o->io);
	return 0;
}

/* ---- the step's input --------------------------------------------------------------------- */

void inlet_close(struct inlet *in)
{
	if (in->fd >= 0)
		ev_io_stop(in->from->loop, &in->io);
	in->fd = close_fd(in->fd);
	buffer_clear(&in->bytes);
}

/* The step reads no more. */
static void refuse(struct inlet *in)
{
	inlet_close(in);
	channel_send(in->from->channel, in->from->index, "closed", "");
}

static void push(struct inlet *in)
{
	ssize_t n = 0;

	if (in->fd >= 0 && buffer_size(&in->bytes) > 0)
		n = write(in->fd, buffer_bytes(&in->bytes), buffer_size(&in->bytes));
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		refuse(in);
		return;
	}
	if (n > 0) {
		buffer_drop(&in->bytes, (size_t)n);
		channel_sendf(in->from->channel, in->from->index, "ack", "%zd", n);
	}
	if (buffer_size(&in->bytes) > 0 && in->fd >= 0)
		ev_io_start(in->from->loop, &in->io);
	else if (in->fd >= 0)
		ev_io_stop(in->from->loop, &in->io);
	if (buffer_size(&in->bytes) == 0 && in->ends)
		inlet_close(in);
}

static void on_room(struct ev_loop *loop, ev_io *w, int revents)
{
	assert(w->data);
	(void)loop;
	(void)revents;
	push(w->data);
}

int inlet_open(struct inlet *in, const struct carrier *from, int *ret_fd)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	*ret_fd = fds[0];
	in->from = from;
	in->fd = fds[1];
	ev_io_init(&in->io, on_room, in->fd, EV_WRITE);
	in->io.data = in;
	return fcntl(in->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

void inlet_take(struct inlet *in, const struct channel_line *line)
{
	ssize_t n = channel_get_bytes(line);

	if (n <= 0 || in->fd < 0)
		return; /* "closed" was said, or will be by the end */
	if (buffer_add(&in->bytes, line->text, (size_t)n) < 0)
		refuse(in);
	else
		push(in);
}

void inlet_end(struct inlet *in)
{
	in->ends = true;
	push(in);
}
