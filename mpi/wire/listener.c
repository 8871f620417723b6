/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/listener.h"

#include <assert.h>
#include <sys/socket.h>

#include "stepd/base/cleanup.h"

bool wire_listener_is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static void listener_on_readable(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct wire_listener *listener = io->data;
	int fd, error;

	assert(listener);
	fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	error = errno;
	if (fd >= 0) {
		listener->accepted(fd, listener->userdata);
	} else if (wire_listener_is_shortage(error)) {
		ev_io_stop(loop, io);
		ev_timer_set(&listener->pause, WIRE_LISTENER_PAUSE_MS / 1e3, 0.);
		ev_timer_start(loop, &listener->pause);
		listener->accepted(-error, listener->userdata);
	} /* else it is gone again */
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct wire_listener *listener = timer->data;

	assert(listener);
	ev_io_start(loop, &listener->readable);
}

void wire_listener_init(struct wire_listener *listener, struct ev_loop *loop,
	wire_listener_fn accepted, void *userdata)
{
	*listener =
		(struct wire_listener){.loop = loop, .accepted = accepted, .userdata = userdata};
	ev_init(&listener->readable, listener_on_readable);
	ev_init(&listener->pause, on_pause_over);
	listener->readable.data = listener->pause.data = listener;
}

void wire_listener_start(struct wire_listener *listener, int fd)
{
	ev_io_set(&listener->readable, fd, EV_READ);
	ev_io_start(listener->loop, &listener->readable);
}

void wire_listener_stop(struct wire_listener *listener)
{
	ev_io_stop(listener->loop, &listener->readable);
	ev_timer_stop(listener->loop, &listener->pause);
}
