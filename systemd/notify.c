/* SPDX-License-Identifier: BSD-3-Clause */
#include "systemd/notify.h"

#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define PATIENCE_MS 50

/* Sends to a path, or with a leading '@' to an abstract name. Waits at most 50 ms for a reader
 * that does not read: -EAGAIN, and the message is lost. */
static int dgram_send(const char *address, const void *data, size_t size)
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
	/* Connected, so that poll() reports whether the receiver has space. */
	if (connect(fd, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return -errno;
	p = (struct pollfd){.fd = fd, .events = POLLOUT};
	if (poll(&p, 1, PATIENCE_MS) == 0)
		return -EAGAIN;
	return send(fd, data, size, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* ---- the service manager ------------------------------------------------------------------- */

static const char *get_address(void)
{
	const char *address = secure_getenv("NOTIFY_SOCKET");

	/* Two of the forms of sd_notify(3); the third, a vsock, is for a virtual machine's init. */
	return address && (address[0] == '/' || address[0] == '@') && address[1] ? address : NULL;
}

bool notify_is_wanted(void)
{
	return get_address() != NULL;
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
	return dgram_send(address, text, strlen(text));
}

/* ---- the journal --------------------------------------------------------------------------- */

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

bool journal_has_stream(int fd)
{
	const char *stream = secure_getenv("JOURNAL_STREAM"); /* "DEVICE:INODE" */
	char text[64];
	struct stat st;

	if (!stream || fstat(fd, &st) < 0)
		return false;
	(void)snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino);
	return strcmp(text, stream) == 0;
}

int journal_send(const struct journal_line *line)
{
	_cleanup_free_ char *text = NULL;
	int n;

	if (strchr(line->text, '\n') || (line->step && strchr(line->step, '\n')))
		return -EINVAL; /* it would start another field */
	n = asprintf(&text, "PRIORITY=%d\nSYSLOG_IDENTIFIER=stepd\n%s%s%sMESSAGE=%s\n",
		line->priority, line->step ? "STEPD_STEP=" : "", line->step ? line->step : "",
		line->step ? "\n" : "", line->text);
	if (n < 0) {
		text = NULL;
		return -ENOMEM;
	}
	return dgram_send(JOURNAL_SOCKET, text, (size_t)n);
}
