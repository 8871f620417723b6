/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/err.h"

static void make(struct log *log, int fds[2])
{
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	*log = (struct log){.fd = fds[1], .most = LOG_LEVEL_INFO, .ident = "stepd 7.0"};
}

static void test_a_line(void **state)
{
	char text[256] = "";
	struct log log;
	int fds[2];

	(void)state;
	make(&log, fds);
	log_debug(&log, "not asked for");
	log_error(&log, "open '%s'", "a\nb\x1b[1m");
	assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
	assert_string_equal(text, "stepd 7.0: error: open 'a?b?[1m'\n");
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void test_a_line_too_long_is_cut(void **state)
{
	char long_text[8192], text[8192] = "";
	struct log log;
	int fds[2];
	ssize_t n;

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	make(&log, fds);
	log_info(&log, "%s", long_text);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 1000 && n <= 2048);
	assert_int_equal(text[n - 1], '\n');
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* A reader that takes nothing must not stop the agent; the alarm ends the test if it does. */
static void test_a_full_pipe_loses_the_line(void **state)
{
	static char bytes[4096];
	struct log log;
	int fds[2];

	(void)state;
	make(&log, fds);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	while (write(fds[1], bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
	(void)alarm(20);
	log_error(&log, "nobody reads this");
	(void)alarm(0);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_line),
		cmocka_unit_test(test_a_line_too_long_is_cut),
		cmocka_unit_test(test_a_full_pipe_loses_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
