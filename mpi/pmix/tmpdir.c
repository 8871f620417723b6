/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/tmpdir.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DEPTH_MAX 64u /* of what is removed; deeper is left */

struct tmpdir {
	int parent_fd;
	int fd; /* locked */
	char *path;
	const char *name; /* its last part */
	char *own_parent; /* NULL: the one that all of the user's servers share */
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

/* What can't be removed stays: nobody waits for it, and the user's next server tries again. */
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

/* Those whose server is gone are unlocked. */
static void remove_stale(int parent_fd)
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
		return err_say(err, -EPERM,
			"directory '%s' belongs to somebody else or is open to others", path);
	return take_fd(&fd);
}

/* Everybody can make the directory of a known name before the user does: then it is one whose name
 * nobody knows. */
static int open_parent(struct tmpdir *t, char **path, struct err *err)
{
	_cleanup_free_ char *own = NULL;
	int r;

	if (mkdir(*path, 0700) < 0 && errno != EEXIST)
		return err_set(err, -errno, "make directory '%s'", *path);
	t->parent_fd = open_private(*path, NULL);
	if (t->parent_fd >= 0)
		return 0;
	if (asprintf(&own, "%s.XXXXXX", *path) < 0) {
		own = NULL;
		return err_set(err, -ENOMEM, "make a session directory");
	}
	if (!mkdtemp(own))
		return err_set(err, -errno, "make directory '%s'", own);
	r = open_private(own, err);
	free(*path);
	*path = strdup(own);
	t->own_parent = take_ptr(own);
	if (r < 0)
		return r;
	t->parent_fd = r;
	return *path ? 0 : err_set(err, -ENOMEM, "make a session directory");
}

/* A server that looks for stale ones may come between mkdtemp() and the lock; then again. */
static int make_locked(struct tmpdir *t, struct err *err)
{
	_cleanup_free_ char *pattern = strdup(t->path);
	struct stat st;

	if (!pattern)
		return err_set(err, -ENOMEM, "make a session directory");
	for (int i = 0; i < 100; i++) {
		memcpy(t->path, pattern, strlen(pattern));
		if (!mkdtemp(t->path))
			return err_set(err, -errno, "make directory '%s'", t->path);
		t->fd = openat(
			t->parent_fd, t->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (t->fd >= 0 && flock(t->fd, LOCK_EX | LOCK_NB) == 0 && fstat(t->fd, &st) == 0 &&
			st.st_nlink > 0)
			return 0;
		t->fd = close_fd(t->fd);
	}
	return err_say(err, -EBUSY, "directory '%s' can't be locked", t->path);
}

int tmpdir_open(
	const char *base, const stepd_step_rec_t *job, struct tmpdir **ret_tmpdir, struct err *err)
{
	_cleanup_tmpdir_ struct tmpdir *t = calloc(1, sizeof(*t));
	_cleanup_free_ char *parent = NULL;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "make a session directory");
	t->parent_fd = t->fd = -1;
	if (!base || base[0] != '/')
		base = "/tmp";
	if (asprintf(&parent, "%s/stepd-pmix-%u", base, (unsigned)geteuid()) < 0) {
		parent = NULL;
		return err_set(err, -ENOMEM, "make a session directory");
	}
	r = open_parent(t, &parent, err);
	if (r < 0)
		return r;
	if (asprintf(&t->path, "%s/%u.%s.%u.XXXXXX", parent, job->job_id, job->step_name,
		    job->nodeid) < 0) {
		t->path = NULL;
		return err_set(err, -ENOMEM, "make a session directory");
	}
	t->name = t->path + strlen(parent) + 1;
	remove_stale(t->parent_fd);
	r = make_locked(t, err);
	if (r < 0)
		return r;
	*ret_tmpdir = take_ptr(t);
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
	(void)close_fd(tmpdir->parent_fd);
	if (tmpdir->own_parent)
		(void)rmdir(tmpdir->own_parent); /* what is left of it is nobody's */
	free(tmpdir->own_parent);
	free(tmpdir->path);
	free(tmpdir);
	return NULL;
}
