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

const char *const listener_names[LISTENER_MAX] = {
	[LISTENER_AGENT] = "socket.agent",
	[LISTENER_OWNER] = "socket.owner",
	[LISTENER_ALL] = "socket",
};

/* The socket's address, by a way that fits where the plain one doesn't. */
static void make_address(int dir_fd, const char *path, const char *name, struct sockaddr_un *sa)
{
	const size_t size = sizeof(sa->sun_path);
	int n;

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(sa->sun_path, size, "%s/%s", path, name);
	if (n < 0 || (size_t)n >= size)
		(void)snprintf(sa->sun_path, size, "/proc/self/fd/%d/%s", dir_fd, name);
}

/* Before listen(2): until then nobody can connect. */
static int set_access(int dir_fd, enum listener_kind kind, uid_t owner)
{
	const char *name = listener_names[kind];

	if (fchmodat(dir_fd, name, kind == LISTENER_ALL ? 0666 : 0600, 0) < 0)
		return -errno;
	if (kind == LISTENER_OWNER &&
		fchownat(dir_fd, name, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int listen_at(int dir_fd, const char *path, enum listener_kind kind, uid_t owner, struct err *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const char *name = listener_names[kind];
	struct sockaddr_un sa;
	int r;

	if (fd < 0)
		return err_set(err, -errno, "make a Unix socket");
	if (unlinkat(dir_fd, name, 0) < 0 && errno != ENOENT)
		return err_set(err, -errno, "remove the old '%s/%s'", path, name);
	make_address(dir_fd, path, name, &sa);
	fs_refuse_descriptors(fd); /* accepted connections inherit it */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return err_set(err, -errno, "make the control socket '%s/%s'", path, name);
	r = set_access(dir_fd, kind, owner);
	if (r == 0 && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dir_fd, name, 0); /* nobody could use it */
		return err_set(err, r, "listen at the control socket '%s/%s'", path, name);
	}
	return take_fd(&fd);
}
