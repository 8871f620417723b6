/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tasks' pseudo-terminals: whose they are, that output through them is exact, what is typed and how
 * it ends; and the agent's own terminal, which is raw meanwhile.
 */
#include "stepd/stdio/pty.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/lib/stdio_rig.h"

#define RANK_TEXT_SIZE 4096

/* ---- what a task has ----------------------------------------------------------------------- */

static void test_user_owns_it(void **state)
{
	const struct identity nobody = {.uid = 65533, .gid = 65533};
	_cleanup_close_ int master = -1, slave = -1;
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(pty_open(&nobody, NULL, 0, &master, &slave, NULL), 0);
	assert_int_equal(fstat(slave, &st), 0);
	assert_int_equal(st.st_uid, 65533);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_descriptors(void **state)
{
	const struct identity self = {.uid = geteuid(), .gid = getegid()};
	const struct terminal none = TERMINAL_INIT;
	_cleanup_close_ int master = -1, slave = -1;
	struct stat st;

	(void)state;
	assert_int_equal(pty_open(&self, &none, 0, &master, &slave, NULL), 0);
	assert_true(master > 2 && slave > 2);
	assert_int_equal(fcntl(master, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(slave, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(master, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(fstat(slave, &st), 0);
	assert_int_equal(st.st_mode & 0157, 0); /* at most 0620 */
}

static void test_no_descriptors(void **state)
{
	const struct identity self = {.uid = geteuid(), .gid = getegid()};
	struct rlimit before, none;
	struct err err = ERR_INIT;
	int master, slave, r;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = pty_open(&self, NULL, 7, &master, &slave, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(r, -EMFILE);
	assert_non_null(strstr(err.text, "rank 7"));
	assert_non_null(strstr(err.text, "raise the limit of open files"));
}

/* ---- output -------------------------------------------------------------------------------- */

static int write_lines_to_terminal(uint32_t local_id, void *userdata)
{
	struct stat out, error;

	if (!isatty(1) || !isatty(2) || isatty(0) || fstat(1, &out) < 0 || fstat(2, &error) < 0)
		return 1;
	if (out.st_rdev == error.st_rdev || open("/dev/tty", O_RDWR | O_NOCTTY) >= 0)
		return 2; /* one each, and nobody's controlling terminal */
	return rig_write_lines(local_id, userdata);
}

static int write_lines_as_leader(uint32_t local_id, void *userdata)
{
	return setsid() < 0 ? 3 : write_lines_to_terminal(local_id, userdata);
}

static void test_unbuffered_is_exact(void **state)
{
	struct rig *rig = *state;
	struct rig_lines_arg arg = {.least_size = 2000000, .partial = true};
	_cleanup_free_ char *got = NULL, *wanted = NULL;
	size_t size, wanted_size;

	rig->spec.unbuffered = true;
	rig_capture(rig, 1, "got");
	rig_capture(rig, 2, "errors");
	rig_step(rig, write_lines_as_leader, &arg);
	rig_end_captures(rig);
	got = rig_file(rig, "got", &size);
	wanted = rig_lines(0, arg.least_size, true, &wanted_size);
	assert_int_equal(size, wanted_size);
	assert_memory_equal(got, wanted, size);
}

/* Leaves a process behind that has the terminal open; its pid is in the file "pid". */
static int leave_holder(uint32_t local_id, void *userdata)
{
	pid_t pid = fork();
	FILE *f;

	(void)local_id;
	(void)userdata;
	if (pid == 0) {
		for (;;)
			(void)pause();
	}
	f = fopen("pid", "we");
	if (pid < 0 || !f || fprintf(f, "%d", (int)pid) < 0 || fclose(f) != 0)
		return 1;
	return write(1, "kept\n", 5) != 5;
}

/* As with a pipe that a process outside the container holds. */
static void test_held_terminal_ends(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *text = NULL;
	pid_t pid;

	rig->spec.unbuffered = true;
	rig_capture(rig, 1, "got");
	rig_step(rig, leave_holder, NULL);
	text = rig_file(rig, "pid", NULL);
	pid = (pid_t)atoi(text);
	assert_true(pid > 1);
	assert_int_equal(kill(pid, 0), 0);
	(void)kill(pid, SIGKILL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "kept\n");
}

/* ---- what is typed ------------------------------------------------------------------------- */

/* The agent's stdin holds this, and then its end. */
static void offer(struct rig *rig, const char *text)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_int_equal(write(fd[1], text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd[1]);
	rig_std(rig, 0, fd[0]);
}

static void give_ptys(struct rig *rig, uint32_t ntasks, uint32_t first, uint32_t count)
{
	uint32_t i;

	rig_layout(rig, ntasks);
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig->spec.pty_count = count;
	free(rig->spec.pty_ranks);
	rig->spec.pty_ranks = calloc(count + 1, sizeof(uint32_t));
	assert_non_null(rig->spec.pty_ranks);
	for (i = 0; i < count; i++)
		rig->spec.pty_ranks[i] = first + i;
}

/* Reports each piece that it reads, and its end. */
static int report_input(uint32_t local_id, void *userdata)
{
	char text[256];
	ssize_t n;

	(void)userdata;
	if (!isatty(0) || !isatty(1) || !isatty(2))
		return 1;
	while ((n = read(0, text, sizeof(text) - 1)) > 0) {
		text[n] = '\0';
		(void)dprintf(1, "%u<%s>", local_id, text);
	}
	(void)dprintf(2, "%u end\n", local_id);
	return n < 0;
}

static void test_input_ends(void **state)
{
	struct rig *rig = *state;

	give_ptys(rig, 1, 0, 1);
	offer(rig, "one\ntwo\n");
	rig_capture(rig, 1, "got");
	rig_step(rig, report_input, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0<one\r\n>0<two\r\n>0 end\r\n");
}

static void test_incomplete_line_ends(void **state)
{
	struct rig *rig = *state;

	give_ptys(rig, 1, 0, 1);
	offer(rig, "one\ntwo");
	rig_capture(rig, 1, "got");
	rig_step(rig, report_input, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0<one\r\n>0<two>0 end\r\n");
}

static void test_no_input(void **state)
{
	struct rig *rig = *state;

	give_ptys(rig, 1, 0, 1);
	rig->spec.in.mode = SPEC_STREAM_NONE;
	offer(rig, "not for it\n");
	rig_capture(rig, 1, "got");
	rig_step(rig, report_input, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0 end\r\n");
}

/* One task of several; the others have /dev/null and a pipe. */
static int report_if_terminal(uint32_t local_id, void *userdata)
{
	char byte;

	if (local_id == 1)
		return report_input(local_id, userdata);
	if (isatty(0) || isatty(1) || isatty(2) || read(0, &byte, 1) != 0)
		return 1;
	(void)dprintf(1, "%u\n", local_id);
	return 0;
}

/* The lines in text of the rank with that label, which may stand among those of others. */
static char *lines_of(const char *text, const char *label)
{
	char *lines = calloc(1, strlen(text) + 1);
	const char *line = text;

	assert_non_null(lines);
	while (*line) {
		size_t size = strcspn(line, "\n");

		size += line[size] == '\n';
		if (strncmp(line, label, strlen(label)) == 0)
			(void)strncat(lines, line, size);
		line += size;
	}
	return lines;
}

static void test_one_of_several(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *got = NULL, *lines = NULL;
	size_t size;

	give_ptys(rig, 3, 1, 1);
	rig->spec.label = true;
	offer(rig, "text\n");
	rig_capture(rig, 1, "got");
	rig_step(rig, report_if_terminal, NULL);
	rig_end_captures(rig);
	got = rig_file(rig, "got", &size);
	assert_non_null(strstr(got, "0: 0\n"));
	assert_non_null(strstr(got, "2: 2\n"));
	lines = lines_of(got, "1: ");
	assert_string_equal(lines, "1: 1<text\r\n1: >1 end\r\n");
}

/* As an editor: it takes each key as it comes, and sees the end by its character. */
static int read_keys(uint32_t local_id, void *userdata)
{
	char key, *at, keys[RANK_TEXT_SIZE] = "";
	struct termios t;

	(void)local_id;
	(void)userdata;
	if (poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, 60000) != 1 ||
		tcgetattr(0, &t) < 0) /* the end has been typed before the mode is changed */
		return 1;
	cfmakeraw(&t);
	if (tcsetattr(0, TCSANOW, &t) < 0 || write(1, "prompt\n", 7) != 7)
		return 2;
	for (at = keys; at < keys + sizeof(keys) - 1 && read(0, &key, 1) == 1 && key != 4;)
		*at++ = key ? key : '0';
	(void)dprintf(1, "%s.\n", keys);
	return 0;
}

static void test_end_is_typed_again(void **state)
{
	struct rig *rig = *state;

	give_ptys(rig, 1, 0, 1);
	rig->spec.in.mode = SPEC_STREAM_NONE;
	rig_capture(rig, 1, "got");
	rig_step(rig, read_keys, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "prompt\n0.\n");
}

/* ---- the agent's own terminal -------------------------------------------------------------- */

static void expect_raw(int fd, bool raw)
{
	struct termios t;

	assert_int_equal(tcgetattr(fd, &t), 0);
	assert_int_equal((t.c_lflag & ICANON) == 0, raw);
	assert_int_equal((t.c_oflag & OPOST) == 0, raw);
}

static void test_terminal_is_restored(void **state)
{
	struct rig *rig = *state;
	struct terminal t = TERMINAL_INIT;
	struct termios before, after;
	struct winsize size = {.ws_row = 7, .ws_col = 33}, got;
	int master, slave;

	assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
	rig_std(rig, 0, slave);
	terminal_find(&t);
	assert_true(terminal_is_input(&t));
	assert_true(terminal_get_size(&t, &got));
	assert_int_equal(got.ws_col, 33);
	assert_int_equal(tcgetattr(0, &before), 0);
	assert_true(terminal_take(&t));
	expect_raw(0, true);
	assert_true(terminal_take(&t)); /* what it was before is not forgotten */
	terminal_release(&t);
	expect_raw(0, false);
	assert_int_equal(tcgetattr(0, &after), 0);
	assert_int_equal(after.c_lflag, before.c_lflag);
	assert_int_equal(after.c_oflag, before.c_oflag);
	assert_int_equal(after.c_iflag, before.c_iflag);
	(void)close(master);
}

static int report_size(uint32_t local_id, void *userdata)
{
	struct winsize size = {0};
	struct termios t;

	(void)userdata;
	if (ioctl(0, TIOCGWINSZ, &size) < 0 || tcgetattr(0, &t) < 0)
		return 1;
	(void)dprintf(1, "%u: %u %u %d\n", local_id, size.ws_row, size.ws_col, t.c_cc[VERASE]);
	return 0;
}

static void test_like_the_agents(void **state)
{
	struct winsize size = {.ws_row = 7, .ws_col = 33};
	struct rig *rig = *state;
	struct termios t;
	int master, slave;

	assert_int_equal(openpty(&master, &slave, NULL, NULL, &size), 0);
	assert_int_equal(tcgetattr(slave, &t), 0);
	t.c_cc[VERASE] = 8;
	assert_int_equal(tcsetattr(slave, TCSANOW, &t), 0);
	rig_std(rig, 0, slave);
	give_ptys(rig, 1, 0, 1);
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork_all(rig, report_size, NULL);
	rig_run(rig);
	rig_free(rig);
	expect_raw(0, false);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: 7 33 8\r\n");
	(void)close(master);
}

static int tear_down(void **state)
{
	free(((struct rig *)*state)->spec.pty_ranks);
	return rig_tear_down(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_user_owns_it),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test_setup_teardown(test_unbuffered_is_exact, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_held_terminal_ends, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_input_ends, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_incomplete_line_ends, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_input, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_of_several, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end_is_typed_again, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_terminal_is_restored, rig_set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_like_the_agents, rig_set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
