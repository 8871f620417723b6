/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/registry_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Not flock(2), which can't be asked without being taken. */
static int lock_bytes(int fd, int command, off_t from, off_t count)
{
	struct flock part = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = count};
	int r;

	do
		r = fcntl(fd, command, &part);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return errno == EACCES || errno == EAGAIN ? -EWOULDBLOCK : -errno;
	return command == F_OFD_GETLK && part.l_type != F_UNLCK ? -EWOULDBLOCK : 0;
}

static int open_lock(int dir_fd)
{
	int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -ESTALE : -errno;
}

/* The one that removes a directory holds its lock: look whether it did. */
static int check_there(int fd, int dir_fd)
{
	struct stat a, b;

	if (fstat(fd, &a) < 0 || fstatat(dir_fd, "lock", &b, AT_SYMLINK_NOFOLLOW) < 0)
		return -ESTALE;
	return a.st_ino == b.st_ino ? 0 : -ESTALE;
}

int registry_lock_for_agent(int dir_fd)
{
	_cleanup_close_ int fd = open_lock(dir_fd);
	int r = fd < 0 ? fd : lock_bytes(fd, F_OFD_SETLK, 0, 1);

	if (r == 0)
		r = lock_bytes(fd, F_OFD_SETLKW, 1, 0); /* to the end */
	if (r == 0)
		r = check_there(fd, dir_fd);
	return r < 0 ? r : take_fd(&fd);
}

int registry_lock_for_cleaning(int dir_fd)
{
	_cleanup_close_ int fd = open_lock(dir_fd);
	int r = fd < 0 ? fd : lock_bytes(fd, F_OFD_SETLK, 1, 0);

	if (r == 0)
		r = lock_bytes(fd, F_OFD_GETLK, 0, 1);
	if (r == 0)
		r = check_there(fd, dir_fd);
	return r < 0 ? r : take_fd(&fd);
}
