/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/record/registry_lock.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>

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

static void do_nothing(int signal)
{
	(void)signal;
}

/* Waits for byte 0, at most so long. */
static int wait_for_lock(int fd, unsigned patience_ms)
{
	struct flock part = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	struct itimerval timer = {.it_value = {.tv_sec = patience_ms / 1000,
					  .tv_usec = (suseconds_t)(patience_ms % 1000) * 1000}};
	const struct itimerval off = {0};
	struct sigaction alarm = {.sa_handler = do_nothing},
			 saved; /* no SA_RESTART: it ends the wait */
	int r;

	if (sigaction(SIGALRM, &alarm, &saved) < 0 || setitimer(ITIMER_REAL, &timer, NULL) < 0)
		return -errno;
	r = fcntl(fd, F_OFD_SETLKW, &part) < 0 ? -errno : 0;
	(void)setitimer(ITIMER_REAL, &off, NULL); /* can't fail, nor can the next */
	(void)sigaction(SIGALRM, &saved, NULL);
	return r == -EINTR ? -EWOULDBLOCK : r;
}

int registry_lock_for_agent(int dir_fd, unsigned patience_ms)
{
	_cleanup_close_ int fd = open_lock(dir_fd);
	int r = fd < 0 ? fd : lock_bytes(fd, F_OFD_SETLK, 0, 1);

	if (r == -EWOULDBLOCK && patience_ms)
		r = wait_for_lock(fd, patience_ms);
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
