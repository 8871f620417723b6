/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The backlog of an input: what readers at different positions get from memory and from the file,
 * its bounds, the space that is given back, and what happens where the file can't grow.
 */
#include "stepd/stdio/backlog.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/scratch.h"

/* What pwrite(2) returns, once, instead of writing: 0, or -1 with this errno. */
static int pwrite_errno = -1;

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);

ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset)
{
	int error = pwrite_errno;

	pwrite_errno = -1;
	if (error < 0)
		return __real_pwrite(fd, data, size / 2 + 1, offset); /* a short one */
	errno = error;
	return error == 0 ? 0 : -1;
}

/* The byte at a position: no period divides a piece. */
static char byte_at(int64_t at)
{
	return (char)(at % 251 + at / 65536);
}

static struct backlog *make_backlog(bool spills, uint64_t max, const char *dir)
{
	const struct backlog_options options = {.spills = spills, .spill_max = max, .dir = dir};
	struct backlog *b = NULL;

	assert_int_equal(backlog_new(&options, &b), 0);
	return b;
}

/* Adds at most size bytes; returns 0, or why there is no space. */
static int add(struct backlog *b, size_t size, int64_t lowest)
{
	struct err err = ERR_INIT;
	int64_t end = backlog_end(b);
	size_t most, i;
	char *piece;
	int r = backlog_make_space(b, lowest, &err);

	if (r < 0)
		return r;
	piece = backlog_piece(b, &most);
	if (size > most)
		size = most;
	for (i = 0; i < size; i++)
		piece[i] = byte_at(end + (int64_t)i);
	backlog_add(b, size);
	return 0;
}

static void add_up_to(struct backlog *b, int64_t end, int64_t lowest)
{
	while (backlog_end(b) < end)
		assert_int_equal(add(b, (size_t)(end - backlog_end(b)), lowest), 0);
}

/* All bytes from a position on. */
static void expect_bytes(struct backlog *b, int64_t at)
{
	const char *data;
	ssize_t n, i;

	for (; at < backlog_end(b); at += n) {
		n = backlog_get(b, at, &data);
		assert_true(n > 0 && n <= (ssize_t)BACKLOG_PIECE);
		for (i = 0; i < n; i++)
			assert_int_equal(data[i], byte_at(at + i));
	}
	assert_int_equal(backlog_get(b, at, &data), 0);
}

static int64_t file_blocks(void)
{
	struct stat st;
	int fd;

	for (fd = 3; fd < 64; fd++) {
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0)
			return (int64_t)st.st_blocks * 512;
	}
	return -1;
}

static void test_memory_is_enough(void **state)
{
	struct backlog *b = make_backlog(false, 0, NULL);
	int64_t at;

	(void)state;
	for (at = 0; at < 5 * BACKLOG_WINDOW; at += 1000) /* over each wrap */
		add_up_to(b, at, at > BACKLOG_WINDOW ? at - BACKLOG_WINDOW : 0);
	expect_bytes(b, backlog_end(b) - BACKLOG_WINDOW);
	assert_int_equal(file_blocks(), -1);
	(void)backlog_free(b);
}

static void test_without_a_file(void **state)
{
	struct backlog *b = make_backlog(false, 0, NULL);
	int64_t end;

	(void)state;
	add_up_to(b, BACKLOG_WINDOW, 0);
	while (add(b, 1, 0) == 0)
		;
	end = backlog_end(b);
	assert_true(end >= BACKLOG_WINDOW && end <= BACKLOG_WINDOW + BACKLOG_PIECE);
	expect_bytes(b, 0);
	assert_int_equal(add(b, 1, 0), -EAGAIN);
	assert_int_equal(add(b, 1, backlog_limit(b)), 0);
	expect_bytes(b, backlog_limit(b));
	(void)backlog_free(b);
}

static void test_file(void **state)
{
	const char *dir = *state;
	struct backlog *b = make_backlog(true, 0, dir);
	int64_t full;

	add_up_to(b, 777, 0);
	add_up_to(b, 3 * BACKLOG_WINDOW + 12345, 777);
	expect_bytes(b, 777);
	assert_true(backlog_in_file(b, 777));
	assert_false(backlog_in_file(b, backlog_end(b) - BACKLOG_WINDOW));
	full = file_blocks();
	assert_true(full >= BACKLOG_WINDOW);
	backlog_release(b, 3 * BACKLOG_WINDOW / 2);
	assert_true(file_blocks() < full);
	expect_bytes(b, 3 * BACKLOG_WINDOW / 2);
	add_up_to(b, 5 * BACKLOG_WINDOW, 2 * BACKLOG_WINDOW);
	expect_bytes(b, 2 * BACKLOG_WINDOW);
	backlog_release(b, backlog_end(b));
	assert_int_equal(file_blocks(), 0);
	add_up_to(b, 9 * BACKLOG_WINDOW, 5 * BACKLOG_WINDOW); /* the file begins anew */
	expect_bytes(b, 5 * BACKLOG_WINDOW);
	assert_true(file_blocks() <= 4 * BACKLOG_WINDOW);
	(void)backlog_free(b);
}

static void test_maximum(void **state)
{
	struct backlog *b = make_backlog(true, BACKLOG_WINDOW, *state);
	int64_t end;
	int r;

	while ((r = add(b, BACKLOG_PIECE, 0)) == 0)
		;
	assert_int_equal(r, -E2BIG);
	end = backlog_end(b);
	assert_true(end <= 2 * BACKLOG_WINDOW + BACKLOG_PIECE);
	assert_true(file_blocks() <= BACKLOG_WINDOW);
	expect_bytes(b, 0);
	assert_int_equal(add(b, 1, backlog_limit(b)), 0); /* the slowest has read more */
	(void)backlog_free(b);
}

static void test_failed_writes(void **state)
{
	static const int errors[] = {ENOSPC, EDQUOT, EIO, EFBIG, 0};
	struct backlog *b = make_backlog(true, 0, *state);
	size_t i;

	add_up_to(b, 2 * BACKLOG_WINDOW, 0);
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		pwrite_errno = errors[i];
		assert_int_equal(add(b, 1, 0), errors[i] ? -errors[i] : -EIO);
		expect_bytes(b, 0);
	}
	add_up_to(b, 3 * BACKLOG_WINDOW, 0); /* there is space again */
	expect_bytes(b, 0);
	(void)backlog_free(b);
}

static void test_no_directory(void **state)
{
	struct backlog *b = make_backlog(true, 0, "/dev/null/none");

	(void)state;
	add_up_to(b, 2 * BACKLOG_WINDOW, 0); /* /var/tmp */
	expect_bytes(b, 0);
	(void)backlog_free(b);
}

static int set_up(void **state)
{
	*state = scratch_make();
	return 0;
}

static int tear_down(void **state)
{
	scratch_remove(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory_is_enough),
		cmocka_unit_test(test_without_a_file),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_maximum),
		cmocka_unit_test(test_failed_writes),
		cmocka_unit_test(test_no_directory),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
