/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/manager_socket.h"

#include <assert.h>
#include <ev.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "mpi/wire/listener.h"

#define PIECE_SIZE 65536u

struct manager_socket {
	struct manager_socket_options options;
	char *path;
	int listen_fd;
	struct wire_listener listener;
	int fd; /* the server; -1: it is not there, or no more */
	ev_io readable, writable;
	struct bytes in, out;
};

void manager_socket_lose(struct manager_socket *m, const char *why)
{
	if (m->fd < 0 && m->listen_fd < 0)
		return;
	if (why)
		log_warning(m->options.log, "step %s: its MPI server is given up: it %s",
			m->options.label, why);
	ev_io_stop(m->options.loop, &m->readable);
	ev_io_stop(m->options.loop, &m->writable);
	wire_listener_stop(&m->listener);
	m->listen_fd = close_fd(m->listen_fd);
	m->fd = close_fd(m->fd);
	bytes_clear(&m->out);
	if (m->options.lost)
		m->options.lost(m->options.userdata);
}

/* ---- to the server ------------------------------------------------------------------------- */

static void manager_flush(struct manager_socket *m)
{
	struct slice out = slice_of(&m->out);
	ssize_t n;

	while (out.size > 0) {
		n = send(m->fd, out.data, out.size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		bytes_drop(&m->out, (size_t)n);
		out = slice_of(&m->out);
	}
	/* Another error shows when it is read from. */
	if (out.size > 0 && errno == EAGAIN)
		ev_io_start(m->options.loop, &m->writable);
	else
		ev_io_stop(m->options.loop, &m->writable);
}

static void manager_on_writable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	assert(io->data);
	manager_flush(io->data);
}

void manager_socket_send(struct manager_socket *m, enum manager_type type, const struct bytes *body)
{
	if (m->fd < 0 && m->listen_fd < 0)
		return;
	manager_frame_add(&m->out, type, slice_of(body));
	if (m->out.failed || body->failed || bytes_size(&m->out) > m->options.out_max)
		manager_socket_lose(m, "does not read, or memory is short");
	else if (m->fd >= 0)
		manager_flush(m);
}

/* ---- from the server ----------------------------------------------------------------------- */

static void manager_take_frames(struct manager_socket *m)
{
	struct manager_frame frame;
	ssize_t size = 0;

	while (m->fd >= 0 && (size = manager_frame_read(slice_of(&m->in), &frame)) > 0) {
		m->options.frame(m->options.userdata, &frame);
		bytes_drop(&m->in, (size_t)size);
	}
	if (size < 0 || m->in.failed || bytes_size(&m->in) > m->options.in_max)
		manager_socket_lose(m, "sends what can't be parsed");
}

static void manager_on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct manager_socket *m = io->data;
	char piece[PIECE_SIZE];
	ssize_t n;

	assert(m);
	n = recv(m->fd, piece, sizeof(piece), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		bytes_add(&m->in, piece, (size_t)n);
		manager_take_frames(m);
	} else {
		manager_socket_lose(m, NULL);
	}
	if (m->fd < 0) /* not before: a frame may have been in it */
		bytes_clear(&m->in);
}

/* ---- its connection ------------------------------------------------------------------------ */

static bool is_users(int fd, uid_t uid)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0 && size == sizeof(cred) &&
		cred.uid == uid;
}

static void manager_on_connects(int accepted_fd, void *userdata)
{
	struct manager_socket *m = userdata;
	_cleanup_close_ int fd = accepted_fd;

	assert(m);
	if (fd < 0 || !is_users(fd, m->options.uid))
		return;
	/* There is one of them, which begins before the tasks do. */
	wire_listener_stop(&m->listener);
	m->listen_fd = close_fd(m->listen_fd);
	m->fd = take_fd(&fd);
	ev_io_set(&m->readable, m->fd, EV_READ);
	ev_io_set(&m->writable, m->fd, EV_WRITE);
	ev_io_start(m->options.loop, &m->readable);
	manager_flush(m);
}

/* Only root can change the directory. */
static int manager_listen(struct manager_socket *m)
{
	const struct manager_socket_options *o = &m->options;
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (asprintf(&m->path, "%s/%s", o->fifos->path, o->name) < 0) {
		m->path = NULL;
		return -ENOMEM;
	}
	if (strlen(m->path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, m->path, strlen(m->path));
	m->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (m->listen_fd < 0 ||
		bind(m->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		fchmodat(o->fifos->dir_fd, o->name, 0600, 0) < 0 ||
		fchownat(o->fifos->dir_fd, o->name, o->uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 ||
		listen(m->listen_fd, 1) < 0)
		return -errno;
	wire_listener_start(&m->listener, m->listen_fd);
	return 0;
}

int manager_socket_open(const struct manager_socket_options *options,
	struct manager_socket **ret_socket, struct err *err)
{
	struct manager_socket *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "listen for the step's MPI server");
	m->options = *options;
	m->listen_fd = m->fd = -1;
	wire_listener_init(&m->listener, options->loop, manager_on_connects, m);
	ev_init(&m->readable, manager_on_readable);
	ev_init(&m->writable, manager_on_writable);
	m->readable.data = m->writable.data = m;
	r = manager_listen(m);
	if (r < 0) {
		(void)manager_socket_close(m);
		return err_set(err, r, "listen for the step's MPI server");
	}
	*ret_socket = m;
	return 0;
}

const char *manager_socket_get_path(const struct manager_socket *m)
{
	return m->path;
}

struct manager_socket *manager_socket_close(struct manager_socket *m)
{
	if (!m)
		return NULL;
	manager_socket_lose(m, NULL);
	bytes_clear(&m->in);
	free(m->path);
	free(m);
	return NULL;
}
