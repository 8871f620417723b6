/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "stepd/base/fs.h"
#include "tests/lib/scratch.h"

#define FILES 100

struct seen {
	int files, dirs, stop_at;
};

static int count(const char *name, uint8_t type, void *userdata)
{
	struct seen *seen = userdata;

	if (type == DT_DIR)
		seen->dirs += strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
	else
		seen->files++;
	return seen->stop_at && seen->files == seen->stop_at ? -ECANCELED : 0;
}

static int open_full(const char *dir)
{
	char name[16];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), i;

	assert_true(fd >= 0);
	assert_int_equal(mkdirat(fd, "below", 0700), 0);
	for (i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "file%d", i);
		assert_int_equal(close(openat(fd, name, O_CREAT | O_WRONLY, 0600)), 0);
	}
	return fd;
}

static void test_each_name_once(void **state)
{
	size_t piece;

	for (piece = 64; piece <= DIRNAMES_PIECE_MAX; piece *= 8) {
		_cleanup_close_ int fd = -1;
		struct seen seen = {0};

		fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(dirnames_each(fd, piece, count, &seen), 0);
		assert_int_equal(seen.files, FILES);
		assert_int_equal(seen.dirs, 1);
	}
}

static void test_it_stops_when_told(void **state)
{
	_cleanup_close_ int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct seen seen = {.stop_at = 7};

	assert_int_equal(dirnames_each(fd, 4096, count, &seen), -ECANCELED);
	assert_int_equal(seen.files, 7);
}

static void test_what_is_no_directory(void **state)
{
	_cleanup_close_ int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	struct seen seen = {0};

	(void)state;
	assert_int_equal(dirnames_each(fd, 4096, count, &seen), -ENOTDIR);
	assert_int_equal(dirnames_each(-1, 4096, count, &seen), -EBADF);
}

static void test_a_piece_too_small(void **state)
{
	_cleanup_close_ int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct seen seen = {0};

	assert_int_equal(dirnames_each(fd, 8, count, &seen), -EINVAL);
}

static int setup(void **state)
{
	*state = scratch_make();
	return close(open_full(*state));
}

static int teardown(void **state)
{
	scratch_remove(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_name_once),
		cmocka_unit_test(test_it_stops_when_told),
		cmocka_unit_test(test_what_is_no_directory),
		cmocka_unit_test(test_a_piece_too_small),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
