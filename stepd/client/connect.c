/* SPDX-License-Identifier: BSD-3-Clause
 *
 * To the agent of a step, and to nobody else: the socket is looked up in the directory whose owner
 * was looked at, and who listens must run as that owner or as root.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include "stepd/client/client_impl.h"
#include "stepd/state/steps.h"

char *connect_step_name(const char *directory)
{
	size_t length = strlen(directory);
	const char *begin, *step;
	char *name = NULL;

	while (length > 1 && directory[length - 1] == '/')
		length--;
	begin = memrchr(directory, '/', length);
	begin = begin && length > 1 ? begin + 1 : directory;
	length -= (size_t)(begin - directory);
	step = memrchr(begin, '_', length); /* there is none in a step's own name */
	if (asprintf(&name, "%.*s", (int)length, begin) < 0)
		return NULL;
	if (step)
		name[step - begin] = '/';
	return name;
}

/* Nobody listens: has it ended, has its agent died, or does it only begin? */
static int say_gone(int dir_fd, const char *directory, const char *step, struct stepd_error *error)
{
	if (faccessat(dir_fd, "result.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return client_say(error, -ECONNREFUSED,
			"step %s has ended; %s/result.json says how", step, directory);
	if (steps_is_locked(dir_fd) == 1)
		return client_say(error, -ECONNREFUSED,
			"step %s: its agent does not listen; it begins, or ends, in this moment",
			step);
	if (faccessat(dir_fd, "state.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return client_say(error, -ECONNREFUSED,
			"step %s: its agent is gone; 'stepd adopt %s' takes the step over", step,
			step);
	return client_say(error, -ENOENT, "there is no step in '%s'", directory);
}

static int say_refused(int r, int dir_fd, const char *directory, const char *step, int timeout_ms,
	struct stepd_error *error)
{
	switch (r) {
	case -ECONNREFUSED:
	case -ENOENT:
		return say_gone(dir_fd, directory, step, error);
	case -EAGAIN: /* of connect(2): its queue was full until the deadline */
		return client_say(error, -ETIMEDOUT,
			"step %s: its agent took no connection in %d ms; it may be stopped, or busy",
			step, timeout_ms);
	case -EACCES:
		return client_say(error, -EPERM, "step %s: this user may not open '%s/socket'",
			step, directory);
	case -ENOTSOCK:
		return client_say(error, r,
			"step %s: '%s/socket' is no socket: no agent has put it there", step,
			directory);
	default:
		return client_fail(error, r, "step %s: connect to '%s/socket'", step, directory);
	}
}

/* connect(2) of a Unix socket waits in the kernel for a place in the listener's queue, and no
 * poll(2) tells when there is one. */
static int set_patience(int fd, int64_t deadline)
{
	int left_ms = stream_left_ms(deadline);
	struct timeval patience = {0};

	if (left_ms == 0)
		return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (left_ms > 0) {
		patience.tv_sec = left_ms / 1000;
		patience.tv_usec = left_ms % 1000 * 1000;
	}
	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ? -errno
											: 0;
}

/* The socket itself: a link in its place could lead to another step's agent, whose peer is right.
 */
static int open_socket(int dir_fd, const char *name)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISSOCK(st.st_mode) ? take_fd(&fd) : -ENOTSOCK;
}

/* Below the open directory: a path of any length fits, and it is the one that was looked at. */
static int connect_below(int fd, int dir_fd, const char *name, int64_t deadline)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int socket_fd = open_socket(dir_fd, name);
	int r;

	if (socket_fd < 0)
		return socket_fd;
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", socket_fd);
	do {
		r = set_patience(fd, deadline);
		if (r < 0)
			return r;
		r = connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	} while (r == -EINTR);
	if (r == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r;
}

/* The queues of the first two are never full of others (stepd/control/listen.h). Who may not use
 * them, and who speaks to an older agent, takes the one for all, which also tells why none can be
 * had. */
static int connect_any(int fd, int dir_fd, int64_t deadline)
{
	static const char *const names[] = {"socket.agent", "socket.owner", "socket"};
	int r = -ENOENT;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names) && r < 0 && r != -EAGAIN; i++)
		r = connect_below(fd, dir_fd, names[i], deadline);
	return r;
}

static int check_peer(int fd, uid_t owner, const char *step, struct stepd_error *error)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return client_fail(error, -errno, "step %s: ask who listens at its socket", step);
	if (peer.uid == 0 || peer.uid == owner)
		return 0;
	return client_say(error, -EPERM,
		"step %s: a process of uid %u (pid %d) listens at its socket, which is not the "
		"step's agent: that runs as uid %u or as root",
		step, (unsigned)peer.uid, (int)peer.pid, (unsigned)owner);
}

/* Who could change the directory could put a socket of his own there. */
static int open_directory(
	const char *directory, const char *step, uid_t *ret_owner, struct stepd_error *error)
{
	_cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return client_say(error, -ENOENT, "there is no step in '%s'", directory);
	if (fd < 0 || fstat(fd, &st) < 0)
		return client_fail(error, -errno, "step %s: open '%s'", step, directory);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return client_say(error, -EPERM,
			"step %s: '%s' can be written by others than its owner (mode %04o): who "
			"listens there may be anyone",
			step, directory, (unsigned)(st.st_mode & 07777));
	*ret_owner = st.st_uid;
	return take_fd(&fd);
}

int connect_agent(
	const char *directory, const char *step, int timeout_ms, struct stepd_error *error)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	uid_t owner = 0;
	int r;

	dir_fd = open_directory(directory, step, &owner, error);
	if (dir_fd < 0)
		return dir_fd;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return client_fail(error, -errno, "step %s: make a socket", step);
	r = connect_any(fd, dir_fd, stream_deadline(timeout_ms));
	if (r < 0)
		return say_refused(r, dir_fd, directory, step, timeout_ms, error);
	r = check_peer(fd, owner, step, error);
	return r < 0 ? r : take_fd(&fd);
}
