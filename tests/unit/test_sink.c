/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A sink to a file whose writes fail: what is tried again and what is not, what is counted and what
 * is logged.
 */
#include "stepd/stdio/output.h"

#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stepd/base/err.h"
#include "tests/lib/scratch.h"

static int file_fd = -1;   /* the one whose writes fail */
static int write_error;    /* 0: none */
static size_t write_space; /* bytes that are taken before that */

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
	if (fd != file_fd || write_error == 0)
		return __real_write(fd, data, size);
	if (write_space == 0) {
		errno = write_error;
		return -1;
	}
	if (size > write_space)
		size = write_space;
	write_space -= size;
	return __real_write(fd, data, size);
}

/* What was logged, a line after the other. */
static char logged[4096];

static int keep_line(
	_unused_ const struct log *log, _unused_ enum log_level level, const char *text)
{
	size_t n = strlen(logged);

	(void)snprintf(logged + n, sizeof(logged) - n, "%s\n", text);
	return 0;
}

static const struct log log_kept = {.send = keep_line, .fd = -1, .most = LOG_LEVEL_INFO};

struct rig {
	char *dir;
	struct sink *sink;
};

static int set_up(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	char *path;

	assert_non_null(rig);
	rig->dir = scratch_make();
	path = scratch_path(rig->dir, "file");
	file_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_true(file_fd >= 0);
	free(path);
	assert_int_equal(
		sink_new(ev_default_loop(0), &log_kept, file_fd, true, "FILE", &rig->sink), 0);
	sink_describe(rig->sink, STDERR_FILENO, 7);
	write_error = 0;
	write_space = 0;
	logged[0] = '\0';
	*state = rig;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *rig = *state;

	(void)sink_free(rig->sink);
	scratch_remove(rig->dir);
	free(rig->dir);
	free(rig);
	return 0;
}

static void put(struct rig *rig, const char *text)
{
	sink_put(rig->sink, text, strlen(text));
	sink_flush(rig->sink);
	assert_int_equal(sink_pending(rig->sink), 0);
}

static void expect_file(const char *wanted)
{
	char text[256] = "";

	assert_true(pread(file_fd, text, sizeof(text) - 1, 0) >= 0);
	assert_string_equal(text, wanted);
}

static void expect_loss(const struct rig *rig, uint64_t bytes, int error)
{
	struct sink_loss loss;

	assert_true(sink_has_lost(rig->sink, &loss));
	assert_string_equal(loss.name, "FILE");
	assert_int_equal(loss.stream, STDERR_FILENO);
	assert_int_equal(loss.rank, 7);
	assert_int_equal(loss.bytes, bytes);
	assert_int_equal(loss.error, error);
}

static void recovers_from(struct rig *rig, int error)
{
	char wanted[256];
	bool mid_line = false;

	put(rig, "one\n");
	write_error = error;
	write_space = 2;
	put(rig, "two\n");
	put(rig, "three\n");
	assert_true(sink_is_full(rig->sink));
	assert_false(sink_failed(rig->sink));
	assert_true(sink_take_gap(rig->sink, &mid_line));
	assert_true(mid_line);
	assert_false(sink_take_gap(rig->sink, &mid_line));
	expect_loss(rig, 2 + 6, error);
	write_error = 0;
	put(rig, "four\n");
	assert_false(sink_is_full(rig->sink));
	write_error = error;
	put(rig, "five\n");
	write_error = 0;
	put(rig, "six\n");
	expect_file("one\ntwfour\nsix\n");
	expect_loss(rig, 2 + 6 + 5, error);
	(void)snprintf(wanted, sizeof(wanted),
		"write rank 7's output to FILE: %s; it is lost until it can be written again (make "
		"space there)\n"
		"rank 7's output is written to FILE again; 8 bytes are missing there\n",
		strerror(error));
	assert_string_equal(logged, wanted);
}

static void test_no_space(void **state)
{
	recovers_from(*state, ENOSPC);
}

static void test_quota(void **state)
{
	recovers_from(*state, EDQUOT);
}

static void test_input_output_error(void **state)
{
	recovers_from(*state, EIO);
}

static void test_what_stays(void **state)
{
	struct rig *rig = *state;

	write_error = EBADF;
	put(rig, "one\n");
	assert_true(sink_failed(rig->sink));
	put(rig, "two\n");
	sink_count_lost(rig->sink, 100);
	expect_loss(rig, 4 + 4 + 100, EBADF);
	assert_string_equal(logged,
		"write rank 7's output to FILE: Bad file descriptor; further output for it is lost\n");
}

static void test_nothing_lost(void **state)
{
	struct rig *rig = *state;

	put(rig, "one\n");
	assert_false(sink_has_lost(rig->sink, NULL));
	assert_string_equal(logged, "");
}

/* A reader that passes on what each read has got tears no line, however slow it is. */
static void test_pipe_gets_whole_lines(void **state)
{
	struct ev_loop *loop = ev_default_loop(0);
	char line[256], got[65536];
	size_t put_bytes = 0, got_bytes = 0;
	struct sink *sink;
	int fds[2], round;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(sink_new(loop, &log_kept, fds[1], true, "PIPE", &sink), 0);
	sink_write_lines(sink);
	for (round = 0; round < 200; round++) {
		while (sink_space(sink) > sizeof(line)) {
			n = snprintf(line, sizeof(line), "%0*d\n", round % 200 + 1, round);
			sink_put(sink, line, (size_t)n);
			put_bytes += (size_t)n;
			if (put_bytes % 7 == 0)
				sink_flush(sink);
		}
		sink_flush(sink);
		n = read(fds[0], got, sizeof(got));
		assert_true(n > 0);
		assert_int_equal(got[n - 1], '\n');
		got_bytes += (size_t)n;
		(void)ev_run(loop, EVRUN_NOWAIT);
	}
	while (got_bytes < put_bytes) {
		n = read(fds[0], got, sizeof(got));
		assert_true(n > 0);
		assert_int_equal(got[n - 1], '\n');
		got_bytes += (size_t)n;
		(void)ev_run(loop, EVRUN_NOWAIT);
	}
	assert_int_equal(sink_pending(sink), 0);
	(void)sink_free(sink);
	(void)close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_space, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_quota, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_input_output_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing_lost, set_up, tear_down),
		cmocka_unit_test(test_pipe_gets_whole_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
