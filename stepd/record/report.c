/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/report.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"

ssize_t report_write_patiently(int fd, const char *text, size_t size, int patience_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	size_t at = 0, piece;
	ssize_t n;

	while (at < size) {
		n = poll(&p, 1, patience_ms);
		if (n == 0)
			break;
		piece = size - at < PIPE_BUF ? size - at : PIPE_BUF;
		n = n < 0 ? n : write(fd, text + at, piece);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)at;
}

static bool is_below(const char *path, const char *dir)
{
	return strncmp(path, dir, strlen(dir)) == 0;
}

/* Whether path is, or can become, a file to be replaced: 1; is something to write to: 0. The links
 * of /dev and /proc are never replaced, and no other is followed. */
static int is_replaceable(const char *path)
{
	struct stat st;

	if (is_below(path, "/proc/") || (is_below(path, "/dev/") && !is_below(path, "/dev/shm/")))
		return 0;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) || S_ISLNK(st.st_mode);
}

int report_descriptor_of(const char *path)
{
	int fd = -1;
	char behind;

	if (!path ||
		(sscanf(path, "/dev/fd/%9d%c", &fd, &behind) != 1 &&
			sscanf(path, "/proc/self/fd/%9d%c", &fd, &behind) != 1))
		return -1;
	return fd;
}

int report_write(int fd, const char *text)
{
	ssize_t n = report_write_patiently(fd, text, strlen(text), REPORT_PATIENCE_MS);

	if (n < 0)
		return (int)n;
	return (size_t)n == strlen(text) ? 0 : -ETIMEDOUT;
}

static int open_as_it_is(const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int report_open(const char *path)
{
	int r = is_replaceable(path);

	if (r <= 0)
		return r < 0 ? r : open_as_it_is(path);
	return fs_replace(AT_FDCWD, path, 0644);
}

int report_store(const char *path, const char *text, bool sync)
{
	_cleanup_close_ int fd = -1;
	int r = is_replaceable(path);

	if (r < 0)
		return r;
	if (r > 0)
		return fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, sync);
	fd = open_as_it_is(path);
	return fd < 0 ? fd : report_write(fd, text);
}

int report_check(const char *path)
{
	_cleanup_free_ char *dir = NULL;
	char *slash;
	int r = is_replaceable(path);

	if (r < 0)
		return r;
	if (r == 0)
		return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0 ? -errno : 0;
	dir = strdup(path);
	if (!dir)
		return -ENOMEM;
	slash = strrchr(dir, '/');
	if (slash)
		slash[slash == dir] = '\0';
	return faccessat(AT_FDCWD, slash ? dir : ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

json_t *report_json_text(const char *text)
{
	_cleanup_free_ char *ascii = NULL;
	json_t *value = json_string(text);
	char *p;

	if (value)
		return value;
	ascii = strdup(text);
	for (p = ascii; p && *p; p++) {
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	}
	return ascii ? json_string(ascii) : NULL;
}
