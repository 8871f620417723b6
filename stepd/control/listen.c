/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/control/listen.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG                                                                                    \
	2048 /* a client that does not wait for a place finds one; net.core.somaxconn cuts it */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* The socket's address, by a way that fits where the plain one doesn't. */
static void make_address(int dir_fd, const char *path, struct sockaddr_un *sa)
{
	const size_t size = sizeof(sa->sun_path);

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) + sizeof("/" LISTEN_NAME) <= size)
		(void)snprintf(sa->sun_path, size, "%s/%s", path, LISTEN_NAME);
	else
		(void)snprintf(sa->sun_path, size, "/proc/self/fd/%d/%s", dir_fd, LISTEN_NAME);
}

/* A thrown descriptor may take its time to close (a TCP socket that lingers, a dead file server),
 * and that time would be ours: its last holder is who drops the message. So the sender is refused;
 * accepted connections inherit it. An older kernel doesn't know this. */
static void refuse_descriptors(int fd)
{
	const int no = 0;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
}

int listen_at(int dir_fd, const char *path, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa;

	if (fd < 0)
		return err_set(err, -errno, "make a Unix socket");
	if (unlinkat(dir_fd, LISTEN_NAME, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove the old '%s/%s'", path, LISTEN_NAME);
	make_address(dir_fd, path, &sa);
	refuse_descriptors(fd);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return err_set(err, -errno, "make the control socket '%s/%s'", path, LISTEN_NAME);
	if (fchmodat(dir_fd, LISTEN_NAME, 0666, 0) < 0 || listen(fd, BACKLOG) < 0) {
		int code = -errno;

		(void)unlinkat(dir_fd, LISTEN_NAME, 0); /* nobody could use it */
		return err_set(
			err, code, "listen at the control socket '%s/%s'", path, LISTEN_NAME);
	}
	return take_fd(&fd);
}
