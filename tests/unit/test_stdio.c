/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the tasks' streams lead: inherited, none, files that all share or of each task, and what
 * happens where they can't be opened. What the agent carries itself: test_pump.c,
 * test_stdin_writer.c.
 */
#include "stepd/stdio/stdio.h"

#include <grp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "tests/lib/stdio_rig.h"

static struct spec_stream file(const char *pattern, bool append)
{
	return (struct spec_stream){
		.mode = SPEC_STREAM_FILE, .pattern = strdup(pattern), .append = append};
}

static int say(uint32_t local_id, void *userdata)
{
	(void)userdata;
	return dprintf(1, "out %u\n", local_id) < 0 || dprintf(2, "err %u\n", local_id) < 0;
}

static bool is_null(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);
}

static void test_inherit(void **state)
{
	struct rig *rig = *state;
	struct stdio_task task;
	int i;

	rig->spec.in.mode = SPEC_STREAM_INHERIT;
	rig_capture(rig, 1, "got");
	rig_capture(rig, 2, "errors");
	rig_open(rig);
	assert_int_equal(stdio_task_open(rig->io, 0, &task, &rig->err), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(task.stream[i].fd, i);
	assert_int_equal(scratch_count_fds(), rig->fds + 1); /* /dev/null */
	stdio_task_close(rig->io, &task);
	for (i = 0; i < 3; i++)
		assert_true(fcntl(i, F_GETFD) >= 0);
	rig_fork(rig, say, NULL);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "out 0\n");
	rig_expect_file(rig, "errors", "err 0\n");
}

static int expect_null(uint32_t local_id, void *userdata)
{
	char c;

	(void)local_id;
	(void)userdata;
	return !is_null(0) || !is_null(1) || !is_null(2) || read(0, &c, 1) != 0 ||
		write(1, "x", 1) != 1;
}

static void test_none(void **state)
{
	struct rig *rig = *state;

	rig->spec.out.mode = rig->spec.err.mode = SPEC_STREAM_NONE;
	rig->spec.label = true;
	rig_layout(rig, 3);
	rig_open(rig);
	rig_fork_all(rig, expect_null, NULL);
	assert_int_equal(scratch_count_fds(), rig->fds + 1 + 3); /* pidfds */
	rig_run(rig);
	rig_free(rig);
}

static void test_agent_without_streams(void **state)
{
	struct rig *rig = *state;
	struct stdio_task task;
	int i;

	rig->spec.in.mode = SPEC_STREAM_INHERIT;
	for (i = 0; i < 3; i++)
		rig_std(rig, i, -1);
	rig_open(rig);
	assert_int_equal(stdio_task_open(rig->io, 0, &task, &rig->err), 0);
	for (i = 0; i < 3; i++)
		assert_true(task.stream[i].fd > 2);
	stdio_task_close(rig->io, &task);
	rig_fork(rig, expect_null, NULL);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
}

/* One of our own descriptors that took a closed number is not what the tasks are to have. */
static void test_agent_fd_in_their_place(void **state)
{
	struct rig *rig = *state;

	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig->spec.label = true;
	rig_std(rig, 0, -1);
	rig_std(rig, 1, -1);
	rig_std(rig, 2, open("/dev/null", O_RDWR | O_CLOEXEC));
	assert_int_equal(open("/etc/passwd", O_RDONLY | O_CLOEXEC), 0);
	assert_int_equal(open("/etc/passwd", O_RDONLY | O_CLOEXEC), 1);
	rig_open(rig);
	rig_fork(rig, expect_null, NULL);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
}

static void test_rank(void **state)
{
	struct rig *rig = *state;

	rig->spec.out = (struct spec_stream){.mode = SPEC_STREAM_RANK, .rank = 1};
	rig->spec.err.mode = SPEC_STREAM_STDOUT;
	rig_layout(rig, 3);
	rig_capture(rig, 1, "got");
	rig_step(rig, say, NULL);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "out 1\nerr 1\n");
}

/* ---- files ----------------------------------------------------------------------------------- */

static int write_lines(uint32_t local_id, void *userdata)
{
	int i;

	(void)userdata;
	for (i = 0; i < 100; i++) {
		if (dprintf(1, "%02u %02d out\n", local_id, i) < 0 ||
			dprintf(2, "%02u %02d err\n", local_id, i) < 0)
			return 1;
	}
	return 0;
}

/* Each of the lines of write_lines() once, behind old. */
static void expect_lines(struct rig *rig, const char *name, const char *old, bool errs)
{
	_cleanup_free_ char *text = NULL;
	size_t size, i, n = rig->spec.ntasks * (errs ? 200 : 100), line = sizeof("00 00 out\n") - 1;
	bool seen[20][100][2] = {0};
	unsigned task, k;
	char word[8];

	text = rig_file(rig, name, &size);
	assert_int_equal(size, strlen(old) + n * line);
	assert_memory_equal(text, old, strlen(old));
	for (i = 0; i < n; i++) {
		assert_int_equal(
			sscanf(text + strlen(old) + i * line, "%02u %02u %3s", &task, &k, word), 3);
		assert_true(task < rig->spec.ntasks && k < 100);
		assert_false(seen[task][k][word[0] == 'e']);
		seen[task][k][word[0] == 'e'] = true;
	}
}

static void shared_file(struct rig *rig, bool append, const char *old)
{
	rig_layout(rig, 20);
	scratch_write(rig->dir, "out.7", "old\n", 4, 0644);
	rig->spec.out = file("out.%j", append);
	rig->spec.err = file("out.%0j", append); /* the same file, otherwise spelt */
	rig_open(rig);
	assert_int_equal(scratch_count_fds(), rig->fds + 2); /* /dev/null and one file */
	rig_fork_all(rig, write_lines, NULL);
	rig_run(rig);
	rig_free(rig);
	expect_lines(rig, "out.7", old, true);
}

static void test_shared_file(void **state)
{
	shared_file(*state, false, "");
}

static void test_shared_file_append(void **state)
{
	shared_file(*state, true, "old\n");
}

static void test_two_shared_files(void **state)
{
	struct rig *rig = *state;
	struct stat st;
	_cleanup_free_ char *path = scratch_path(rig->dir, "o");

	rig->mask = 027;
	rig_layout(rig, 20);
	rig->spec.out = file("o", false);
	rig->spec.err = file("e", false);
	rig_step(rig, write_lines, NULL);
	expect_lines(rig, "o", "", false);
	expect_lines(rig, "e", "", false);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
}

/* What tasks share is closed in the agent once they are forked: the end of a FIFO is theirs. */
static void test_start_closes_shared(void **state)
{
	struct rig *rig = *state;

	rig->spec.out = file("o", false);
	rig->spec.err.mode = SPEC_STREAM_NONE;
	rig_open(rig);
	rig_fork_all(rig, write_lines, NULL);
	stdio_start(rig->io);
	assert_int_equal(scratch_count_fds(), rig->fds + 2); /* /dev/null, pidfd */
	rig_run(rig);
	rig_free(rig);
}

static void test_files_of_tasks(void **state)
{
	struct rig *rig = *state;
	struct stdio_task task;

	rig_layout(rig, 3);
	rig->spec.ranks[2] = 12;
	rig->spec.ntasks = 13;
	scratch_write(rig->dir, "o.0000", "old\n", 4, 0644);
	scratch_write(rig->dir, "0.e", "old\n", 4, 0644);
	scratch_write(rig->dir, "in.0", "for zero", 8, 0644);
	rig->spec.out = file("o.%4t", false);
	rig->spec.err = file("%t.e", true);
	rig_open(rig);
	assert_int_equal(stdio_task_open(rig->io, 2, &task, &rig->err), 0);
	assert_int_equal(task.stream[1].fd, -1);
	assert_string_equal(task.stream[1].path, "o.0012");
	assert_int_equal(task.stream[1].flags & (O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND),
		O_WRONLY | O_CREAT | O_TRUNC);
	assert_int_equal(task.stream[2].flags & (O_TRUNC | O_APPEND), O_APPEND);
	assert_false(task.stream[2].as_stdout);
	assert_int_equal(scratch_count_fds(), rig->fds + 1);
	stdio_task_close(rig->io, &task);
	rig_free(rig);
	rig_step(rig, say, NULL);
	rig_expect_file(rig, "o.0000", "out 0\n");
	rig_expect_file(rig, "o.0012", "out 2\n");
	rig_expect_file(rig, "0.e", "old\nerr 0\n");
	rig_expect_file(rig, "12.e", "err 2\n");
}

/* One file for both streams of a task is opened once: neither overwrites the other. */
static void test_one_file_for_both(void **state)
{
	struct rig *rig = *state;

	rig_layout(rig, 2);
	rig->spec.out = file("o.%t", false);
	rig->spec.err = file("o.%1t", false);
	rig_step(rig, say, NULL);
	rig_expect_file(rig, "o.0", "out 0\nerr 0\n");
	rig_expect_file(rig, "o.1", "out 1\nerr 1\n");
}

static void test_stderr_where_stdout_goes(void **state)
{
	struct rig *rig = *state;

	rig_layout(rig, 2);
	rig->spec.out = file("o.%t", false);
	rig->spec.err.mode = SPEC_STREAM_STDOUT;
	rig_step(rig, say, NULL);
	rig_expect_file(rig, "o.0", "out 0\nerr 0\n");
	rig_expect_file(rig, "o.1", "out 1\nerr 1\n");
}

static int copy(uint32_t local_id, void *userdata)
{
	char buf[256];
	ssize_t n;

	(void)local_id;
	(void)userdata;
	while ((n = read(0, buf, sizeof(buf))) > 0) {
		if (fs_write_all(1, buf, (size_t)n) < 0)
			return 1;
	}
	return n < 0;
}

static void test_input_files(void **state)
{
	struct rig *rig = *state;

	rig_layout(rig, 2);
	scratch_write(rig->dir, "in.0", "for zero", 8, 0644);
	scratch_write(rig->dir, "in.1", "for one\n", 8, 0644);
	rig->spec.in = file("in.%t", false);
	rig->spec.out = file("out.%t", false);
	rig_step(rig, copy, NULL);
	rig_expect_file(rig, "out.0", "for zero");
	rig_expect_file(rig, "out.1", "for one\n");
}

/* Each task reads the whole of one file: no offset is shared. */
static void test_one_input_file(void **state)
{
	struct rig *rig = *state;

	rig_layout(rig, 2);
	scratch_write(rig->dir, "in", "for all\n", 8, 0644);
	rig->spec.in = file("in", false);
	rig->spec.out = file("out.%t", false);
	rig_step(rig, copy, NULL);
	rig_expect_file(rig, "out.0", "for all\n");
	rig_expect_file(rig, "out.1", "for all\n");
}

/* ---- FIFOs ----------------------------------------------------------------------------------- */

static void expect_refused(struct rig *rig, int error, const char *text)
{
	int fds = scratch_count_fds();
	mode_t mask = umask(0);

	(void)umask(mask);
	rig->err = (struct err)ERR_INIT;
	assert_int_equal(stdio_open(&rig->spec, &rig->id, rig->dir, rig->mask, rig->loop, &rig->log,
				 &rig->io, &rig->err),
		error);
	assert_null(rig->io);
	assert_int_equal(rig->err.code, error);
	if (!strstr(rig->err.text, text))
		fail_msg("'%s' lacks '%s'", rig->err.text, text);
	assert_int_equal(scratch_count_fds(), fds);
	assert_int_equal(umask(mask), mask);
}

static void make_fifo(struct rig *rig, const char *name)
{
	_cleanup_free_ char *path = scratch_path(rig->dir, name);

	assert_int_equal(mkfifo(path, 0666), 0);
}

static void test_fifo_without_reader(void **state)
{
	struct rig *rig = *state;

	make_fifo(rig, "fifo");
	rig->spec.out = file("fifo", false);
	expect_refused(rig, -ENXIO, "standard output: '");
	expect_refused(rig, -ENXIO, "/fifo' is a FIFO or socket that nobody reads");
	rig->spec.label = true;
	expect_refused(rig, -ENXIO, "/fifo'");
}

static int expect_blocking(uint32_t local_id, void *userdata)
{
	if (fcntl(1, F_GETFL) & O_NONBLOCK)
		return 1;
	return say(local_id, userdata);
}

static void fifo_with_reader(struct rig *rig, const char *pattern, bool label, const char *wanted)
{
	_cleanup_free_ char *path = scratch_path(rig->dir, "fifo.0");
	char buf[256];
	ssize_t n;
	int fd;

	make_fifo(rig, "fifo.0");
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	rig->spec.label = label;
	rig->spec.out = file(pattern, false);
	rig->spec.err.mode = SPEC_STREAM_STDOUT;
	rig_open(rig);
	rig_fork(rig, label ? say : expect_blocking, NULL);
	rig_run(rig);
	n = read(fd, buf, sizeof(buf));
	assert_int_equal(n, strlen(wanted));
	assert_memory_equal(buf, wanted, strlen(wanted));
	assert_int_equal(
		read(fd, buf, sizeof(buf)), 0); /* no writer is left, in the agent either */
	rig_free(rig);
	(void)close(fd);
}

static void test_fifo_shared(void **state)
{
	fifo_with_reader(*state, "fifo.0", false, "out 0\nerr 0\n");
}

static void test_fifo_of_task(void **state)
{
	fifo_with_reader(*state, "fifo.%t", false, "out 0\nerr 0\n");
}

static void test_fifo_labelled(void **state)
{
	fifo_with_reader(*state, "fifo.%t", true, "0: out 0\n0: err 0\n");
}

/* ---- what can't be opened -------------------------------------------------------------------- */

static void test_refused(void **state)
{
	struct rig *rig = *state;

	rig->mask = 027; /* not the agent's own */
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig->spec.out = file("o", false);
	rig->spec.err = file("missing/%j.err", false);
	expect_refused(rig, -ENOENT, "standard error: open '/");
	expect_refused(rig, -ENOENT, "/missing/7.err' as user ada: No such file or directory");
	rig->spec.label = true;
	expect_refused(rig, -ENOENT, "/missing/7.err' as user ada");
	free(rig->spec.err.pattern);
	rig->spec.err = file("/", true);
	expect_refused(rig, -EISDIR, "open '/' as");
	free(rig->spec.err.pattern);
	rig->spec.err = file("%q", true);
	expect_refused(rig, -EINVAL, "'%q'");
}

static void test_refused_to_task(void **state)
{
	struct rig *rig = *state;
	struct stdio_task task;
	int fds;

	rig->spec.label = true;
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig->spec.err = file("missing/%t", false);
	rig_layout(rig, 2);
	rig_std(rig, 0, open("/etc/passwd", O_RDONLY | O_CLOEXEC));
	rig_open(rig);
	fds = scratch_count_fds();
	assert_int_equal(stdio_task_open(rig->io, 1, &task, &rig->err), -ENOENT);
	assert_non_null(strstr(rig->err.text, "/missing/1' as user ada"));
	/* our ends of the task's stdin and stdout go with the object */
	assert_int_equal(scratch_count_fds(), fds + 2);
	rig_free(rig);
}

static void test_no_descriptors_left(void **state)
{
	struct rig *rig = *state;
	struct rlimit old, few;
	struct stdio_task task;
	uint32_t i;
	int r = 0, lowest;

	rig->spec.label = true;
	rig_layout(rig, 100);
	rig_open(rig);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = (struct rlimit){.rlim_cur = (rlim_t)rig->fds + 40, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (i = 0; i < 100 && r == 0; i++) {
		r = stdio_task_open(rig->io, i, &task, &rig->err);
		if (r == 0 && i % 2)
			stdio_task_close(
				rig->io, &task); /* and those that stay open: stdio_free() */
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	assert_true(i > 5 && i < 40);
	assert_non_null(strstr(rig->err.text, "raise the limit of open files"));
	rig_free(rig);
	lowest = dup(0);
	(void)close(lowest);
	few.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = stdio_open(&rig->spec, &rig->id, rig->dir, rig->mask, rig->loop, &rig->log, &rig->io,
		&rig->err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
}

/* ---- as another user ------------------------------------------------------------------------- */

static void be_nobody(struct rig *rig)
{
	rig->id.uid = rig->id.gid = 65534;
	rig->id.switches = true;
	free(rig->id.user_name);
	rig->id.user_name = strdup("nobody");
}

static void test_as_user(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *path = scratch_path(rig->dir, "open/o");
	_cleanup_free_ char *dir = scratch_path(rig->dir, "open");
	struct stat st;

	if (geteuid() != 0)
		skip();
	be_nobody(rig);
	assert_int_equal(mkdir(dir, 0777), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	rig->spec.out = file("o", false);
	expect_refused(rig, -EACCES, "/o' as user nobody: Permission denied");
	assert_int_equal(geteuid(), 0);
	free(rig->spec.out.pattern);
	rig->spec.out = file("open/o", false);
	rig->spec.err.mode = SPEC_STREAM_NONE;
	rig->mask = 077;
	rig_open(rig);
	assert_int_equal(geteuid(), 0);
	rig_fork(rig, say, NULL);
	rig_run(rig);
	rig_free(rig);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_gid, 65534);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static int reopen_stdout(uint32_t local_id, void *userdata)
{
	int fd;

	(void)local_id;
	(void)userdata;
	if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
		return 2;
	fd = open("/dev/fd/1", O_WRONLY);
	return fd < 0 || write(fd, "again\n", 6) != 6;
}

/* A shell's "echo > /dev/stdout" works for the user too. */
static void test_user_reopens_stdout(void **state)
{
	struct rig *rig = *state;

	if (geteuid() != 0)
		skip();
	be_nobody(rig);
	rig->spec.label = true;
	rig_capture(rig, 1, "got");
	rig_open(rig);
	rig_fork(rig, reopen_stdout, NULL);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
	rig_expect_file(rig, "got", "0: again\n");
}

/* ---- many ------------------------------------------------------------------------------------ */

/* Without labels the agent holds no descriptor per task, with them one per task and stream. */
static void many(struct rig *rig, bool label, int per_task)
{
	struct stdio_task task;
	uint32_t i;

	rig->spec.label = label;
	rig_layout(rig, 300);
	rig->spec.out = file("o", false);
	rig->spec.err = file("e", false);
	rig_open(rig);
	for (i = 0; i < 300; i++) {
		assert_int_equal(stdio_task_open(rig->io, i, &task, &rig->err), 0);
		stdio_task_close(rig->io, &task);
		assert_int_equal(scratch_count_fds(), rig->fds + 3 + ((int)i + 1) * per_task);
	}
	rig_free(rig);
}

static void test_many(void **state)
{
	many(*state, false, 0);
}

static void test_many_labelled(void **state)
{
	many(*state, true, 2);
}

static void test_free_null(void **state)
{
	(void)state;
	assert_null(stdio_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_set_up, rig_tear_down)
		T(test_inherit),
		T(test_none),
		T(test_agent_without_streams),
		T(test_agent_fd_in_their_place),
		T(test_rank),
		T(test_shared_file),
		T(test_shared_file_append),
		T(test_two_shared_files),
		T(test_start_closes_shared),
		T(test_files_of_tasks),
		T(test_one_file_for_both),
		T(test_stderr_where_stdout_goes),
		T(test_input_files),
		T(test_one_input_file),
		T(test_fifo_without_reader),
		T(test_fifo_shared),
		T(test_fifo_of_task),
		T(test_fifo_labelled),
		T(test_refused),
		T(test_refused_to_task),
		T(test_no_descriptors_left),
		T(test_as_user),
		T(test_user_reopens_stdout),
		T(test_many),
		T(test_many_labelled),
		cmocka_unit_test(test_free_null),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
