/* SPDX-License-Identifier: BSD-3-Clause */
#include "systemd/notify.h"

#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define PATIENCE_MS 50

static const char *get_address(void)
{
	const char *address = secure_getenv("NOTIFY_SOCKET");

	/* Of the forms of sd_notify(3) these two; a vsock is a virtual machine's init's. */
	return address && (address[0] == '/' || address[0] == '@') && address[1] ? address : NULL;
}

bool notify_is_wanted(void)
{
	return get_address() != NULL;
}

static int send_text(const char *address, const char *text)
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
	return send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int notify_send(const char *fmt, ...)
{
	const char *address = get_address();
	_cleanup_free_ char *text = NULL;
	va_list ap;
	int n;

	if (!address)
		return 0;
	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return send_text(address, text);
}
