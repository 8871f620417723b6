/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/store/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/cleanup.h"

static int check_dir(int fd, const char *path, bool is_last, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "open '%s'", path);
	if (is_last && (st.st_uid != geteuid() || (st.st_mode & 077)))
		return err_set_text(err, -EPERM,
			"'%s' must belong to uid %u alone, but belongs to uid %u with mode %04o; "
			"chown it and chmod 700",
			path, (unsigned)geteuid(), (unsigned)st.st_uid,
			(unsigned)(st.st_mode & 07777));
	if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
		((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)))
		return err_set_text(err, -EPERM,
			"'%s' can be changed by others (uid %u, mode %04o); keep jobs below "
			"directories that only root can change",
			path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
	return 0;
}

static int enter_dir(int parent, const char *name, const char *path, bool is_last, struct err *err)
{
	int fd;

	if (is_last && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make directory '%s'", path);
	fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOTDIR)
		return err_set_text(err, -ENOTDIR,
			"'%s' is a symbolic link or not a directory; give the path that realpath "
			"prints for it",
			path);
	return fd >= 0 ? fd : err_set(err, -errno, "open '%s'", path);
}

/* Name by name, so that no link leads elsewhere. path is cut behind the name and made whole again.
 */
static int walk(int fd_take, char *path, struct err *err)
{
	_cleanup_close_ int fd = fd_take;
	char *name = path + strspn(path, "/"), *end, *following, was;
	int below, r = check_dir(fd, "/", !*name, err);

	for (; r == 0 && *name; name = following) {
		end = name + strcspn(name, "/");
		following = end + strspn(end, "/");
		was = *end;
		*end = '\0';
		below = enter_dir(fd, name, path, !*following, err);
		if (below < 0)
			return below;
		(void)close(fd);
		fd = below;
		r = check_dir(fd, path, !*following, err);
		*end = was;
	}
	return r < 0 ? r : take_fd(&fd);
}

static int open_dir(const char *path, struct err *err)
{
	_cleanup_free_ char *copy = NULL;
	int fd;

	if (path[0] != '/')
		return err_set_text(
			err, -EINVAL, "'%s': give the jobs' directory as an absolute path", path);
	fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "open '/'");
	copy = strdup(path);
	if (copy)
		return walk(fd, copy, err);
	(void)close(fd);
	return err_set(err, -ENOMEM, "open '%s'", path);
}

static int check_file(int dir, const char *name, const char *path, struct err *err)
{
	_cleanup_close_ int fd = openat(
		dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, -errno, "open '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_nlink != 1 || st.st_uid != geteuid() ||
		(st.st_mode & 077))
		return err_set_text(err, -EPERM,
			"'%s' must be a file that belongs to uid %u alone, but belongs to uid %u "
			"with mode %06o and %llu links; chown it and chmod 600",
			path, (unsigned)geteuid(), (unsigned)st.st_uid, (unsigned)st.st_mode,
			(unsigned long long)st.st_nlink);
	return 0;
}

int private_file_make(const char *dir, const char *name, char **ret_path, struct err *err)
{
	_cleanup_close_ int fd = open_dir(dir, err);
	_cleanup_free_ char *path = NULL;
	int r;

	if (fd < 0)
		return fd;
	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return err_set(err, -ENOMEM, "open '%s'", dir);
	}
	r = check_file(fd, name, path, err);
	if (r == 0)
		*ret_path = take_ptr(path);
	return r;
}

pid_t private_file_find_holder(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid;
}
