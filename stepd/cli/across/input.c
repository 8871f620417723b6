/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/input.h"

#include <assert.h>
#include <ev.h>
#include <stdbool.h>

#define READ_SIZE 16384u

struct input {
	struct ev_loop *loop;
	int fd;
	ev_io io;
	uint64_t sent, taken;
	bool ended;
	const struct input_events *events;
	void *userdata;
};

static void end(struct input *in)
{
	input_stop(in);
	in->events->end(in->userdata);
}

static void on_readable(struct ev_loop *loop, ev_io *w, int revents)
{
	struct input *in = w->data;
	char bytes[READ_SIZE];
	ssize_t n;

	assert(in);
	(void)revents;
	n = read(in->fd, bytes, sizeof(bytes));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* a terminal in the background, too: EIO */
		end(in);
		return;
	}
	in->sent += (uint64_t)n;
	if (in->sent - in->taken + READ_SIZE > INPUT_WINDOW)
		ev_io_stop(loop, w);
	in->events->bytes(bytes, (size_t)n, in->userdata);
}

struct input *input_new(
	struct ev_loop *loop, int fd, const struct input_events *events, void *userdata)
{
	struct input *in = calloc(1, sizeof(*in));

	if (!in)
		return NULL;
	in->loop = loop;
	in->fd = fd;
	in->events = events;
	in->userdata = userdata;
	ev_io_init(&in->io, on_readable, fd, EV_READ);
	in->io.data = in;
	ev_io_start(loop, &in->io);
	return in;
}

void input_taken(struct input *in, uint64_t total)
{
	in->taken = total < in->sent ? total : in->sent;
	if (!in->ended && in->sent - in->taken + READ_SIZE <= INPUT_WINDOW)
		ev_io_start(in->loop, &in->io);
}

void input_stop(struct input *in)
{
	in->ended = true;
	ev_io_stop(in->loop, &in->io);
}

struct input *input_free(struct input *in)
{
	if (!in)
		return NULL;
	ev_io_stop(in->loop, &in->io);
	free(in);
	return NULL;
}
