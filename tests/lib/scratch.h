/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests: a directory of the test's own, files in it, and a count of open descriptors.
 * A failure here is not the subject of a test: it ends the program with the reason.
 */
#ifndef TESTS_LIB_SCRATCH_H
#define TESTS_LIB_SCRATCH_H

#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"

/* DIR/NAME, the caller's to free. */
static inline char *scratch_path(const char *dir, const char *name)
{
	char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		err(99, "asprintf");
	return path;
}

/* Makes an empty directory that others may enter but not write, whatever the umask. Its name is
 * the caller's to free. */
static inline char *scratch_make(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = scratch_path(tmp && *tmp ? tmp : "/tmp", "stepd-test.XXXXXX");

	if (!mkdtemp(dir) || chmod(dir, 0755) < 0)
		err(99, "make '%s'", dir);
	return dir;
}

static inline int scratch_remove_one(
	const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void scratch_remove(const char *dir)
{
	if (nftw(dir, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS) < 0)
		warn("remove '%s'", dir);
}

static inline void scratch_write(
	const char *dir, const char *name, const void *data, size_t size, mode_t mode)
{
	_cleanup_free_ char *path = scratch_path(dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || fs_write_all(fd, data, size) < 0 || fchmod(fd, mode) < 0)
		err(99, "write '%s'", path);
	(void)close(fd);
}

/* Copies $top_builddir/FROM to DIR/NAME, mode 0755. */
static inline void scratch_copy_built(const char *from, const char *dir, const char *name)
{
	const char *top = getenv("top_builddir");
	_cleanup_free_ char *path = scratch_path(top ? top : ".", from), *data = NULL;
	size_t size;
	int r = fs_read(AT_FDCWD, path, 64u << 20, &data, &size);

	if (r < 0)
		errx(99, "read '%s': %s", path, strerror(-r));
	scratch_write(dir, name, data, size, 0755);
}

static inline int scratch_count_fds(void)
{
	_cleanup_closedir_ DIR *d = opendir("/proc/self/fd");
	int n = 0;

	if (!d)
		err(99, "open /proc/self/fd");
	while (readdir(d))
		n++;
	return n - 3; /* ".", ".." and the one of this count */
}

#endif
