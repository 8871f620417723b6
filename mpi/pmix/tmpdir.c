/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/tmpdir.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 64u /* of what is removed; deeper is left */

struct tmpdir {
	int parent_fd;
	int fd; /* locked */
	char *parent;
	char *path;
	const char *name; /* its last part */
};

/* ---- removal ---- */

static void remove_tree(int dirfd, const char *name, unsigned depth);

static void empty(int fd, unsigned depth)
{
	_cleanup_closedir_ DIR *dir = fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		(void)close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			remove_tree(dirfd(dir), entry->d_name, depth);
	}
}

/* Files that can't be removed stay: nobody waits for it, and the user's next server tries again. */
static void remove_tree(int dirfd, const char *name, unsigned depth)
{
	int fd;

	if (unlinkat(dirfd, name, 0) == 0 || (errno != EISDIR && errno != EPERM))
		return;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && depth < DEPTH_MAX)
		empty(fd, depth + 1);
	else
		(void)close_fd(fd);
	(void)unlinkat(dirfd, name, AT_REMOVEDIR);
}

/* Directories whose server is gone are unlocked. */
static void tmpdir_remove_stale(int parent_fd)
{
	int copy = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	struct dirent *entry;

	if (!dir) {
		(void)close_fd(copy);
		return;
	}
	while ((entry = readdir(dir))) {
		_cleanup_close_ int fd = -1;

		if (entry->d_name[0] == '.')
			continue;
		fd = openat(
			parent_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			remove_tree(parent_fd, entry->d_name, 0);
	}
}

/* ---- making ---- */

/* Ours alone: nobody else can have put it there or change it. */
static bool is_private(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0;
}

static int open_private(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, -errno, "open directory '%s'", path);
	if (!is_private(fd))
		return err_set_text(err, -EPERM,
			"directory '%s' belongs to somebody else or is open to others", path);
	return take_fd(&fd);
}

/* The one that all of the user's servers on this machine share. Everybody can make it before the
 * user does: then it is one whose name nobody knows. */
static int open_parent(struct tmpdir *t, struct err *err)
{
	_cleanup_free_ char *own = NULL;
	int r;

	if (mkdir(t->parent, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make directory '%s'", t->parent);
	t->parent_fd = open_private(t->parent, NULL);
	if (t->parent_fd >= 0 || t->parent_fd == -ENOENT)
		return t->parent_fd < 0 ? t->parent_fd : 0;
	if (asprintf(&own, "%s.XXXXXX", t->parent) < 0) {
		own = NULL;
		return err_set(err, -ENOMEM, "make a session directory");
	}
	if (!mkdtemp(own))
		return err_set(err, -errno, "make directory '%s'", own);
	free(t->parent);
	t->parent = take_ptr(own);
	r = open_private(t->parent, err);
	t->parent_fd = r;
	return r < 0 ? r : 0;
}

/* mkdtemp() in a directory that is open: its path may be another's by now. */
static int make_named(struct tmpdir *t, const stepd_step_rec_t *job)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char random[6];
	char end[sizeof(random) + 1] = "";

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO; /* so few come at once */
	for (size_t i = 0; i < sizeof(random); i++)
		end[i] = letters[random[i] % (sizeof(letters) - 1)];
	free(t->path);
	if (asprintf(&t->path, "%s/%u.%s.%u.%s", t->parent, job->job_id, job->step_name,
		    job->nodeid, end) < 0) {
		t->path = NULL;
		return -ENOMEM;
	}
	t->name = t->path + strlen(t->parent) + 1;
	return mkdirat(t->parent_fd, t->name, 0700) < 0 ? -errno : 0;
}

/* -EAGAIN: a server that removes stale ones has come between the making and the lock. */
static int lock(struct tmpdir *t)
{
	struct stat st;

	t->fd = openat(t->parent_fd, t->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(t->fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	return fstat(t->fd, &st) == 0 && st.st_nlink > 0 ? 0 : -EAGAIN;
}

/* -EAGAIN: another server has come in between, which ends or removes stale ones. */
static int try_once(struct tmpdir *t, const stepd_step_rec_t *job, struct err *err)
{
	int r = open_parent(t, err);

	if (r == -ENOENT)
		return -EAGAIN; /* removed after it was made */
	if (r < 0)
		return r;
	tmpdir_remove_stale(t->parent_fd);
	r = make_named(t, job);
	if (r == -ENOENT || r == -EEXIST)
		return -EAGAIN; /* the parent is removed; or the name is taken */
	if (r < 0)
		return err_set(err, r, "make a directory in '%s'", t->parent);
	r = lock(t);
	if (r == -EAGAIN)
		return r;
	return r < 0 ? err_set(err, r, "lock directory '%s'", t->path) : 0;
}

static char *parent_path(const char *base)
{
	char host[256] = "", *path;

	(void)gethostname(host, sizeof(host) - 1);
	for (char *c = host; *c; c++)
		*c = *c == '/' ? '_' : *c;
	return asprintf(&path, "%s/stepd-pmix-%u-%s", base, (unsigned)geteuid(), host) < 0 ? NULL
											   : path;
}

int tmpdir_open(
	const char *base, const stepd_step_rec_t *job, struct tmpdir **ret_tmpdir, struct err *err)
{
	_cleanup_free_ char *real = realpath(base, NULL);
	int r = -EAGAIN;

	if (!real)
		return err_set(err, -errno, "open directory '%s'", base);
	for (int i = 0; r == -EAGAIN && i < 100; i++) {
		_cleanup_tmpdir_ struct tmpdir *t = calloc(1, sizeof(*t));

		if (t) {
			t->parent_fd = t->fd = -1;
			t->parent = parent_path(real);
		}
		if (!t || !t->parent)
			return err_set(err, -ENOMEM, "make a session directory");
		r = try_once(t, job, err);
		if (r == 0)
			*ret_tmpdir = take_ptr(t);
	}
	return r == -EAGAIN
		? err_set_text(err, -EBUSY, "no session directory can be made in '%s'", base)
		: r;
}

int tmpdir_check(const char *base, struct err *err)
{
	struct stat st;

	if (base[0] != '/')
		return err_set_text(err, -EINVAL, "it is not an absolute path");
	if (stat(base, &st) < 0)
		return err_set(err, -errno, "read its attributes");
	if (!S_ISDIR(st.st_mode))
		return err_set_text(err, -ENOTDIR, "it is not a directory");
	if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
		return err_set_text(err, -EPERM,
			"everybody can rename what is in it; give it the sticky bit (mode 1777)");
	return 0;
}

const char *tmpdir_path(const struct tmpdir *tmpdir)
{
	return tmpdir->path;
}

int tmpdir_add(struct tmpdir *tmpdir, const char *name, struct err *err)
{
	if (mkdirat(tmpdir->fd, name, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make directory '%s/%s'", tmpdir->path, name);
	return 0;
}

struct tmpdir *tmpdir_close(struct tmpdir *tmpdir)
{
	if (!tmpdir)
		return NULL;
	if (tmpdir->fd >= 0)
		remove_tree(tmpdir->parent_fd, tmpdir->name, 0);
	(void)close_fd(tmpdir->fd);
	/* Not while others are in it; a server that is about to make one there tries again. */
	if (tmpdir->parent_fd >= 0)
		(void)rmdir(tmpdir->parent);
	(void)close_fd(tmpdir->parent_fd);
	free(tmpdir->parent);
	free(tmpdir->path);
	free(tmpdir);
	return NULL;
}
