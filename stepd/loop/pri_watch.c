/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/loop/pri_watch.h"

#include <assert.h>
#include <string.h>
#include <sys/epoll.h>

int pri_watch_read(struct pri_watch *w)
{
	char text[sizeof(w->text)];
	ssize_t n = pread(w->fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return -errno;
	memcpy(w->text, text, (size_t)n);
	w->text[n] = '\0';
	return 0;
}

static void on_news(struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct pri_watch *w = io->data;

	assert(w);
	/* Reading is what takes the event. */
	if (pri_watch_read(w) == -ENODEV)
		ev_io_stop(loop, io); /* the group is gone */
	w->news(w->userdata);
}

int pri_watch_start(
	struct pri_watch *w, struct ev_loop *loop, int fd, pri_watch_fn news, void *userdata)
{
	struct epoll_event event = {.events = EPOLLPRI};
	int r;

	*w = (struct pri_watch){
		.loop = loop, .fd = fd, .epoll_fd = -1, .news = news, .userdata = userdata};
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = w->epoll_fd < 0 || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
	if (r == 0)
		r = pri_watch_read(w);
	if (r < 0) {
		pri_watch_stop(w);
		return r;
	}
	ev_io_init(&w->io, on_news, w->epoll_fd, EV_READ);
	w->io.data = w;
	ev_io_start(loop, &w->io);
	return 0;
}

void pri_watch_stop(struct pri_watch *w)
{
	if (w->loop)
		ev_io_stop(w->loop, &w->io);
	w->epoll_fd = close_fd(w->epoll_fd);
	w->fd = close_fd(w->fd);
	w->loop = NULL;
}
