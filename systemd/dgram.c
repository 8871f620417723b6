/* SPDX-License-Identifier: BSD-3-Clause */
#include "systemd/dgram.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_MS 50

int dgram_send(const char *address, const void *data, size_t size)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	size_t len = strlen(address);
	struct pollfd p;

	if (len >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, address, len);
	if (address[0] == '@')
		sa.sun_path[0] = '\0'; /* an abstract name */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Connected, poll() knows whether the other side has room. */
	if (connect(fd, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return -errno;
	p = (struct pollfd){.fd = fd, .events = POLLOUT};
	if (poll(&p, 1, PATIENCE_MS) == 0)
		return -EAGAIN;
	return send(fd, data, size, MSG_NOSIGNAL) < 0 ? -errno : 0;
}
