/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "stepd/base/cleanup.h"
#include "stepd/cli/relay/channel.h"

/* One end of a channel; what it hears, as text: "line 3 out|text;", "foreign text;", "end ;" */
struct end {
	struct ev_loop *loop;
	struct channel *channel;
	int fd; /* the test's own end */
	char heard[8192];
	size_t size, foreign, longest;
};

static void hear(struct end *e, const char *kind, const char *text)
{
	int n = snprintf(e->heard + e->size, sizeof(e->heard) - e->size, "%s %.200s;", kind, text);

	assert_true(n > 0 && e->size + (size_t)n < sizeof(e->heard));
	e->size += (size_t)n;
}

static void on_line(const struct channel_line *line, void *userdata)
{
	struct end *e = userdata;
	char text[256];

	(void)snprintf(text, sizeof(text), "%d %s|%.200s", (int)line->node, line->verb, line->text);
	hear(e, "line", text);
}

static void on_rubbish(const char *text, size_t size, void *userdata)
{
	struct end *e = userdata;

	e->foreign++;
	e->longest = size > e->longest ? size : e->longest;
	assert_int_equal(memchr(text, '\n', size), NULL);
	hear(e, "foreign", text);
}

static void on_end(void *userdata)
{
	hear(userdata, "end", "");
}

static void on_broken(void *userdata)
{
	hear(userdata, "broken", "");
}

static void on_drained(void *userdata)
{
	hear(userdata, "drained", "");
}

static const struct channel_events events = {.line = on_line, .foreign = on_rubbish, .end = on_end};
static const struct channel_events all_events = {.line = on_line,
	.foreign = on_rubbish,
	.end = on_end,
	.broken = on_broken,
	.drained = on_drained};

static void on_counted_line(const struct channel_line *line, void *userdata)
{
	struct end *e = userdata;

	if (strcmp(line->verb, "out") == 0 && strspn(line->text, "eHh4") == strlen(line->text))
		e->size++;
	else
		e->foreign++;
}

static void on_counted_rubbish(const char *text, size_t size, void *userdata)
{
	struct end *e = userdata;

	(void)text;
	(void)size;
	e->foreign++;
}

static const struct channel_events counts = {
	.line = on_counted_line, .foreign = on_counted_rubbish, .end = on_end};

static void open_end(struct end *e, const struct channel_events *of)
{
	int pair[2];

	*e = (struct end){.loop = ev_loop_new(EVFLAG_NOENV)};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	e->fd = pair[1];
	assert_int_equal(channel_new_take(e->loop, pair[0], dup(pair[0]), of, e, &e->channel), 0);
}

static void close_end(struct end *e)
{
	e->channel = channel_free(e->channel);
	e->fd = close_fd(e->fd);
	ev_loop_destroy(e->loop);
}

static void put(struct end *e, const void *bytes, size_t size)
{
	assert_int_equal(write(e->fd, bytes, size), size);
	(void)ev_run(e->loop, EVRUN_NOWAIT);
}

static void hears(struct end *e, const char *text)
{
	assert_string_equal(e->heard, text);
	e->size = 0;
	e->heard[0] = '\0';
}

/* ---- lines -------------------------------------------------------------------------------- */

static void test_parse(void **state)
{
	static const char bytes[] = "@stepd * go\n@stepd 7 out aGk= x\n@stepd 4294967294 v \n";
	struct end e;

	(void)state;
	open_end(&e, &events);
	put(&e, bytes, strlen(bytes));
	hears(&e, "line -1 go|;line 7 out|aGk= x;line -2 v|;"); /* -1: all */
	close_end(&e);
}

/* They are none of ours, and shown as they were. */
static void test_parse_wrong(void **state)
{
	static const char *const texts[] = {"@", "@stepd", "@stepd ", "@stepd 1", "@stepd 1 ",
		"@stepd 1  out", "@stepd  1 out", "@stepd x out", "@stepd -1 out", "@stepd +1 out",
		"@stepd 1x out", "@stepd 4294967295 out", "@stepd 99999999999 out", "@stepd ** out",
		"@steps 1 out", " @stepd 1 out", "@STEPD 1 out", "@stepd\t1 out"};
	char heard[80];
	struct end e;
	size_t i;

	(void)state;
	open_end(&e, &events);
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		put(&e, texts[i], strlen(texts[i]));
		put(&e, "\n", 1);
		(void)snprintf(heard, sizeof(heard), "foreign %s;", texts[i]);
		hears(&e, heard);
	}
	close_end(&e);
}

static void test_reading(void **state)
{
	static const char bytes[] = "Welcome\r\n\n\r\n@stepd 1 hello a b\n@stepd 2 started\r\n"
				    "@stepd x\n@stepd * eof\n";
	static const char heard[] = "foreign Welcome;line 1 hello|a b;line 2 started|;"
				    "foreign @stepd x;line -1 eof|;";
	struct end e;
	size_t i;

	(void)state;
	open_end(&e, &events);
	put(&e, bytes, strlen(bytes));
	hears(&e, heard);
	for (i = 0; i < strlen(bytes); i++)
		put(&e, bytes + i, 1);
	hears(&e, heard);
	close_end(&e);
}

/* Too long, with a NUL, without an end. */
static void test_reading_rubbish(void **state)
{
	static char full[3 * CHANNEL_LINE_MAX];
	struct end e;

	(void)state;
	open_end(&e, &events);
	memset(full, 'x', sizeof(full));
	memcpy(full, "@stepd 1 out ", 13);
	memcpy(full + CHANNEL_LINE_MAX, "@stepd 1 end 0", 14);
	full[sizeof(full) - 1] = '\n';
	put(&e, full, sizeof(full));
	assert_null(strstr(e.heard, "line ")); /* nor what looks like one within */
	assert_int_equal(e.foreign, 3);
	assert_int_equal(e.longest, CHANNEL_LINE_MAX);
	e.size = 0;
	put(&e, "@stepd 1 go\n", 12);
	hears(&e, "line 1 go|;");
	put(&e, "@stepd 1 out\0 x\n", 16);
	hears(&e, "foreign @stepd 1 out;");
	put(&e, "@stepd 1 go 2", 13);
	hears(&e, "");
	assert_int_equal(shutdown(e.fd, SHUT_WR), 0);
	(void)ev_run(e.loop, EVRUN_NOWAIT);
	hears(&e, "end ;"); /* half a line is none */
	close_end(&e);
}

static void test_longest_line(void **state)
{
	char bytes[CHANNEL_PIECE_MAX * 2 + 1], line[CHANNEL_LINE_MAX + 1], *newline;
	struct end e;
	ssize_t n;

	(void)state;
	open_end(&e, &all_events);
	memset(bytes, 0xff, sizeof(bytes));
	channel_send_bytes(e.channel, CHANNEL_ALL - 1, "result", bytes, sizeof(bytes));
	(void)ev_run(e.loop, EVRUN_NOWAIT);
	hears(&e, "drained ;");
	n = recv(e.fd, line, CHANNEL_LINE_MAX, 0);
	assert_true(n > 0);
	line[n] = '\0';
	newline = strchr(line, '\n');
	assert_non_null(newline);
	assert_true(newline - line > 960 && newline - line < (int)CHANNEL_LINE_MAX);
	channel_send_bytes(e.channel, 1, "out", "", 0);
	assert_int_equal(channel_queued(e.channel), 0);
	close_end(&e);
}

static void put_in_parts(struct end *e, const char *bytes, size_t size, size_t part)
{
	size_t n;

	for (; size > 0; bytes += n, size -= n) {
		n = part < size ? part : size;
		put(e, bytes, n);
	}
}

/* CHANNEL_LINE_MAX bytes with the newline are a line, one byte more is none, in whichever parts
 * they come. */
static void test_full_line(void **state)
{
	static const size_t parts[] = {CHANNEL_LINE_MAX + 1, CHANNEL_LINE_MAX, 100, 1};
	char line[CHANNEL_LINE_MAX + 2];
	struct end e;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		memset(line, 'x', sizeof(line));
		memcpy(line, "@stepd 1 out ", 13);
		line[CHANNEL_LINE_MAX - 1] = '\n';
		open_end(&e, &all_events);
		put_in_parts(&e, line, CHANNEL_LINE_MAX, parts[i]);
		assert_memory_equal(e.heard, "line 1 out|", 11);
		close_end(&e);
		line[CHANNEL_LINE_MAX - 1] = 'x';
		line[CHANNEL_LINE_MAX] = '\n';
		open_end(&e, &all_events);
		put_in_parts(&e, line, CHANNEL_LINE_MAX + 1, parts[i]);
		assert_memory_equal(e.heard, "foreign ", 8);
		close_end(&e);
	}
}

static void test_bytes(void **state)
{
	char good[] = "aGkA", none[] = "", wrong[] = "aGk", strange[] = "!!!!";
	struct channel_line line = {.text = good};

	(void)state;
	assert_int_equal(channel_get_bytes(&line), 3);
	assert_memory_equal(good, "hi\0", 4);
	line.text = none;
	assert_int_equal(channel_get_bytes(&line), 0);
	line.text = wrong;
	assert_int_equal(channel_get_bytes(&line), -EINVAL);
	line.text = strange;
	assert_int_equal(channel_get_bytes(&line), -EINVAL);
}

/* ---- the ends ----------------------------------------------------------------------------- */

static void test_pause_and_finish(void **state)
{
	char text[64];
	struct end e;

	(void)state;
	open_end(&e, &events);
	channel_pause(e.channel, true);
	put(&e, "@stepd 1 a\n", 11);
	hears(&e, "");
	channel_pause(e.channel, false);
	(void)ev_run(e.loop, EVRUN_NOWAIT);
	hears(&e, "line 1 a|;");
	channel_sendf(e.channel, 3, "end", "%d", 5);
	channel_finish(e.channel);
	channel_send(e.channel, 3, "late", "");
	channel_flush(e.channel);
	assert_int_equal(recv(e.fd, text, sizeof(text), 0), 15);
	assert_memory_equal(text, "@stepd 3 end 5\n", 15);
	close_end(&e);
}

/* What nobody takes is dropped, and told once; what the other end has said is still heard. */
static void test_broken(void **state)
{
	int to[2], from[2];
	struct end e = {.loop = ev_loop_new(EVFLAG_NOENV), .fd = -1};

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	assert_int_equal(channel_new_take(e.loop, to[0], from[1], &all_events, &e, &e.channel), 0);
	assert_int_equal(write(to[1], "@stepd 1 last\n", 14), 14);
	(void)close_fd(from[0]);
	channel_send(e.channel, 1, "go", "");
	channel_flush(e.channel);
	hears(&e, "broken ;");
	channel_send(e.channel, 1, "go", "");
	assert_int_equal(channel_queued(e.channel), 0);
	(void)ev_run(e.loop, EVRUN_NOWAIT);
	hears(&e, "line 1 last|;");
	(void)close_fd(to[1]);
	(void)ev_run(e.loop, EVRUN_NOWAIT);
	hears(&e, "end ;");
	close_end(&e);
}

/* Two that write into one pipe, which is full most of the time: their lines mix, and are whole. */
static void test_shared_pipe(void **state)
{
	struct end a = {.loop = ev_loop_new(EVFLAG_NOENV), .fd = -1}, b = a, reader = a;
	char bytes[CHANNEL_PIECE_MAX * 40], text[3001];
	int to[2], from[2], shared[2], i;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	assert_int_equal(pipe2(shared, O_CLOEXEC), 0);
	assert_true(fcntl(shared[1], F_SETPIPE_SZ, 8192) >= 8192);
	assert_int_equal(
		channel_new_take(a.loop, dup(to[0]), dup(shared[1]), &events, &a, &a.channel), 0);
	assert_int_equal(channel_new_take(a.loop, to[0], shared[1], &events, &b, &b.channel), 0);
	assert_int_equal(
		channel_new_take(a.loop, from[0], dup(to[1]), &counts, &reader, &reader.channel),
		0);
	memset(bytes, 'x', sizeof(bytes));
	channel_send_bytes(a.channel, 1, "out", bytes, sizeof(bytes));
	channel_send_bytes(b.channel, 2, "out", bytes, sizeof(bytes));
	for (i = 0; i < 100 && channel_queued(a.channel) + channel_queued(b.channel) > 0; i++) {
		(void)ev_run(a.loop, EVRUN_NOWAIT);
		n = read(shared[0], text, sizeof(text));
		assert_true(n > 0);
		assert_int_equal(write(from[1], text, (size_t)n), n);
	}
	(void)fcntl(shared[0], F_SETFL, O_NONBLOCK);
	while ((n = read(shared[0], text, sizeof(text))) > 0)
		assert_int_equal(write(from[1], text, (size_t)n), n);
	(void)ev_run(a.loop, EVRUN_NOWAIT);
	(void)ev_run(a.loop, EVRUN_NOWAIT);
	assert_int_equal(reader.size, 80);
	assert_int_equal(reader.foreign, 0);
	a.channel = channel_free(a.channel);
	b.channel = channel_free(b.channel);
	(void)close_fd(from[1]);
	(void)close_fd(shared[0]);
	(void)close_fd(to[1]);
	close_end(&reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_parse_wrong),
		cmocka_unit_test(test_reading),
		cmocka_unit_test(test_reading_rubbish),
		cmocka_unit_test(test_longest_line),
		cmocka_unit_test(test_full_line),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_pause_and_finish),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_shared_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
