/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/control/listen.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "stepd/base/fs.h"

#define BACKLOG                                                                                    \
	2048 /* a client that does not wait for a place finds one; net.core.somaxconn cuts it */

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

int listen_at(int dir_fd, const char *path, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un sa;

	if (fd < 0)
		return err_set(err, -errno, "make a Unix socket");
	if (unlinkat(dir_fd, LISTEN_NAME, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove the old '%s/%s'", path, LISTEN_NAME);
	make_address(dir_fd, path, &sa);
	fs_refuse_descriptors(fd); /* accepted connections inherit it */
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
