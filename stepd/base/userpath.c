/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/userpath.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "stepd/base/rawcall.h"

#define LINKS_MAX         40   /* as the kernel's own */
#define PROCFS_BLOCK_SIZE 1024 /* of all its inodes, since before Linux 2.6 */

static void close_raw(int fd)
{
	if (fd >= 0)
		(void)rawcall(SYS_close, fd); /* it is gone whatever that returns */
}

/* Only of what seems a file of procfs, whose block size is its own, the file system is read:
 * on a parallel one that is a request to its servers for each task's file. */
static int is_procfs(int fd)
{
	struct statx file;
	struct statfs fs;
	long r = rawcall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &file);

	if (r == 0 && file.stx_blksize != PROCFS_BLOCK_SIZE)
		return 0;
	r = rawcall(SYS_fstatfs, fd, &fs);
	return r < 0 ? (int)r : fs.f_type == PROC_SUPER_MAGIC;
}

/* ---- without openat2() ---------------------------------------------------------------------- */

struct walk {
	int dir;             /* where the rest begins; AT_FDCWD at first */
	char rest[PATH_MAX]; /* names still to go, separated by slashes */
	int links;           /* followed so far */
};

static void walk_enter(struct walk *w, int dir)
{
	close_raw(w->dir);
	w->dir = dir;
}

static int walk_enter_root(struct walk *w)
{
	int r = (int)rawcall(SYS_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (r < 0)
		return r;
	walk_enter(w, r);
	return 0;
}

/* Replaces the link's name by its text, which ends where tail begins. */
static int walk_splice(struct walk *w, int link, const char *tail)
{
	char text[PATH_MAX];
	size_t size = strlen(tail) + 1;
	long n = rawcall(SYS_readlinkat, link, "", text, sizeof(text));

	if (n <= 0)
		return n < 0 ? (int)n : -ENOENT;
	if ((size_t)n + size > sizeof(w->rest))
		return -ENAMETOOLONG;
	memmove(w->rest + n, tail, size);
	memcpy(w->rest, text, (size_t)n);
	return text[0] == '/' ? walk_enter_root(w) : 0;
}

/* What fs.protected_symlinks is to the kernel, which does not resolve this link: at the end of a
 * path none is followed that somebody else has put into a directory for all. */
static int walk_check_owner(const struct walk *w, uid_t owner)
{
	const mode_t for_all = S_ISVTX | S_IWOTH;
	struct stat dir;
	long r = rawcall(SYS_newfstatat, w->dir, ".", &dir, 0);

	if (r < 0)
		return (int)r;
	return (dir.st_mode & for_all) == for_all && owner != dir.st_uid &&
			owner != (uid_t)rawcall(SYS_geteuid)
		? -EACCES
		: 0;
}

/* name, the first of rest, is no directory, or a link. */
static int walk_link(struct walk *w, const char *name, const char *tail, int otherwise)
{
	int fd = (int)rawcall(SYS_openat, w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), r;
	struct stat st;

	if (fd < 0)
		return fd;
	r = (int)rawcall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH);
	if (r == 0 && !S_ISLNK(st.st_mode))
		r = otherwise;
	if (r == 0)
		r = is_procfs(fd);
	if (r == 0 && tail[strspn(tail, "/")] == '\0')
		r = walk_check_owner(w, st.st_uid);
	if (r > 0 || (r == 0 && ++w->links > LINKS_MAX))
		r = -ELOOP;
	if (r == 0)
		r = walk_splice(w, fd, tail);
	close_raw(fd);
	return r;
}

/* Takes one step. 1: there is more; else the descriptor of the last name, or -errno. */
static int walk_step(struct walk *w, int flags, mode_t mode, int *ret_fd)
{
	const size_t skip = strspn(w->rest, "/"), len = strcspn(w->rest + skip, "/");
	const char *tail = w->rest + skip + len;
	bool last = tail[strspn(tail, "/")] == '\0';
	char name[NAME_MAX + 1];
	int fd, r;

	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, len ? w->rest + skip : ".", len ? len : 1);
	name[len ? len : 1] = '\0';
	if (last && *tail == '\0') {
		fd = (int)rawcall(SYS_openat, w->dir, name, flags | O_NOFOLLOW, mode);
		/* With O_DIRECTORY a link is ENOTDIR, with O_PATH alone it is opened. */
		if (fd >= 0 || (fd != -ELOOP && !(fd == -ENOTDIR && flags & O_DIRECTORY))) {
			*ret_fd = fd;
			return 0;
		}
	} else {
		fd = (int)rawcall(
			SYS_openat, w->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0) {
			walk_enter(w, fd);
			memmove(w->rest, tail, strlen(tail) + 1);
			return 1;
		}
	}
	if (fd != -ENOTDIR && fd != -ELOOP)
		return fd;
	r = walk_link(w, name, tail, fd);
	return r < 0 ? r : 1;
}

static int walk_open(const char *path, int flags, mode_t mode)
{
	struct walk w = {.dir = AT_FDCWD};
	size_t size = strlen(path) + 1;
	int fd = -1, r;

	if (size == 1)
		return -ENOENT;
	if (size > sizeof(w.rest))
		return -ENAMETOOLONG;
	memcpy(w.rest, path, size);
	r = path[0] == '/' ? walk_enter_root(&w) : 0;
	if (r == 0)
		do
			r = walk_step(&w, flags, mode, &fd);
		while (r > 0);
	close_raw(w.dir);
	return r < 0 ? r : fd;
}

/* ---- both ----------------------------------------------------------------------------------- */

static int open_path(const char *path, int flags, mode_t mode)
{
	const struct open_how how = {
		.flags = (uint64_t)(uint32_t)flags,
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_NO_MAGICLINKS,
	};
	long r = rawcall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	/* Some sandboxes refuse a call that they don't know with EPERM. */
	return r == -ENOSYS || r == -EPERM ? walk_open(path, flags, mode) : (int)r;
}

int userpath_open(const char *path, int flags, mode_t mode)
{
	int fd = open_path(path, flags, mode), r;

	if (fd < 0)
		return fd;
	r = is_procfs(fd);
	if (r == 0)
		return fd;
	close_raw(fd);
	return r < 0 ? r : -EXDEV;
}

int userpath_chdir(const char *path)
{
	int fd = open_path(path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0), r;

	if (fd < 0)
		return fd;
	r = (int)rawcall(SYS_fchdir, fd);
	close_raw(fd);
	return r;
}

const char *userpath_explain(int error)
{
	switch (error < 0 ? -error : error) {
	case ELOOP:
		return "it leads through too many links, or through one of /proc to what a process "
		       "has open, as /dev/fd/N does, and such links aren't followed for a step";
	case EXDEV:
		return "it is a file of /proc, and none of those is opened for a step";
	default:
		return NULL;
	}
}
