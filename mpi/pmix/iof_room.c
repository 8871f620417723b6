/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether libpmix's clients read. libpmix keeps for each of them what its socket does not take,
 * without a bound, and tells its host nothing of it. So before it is given more the sockets are
 * looked at: those of this process whose own port is that of libpmix's listener. They are
 * libpmix's: nothing is done to them, and one that is closed meanwhile is found out. One that takes
 * nothing more holds all up that this server delivers.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "mpi/pmix/iof.h"

struct room {
	struct iof *iof;
	uint16_t port; /* of the listener; 0: not known, nothing can be held up */
	int epoll_fd;  /* the sockets that are full: those that are closed leave it by themselves */
	ev_io full;    /* active while there are any */
	struct pollfd *fds;
	size_t count;
	bool stale; /* fds are to be found anew */
};

/* "NSPACE.RANK;tcp4://127.0.0.1:34567" */
void iof_learn_uri(struct px *px, const char *entry)
{
	const char *port = strrchr(entry, ':');
	struct room *room = px->iof->room;

	if (strncmp(entry, "PMIX_SERVER_URI", 15) == 0 && port && !room->port)
		room->port = (uint16_t)strtoul(port + 1, NULL, 10);
}

/* ---- which they are ---- */

static bool is_clients(const struct room *room, int fd)
{
	struct sockaddr_storage own, peer;
	socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
	in_port_t port;

	if (getsockname(fd, (struct sockaddr *)&own, &own_size) < 0 ||
		getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0)
		return false;
	if (own.ss_family == AF_INET)
		port = ((struct sockaddr_in *)&own)->sin_port;
	else if (own.ss_family == AF_INET6)
		port = ((struct sockaddr_in6 *)&own)->sin6_port;
	else
		return false;
	return ntohs(port) == room->port;
}

static int add_fd(struct room *room, int fd, size_t *places)
{
	struct pollfd *grown;

	if (room->count == *places) {
		*places = *places ? 2 * *places : 64;
		grown = realloc(room->fds, *places * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		room->fds = grown;
	}
	room->fds[room->count++] = (struct pollfd){.fd = fd, .events = POLLOUT};
	return 0;
}

static void find_sockets(struct room *room)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;
	size_t places = 0;
	int r = 0;

	free(room->fds);
	room->fds = NULL;
	room->count = 0;
	room->stale = false;
	while (r == 0 && dir && (d = readdir(dir))) {
		char *end;
		long fd = strtol(d->d_name, &end, 10);

		if (end != d->d_name && !*end && is_clients(room, (int)fd))
			r = add_fd(room, (int)fd, &places);
	}
	if (dir)
		(void)closedir(dir);
}

void iof_room_changed(struct iof *iof)
{
	iof->room->stale = true;
}

/* ---- whether they take more ---- */

static void watch(struct room *room, int fd)
{
	struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.fd = fd};

	/* One that is closed by now is no trouble any more. */
	if (epoll_ctl(room->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 && errno == EEXIST)
		(void)epoll_ctl(room->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

bool iof_has_room(struct iof *iof)
{
	struct room *room = iof->room;
	size_t full = 0;
	int r;

	if (!room->port)
		return true;
	if (room->stale)
		find_sockets(room);
	do
		r = poll(room->fds, room->count, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return true;
	for (size_t i = 0; i < room->count; i++) {
		if (room->fds[i].revents & POLLNVAL)
			room->stale = true;
		else if (!room->fds[i].revents)
			full++;
	}
	for (size_t i = 0; full && i < room->count; i++) {
		if (!room->fds[i].revents)
			watch(room, room->fds[i].fd);
	}
	if (full)
		ev_io_start(iof->px->loop, &room->full);
	return full == 0;
}

static void on_room(struct ev_loop *loop, ev_io *w, int revents)
{
	struct room *room = w->data;
	struct epoll_event events[16];

	(void)revents;
	/* Each of them tells once; those that are still full are watched anew. */
	while (epoll_wait(room->epoll_fd, events, ARRAY_SIZE(events), 0) == ARRAY_SIZE(events))
		;
	ev_io_stop(loop, w);
	iof_deliver_next(room->iof);
}

/* ---- life ---- */

int iof_room_open(struct iof *iof)
{
	struct room *room = calloc(1, sizeof(*room));

	if (!room)
		return -ENOMEM;
	iof->room = room;
	room->iof = iof;
	room->stale = true;
	room->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (room->epoll_fd < 0)
		return -errno;
	ev_io_init(&room->full, on_room, room->epoll_fd, EV_READ);
	room->full.data = room;
	return 0;
}

void iof_room_close(struct iof *iof)
{
	struct room *room = iof->room;

	if (!room)
		return;
	ev_io_stop(iof->px->loop, &room->full);
	(void)close_fd(room->epoll_fd);
	free(room->fds);
	free(room);
	iof->room = NULL;
}
