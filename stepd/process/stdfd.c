/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/process/stdfd.h"

#include <fcntl.h>
#include <sys/stat.h>

bool stdfd_inherited(int fd)
{
	int flags = fcntl(fd, F_GETFD);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

int stdfd_move_above(int fd)
{
	_cleanup_close_ int low = fd;
	int high;

	if (fd > STDERR_FILENO)
		return take_fd(&low);
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return high < 0 ? -errno : high;
}

int stdfd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int stdfd_pipe(bool we_read, int ret_ends[2])
{
	_cleanup_close_ int read_end = -1, write_end = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	write_end = ends[1];
	r = stdfd_move_above(ends[0]);
	if (r < 0)
		return r;
	read_end = r;
	r = stdfd_move_above(take_fd(&write_end));
	if (r < 0)
		return r;
	write_end = r;
	r = stdfd_set_nonblock(we_read ? read_end : write_end, true);
	if (r < 0)
		return r;
	ret_ends[0] = take_fd(&read_end);
	ret_ends[1] = take_fd(&write_end);
	return 0;
}

int stdfd_reopen(int fd, int access)
{
	char path[64];
	struct stat st;
	int own;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISFIFO(st.st_mode) && !isatty(fd))
		return -EINVAL; /* to open another device again can move it: a tape rewinds */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	return own < 0 ? -errno : stdfd_move_above(own);
}
