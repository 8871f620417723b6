/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/srun_abort.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <sys/socket.h>

#define LIMIT_S 5.0

struct srun_abort {
	struct ev_loop *loop;
	void (*done)(void *userdata);
	void *userdata;
	uint32_t status; /* big-endian */
	int fd;
	ev_io io;
	ev_timer limit;
};

struct srun_abort *srun_abort_cancel(struct srun_abort *a)
{
	if (!a)
		return NULL;
	ev_io_stop(a->loop, &a->io);
	ev_timer_stop(a->loop, &a->limit);
	(void)close_fd(a->fd);
	free(a);
	return NULL;
}

static void abort_end(struct srun_abort *a)
{
	void (*done)(void *) = a->done;
	void *userdata = a->userdata;

	(void)srun_abort_cancel(a);
	done(userdata);
}

/* Connected: four bytes always fit. Then what comes back, or the end of it, is enough. */
static void abort_on_io(struct ev_loop *loop, ev_io *io, int revents)
{
	struct srun_abort *a = io->data;

	assert(a);
	if (!(revents & EV_WRITE) ||
		send(a->fd, &a->status, sizeof(a->status), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		abort_end(a);
		return;
	}
	ev_io_stop(loop, io);
	ev_io_set(io, a->fd, EV_READ);
	ev_io_start(loop, io);
}

static void abort_on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	abort_end(timer->data);
}

int srun_abort_begin(struct ev_loop *loop, const struct sockaddr_in *address, uint32_t status,
	void (*done)(void *userdata), void *userdata, struct srun_abort **ret_abort)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct srun_abort *a;

	if (fd < 0 ||
		(connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
			errno != EINPROGRESS))
		return -errno;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct srun_abort){.loop = loop,
		.done = done,
		.userdata = userdata,
		.status = htobe32(status),
		.fd = take_fd(&fd)};
	ev_io_init(&a->io, abort_on_io, a->fd, EV_WRITE);
	ev_timer_init(&a->limit, abort_on_limit, LIMIT_S, 0.);
	a->io.data = a->limit.data = a;
	ev_io_start(loop, &a->io);
	ev_timer_start(loop, &a->limit);
	*ret_abort = a;
	return 0;
}
