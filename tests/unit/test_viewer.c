/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The client's side of an attached step: bytes unchanged without labels, whole lines with them,
 * what is missing told, input and its end sent, detach keys, and each end by its name.
 */
#include "stepd/cli/viewer.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "stepd/base/buffer.h"
#include "stepd/base/fs.h"
#include "stepd/stdio/attach_wire.h"

/* ---- detach keys --------------------------------------------------------------------------- */

static void test_keys(void **state)
{
	static const struct {
		const char *text, *bytes; /* NULL: not keys */
	} rows[] = {
		{"ctrl-p,ctrl-q", "\x10\x11"},
		{"ctrl-a,d",
			"\x01"
			"d"},
		{"a", "a"},
		{"Z,ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_", "Z\x1b\x1c\x1d\x1e\x1f"},
		{"", ""},
		{"ctrl-", NULL},
		{"ctrl-P", NULL},
		{"ctrl-pp", NULL},
		{"1", NULL},
		{"a,,b", NULL},
		{"a,", NULL},
		{",", NULL},
		{"ab", NULL},
		{"a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q", NULL},
	};
	struct detach_keys keys;
	struct err err;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		err = (struct err)ERR_INIT;
		if (!rows[i].bytes) {
			assert_int_equal(detach_keys_parse(rows[i].text, &keys, &err), -EINVAL);
			assert_non_null(strstr(err.text, "ctrl-p,ctrl-q"));
			continue;
		}
		assert_int_equal(detach_keys_parse(rows[i].text, &keys, &err), 0);
		assert_int_equal(keys.count, strlen(rows[i].bytes));
		assert_memory_equal(keys.bytes, rows[i].bytes, keys.count);
	}
}

/* ---- a step -------------------------------------------------------------------------------- */

/* What the agent sends is in the channel before the viewer runs. */
struct scene {
	struct viewer_options options;
	int agent, channel;
	int out, err; /* memory */
	struct err why;
};

static int memory(void)
{
	int fd = memfd_create("output", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void scene_begin(struct scene *s)
{
	int fd[2], size = 1 << 20;

	*s = (struct scene){.why = ERR_INIT};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	s->agent = fd[0];
	s->channel = fd[1];
	(void)setsockopt(s->agent, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	s->out = memory();
	s->err = memory();
	s->options = (struct viewer_options){
		.program = "viewer", .in_fd = -1, .out_fd = s->out, .err_fd = s->err, .ntasks = 11};
}

static void scene_end(struct scene *s)
{
	s->agent = close_fd(s->agent);
	s->channel = close_fd(s->channel);
	s->out = close_fd(s->out);
	s->err = close_fd(s->err);
}

static void say(struct scene *s, enum attach_kind kind, uint32_t rank, int stream, uint64_t count,
	const char *body, size_t size)
{
	const struct attach_head head = {.kind = kind,
		.rank = rank,
		.stream = (uint32_t)stream,
		.size = (uint32_t)size,
		.count = count};

	assert_int_equal(fs_write_all(s->agent, (const char *)&head, sizeof(head)), 0);
	if (size > 0)
		assert_int_equal(fs_write_all(s->agent, body, size), 0);
}

static void data(struct scene *s, uint32_t rank, int stream, const char *text)
{
	say(s, ATTACH_DATA, rank, stream, 0, text, strlen(text));
}

static enum viewer_end run(struct scene *s)
{
	_cleanup_buffer_ struct buffer rest = {0};

	return viewer_run(&s->options, s->channel, &rest, &s->why);
}

static void expect(int fd, const char *wanted)
{
	char got[1024];
	ssize_t n = pread(fd, got, sizeof(got) - 1, 0);

	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, wanted);
}

static void test_bytes(void **state)
{
	struct scene s;

	(void)state;
	scene_begin(&s);
	say(&s, ATTACH_DATA, 3, 1, 0, "a\0b", 3);
	data(&s, 4, 1, "c\n");
	data(&s, 3, 2, "error");
	say(&s, ATTACH_END, 3, 1, 0, NULL, 0);
	say(&s, ATTACH_FINISHED, 0, 0, 0, NULL, 0);
	assert_int_equal(run(&s), VIEWER_FINISHED);
	expect(s.err, "error");
	{
		char got[8];

		assert_int_equal(pread(s.out, got, sizeof(got), 0), 5);
		assert_memory_equal(got, "a\0bc\n", 5);
	}
	scene_end(&s);
}

static void test_labels(void **state)
{
	struct scene s;

	(void)state;
	scene_begin(&s);
	s.options.label = true;
	s.options.err_fd = s.out; /* lines of both in one file */
	data(&s, 3, 1, "one ");
	data(&s, 10, 1, "two\nthree ");
	data(&s, 3, 2, "an error\n");
	data(&s, 3, 1, "line\nlast");
	data(&s, 10, 1, "and four\n");
	say(&s, ATTACH_END, 3, 1, 0, NULL, 0);
	data(&s, 0, 1, "more\n");
	data(&s, 0, 1, "rest");
	say(&s, ATTACH_FINISHED, 0, 0, 0, NULL, 0);
	assert_int_equal(run(&s), VIEWER_FINISHED);
	expect(s.out,
		"10: two\n 3: an error\n 3: one line\n10: three and four\n 3: last\n"
		" 0: more\n 0: rest");
	scene_end(&s);
}

/* A line that is too long comes in pieces, and another stream's line breaks it. */
static void test_long_line(void **state)
{
	char *piece = malloc(ATTACH_DATA_MAX);
	struct scene s;
	struct stat st;
	char got[16];

	(void)state;
	assert_non_null(piece);
	memset(piece, 'x', ATTACH_DATA_MAX);
	scene_begin(&s);
	s.options.label = true;
	say(&s, ATTACH_DATA, 1, 1, 0, piece, ATTACH_DATA_MAX);
	say(&s, ATTACH_DATA, 1, 1, 0, piece, ATTACH_DATA_MAX);
	data(&s, 2, 1, "other\n");
	data(&s, 1, 1, "end\n");
	say(&s, ATTACH_FINISHED, 0, 0, 0, NULL, 0);
	assert_int_equal(run(&s), VIEWER_FINISHED);
	assert_int_equal(fstat(s.out, &st), 0);
	assert_int_equal(st.st_size, 4 + 2 * ATTACH_DATA_MAX + 1 + 4 + 6 + 4 + 4);
	assert_int_equal(pread(s.out, got, 10, 4 + 2 * ATTACH_DATA_MAX), 10);
	assert_memory_equal(got, "\n 2: other", 10);
	scene_end(&s);
	free(piece);
}

static void test_missing(void **state)
{
	struct scene s;

	(void)state;
	scene_begin(&s);
	s.options.label = true;
	data(&s, 1, 1, "begun ");
	say(&s, ATTACH_LOST, 1, 1, 77, NULL, 0);
	data(&s, 1, 1, "end\n");
	s.agent = close_fd(s.agent);
	assert_int_equal(run(&s), VIEWER_AGENT_GONE);
	expect(s.out, " 1: begun end\n");
	expect(s.err,
		"viewer: rank 1: 77 bytes of its standard output are missing here: the agent "
		"holds no more of them\n");
	scene_end(&s);
}

static void test_output_fails(void **state)
{
	struct scene s;

	(void)state;
	scene_begin(&s);
	s.options.out_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(s.options.out_fd >= 0);
	data(&s, 1, 1, "text");
	assert_int_equal(run(&s), VIEWER_OUTPUT);
	assert_int_equal(s.why.code, -ENOSPC);
	(void)close(s.options.out_fd);
	scene_end(&s);
	/* A record that no agent sends. */
	scene_begin(&s);
	{
		const struct attach_head head = {.kind = ATTACH_DATA, .size = ATTACH_DATA_MAX + 1};

		assert_int_equal(fs_write_all(s.agent, (const char *)&head, sizeof(head)), 0);
	}
	assert_int_equal(run(&s), VIEWER_OUTPUT);
	assert_int_equal(s.why.code, -EPROTO);
	scene_end(&s);
}

/* The agent's part, in a process of its own: 0 once it has got that input, and its end. */
static int take_input(int fd)
{
	const struct attach_head finished = {.kind = ATTACH_FINISHED};
	struct attach_head head;
	char body[5];

	if (recv(fd, &head, sizeof(head), MSG_WAITALL) != (ssize_t)sizeof(head) ||
		head.kind != ATTACH_INPUT || head.size != sizeof(body) ||
		recv(fd, body, sizeof(body), MSG_WAITALL) != (ssize_t)sizeof(body) ||
		memcmp(body, "input", sizeof(body)) != 0)
		return 1;
	if (recv(fd, &head, sizeof(head), MSG_WAITALL) != (ssize_t)sizeof(head) ||
		head.kind != ATTACH_INPUT_END)
		return 2;
	return fs_write_all(fd, (const char *)&finished, sizeof(finished)) < 0 ? 3 : 0;
}

static void test_input(void **state)
{
	struct scene s;
	int in = memory(), status = -1;
	pid_t agent;

	(void)state;
	scene_begin(&s);
	assert_int_equal(fs_write_all(in, "input", 5), 0);
	assert_int_equal(lseek(in, 0, SEEK_SET), 0);
	s.options.in_fd = in;
	s.options.input = true;
	agent = fork();
	assert_true(agent >= 0);
	if (agent == 0)
		_exit(take_input(s.agent));
	assert_int_equal(run(&s), VIEWER_FINISHED);
	assert_int_equal(waitpid(agent, &status, 0), agent);
	assert_int_equal(status, 0);
	(void)close(in);
	scene_end(&s);
}

/* ---- several agents ------------------------------------------------------------------------ */

static void count_sent(uint32_t kind, const void *data, size_t size, void *userdata)
{
	(void)kind;
	(void)data;
	(void)size;
	++*(unsigned *)userdata;
}

static void feed(struct viewer *v, struct viewer_source *source, enum attach_kind kind,
	uint32_t rank, const char *text)
{
	const struct attach_head head = {
		.kind = kind, .rank = rank, .stream = 1, .size = (uint32_t)strlen(text)};

	/* In two pieces, as it may come. */
	viewer_feed(v, source, &head, 7);
	viewer_feed(v, source, (const char *)&head + 7, sizeof(head) - 7);
	viewer_feed(v, source, text, strlen(text));
}

/* Lines of two nodes stay whole; a node that is lost has its last line, and the others go on. */
static void test_nodes(void **state)
{
	struct viewer_source *one, *two, *three;
	struct viewer *v;
	struct scene s;
	unsigned sent = 0;

	(void)state;
	scene_begin(&s);
	s.options.label = true;
	v = viewer_new(&s.options, count_sent, &sent, &s.why);
	assert_non_null(v);
	one = viewer_add_source(v, false);
	two = viewer_add_source(v, false);
	three = viewer_add_source(v, false);
	assert_true(one && two && three);
	feed(v, one, ATTACH_DATA, 1, "one ");
	feed(v, two, ATTACH_DATA, 2, "two\n");
	feed(v, three, ATTACH_FINISHED, 0, "");
	assert_true(viewer_source_is_finished(three));
	assert_false(viewer_is_over(v));
	viewer_begin(v);
	assert_false(viewer_is_over(v));
	feed(v, one, ATTACH_DATA, 1, "line\nlost");
	viewer_end_source(v, one);
	viewer_message(v, "node one is lost");
	feed(v, two, ATTACH_DATA, 2, "more\n");
	assert_false(viewer_is_over(v));
	feed(v, two, ATTACH_FINISHED, 0, "");
	assert_true(viewer_is_over(v));
	assert_int_equal(viewer_free(v), VIEWER_FINISHED);
	assert_int_equal(sent, 0);
	expect(s.out, " 2: two\n 1: one line\n 1: lost\n 2: more\n");
	expect(s.err, "viewer: node one is lost\n");
	scene_end(&s);
}

/* Input is wanted as long as one node reads, and not before all are there. */
static void test_nodes_input(void **state)
{
	struct viewer_source *one, *two, *without;
	struct viewer *v;
	struct scene s;
	unsigned sent = 0;
	int in = memory();

	(void)state;
	scene_begin(&s);
	s.options.in_fd = in;
	s.options.input = true;
	v = viewer_new(&s.options, count_sent, &sent, &s.why);
	assert_non_null(v);
	one = viewer_add_source(v, true);
	two = viewer_add_source(v, true);
	without = viewer_add_source(v, false);
	assert_true(one && two && without);
	assert_false(viewer_wants_input(v, 0));
	viewer_begin(v);
	assert_true(viewer_wants_input(v, 0));
	assert_false(viewer_wants_input(v, 1));
	feed(v, two, ATTACH_UNREAD, 0, "");
	assert_true(viewer_wants_input(v, 0));
	expect(s.err, "");
	feed(v, one, ATTACH_UNREAD, 0, "");
	assert_false(viewer_wants_input(v, 0));
	expect(s.err, "viewer: no task reads this input any more\n");
	viewer_end_source(v, one);
	viewer_end_source(v, two);
	assert_false(viewer_is_over(v));
	viewer_end_source(v, without);
	assert_true(viewer_is_over(v));
	assert_int_equal(viewer_free(v), VIEWER_FINISHED);
	(void)close(in);
	scene_end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_output_fails),
		cmocka_unit_test(test_input),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_nodes_input),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
