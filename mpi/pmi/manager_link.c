/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi/manager_link.h"

#include <assert.h>
#include <ev.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PIECE_SIZE 65536u

struct manager_link {
	struct manager_link_options options;
	int fd; /* -1: the manager is gone */
	ev_io readable, writable;
	struct bytes in, out;
};

static void link_end(struct manager_link *link)
{
	ev_io_stop(link->options.loop, &link->readable);
	ev_io_stop(link->options.loop, &link->writable);
	link->fd = close_fd(link->fd);
}

static void link_lose(struct manager_link *link, const char *why)
{
	struct err err = ERR_INIT;

	link_end(link);
	(void)err_set_text(&err, -EPIPE, "the step's process manager %s", why);
	link->options.lost(link->options.userdata, &err);
}

/* ---- from the manager ---------------------------------------------------------------------- */

/* False: the link is gone. */
static bool link_take_frames(struct manager_link *link)
{
	struct manager_frame frame;
	ssize_t size;

	while (link->fd >= 0 && (size = manager_frame_read(slice_of(&link->in), &frame)) != 0) {
		if (size < 0) {
			link_lose(link, "has sent what can't be parsed");
			return false;
		}
		link->options.frame(link->options.userdata, &frame);
		bytes_drop(&link->in, (size_t)size);
	}
	return link->fd >= 0;
}

static void manager_link_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct manager_link *link = io->data;
	char piece[PIECE_SIZE];
	ssize_t n;

	assert(link);
	n = recv(link->fd, piece, sizeof(piece), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		link_lose(link, "is gone");
		return;
	}
	bytes_add(&link->in, piece, (size_t)n);
	if (link->in.failed)
		link_lose(link, "has sent what there is no memory for");
	else
		(void)link_take_frames(link); /* that it is gone has been reported */
}

/* ---- to the manager ------------------------------------------------------------------------ */

static void link_flush(struct manager_link *link)
{
	struct slice out = slice_of(&link->out);
	ssize_t n = 0;

	while (out.size > 0) {
		n = send(link->fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		bytes_drop(&link->out, (size_t)n);
		out = slice_of(&link->out);
	}
	/* Another error shows when it is read from. */
	if (out.size > 0 && errno == EAGAIN)
		ev_io_start(link->options.loop, &link->writable);
	else
		ev_io_stop(link->options.loop, &link->writable);
}

static void manager_link_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	assert(io->data);
	link_flush(io->data);
}

int manager_link_send(struct manager_link *link, enum manager_type type, struct slice body)
{
	size_t before = bytes_size(&link->out);

	if (link->fd < 0)
		return -EPIPE;
	if (before > MANAGER_BODY_MAX)
		return -ENOBUFS;
	manager_frame_add(&link->out, type, body);
	if (link->out.failed) {
		bytes_cut(&link->out, before);
		link->out.failed = false;
		return -ENOMEM;
	}
	link_flush(link);
	return 0;
}

/* ---- its life ------------------------------------------------------------------------------ */

static int connect_to(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&fd);
}

int manager_link_open(
	const struct manager_link_options *options, struct manager_link **ret_link, struct err *err)
{
	struct manager_link *link = calloc(1, sizeof(*link));
	int fd = link ? connect_to(options->path) : -ENOMEM;

	if (fd < 0) {
		free(link);
		return err_set(err, fd, "connect to the process manager at '%s' (%s)",
			options->path, MANAGER_VARIABLE);
	}
	link->options = *options;
	link->fd = fd;
	ev_io_init(&link->readable, manager_link_on_readable, fd, EV_READ);
	ev_io_init(&link->writable, manager_link_on_writable, fd, EV_WRITE);
	link->readable.data = link->writable.data = link;
	ev_io_start(options->loop, &link->readable);
	*ret_link = link;
	return 0;
}

struct manager_link *manager_link_close(struct manager_link *link)
{
	if (!link)
		return NULL;
	link_end(link);
	bytes_clear(&link->in);
	bytes_clear(&link->out);
	free(link);
	return NULL;
}
