/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ev.h>
#include <fcntl.h>
#include <signal.h>

#include "stepd/cli/across/user.h"

struct rig {
	struct ev_loop *loop;
	struct output output;
	struct output_source sources[2];
	int read_fd, write_fd, full, failed;
	unsigned emptied;
};

static void on_full(bool full, void *userdata)
{
	struct rig *rig = userdata;

	rig->full += full ? 1 : -1;
	assert_in_range(rig->full, 0, 1);
}

static void on_empty(void *userdata)
{
	((struct rig *)userdata)->emptied++;
}

static void on_failed(int error, void *userdata)
{
	((struct rig *)userdata)->failed = error;
}

static void on_waited(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)w;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

static int setup(void **state)
{
	static const struct output_events events = {
		.full = on_full, .empty = on_empty, .failed = on_failed};
	struct rig *rig = calloc(1, sizeof(*rig));
	int fds[2], i;

	(void)signal(SIGPIPE, SIG_IGN);
	if (!rig || pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	rig->loop = ev_loop_new(EVFLAG_NOENV);
	rig->read_fd = fds[0];
	rig->write_fd = fds[1];
	(void)fcntl(rig->read_fd, F_SETFL, O_NONBLOCK);
	output_init(&rig->output, rig->loop, rig->write_fd, &events, rig);
	for (i = 0; i < 2; i++)
		output_source_init(&rig->sources[i], &rig->output);
	*state = rig;
	return 0;
}

static int teardown(void **state)
{
	struct rig *rig = *state;
	int i;

	for (i = 0; i < 2; i++)
		output_source_clear(&rig->sources[i]);
	output_clear(&rig->output);
	(void)close_fd(rig->read_fd);
	(void)close_fd(rig->write_fd);
	ev_loop_destroy(rig->loop);
	free(rig);
	return 0;
}

static void put(struct rig *rig, int source, const char *text)
{
	output_write(&rig->sources[source], text, strlen(text));
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
}

static void gives(struct rig *rig, const char *text)
{
	char got[256] = "";
	ssize_t n = read(rig->read_fd, got, sizeof(got) - 1);

	got[n > 0 ? n : 0] = '\0';
	assert_string_equal(got, text);
}

static void test_lines_of_two(void **state)
{
	struct rig *rig = *state;

	put(rig, 0, "one ");
	put(rig, 1, "two\nthr");
	gives(rig, "two\n");
	assert_true(output_is_empty(&rig->output));
	put(rig, 0, "line\nand");
	gives(rig, "one line\n");
	put(rig, 1, "ee\n");
	gives(rig, "three\n");
	output_flush(&rig->sources[0]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "and");
	output_flush(&rig->sources[1]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "");
	put(rig, 0, "");
	put(rig, 0, "\n\n");
	gives(rig, "\n\n");
}

/* A prompt: the loop has nothing else to wait for than its patience, and then room. */
static void test_prompt(void **state)
{
	struct rig *rig = *state;

	put(rig, 0, "name? ");
	gives(rig, "");
	(void)ev_run(rig->loop, EVRUN_ONCE);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "name? ");
	put(rig, 0, "x");
	put(rig, 0, "y\n");
	gives(rig, "xy\n");
}

static void test_long_line(void **state)
{
	struct rig *rig = *state;
	static char bytes[OUTPUT_LINE_MAX + 2], got[OUTPUT_LINE_MAX + 2];
	size_t at = 0;
	ssize_t n;

	memset(bytes, 'x', sizeof(bytes));
	output_write(&rig->sources[0], bytes, OUTPUT_LINE_MAX);
	assert_true(output_is_empty(&rig->output)); /* it may have an end yet */
	output_write(&rig->sources[0], bytes, 2);
	assert_false(output_is_empty(&rig->output));
	while (!output_is_empty(&rig->output)) {
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		n = read(rig->read_fd, got + at, sizeof(got) - at);
		at += n > 0 ? (size_t)n : 0;
	}
	n = read(rig->read_fd, got + at, sizeof(got) - at);
	at += n > 0 ? (size_t)n : 0;
	assert_int_equal(at, sizeof(bytes));
	assert_memory_equal(got, bytes, sizeof(bytes));
}

static void test_slow_reader(void **state)
{
	struct rig *rig = *state;
	static char line[65536], got[65536];
	size_t sent = 0, at = 0;
	ssize_t n;

	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	while (rig->full == 0) {
		output_write(&rig->sources[0], line, sizeof(line));
		sent += sizeof(line);
		assert_true(sent < (8u << 20));
	}
	assert_true(sent > (1u << 20));
	while (!output_is_empty(&rig->output)) {
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		n = read(rig->read_fd, got, sizeof(got));
		at += n > 0 ? (size_t)n : 0;
	}
	while ((n = read(rig->read_fd, got, sizeof(got))) > 0)
		at += (size_t)n;
	assert_int_equal(at, sent);
	assert_int_equal(rig->full, 0);
	assert_int_equal(rig->emptied, 1);
}

/* While the reader takes nothing, the end of a line isn't read either: so its beginning waits. */
static void test_prompt_behind_a_slow_reader(void **state)
{
	struct rig *rig = *state;
	static char line[65536], got[65536];
	bool had_end = false;
	ev_timer wait;
	ssize_t n;

	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	output_write(&rig->sources[1], "begun ", 6);
	while (rig->full == 0)
		output_write(&rig->sources[0], line, sizeof(line));
	ev_timer_init(&wait, on_waited, 3 * OUTPUT_TIMEOUT_MS / 1e3, 0.);
	ev_timer_start(rig->loop, &wait);
	(void)ev_run(rig->loop, 0);
	output_write(&rig->sources[0], "another\n", 8);
	output_write(&rig->sources[1], "and ended\n", 10);
	while (!output_is_empty(&rig->output)) {
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		n = read(rig->read_fd, got, sizeof(got));
		had_end = had_end || (n > 0 && memmem(got, (size_t)n, "begun and ended\n", 16));
	}
	n = read(rig->read_fd, got, sizeof(got));
	had_end = had_end || (n > 0 && memmem(got, (size_t)n, "begun and ended\n", 16));
	assert_true(had_end);
}

static void test_reader_that_goes(void **state)
{
	struct rig *rig = *state;

	rig->read_fd = close_fd(rig->read_fd);
	put(rig, 0, "line\nbegun");
	assert_int_equal(rig->failed, -EPIPE);
	rig->failed = 0;
	put(rig, 1, "another\n");
	output_flush(&rig->sources[0]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	assert_int_equal(rig->failed, 0); /* once */
	assert_true(output_is_empty(&rig->output));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lines_of_two, setup, teardown),
		cmocka_unit_test_setup_teardown(test_prompt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(test_prompt_behind_a_slow_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reader_that_goes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
