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
#include <sys/socket.h>
#include <time.h>

#include "stepd/api/plugin.h"
#include "stepd/cli/across/user.h"

/* The clock stands still until a test moves it: what is to come in time may not depend on when this
 * process has a processor. */
static struct timespec now = {.tv_sec = 1000000000};

STEPD_EXPORT int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	*ret_now = now;
	return 0;
}

struct rig {
	struct ev_loop *loop;
	struct output output;
	struct output_source sources[2];
	int read_fd, write_fd, full, failed, waits;
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

static void on_waits(struct output_source *source, bool on, void *userdata)
{
	(void)source;
	((struct rig *)userdata)->waits += on ? 1 : -1;
}

static void on_failed(int error, void *userdata)
{
	((struct rig *)userdata)->failed = error;
}

static int setup(void **state)
{
	static const struct output_events events = {
		.full = on_full, .empty = on_empty, .waits = on_waits, .failed = on_failed};
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

/* Time passes, and the loop has nothing else to do. */
static void pass(struct rig *rig, long ms)
{
	ms += now.tv_nsec / 1000000;
	now.tv_sec += ms / 1000;
	now.tv_nsec = ms % 1000 * 1000000;
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
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

/* It is written when it has waited, and not sooner. */
static void test_prompt(void **state)
{
	struct rig *rig = *state;

	put(rig, 0, "name? ");
	gives(rig, "");
	pass(rig, OUTPUT_TIMEOUT_MS - 1);
	gives(rig, "");
	pass(rig, 2);
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
	ssize_t n;
	int i;

	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	output_write(&rig->sources[1], "begun ", 6);
	while (rig->full == 0)
		output_write(&rig->sources[0], line, sizeof(line));
	for (i = 0; i < 3; i++)
		pass(rig, OUTPUT_TIMEOUT_MS + 1);
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

/* ---- moved from a pipe -------------------------------------------------------------------- */

#define FEED_SIZE 262144

/* A pipe with so many lines of ten bytes and a rest. */
static void open_feed(int feed[2], size_t lines, const char *rest)
{
	size_t i;

	assert_int_equal(pipe2(feed, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(fcntl(feed[1], F_SETPIPE_SZ, FEED_SIZE) >= FEED_SIZE);
	for (i = 0; i < lines; i++)
		assert_int_equal(dprintf(feed[1], "%09zu\n", i), 10);
	assert_int_equal(write(feed[1], rest, strlen(rest)), strlen(rest));
}

static void close_feed(int feed[2])
{
	feed[0] = close_fd(feed[0]);
	feed[1] = close_fd(feed[1]);
}

/* All that comes until nothing is pending: how many bytes. */
static size_t collect(struct rig *rig, char *got, size_t size)
{
	size_t at = 0;
	ssize_t n;

	do {
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		while ((n = read(rig->read_fd, got + at, size - at)) > 0)
			at += (size_t)n;
	} while (!output_is_empty(&rig->output));
	return at;
}

static void check_lines(const char *got, size_t lines)
{
	char line[24];
	size_t i;

	for (i = 0; i < lines; i++) {
		(void)snprintf(line, sizeof(line), "%09zu\n", i);
		assert_memory_equal(got + 10 * i, line, 10);
	}
}

/* What has begun goes before, the part of a line stays where it is, and the output is full until
 * its reader has had all. */
static void test_moved_lines(void **state)
{
	struct rig *rig = *state;
	static char got[FEED_SIZE], rest[64];
	int feed[2];

	open_feed(feed, 20000, "part");
	output_write(&rig->sources[0], "begun ", 6);
	assert_int_equal(output_move(&rig->sources[0], feed[0], 1000000), 200000);
	assert_int_equal(rig->full, 1);
	assert_false(output_is_empty(&rig->output));
	output_write(&rig->sources[1], "another's\n", 10);
	assert_int_equal(output_move(&rig->sources[1], feed[0], 1000000), 0);
	assert_int_equal(collect(rig, got, sizeof(got)), 6 + 200000 + 10);
	assert_memory_equal(got, "begun ", 6);
	check_lines(got + 6, 20000);
	assert_memory_equal(got + 200006, "another's\n", 10);
	assert_int_equal(rig->full, 0);
	assert_int_equal(rig->emptied, 1);
	assert_int_equal(read(feed[0], rest, sizeof(rest)), 4);
	assert_memory_equal(rest, "part", 4);
	close_feed(feed);
}

/* No more than was asked for: what follows is another's, or no output at all. */
static void test_moved_in_part(void **state)
{
	struct rig *rig = *state;
	static char got[FEED_SIZE];
	int feed[2];

	open_feed(feed, 20000, "");
	assert_int_equal(output_move(&rig->sources[0], feed[0], 32767), 0); /* that is little */
	assert_int_equal(output_move(&rig->sources[0], feed[0], 50005), 50000);
	assert_int_equal(collect(rig, got, sizeof(got)), 50000);
	check_lines(got, 5000);
	assert_int_equal(read(feed[0], got, sizeof(got)), 150000);
	close_feed(feed);
}

/* Only what is longer than a line may be divides one. */
static void test_moved_long_lines(void **state)
{
	struct rig *rig = *state;
	static char got[FEED_SIZE], bytes[OUTPUT_LINE_MAX + 2];
	int feed[2];

	memset(bytes, 'x', OUTPUT_LINE_MAX);
	open_feed(feed, 10000, bytes + OUTPUT_LINE_MAX - 20000); /* in the last 4 KiB no end */
	assert_int_equal(output_move(&rig->sources[0], feed[0], FEED_SIZE), 100000);
	assert_int_equal(collect(rig, got, sizeof(got)), 100000);
	close_feed(feed);
	open_feed(feed, 0, bytes);
	assert_int_equal(output_move(&rig->sources[0], feed[0], FEED_SIZE), 0);
	assert_int_equal(write(feed[1], "y", 1), 1);
	assert_int_equal(output_move(&rig->sources[0], feed[0], FEED_SIZE), OUTPUT_LINE_MAX + 1);
	assert_int_equal(collect(rig, got, sizeof(got)), OUTPUT_LINE_MAX + 1);
	assert_memory_equal(got, bytes, OUTPUT_LINE_MAX);
	assert_int_equal(got[OUTPUT_LINE_MAX], 'y');
	close_feed(feed);
}

static void test_moved_to_one_that_goes(void **state)
{
	struct rig *rig = *state;
	int feed[2];

	open_feed(feed, 20000, "");
	assert_int_equal(output_move(&rig->sources[0], feed[0], 100000), 100000);
	rig->read_fd = close_fd(rig->read_fd);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	assert_int_equal(rig->failed, -EPIPE);
	assert_int_equal(rig->full, 0);
	assert_int_equal(output_move(&rig->sources[0], feed[0], 100000), 0);
	close_feed(feed);
}

/* With a single source nothing is looked at. flags: of the file. */
static void check_file(struct rig *rig, int flags)
{
	static const struct output_events file_events = {
		.full = on_full, .empty = on_empty, .waits = on_waits, .failed = on_failed};
	char path[] = "/tmp/test_output.XXXXXX", got[100100];
	struct output_source source;
	struct output output;
	int feed[2], fd = mkostemp(path, flags | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	output_init(&output, rig->loop, fd, &file_events, rig);
	output_source_init(&source, &output);
	open_feed(feed, 9999, "no end yet");
	output_write(&source, "begun ", 6);
	assert_int_equal(output_move(&source, feed[0], FEED_SIZE), 100000);
	output_write(&source, ", now\n", 6);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	assert_true(output_is_empty(&output));
	assert_int_equal(rig->failed, 0);
	assert_int_equal(pread(fd, got, sizeof(got), 0), 100012);
	assert_memory_equal(got, "begun ", 6);
	check_lines(got + 6, 9999);
	assert_memory_equal(got + 6 + 99990, "no end yet, now\n", 16);
	close_feed(feed);
	output_source_clear(&source);
	output_clear(&output);
	(void)close_fd(fd);
}

/* As it is under sshd: it blocks, and its flags stay as they are. */
static void test_written_to_a_socket(void **state)
{
	static const struct output_events socket_events = {
		.full = on_full, .empty = on_empty, .waits = on_waits, .failed = on_failed};
	static char line[65536], got[65536];
	struct rig *rig = *state;
	struct output_source source;
	struct output output;
	size_t sent = 0, at = 0;
	int pair[2];
	ssize_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	memset(line, 'y', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	output_init(&output, rig->loop, pair[0], &socket_events, rig);
	output_source_init(&source, &output);
	for (; rig->full == 0; sent += sizeof(line)) {
		output_write(&source, line, sizeof(line));
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		assert_true(sent < (8u << 20));
	}
	assert_int_equal(fcntl(pair[0], F_GETFL) & O_NONBLOCK, 0);
	while (at < sent) {
		n = recv(pair[1], got, sizeof(got), MSG_DONTWAIT);
		at += n > 0 ? (size_t)n : 0;
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
	}
	assert_int_equal(at, sent);
	assert_int_equal(rig->full, 0);
	assert_true(output_is_empty(&output));
	output_source_clear(&source);
	output_clear(&output);
	(void)close_fd(pair[0]);
	(void)close_fd(pair[1]);
}

static void test_moved_to_a_file(void **state)
{
	check_file(*state, 0);
}

/* splice() refuses that. */
static void test_moved_to_a_file_that_is_appended(void **state)
{
	check_file(*state, O_APPEND);
}

/* ---- lines with labels --------------------------------------------------------------------- */

#define IDLE_MS 50 /* where a test waits for it */

static int setup_labelled(void **state)
{
	int r = setup(state);

	output_set_labelled(&((struct rig *)*state)->output, OUTPUT_IDLE_MS * 20);
	return r;
}

static void pause_for_long(struct rig *rig)
{
	int i;

	for (i = 0; i < 3; i++)
		pass(rig, IDLE_MS + 1);
}

static void test_labelled_lines_wait_for_their_ends(void **state)
{
	struct rig *rig = *state;

	put(rig, 0, "0: be");
	put(rig, 1, "1: other\n");
	gives(rig, "1: other\n");
	pause_for_long(rig);
	gives(rig, "");
	put(rig, 0, "gun\n0: last");
	gives(rig, "0: begun\n");
	output_flush(&rig->sources[0]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "0: last");
	put(rig, 1, "1: more\n");
	gives(rig, "\n1: more\n");
	put(rig, 1, "1: end");
	output_flush(&rig->sources[1]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "1: end");
}

/* Begins a line of source 0 that is too long to be held, and reads what comes of it. */
static void begin_long(struct rig *rig)
{
	static char bytes[OUTPUT_LINE_MAX + 8], got[sizeof(bytes)];
	size_t at = 0;
	ssize_t n;

	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, " 10: ", 5);
	output_write(&rig->sources[0], bytes, sizeof(bytes));
	do {
		(void)ev_run(rig->loop, EVRUN_NOWAIT);
		while ((n = read(rig->read_fd, got + at, sizeof(got) - at)) > 0)
			at += (size_t)n;
	} while (!output_is_empty(&rig->output));
	assert_int_equal(at, sizeof(bytes));
	assert_memory_equal(got, bytes, sizeof(bytes));
}

static void test_labelled_long_line_holds_others(void **state)
{
	struct rig *rig = *state;

	begin_long(rig);
	put(rig, 1, " 11: one\n 11: be");
	gives(rig, "");
	put(rig, 0, "more\n 10: next\n");
	gives(rig, "more\n 10: next\n 11: one\n");
	put(rig, 1, "gun\n");
	gives(rig, " 11: begun\n");
}

static void test_labelled_long_line_that_pauses_is_broken(void **state)
{
	struct rig *rig = *state;

	rig->output.idle_ms = IDLE_MS;
	begin_long(rig);
	pause_for_long(rig);
	put(rig, 0, "on");
	gives(rig, "on"); /* nobody waited */
	put(rig, 1, " 11: part");
	pause_for_long(rig);
	gives(rig, "");
	put(rig, 1, " of it\n");
	gives(rig, "\n 11: part of it\n");
	put(rig, 0, "rest\n 10: next\n");
	gives(rig, " 10: rest\n 10: next\n");
}

static void test_labelled_long_line_of_a_node_that_ends(void **state)
{
	struct rig *rig = *state;

	begin_long(rig);
	put(rig, 1, " 11: last");
	output_flush(&rig->sources[1]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "");
	output_flush(&rig->sources[0]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "\n 11: last");
}

/* What it has begun came before the long line, and waits for nothing but that now. */
static void test_labelled_end_of_a_node_behind_a_long_line(void **state)
{
	struct rig *rig = *state;

	put(rig, 1, " 11: last");
	gives(rig, "");
	begin_long(rig);
	output_flush(&rig->sources[1]);
	(void)ev_run(rig->loop, EVRUN_NOWAIT);
	gives(rig, "");
	put(rig, 0, "more\n 10: next\n");
	gives(rig, "more\n 10: next\n 11: last");
}

static void test_labelled_source_has_to_wait(void **state)
{
	struct rig *rig = *state;
	static char bytes[OUTPUT_LINE_MAX], got[2 * sizeof(bytes)];

	memset(bytes, '\n', sizeof(bytes));
	begin_long(rig);
	put(rig, 1, "x");
	assert_int_equal(rig->waits, 0);
	output_write(&rig->sources[1], bytes, sizeof(bytes));
	assert_int_equal(rig->waits, 1);
	output_write(&rig->sources[0], "\n", 1);
	assert_int_equal(rig->waits, 0);
	assert_int_equal(collect(rig, got, sizeof(got)), 2 + sizeof(bytes));
}

static void test_labelled_long_line_is_broken_where_nobody_can_wait(void **state)
{
	static const struct output_events events = {
		.full = on_full, .empty = on_empty, .failed = on_failed};
	struct rig *rig = *state;
	static char bytes[OUTPUT_LINE_MAX];
	size_t held = 0;

	memset(bytes, '\n', sizeof(bytes));
	rig->output.events = &events;
	begin_long(rig);
	for (; rig->output.owner; held += sizeof(bytes))
		output_write(&rig->sources[1], bytes, sizeof(bytes));
	assert_in_range(held, OUTPUT_HELD_MAX, OUTPUT_HELD_MAX + sizeof(bytes));
}

/* ---- a terminal that is raw ---------------------------------------------------------------- */

static void test_carriage_returns(void **state)
{
	struct rig *rig = *state;

	rig->output.crlf = true;
	rig->sources[1].is_terminal = true;
	put(rig, 0, "one\n\ntwo\r\nthree\r");
	gives(rig, "one\r\n\r\ntwo\r\n");
	put(rig, 0, "\n");
	gives(rig, "three\r\n");
	put(rig, 1, "key");
	gives(rig, "key");
	put(rig, 1, "down\nup");
	gives(rig, "down\nup");
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
		cmocka_unit_test_setup_teardown(test_moved_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_in_part, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_long_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_to_one_that_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_written_to_a_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved_to_a_file, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_moved_to_a_file_that_is_appended, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_lines_wait_for_their_ends, setup_labelled, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_long_line_holds_others, setup_labelled, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_long_line_that_pauses_is_broken, setup_labelled, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_long_line_of_a_node_that_ends, setup_labelled, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_end_of_a_node_behind_a_long_line, setup_labelled, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_source_has_to_wait, setup_labelled, teardown),
		cmocka_unit_test_setup_teardown(
			test_labelled_long_line_is_broken_where_nobody_can_wait, setup_labelled,
			teardown),
		cmocka_unit_test_setup_teardown(test_carriage_returns, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
