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
	char *bytes; /* of frames, if they are collected */
	size_t bytes_size;
};

static void hear(struct end *e, const char *kind, const char *text)
{
	int n = snprintf(e->heard + e->size, sizeof(e->heard) - e->size, "%s %.200s;", kind, text);

	assert_true(n > 0 && e->size + (size_t)n < sizeof(e->heard));
	e->size += (size_t)n;
}

/* A part of a frame: "bytes out|5" is how many, of which bytes has those. */
static void on_line(const struct channel_line *line, void *userdata)
{
	struct end *e = userdata;
	char text[256];

	if (line->bytes) {
		assert_string_equal(line->text, "");
		if (e->bytes)
			memcpy(e->bytes + e->bytes_size, line->bytes, line->bytes_size);
		else
			(void)snprintf(text, sizeof(text), "%d %s|%.*s", (int)line->node,
				line->verb, (int)line->bytes_size, line->bytes);
		e->bytes_size += line->bytes_size;
		if (!e->bytes)
			hear(e, "bytes", text);
		return;
	}
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
	struct end *e = userdata;

	hear(e, "end", channel_fault(e->channel) ?: "");
}

static void on_probed(bool unchanged, void *userdata)
{
	hear(userdata, "probed", unchanged ? "unchanged" : "changed");
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
	.drained = on_drained,
	.probed = on_probed};

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

static void put_text(struct end *e, const char *text)
{
	put(e, text, strlen(text));
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
	const char *bytes;

	(void)state;
	assert_int_equal(channel_get_bytes(&line, &bytes), 3);
	assert_memory_equal(bytes, "hi\0", 4);
	line.text = none;
	assert_int_equal(channel_get_bytes(&line, &bytes), 0);
	line.text = wrong;
	assert_int_equal(channel_get_bytes(&line, &bytes), -EINVAL);
	line.text = strange;
	assert_int_equal(channel_get_bytes(&line, &bytes), -EINVAL);
	line = (struct channel_line){.text = none, .bytes = "as it is", .bytes_size = 8};
	assert_int_equal(channel_get_bytes(&line, &bytes), 8);
	assert_memory_equal(bytes, "as it is", 8);
}

/* ---- frames ------------------------------------------------------------------------------- */

static void open_taking(struct end *e)
{
	open_end(e, &all_events);
	channel_take_frames(e->channel);
}

/* What another program writes between frames, with and without a newline, of any length, takes
 * nothing from what follows; in whichever parts it comes. */
static void test_foreign_among_frames(void **state)
{
	static const size_t parts[] = {65536, CHANNEL_LINE_MAX, 7, 1};
	static const size_t lengths[] = {1, 20, CHANNEL_LINE_MAX - 17, CHANNEL_LINE_MAX - 16,
		CHANNEL_LINE_MAX - 7, CHANNEL_LINE_MAX - 6, CHANNEL_LINE_MAX - 1, CHANNEL_LINE_MAX,
		CHANNEL_LINE_MAX + 1, 3 * CHANNEL_LINE_MAX, 3 * CHANNEL_LINE_MAX + 5};
	static const char frame[] = "@stepd 3 out #5\n@step\n@stepd 3 ack 1\n";
	static char bytes[4 * CHANNEL_LINE_MAX], got[16];
	struct end e;
	size_t i, j;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(lengths) * ARRAY_SIZE(parts); i++) {
		j = i / ARRAY_SIZE(parts);
		open_taking(&e);
		e.bytes = got;
		memset(bytes, 'x', lengths[j]);
		bytes[0] = '@';
		memcpy(bytes + lengths[j], frame, sizeof(frame));
		put_in_parts(
			&e, bytes, lengths[j] + sizeof(frame) - 1, parts[i % ARRAY_SIZE(parts)]);
		assert_int_equal(e.bytes_size, 5);
		assert_memory_equal(got, "@step", 5);
		assert_non_null(strstr(e.heard, ";line 3 ack|1;"));
		assert_null(strstr(e.heard, "@stepd"));
		assert_int_equal(e.foreign, (lengths[j] + CHANNEL_LINE_MAX - 1) / CHANNEL_LINE_MAX);
		close_end(&e);
	}
	open_taking(&e);
	put_text(&e, "noise @stepd x@stepd @stepd 2 go now\n");
	hears(&e, "foreign noise @stepd x@stepd ;line 2 go|now;");
	put_text(&e, "noise @stepd 2\n");
	hears(&e, "foreign noise @stepd 2;");
	close_end(&e);
}

/* Lines, foreign ones and frames in turn; a frame's bytes may look like lines. */
static void test_frames_among_lines(void **state)
{
	static const char bytes[] = "Welcome\n@stepd 1 hello a\n@stepd 1 out #6\none\ntw\n"
				    "@stepd 1 task 0 0\nforeign\n@stepd * in #14\n"
				    "@stepd 1 end 0\n@stepd 1 err #1\n\n\n\n@stepd 1 end 0\r\n";
	struct end e;

	(void)state;
	open_taking(&e);
	put(&e, bytes, strlen(bytes));
	hears(&e,
		"foreign Welcome;line 1 hello|a;bytes 1 out|one\ntw;line 1 task|0 0;"
		"foreign foreign;bytes -1 in|@stepd 1 end 0;bytes 1 err|\n;line 1 end|0;");
	close_end(&e);
}

/* In two parts, divided anywhere, and byte by byte: the same. */
static void test_frames_cut_at_each_byte(void **state)
{
	static const char bytes[] = "hi\n@stepd 12 out #11\nab\0\n@stepd \n@stepd 12 end 0\n"
				    "@stepd 12 err #3\n\xff#1\n";
	static const char wanted[] = "foreign hi;line 12 end|0;";
	static const char carried[] = "ab\0\n@stepd \xff#1";
	char got[sizeof(carried)];
	struct end e;
	size_t at, i;

	(void)state;
	for (at = 0; at <= sizeof(bytes) - 1; at++) {
		open_taking(&e);
		e.bytes = got;
		put(&e, bytes, at);
		for (i = at; at == 0 && i < sizeof(bytes) - 1; i++)
			put(&e, bytes + i, 1);
		put(&e, bytes + i, sizeof(bytes) - 1 - i);
		assert_int_equal(e.bytes_size, sizeof(carried) - 1);
		assert_memory_equal(got, carried, sizeof(carried) - 1);
		hears(&e, wanted);
		close_end(&e);
	}
}

static void test_frames_of_hostile_sizes(void **state)
{
	static const char *const sizes[] = {"", "0", "-1", "+1", "x", "1x", " 1", "1 1", "1048577",
		"4294967296", "18446744073709551617", "99999999999999999999999"};
	char text[64], heard[160];
	struct end e;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		open_taking(&e);
		(void)snprintf(text, sizeof(text), "@stepd 1 out #%s\n@stepd 1 end 0\n", sizes[i]);
		(void)snprintf(heard, sizeof(heard),
			"end its channel is damaged: it announces '%.16s' bytes;", sizes[i]);
		put(&e, text, strlen(text));
		hears(&e, heard); /* nothing behind it is taken for a line */
		(void)ev_run(e.loop, EVRUN_NOWAIT);
		hears(&e, "");
		close_end(&e);
	}
}

static void test_frame_with_more_than_it_announces(void **state)
{
	struct end e;

	(void)state;
	open_taking(&e);
	put_text(&e, "@stepd 1 out #3\nabcd\n@stepd 1 end 0\n");
	hears(&e,
		"bytes 1 out|abc;end its channel is damaged: another program has written into "
		"its output;");
	close_end(&e);
}

static void test_end_within_a_frame(void **state)
{
	struct end e;

	(void)state;
	open_taking(&e);
	put_text(&e, "@stepd 1 out #100\nabc");
	assert_int_equal(shutdown(e.fd, SHUT_WR), 0);
	(void)ev_run(e.loop, EVRUN_NOWAIT);
	hears(&e,
		"bytes 1 out|abc;end its channel ended in the middle of output: 97 of 100 bytes "
		"are missing;");
	close_end(&e);
}

/* Whose lines are mixed with others' has none, whatever comes. */
static void test_frames_that_were_not_agreed(void **state)
{
	char got[CHANNEL_LINE_MAX];
	struct end e;
	ssize_t n;

	(void)state;
	open_end(&e, &all_events);
	put_text(&e, "@stepd 1 out #5\nabc\n@stepd 1 end 0\n");
	hears(&e, "line 1 out|#5;foreign abc;line 1 end|0;");
	channel_send_bytes(e.channel, 1, "out", "hi", 2);
	assert_int_equal(channel_send_pipe(e.channel, 1, "out", e.fd), -EOPNOTSUPP);
	channel_flush(e.channel);
	n = recv(e.fd, got, sizeof(got), 0);
	assert_int_equal(n, 18);
	assert_memory_equal(got, "@stepd 1 out aGk=\n", 18);
	close_end(&e);
}

static void take_all(struct end *e, char *got, size_t size)
{
	ssize_t n;

	assert_int_equal(fcntl(e->fd, F_SETFL, O_NONBLOCK), 0);
	for (; size > 0; got += n, size -= (size_t)n) {
		n = read(e->fd, got, size);
		assert_true(n > 0);
		(void)ev_run(e->loop, EVRUN_NOWAIT);
	}
	assert_int_equal(read(e->fd, got, 1), -1); /* EAGAIN */
}

/* From one channel to another, in frames of every size around those that matter. */
static void test_frames_of_every_size(void **state)
{
	static const size_t sizes[] = {1, 2, 3, 719, 720, 721, 4095, 4096, 4097, 65535, 65536,
		65537, 131072, 262145, CHANNEL_FRAME_MAX, CHANNEL_FRAME_MAX + 1};
	char *sent = malloc(CHANNEL_FRAME_MAX + 1), *got = malloc(CHANNEL_FRAME_MAX + 1);
	struct end from, to;
	size_t i, j;

	(void)state;
	assert_true(sent && got);
	for (i = 0; i <= CHANNEL_FRAME_MAX; i++)
		sent[i] = (char)(i * 31 >> 3);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		char *encoded = malloc(sizes[i] + 64);
		size_t size = sizes[i] + 16 + (size_t)snprintf(NULL, 0, "%zu", sizes[i]);

		assert_non_null(encoded);
		open_end(&from, &events);
		channel_send_frames(from.channel);
		channel_send_bytes(from.channel, 1, "out", sent, sizes[i]);
		if (sizes[i] > CHANNEL_FRAME_MAX)
			size += 17; /* "@stepd 1 out #1\n" and a newline */
		take_all(&from, encoded, size);
		close_end(&from);
		open_taking(&to);
		to.bytes = got;
		for (j = 0; j < size; j += 4096)
			put(&to, encoded + j, size - j < 4096 ? size - j : 4096);
		assert_int_equal(to.bytes_size, sizes[i]);
		assert_memory_equal(got, sent, sizes[i]);
		hears(&to, "");
		close_end(&to);
		free(encoded);
	}
	free(got);
	free(sent);
}

/* Lines before and behind stay where they are, and only one frame is on its way. */
static void test_frames_out_of_a_pipe(void **state)
{
	static char bytes[250000], got[sizeof(bytes) + 100];
	struct end e = {.loop = ev_loop_new(EVFLAG_NOENV)};
	int pipe_fds[2], to[2], from[2];

	(void)state;
	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	e.fd = from[0];
	assert_int_equal(channel_new_take(e.loop, to[0], from[1], &all_events, &e, &e.channel), 0);
	channel_send_frames(e.channel);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(fcntl(pipe_fds[1], F_SETPIPE_SZ, 262144) >= (int)sizeof(bytes));
	assert_int_equal(channel_send_pipe(e.channel, 1, "out", pipe_fds[0]), -EAGAIN);
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(write(pipe_fds[1], bytes, sizeof(bytes)), sizeof(bytes));
	channel_send(e.channel, 1, "a", "");
	assert_int_equal(channel_send_pipe(e.channel, 1, "out", pipe_fds[0]), sizeof(bytes));
	channel_send(e.channel, 1, "b", "");
	assert_true(channel_is_full(e.channel));
	assert_int_equal(write(pipe_fds[1], bytes, 1), 1);
	assert_int_equal(channel_send_pipe(e.channel, 1, "out", pipe_fds[0]), -EOPNOTSUPP);
	take_all(&e, got, 11 + 21 + sizeof(bytes) + 1 + 11);
	assert_memory_equal(got, "@stepd 1 a\n@stepd 1 out #250000\nxxx", 35);
	assert_memory_equal(got + 32, bytes, sizeof(bytes));
	assert_memory_equal(got + 32 + sizeof(bytes), "\n@stepd 1 b\n", 12);
	assert_false(channel_is_full(e.channel));
	hears(&e, "drained ;");
	assert_int_equal(channel_send_pipe(e.channel, 1, "out", pipe_fds[0]), 1);
	(void)close_fd(pipe_fds[1]);
	assert_int_equal(channel_send_pipe(e.channel, 1, "out", pipe_fds[0]), 0);
	(void)close_fd(pipe_fds[0]);
	(void)close_fd(to[1]);
	close_end(&e);
}

/* ---- probes ------------------------------------------------------------------------------- */

/* As it was sent, and as launchers could make it. */
static void test_probes(void **state)
{
	static const char start[] = "@stepd 7 probe ";
	char probe[512], line[513];
	size_t size, i;
	struct end e;
	ssize_t n;

	(void)state;
	open_end(&e, &all_events);
	channel_probe(e.channel, 7);
	channel_flush(e.channel);
	hears(&e, "drained ;");
	n = recv(e.fd, probe, sizeof(probe), 0);
	assert_int_equal(n, strlen(start) + 255 + 1);
	size = (size_t)n;
	put(&e, probe, size);
	hears(&e, "probed unchanged;");
	for (i = strlen(start); i < size - 1; i++) {
		memcpy(line, probe, i);
		memcpy(line + i, probe + i + 1, size - i - 1);
		put(&e, line, size - 1); /* one is missing */
		hears(&e, "probed changed;");
		memcpy(line, probe, size);
		line[i] = line[i] == '?' ? '!' : '?';
		put(&e, line, size);
		hears(&e, "probed changed;");
	}
	memcpy(line, probe, size - 1);
	memcpy(line + size - 1, "\r\n", 2); /* a terminal's */
	put(&e, line, size + 1);
	hears(&e, "probed changed;");
	put_text(&e, "@stepd 7 probe\n");
	hears(&e, "probed changed;");
	put_text(&e, "@stepd 7 probes\n@stepd x probe \n");
	hears(&e, "line 7 probes|;foreign @stepd x probe ;");
	close_end(&e);
}

/* ---- the ends ----------------------------------------------------------------------------- */

static void test_pause_and_finish(void **state)
{
	char text[64];
	struct end e;

	(void)state;
	open_end(&e, &events);
	channel_pause(e.channel, true);
	put_text(&e, "@stepd 1 a\n");
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
		cmocka_unit_test(test_frames_among_lines),
		cmocka_unit_test(test_foreign_among_frames),
		cmocka_unit_test(test_frames_cut_at_each_byte),
		cmocka_unit_test(test_frames_of_hostile_sizes),
		cmocka_unit_test(test_frame_with_more_than_it_announces),
		cmocka_unit_test(test_end_within_a_frame),
		cmocka_unit_test(test_frames_that_were_not_agreed),
		cmocka_unit_test(test_frames_of_every_size),
		cmocka_unit_test(test_frames_out_of_a_pipe),
		cmocka_unit_test(test_probes),
		cmocka_unit_test(test_pause_and_finish),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_shared_pipe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
