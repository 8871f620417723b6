/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/proc.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/scratch.h"

#define REST                                                                                       \
	" S 10 20 30 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 "                     \
	"18446744073709551615 1 1 0 0 0 256 0 " /* 32 */                                           \
	"0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 9\n"

/* In memory of exactly its size: what reads beyond it is caught by a sanitizer. */
static int parse(const char *text, size_t size, struct procstat *st)
{
	_cleanup_free_ char *copy = malloc(size ? size : 1);

	assert_non_null(copy);
	memcpy(copy, text, size);
	return procstat_parse(copy, size, st);
}

static int parse_text(const char *text, struct procstat *st)
{
	return parse(text, strlen(text), st);
}

static bool has_terminal(void)
{
	int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	(void)close_fd(fd);
	return fd >= 0;
}

static void test_fields(void **state)
{
	struct procstat st;

	(void)state;
	assert_int_equal(parse_text("71 (sleep)" REST, &st), 0);
	assert_int_equal(st.pid, 71);
	assert_string_equal(st.comm, "sleep");
	assert_int_equal(st.state, 'S');
	assert_int_equal(st.ppid, 10);
	assert_int_equal(st.pgrp, 20);
	assert_int_equal(st.session, 30);
	assert_int_equal(st.tty, 0);
	assert_int_equal(st.minflt, 1);
	assert_int_equal(st.cminflt, 2);
	assert_int_equal(st.majflt, 3);
	assert_int_equal(st.cmajflt, 4);
	assert_int_equal(st.utime_ticks, 50);
	assert_int_equal(st.stime_ticks, 60);
	assert_int_equal(st.cutime_ticks, 7);
	assert_int_equal(st.cstime_ticks, 8);
	assert_int_equal(st.threads, 3);
	assert_int_equal(st.start_ticks, 999);
	assert_int_equal(st.rss_pages, 250);
	assert_int_equal(st.pending, 1u << (SIGKILL - 1));
	assert_int_equal(st.exit_code, SIGKILL);
}

static void test_names(void **state)
{
	static const char *const names[] = {"a b", "x) R 1", "tmux: server", "stepd", "a\nb", ")",
		"(", "))((", "", ") Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22",
		"\xff\x80\x01"};
	struct procstat st;
	char text[512];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		(void)snprintf(text, sizeof(text), "71 (%s)" REST, names[i]);
		assert_int_equal(parse_text(text, &st), 0);
		assert_memory_equal(st.comm, names[i],
			strlen(names[i]) < sizeof(st.comm) ? strlen(names[i]) + 1
							   : sizeof(st.comm) - 1);
		assert_int_equal(st.state, 'S');
		assert_int_equal(st.ppid, 10);
		assert_int_equal(st.start_ticks, 999);
	}
}

static void test_long_name_is_cut(void **state)
{
	struct procstat st;
	char name[301], text[512];

	(void)state;
	memset(name, 'n', 300);
	name[300] = '\0';
	(void)snprintf(text, sizeof(text), "71 (%s)" REST, name);
	assert_int_equal(parse_text(text, &st), 0);
	assert_int_equal(strlen(st.comm), sizeof(st.comm) - 1);
	assert_int_equal(st.ppid, 10);
}

/* Every line cut short, at every byte, is refused or has all that is asked of it. */
static void test_cut_lines(void **state)
{
	static const char text[] = "71 (x) R 1)" REST;
	const size_t whole = strlen(text);
	struct procstat st;
	size_t size;
	int r;

	(void)state;
	for (size = 0; size < sizeof(text); size++) {
		memset(&st, 0x55, sizeof(st));
		r = parse(text, size, &st);
		assert_int_equal(r, size < whole ? -EBADMSG : 0);
		assert_int_equal(st.pid, size < whole ? 0x55555555 : 71); /* untouched */
	}
}

static void test_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"71",
		"71 sleep" REST,
		" 71 (sleep)" REST,
		"0 (sleep)" REST,
		"-71 (sleep)" REST,
		"4294967296 (sleep)" REST,
		"99999999999999999999999999 (sleep)" REST,
		"71(sleep)" REST,
		"71 )sleep(" REST,
		"71 (sleep" REST,
		"71 (sleep)S 10 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) SS 10 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) 5 10 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S x 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S -1 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S 10 -2 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S 10 20 2147483648 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S 10  20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S 10 20 30 0 -1 0 1 2 3 4 -50 60 7 8 20 0 3 0 999 1000000 250 0 1 1 0 0 0 256 0",
		"71 (sleep) S 10 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 -999 1000000 250 0 1 1 0 0 0 256 0",
		("71 (sleep) S 10 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 "
		 "99999999999999999999999 1000000 250 0 1 1 0 0 0 256 0"),
		"71 (sleep) S 10 20 30 0 -1 0 1 2 3 4 50 60 7 8 20 0 3 0 + 1000000 250 0 1 1 0 0 0 256 0",
	};
	struct procstat st;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		if (parse_text(texts[i], &st) != -EBADMSG)
			fail_msg("accepted: '%s'", texts[i]);
	}
}

/* Group and session are gone before the pid is. */
static void test_being_reaped(void **state)
{
	struct procstat st;

	(void)state;
	assert_int_equal(
		parse_text(
			"71 (x) X 0 -1 -1 0 -1 4 1 2 3 4 5 6 7 8 20 0 0 0 999 0 0 1 0 0 0 0 0 256 0 "
			"0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
			&st),
		0);
	assert_int_equal(st.pgrp, -1);
	assert_false(procstat_is_living(&st));
}

static void test_living(void **state)
{
	static const struct {
		char state;
		int threads;
		bool living;
	} rows[] = {{'R', 1, true}, {'S', 7, true}, {'D', 1, true}, {'T', 1, true}, {'t', 1, true},
		{'I', 1, true}, {'Z', 1, false}, {'X', 1, false}, {'x', 1, false}, {'X', 0, false},
		{'Z', 2, true}};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct procstat st = {.state = rows[i].state, .threads = rows[i].threads};

		assert_true(procstat_is_living(&st) == rows[i].living);
	}
}

static void test_read_self(void **state)
{
	struct procstat st;

	(void)state;
	assert_int_equal(procstat_read(getpid(), &st), 0);
	assert_int_equal(st.pid, getpid());
	assert_int_equal(st.ppid, getppid());
	assert_int_equal(st.pgrp, getpgrp());
	assert_int_equal(st.session, getsid(0));
	assert_int_equal(st.tty != 0, has_terminal());
	assert_int_equal(st.state, 'R');
	assert_int_equal(st.threads, 1);
	assert_true(st.rss_pages > 0);
	assert_true(st.start_ticks > 0);
}

static void test_read_errors(void **state)
{
	_cleanup_close_ int dir_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct procstat st;
	int fds = scratch_count_fds();

	(void)state;
	assert_int_equal(procstat_read(0, &st), -ESRCH);
	assert_int_equal(procstat_read(-1, &st), -ESRCH);
	assert_int_equal(procstat_read(0x7fffffff, &st), -ESRCH);
	assert_int_equal(procstat_read_at(-1, getpid(), &st), -EBADF);
	assert_int_equal(procstat_read_at(dir_fd, getpid(), &st), -ESRCH);
	assert_int_equal(scratch_count_fds(), fds);
}

/* A child of that name, ended or not by the kernel's own word. */
static void test_real_names(void **state)
{
	static const char *const names[] = {"a b", "x) R 1", "tmux: server", ") Z 0 0 0", "a\nb"};
	struct procstat st;
	char text[128];
	siginfo_t info;
	pid_t pid;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			_exit(prctl(PR_SET_NAME, names[i]) < 0);
		assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
		assert_int_equal(procstat_read(pid, &st), 0);
		assert_int_equal(st.pid, pid);
		assert_int_equal(st.ppid, getpid());
		assert_int_equal(st.state, 'Z');
		assert_false(procstat_is_living(&st));
		procstat_describe(pid, text, sizeof(text));
		assert_null(strchr(text, '\n'));
		assert_non_null(strstr(text, "state Z"));
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(procstat_read(pid, &st), -ESRCH);
	}
}

static void test_describe(void **state)
{
	char text[128], tiny[8];

	(void)state;
	procstat_describe(getpid(), text, sizeof(text));
	assert_non_null(strstr(text, " state R"));
	procstat_describe(0x7fffffff, text, sizeof(text));
	assert_string_equal(text, "pid 2147483647 (No such process)");
	procstat_describe(getpid(), tiny, sizeof(tiny));
	assert_int_equal(strlen(tiny), sizeof(tiny) - 1);
}

static void *spin(_unused_ void *userdata)
{
	for (;;)
		__asm__ volatile("");
	return NULL;
}

/* A child that waits for ever, beside a thread that spins if so. */
static pid_t start_idle(bool with_spinner)
{
	pid_t pid = fork();
	pthread_t thread;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (with_spinner && pthread_create(&thread, NULL, spin, NULL) != 0)
		_exit(1);
	for (;;)
		(void)pause();
}

static void await_state(pid_t pid, char state)
{
	struct procstat st;

	do
		assert_int_equal(procstat_read(pid, &st), 0);
	while (st.state != state);
}

static void test_runnable(void **state)
{
	pid_t idle = start_idle(false), busy = start_idle(true);
	int fds = scratch_count_fds();

	(void)state;
	await_state(idle, 'S');
	assert_false(procstat_is_runnable(idle));
	while (!procstat_is_runnable(busy)) /* it starts its thread */
		(void)sched_yield();
	await_state(busy, 'S'); /* the first thread */
	assert_true(procstat_is_runnable(busy));
	assert_true(procstat_is_runnable(getpid()));
	assert_false(procstat_is_runnable(0x7fffffff));
	assert_int_equal(scratch_count_fds(), fds);
	(void)kill(idle, SIGKILL);
	(void)kill(busy, SIGKILL);
	assert_int_equal(waitpid(idle, NULL, 0), idle);
	assert_int_equal(waitpid(busy, NULL, 0), busy);
	assert_false(procstat_is_runnable(idle));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_name_is_cut),
		cmocka_unit_test(test_cut_lines),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_being_reaped),
		cmocka_unit_test(test_living),
		cmocka_unit_test(test_read_self),
		cmocka_unit_test(test_read_errors),
		cmocka_unit_test(test_real_names),
		cmocka_unit_test(test_describe),
		cmocka_unit_test(test_runnable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
