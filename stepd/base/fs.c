/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/fs.h"

#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "stepd/base/clock.h"
#include "stepd/base/rawcall.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

int fs_read_fd(int fd, size_t max_bytes, char **ret_text, size_t *ret_size)
{
	_cleanup_free_ char *buf = NULL;
	size_t capacity = 4096, size = 0;
	char *grown;
	ssize_t n;

	for (;;) {
		grown = realloc(buf, capacity + 1);
		if (!grown)
			return -ENOMEM;
		buf = grown;
		n = read(fd, buf + size, capacity - size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > max_bytes)
			return -EFBIG;
		if (capacity - size < 4096)
			capacity *= 2;
	}
	buf[size] = '\0';
	*ret_text = take_ptr(buf);
	if (ret_size)
		*ret_size = size;
	return 0;
}

int fs_read(int dirfd, const char *name, size_t max_bytes, char **ret_text, size_t *ret_size)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return -errno;
	return fs_read_fd(fd, max_bytes, ret_text, ret_size);
}

int fs_open_regular(int dirfd, const char *name)
{
	_cleanup_close_ int fd =
		openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(&fd) : -EBADMSG;
}

DIR *fs_opendir(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		(void)close_fd(fd);
	return dir;
}

/* What getdents64(2) writes; the C library's struct has a name of 256 bytes. */
struct name_record {
	uint64_t inode;
	int64_t next;
	uint16_t size; /* of this record */
	uint8_t type;
	char name[];
};

int dirnames_each(int fd, size_t piece_bytes, dirnames_fn fn, void *userdata)
{
	char names[DIRNAMES_PIECE_MAX] __attribute__((aligned(__alignof__(struct name_record))));
	const struct name_record *record;
	ssize_t n, at;
	int r;

	assert(piece_bytes <= sizeof(names));
	while ((n = syscall(SYS_getdents64, fd, names, piece_bytes)) > 0) {
		for (at = 0; at < n; at += record->size) {
			record = (const struct name_record *)(names + at);
			r = fn(record->name, record->type, userdata);
			if (r != 0)
				return r;
		}
	}
	return n < 0 ? -errno : 0;
}

/* ---- removing a tree ------------------------------------------------------------------------ */

/* What is deeper moves to the top. */
#define EMPTY_DEPTH_MAX 16

struct emptying {
	int top, fd; /* fd: the directory that is emptied */
	unsigned depth;
	unsigned long moved, removed;
	int error; /* of one that stays */
};

static void empty_at(struct emptying *e, int fd);

static int open_child(const struct emptying *e, const char *name)
{
	return openat(e->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* The name is one that nothing has: else it would take the place of a directory, if that is empty.
 */
static int move_to_top(struct emptying *e, const char *name)
{
	char moved[32];
	int r;

	do {
		(void)snprintf(moved, sizeof(moved), "stepd-%lu", ++e->moved);
		r = renameat2(e->fd, name, e->top, moved, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	return r;
}

/* Nothing moves out of one. It stays. */
static int empty_mount(const struct emptying *e, const char *name)
{
	_cleanup_close_ int fd = open_child(e, name);

	if (fd >= 0)
		(void)!fs_empty_directory(fd);
	errno = EBUSY;
	return -1;
}

static int empty_child(struct emptying *e, const char *name)
{
	_cleanup_close_ int fd = open_child(e, name);

	if (fd < 0)
		return -1;
	empty_at(e, fd);
	return unlinkat(e->fd, name, AT_REMOVEDIR);
}

static int empty_entry(const char *name, _unused_ uint8_t type, void *userdata)
{
	struct emptying *e = userdata;
	int r;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	r = unlinkat(e->fd, name, 0);
	if (r < 0 && errno == EISDIR)
		r = unlinkat(e->fd, name, AT_REMOVEDIR);
	if (r < 0 && errno == EBUSY)
		r = empty_mount(e, name);
	else if (r < 0 && (errno == ENOTEMPTY || errno == EEXIST))
		r = e->depth < EMPTY_DEPTH_MAX ? empty_child(e, name) : move_to_top(e, name);
	if (r == 0)
		e->removed++;
	else if (errno != ENOENT)
		e->error = -errno;
	return 0;
}

/* Again where something was removed, since names behind it may have been missed. */
static void empty_at(struct emptying *e, int fd)
{
	int above = e->fd, r = 0;
	unsigned long before;

	e->fd = fd;
	e->depth++;
	do {
		before = e->removed;
		e->error = e->depth == 1 ? 0 : e->error;
		r = lseek(fd, 0, SEEK_SET) < 0
			? -errno
			: dirnames_each(fd, DIRNAMES_PIECE_MAX, empty_entry, e);
	} while (r == 0 && e->removed != before);
	if (r < 0)
		e->error = r;
	e->fd = above;
	e->depth--;
}

int fs_empty_directory(int fd)
{
	struct emptying e = {.top = fd, .fd = -1};

	empty_at(&e, fd);
	return e.error;
}

/* ---- writing -------------------------------------------------------------------------------- */

int fs_write(int dirfd, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int fs_wait_readable(int fd, int64_t until_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t left_ms;
	int r;

	do {
		left_ms = until_ms - clock_now_ms();
		left_ms = left_ms > INT_MAX ? INT_MAX : left_ms;
		r = poll(&p, 1, left_ms > 0 ? (int)left_ms : 0);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : r;
}

int fs_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = write(fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int fs_memory(const char *name, const void *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fs_write_all(fd, data, size);

	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ||
		lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return take_fd(&fd);
}

static int sync_dir(int dirfd, const char *name)
{
	_cleanup_free_ char *dir = strdup(name);
	_cleanup_close_ int fd = -1;

	if (!dir)
		return -ENOMEM;
	fd = openat(dirfd, dirname(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

bool fs_is_spare(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && strcmp(name + len - 4, ".new") == 0;
}

void fs_spare_clear(struct fs_spare *spare, int dirfd)
{
	if (spare->temp)
		(void)unlinkat(dirfd, spare->temp, 0); /* private to this process */
	free(spare->temp);
	spare->fd = close_fd(spare->fd);
	*spare = FS_SPARE_INIT;
}

/* EOPNOTSUPP: the file system can't reserve blocks. The C library's function would then write
 * every block itself. */
int fs_spare_grow(const struct fs_spare *spare, size_t size)
{
	if (size && fallocate(spare->fd, 0, 0, (off_t)size) < 0 && errno != EOPNOTSUPP)
		return -errno;
	return 0;
}

int fs_spare_make(int dirfd, const char *name, mode_t mode, size_t size, struct fs_spare *ret_spare)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	struct fs_spare spare = FS_SPARE_INIT;
	int r;

	if (asprintf(&spare.temp, "%s.%d.new", name, (int)getpid()) < 0)
		return -ENOMEM;
	spare.fd = openat(dirfd, spare.temp, flags, mode);
	/* left by a process that had our pid and died here */
	if (spare.fd < 0 && errno == EEXIST && unlinkat(dirfd, spare.temp, 0) == 0)
		spare.fd = openat(dirfd, spare.temp, flags, mode);
	r = spare.fd < 0 ? -errno : fs_spare_grow(&spare, size);
	if (r < 0)
		fs_spare_clear(&spare, dirfd);
	else
		*ret_spare = spare;
	return r;
}

static int spare_rename(struct fs_spare *spare, int dirfd, const char *name)
{
	if (renameat(dirfd, spare->temp, dirfd, name) < 0)
		return -errno;
	free(take_ptr(spare->temp));
	return 0;
}

int fs_spare_use(struct fs_spare *spare, int dirfd, const char *name, const void *data, size_t size,
	bool sync)
{
	int r = fs_write_all(spare->fd, data, size);

	if (r == 0 && ftruncate(spare->fd, (off_t)size) < 0)
		r = -errno;
	if (r == 0 && sync && fsync(spare->fd) < 0)
		r = -errno;
	if (r == 0)
		r = spare_rename(spare, dirfd, name);
	fs_spare_clear(spare, dirfd);
	return r == 0 && sync ? sync_dir(dirfd, name) : r;
}

int fs_write_atomic(
	int dirfd, const char *name, const void *data, size_t size, mode_t mode, bool sync)
{
	struct fs_spare spare = FS_SPARE_INIT;
	int r = fs_spare_make(dirfd, name, mode, 0, &spare);

	return r < 0 ? r : fs_spare_use(&spare, dirfd, name, data, size, sync);
}

int fs_replace(int dirfd, const char *name, mode_t mode)
{
	struct fs_spare spare = FS_SPARE_INIT;
	int fd, r = fs_spare_make(dirfd, name, mode, 0, &spare);

	if (r < 0)
		return r;
	r = spare_rename(&spare, dirfd, name);
	fd = r < 0 ? r : take_fd(&spare.fd);
	fs_spare_clear(&spare, dirfd);
	return fd;
}

/* An access control list as the kernel takes it (linux/posix_acl_xattr.h), its numbers in little
 * endian, its entries in the order of their tags. */
struct acl_entry {
	uint16_t tag, perm;
	uint32_t id;
};

struct acl {
	uint32_t version;
	struct acl_entry entries[6];
};

static size_t acl_add(struct acl *acl, size_t n, uint16_t tag, uint16_t perm, uint32_t id)
{
	acl->entries[n] = (struct acl_entry){htole16(tag), htole16(perm), htole32(id)};
	return n + 1;
}

int fs_set_readers(int fd, mode_t mode, uid_t uid, gid_t gid)
{
	const bool has_user = uid != 0 && uid != geteuid(), has_group = gid != (gid_t)-1;
	const uint16_t own = (uint16_t)(mode >> 6 & 7), read = own & (ACL_READ | ACL_EXECUTE);
	struct acl acl = {.version = htole32(POSIX_ACL_XATTR_VERSION)};
	size_t n = 0;

	if (fchmod(fd, mode) < 0)
		return -errno;
	if (!has_user && !has_group)
		return 0;
	n = acl_add(&acl, n, ACL_USER_OBJ, own, (uint32_t)ACL_UNDEFINED_ID);
	if (has_user)
		n = acl_add(&acl, n, ACL_USER, read, uid);
	n = acl_add(&acl, n, ACL_GROUP_OBJ, 0, (uint32_t)ACL_UNDEFINED_ID);
	if (has_group)
		n = acl_add(&acl, n, ACL_GROUP, read, gid);
	n = acl_add(&acl, n, ACL_MASK, read, (uint32_t)ACL_UNDEFINED_ID);
	n = acl_add(&acl, n, ACL_OTHER, 0, (uint32_t)ACL_UNDEFINED_ID);
	return fsetxattr(fd, XATTR_NAME_POSIX_ACL_ACCESS, &acl,
		       offsetof(struct acl, entries) + n * sizeof(acl.entries[0]), 0) < 0
		? -errno
		: 0;
}

int fs_check_trusted(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, -errno, "open '%s'", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set_text(err, -EPERM,
			"'%s' belongs to uid %u; it must belong to root or to this process's user (chown it)",
			path, (unsigned)st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set_text(err, -EPERM,
			"'%s' can be written by others than its owner (mode %04o); chmod go-w it",
			path, (unsigned)(st.st_mode & 07777));
	return 0;
}

static bool is_above(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && path[len] == '/';
}

int fs_check_parents(const char *path, const char *trusted, struct err *err)
{
	char dir[PATH_MAX];
	struct stat st;
	char *slash;

	if (snprintf(dir, sizeof(dir), "%s", path) >= (int)sizeof(dir))
		return err_set(err, -ENAMETOOLONG, "open the parent directory of '%s'", path);
	while ((slash = strrchr(dir, '/')) && dir[1]) {
		slash[slash == dir] = '\0'; /* "/" itself comes last */
		if (trusted && is_above(dir, trusted))
			return 0; /* and so is all above it */
		if (stat(dir, &st) < 0)
			return err_set(err, -errno, "open '%s'", dir);
		if ((st.st_uid != 0 && st.st_uid != geteuid()) ||
			((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)))
			return err_set_text(err, -EPERM,
				"'%s', above '%s', can be changed by others (uid %u, mode %04o); "
				"install below directories that only root can change",
				dir, path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
	}
	return 0;
}

static int check_parents_of(const char *path, struct err *err)
{
	_cleanup_free_ char *whole = NULL, *here = NULL;

	if (path[0] == '/')
		return fs_check_parents(path, NULL, err);
	here = getcwd(NULL, 0);
	if (!here)
		return err_set(err, -errno, "open the parent directory of '%s'", path);
	if (asprintf(&whole, "%s/%s", here, path) < 0) {
		whole = NULL;
		return err_set(err, -ENOMEM, "open the parent directory of '%s'", path);
	}
	return fs_check_parents(whole, NULL, err);
}

int fs_find_path(int fd, char path[static PATH_MAX])
{
	char self[40];
	ssize_t n;

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, path, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	return 0;
}

int fs_check_file(int fd, const char *path, struct err *err)
{
	char real[PATH_MAX];
	int r = fs_find_path(fd, real);

	if (r < 0)
		return err_set(err, r, "read '%s'", path);
	r = fs_check_trusted(fd, path, err);
	if (r == 0)
		r = check_parents_of(path, err);
	return r < 0 ? r : fs_check_parents(real, NULL, err);
}

int fs_send_descriptor(int socket_fd, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = ""};
	struct iovec iov = {.iov_base = (void *)"", .iov_len = 1};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);

	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(int));
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

void fs_refuse_descriptors(int socket_fd)
{
	const int no = 0;

	(void)setsockopt(socket_fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
}

/* ---- paths that a user has chosen ---------------------------------------------------------- */

#define LINKS_MAX         40   /* as the kernel's own */
#define PROCFS_BLOCK_SIZE 1024 /* of all its inodes, since before Linux 2.6 */

static void close_raw(int fd)
{
	if (fd >= 0)
		(void)rawcall(SYS_close, fd); /* the descriptor is gone whatever close() returns */
}

/* The file system's type is read only where the block size may be that of procfs: on a parallel
 * file system that is a request to its servers for each task's file. */
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

/* ---- without openat2() --------------------------------------------------------------------- */

struct walk {
	int dir;             /* where the rest begins; AT_FDCWD at first */
	int root;            /* the directory that is "/"; -1: this process's own */
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
	int r = (int)rawcall(
		SYS_openat, w->root, w->root < 0 ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (r < 0)
		return r;
	walk_enter(w, r);
	return 0;
}

/* 1: dir is the directory that is "/", above which nothing is. 0: it is another one, or "/" is this
 * process's own root, of which the kernel knows that itself. -errno. */
static int walk_is_at_root(const struct walk *w)
{
	struct stat dir, root;
	long r;

	if (w->root < 0)
		return 0;
	r = rawcall(SYS_newfstatat, w->dir, ".", &dir, 0);
	if (r == 0)
		r = rawcall(SYS_newfstatat, w->root, ".", &root, 0);
	return r < 0 ? (int)r : dir.st_dev == root.st_dev && dir.st_ino == root.st_ino;
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

/* As fs.protected_symlinks, since the kernel does not resolve this link: at the end of a path, a
 * link that another user has put into a world-writable directory is not followed. */
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
	if (strcmp(name, "..") == 0) {
		r = walk_is_at_root(w);
		if (r < 0)
			return r;
		if (r == 1)
			name[1] = '\0'; /* "." */
	}
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

static int walk_open(int root, const char *path, int flags, mode_t mode)
{
	struct walk w = {.dir = AT_FDCWD, .root = root};
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

/* ---- both ---------------------------------------------------------------------------------- */

static int open_path(int root, const char *path, int flags, mode_t mode)
{
	const struct open_how how = {
		.flags = (uint64_t)(uint32_t)flags,
		.mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0,
		.resolve = RESOLVE_NO_MAGICLINKS | (root < 0 ? 0u : RESOLVE_IN_ROOT),
	};
	long r = rawcall(SYS_openat2, root < 0 ? AT_FDCWD : root, path, &how, sizeof(how));

	/* Some sandboxes refuse a call that they don't know with EPERM. Within a root EAGAIN says
	 * that a directory was renamed meanwhile, anywhere, and the path has "..". */
	return r == -ENOSYS || r == -EPERM || (r == -EAGAIN && root >= 0)
		? walk_open(root, path, flags, mode)
		: (int)r;
}

int userpath_open(const char *path, int flags, mode_t mode)
{
	return userpath_open_in(-1, path, flags, mode);
}

int userpath_open_in(int root, const char *path, int flags, mode_t mode)
{
	int fd = open_path(root, path, flags, mode), r;

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
	int fd = open_path(-1, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0), r;

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
		return "it leads through too many links, or through a link of /proc to an open "
		       "file, such as /dev/fd/N, which is not followed for a step";
	case EXDEV:
		return "it is a file of /proc, which is not opened for a step";
	default:
		return NULL;
	}
}
