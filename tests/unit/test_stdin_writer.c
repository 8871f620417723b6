/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent's stdin for all tasks or for one: every byte to each, from every kind of input; slow
 * readers, readers that leave, and where the task has the agent's own descriptor.
 */
#include "stepd/stdio/input.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/lib/stdio_rig.h"

#define INPUT_SIZE (3u << 20)

/* Keeps its stdin in the file in.RANK. */
static int keep(uint32_t local_id, void *userdata)
{
	char name[32], buf[5000];
	ssize_t n;
	int fd;

	(void)userdata;
	(void)snprintf(name, sizeof(name), "in.%u", local_id);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return 1;
	while ((n = read(0, buf, sizeof(buf))) > 0) {
		if (local_id == 3)
			(void)poll(NULL, 0, 1); /* the slowest */
		if (fs_write_all(fd, buf, (size_t)n) < 0)
			return 1;
	}
	return n < 0;
}

/* Puts INPUT_SIZE random bytes, or fewer, at the agent's stdin; a child writes them. */
static void offer(struct rig *rig, int reader, int writer, const char *data, size_t size)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(reader);
		_exit(fs_write_all(writer, data, size) < 0);
	}
	(void)close(writer);
	rig->readers[rig->readers_count++] = pid;
	rig_std(rig, 0, reader);
}

static void offer_pipe(struct rig *rig, const char *data, size_t size)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	offer(rig, fd[0], fd[1], data, size);
}

static char *make_input(size_t *ret_size)
{
	return rig_lines(4711, INPUT_SIZE, true, ret_size);
}

static void expect_input(struct rig *rig, uint32_t rank, const char *data, size_t size)
{
	_cleanup_free_ char *got = NULL;
	char name[32];
	size_t n;

	(void)snprintf(name, sizeof(name), "in.%u", rank);
	got = rig_file(rig, name, &n);
	assert_int_equal(n, size);
	assert_memory_equal(got, data, size);
}

static void run_all(struct rig *rig, uint32_t ntasks, const char *data, size_t size)
{
	uint32_t i;

	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, ntasks);
	rig_step(rig, keep, NULL);
	rig_end_captures(rig);
	for (i = 0; i < ntasks; i++)
		expect_input(rig, i, data, size);
	assert_int_equal(rig_log_count(rig, "stepd: "), 0);
}

static void test_all_from_pipe(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *data = NULL;
	size_t size;

	data = make_input(&size);
	offer_pipe(rig, data, size);
	run_all(rig, 5, data, size);
}

static void test_all_from_socket(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *data = NULL;
	size_t size;
	int fd[2];

	data = make_input(&size);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	offer(rig, fd[0], fd[1], data, size);
	run_all(rig, 5, data, size);
}

static void test_all_from_file(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *data = NULL, *path = scratch_path(rig->dir, "input");
	size_t size;

	data = make_input(&size);
	scratch_write(rig->dir, "input", data, size, 0600);
	rig_std(rig, 0, open(path, O_RDONLY | O_CLOEXEC));
	run_all(rig, 5, data, size);
}

static void test_empty_input(void **state)
{
	struct rig *rig = *state;

	offer_pipe(rig, "", 0);
	run_all(rig, 4, "", 0);
}

static void test_64_tasks(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *data = NULL;
	size_t size;

	data = make_input(&size);
	size = 200001;
	offer_pipe(rig, data, size);
	run_all(rig, 64, data, size);
}

static int keep_or_leave(uint32_t local_id, void *userdata)
{
	char c;

	if (local_id == 1)
		return 0;
	if (local_id == 2)
		return read(0, &c, 1) != 1 || close(0) < 0;
	return keep(local_id, userdata);
}

/* Tasks that don't read their stdin, or not to its end, hold up nobody. */
static void test_readers_that_leave(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *data = NULL;
	size_t size;

	data = make_input(&size);
	offer_pipe(rig, data, size);
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, 4);
	rig_step(rig, keep_or_leave, NULL);
	expect_input(rig, 0, data, size);
	expect_input(rig, 3, data, size);
	rig_end_captures(rig);
	assert_int_equal(rig_log_count(rig, "stepd: "), 0);
}

static int leave(uint32_t local_id, void *userdata)
{
	(void)local_id;
	(void)userdata;
	return 0;
}

/* The input never ends, and nobody is there: the step ends all the same. */
static void test_all_leave(void **state)
{
	struct rig *rig = *state;
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	rig_std(rig, 0, fd[0]);
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, 4);
	rig_step(rig, leave, NULL);
	(void)close(fd[1]);
}

static int read_one_piece(uint32_t local_id, void *userdata)
{
	char c;

	(void)userdata;
	if (read(0, &c, 1) != 1)
		return 1;
	if (local_id == 0)
		(void)poll(NULL, 0, 300); /* reads no more, but has not closed it */
	return 0;
}

/* Nothing is read ahead of the fastest: the agent keeps a piece, not all of an endless input. */
static void test_bounded(void **state)
{
	struct rig *rig = *state;
	int fd[2], unread = 0;
	pid_t pid;

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, 2);
	rig_std(rig, 0, fd[0]);
	rig_open(rig);
	pid = fork();
	if (pid == 0) {
		char block[4096] = {0};
		long sum = 0;
		ssize_t n;

		(void)dup2(fd[1], 1);
		(void)close(0);
		(void)syscall(
			SYS_close_range, 2, ~0u, 0); /* the agent's: it must be the only reader */
		while ((n = write(1, block, sizeof(block))) > 0)
			sum += n;
		_exit(sum > 16 * 65536); /* the pipe to the agent, its buffer, the tasks' pipes */
	}
	(void)close(fd[1]);
	rig->fds--;
	rig_fork_all(rig, read_one_piece, NULL);
	rig_run(rig);
	assert_int_equal(ioctl(0, FIONREAD, &unread), 0);
	assert_true(unread > 0);
	rig_free(rig);
	rig->readers[rig->readers_count++] = pid;
	rig_end_captures(rig);
}

/* ---- who has the agent's own ----------------------------------------------------------------- */

static void expect_fds(struct rig *rig, const int *wanted)
{
	struct stdio_task task;
	uint32_t i;

	rig_open(rig);
	for (i = 0; i < rig->spec.local_ntasks; i++) {
		assert_int_equal(stdio_task_open(rig->io, i, &task, &rig->err), 0);
		if (wanted[i] == 0)
			assert_int_equal(task.stream[0].fd, 0);
		else
			assert_true(task.stream[0].fd > 2);
		stdio_task_close(rig->io, &task);
	}
	assert_int_equal(scratch_count_fds(), rig->fds + 1); /* /dev/null: no pipe was made */
	rig_free(rig);
}

static void test_one_task_reads_itself(void **state)
{
	struct rig *rig = *state;
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	rig_std(rig, 0, fd[0]);
	rig->spec.in.mode = SPEC_STREAM_ALL;
	expect_fds(rig, (int[]){0});
	rig_layout(rig, 3);
	rig->spec.in = (struct spec_stream){.mode = SPEC_STREAM_RANK, .rank = 1};
	expect_fds(rig, (int[]){-1, 0, -1});
	rig->spec.in.rank = 3; /* on another node */
	expect_fds(rig, (int[]){-1, -1, -1});
	(void)close(fd[1]);
}

static void test_rank_reads(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *data = NULL;
	size_t size;

	data = make_input(&size);
	offer_pipe(rig, data, size);
	rig->spec.in = (struct spec_stream){.mode = SPEC_STREAM_RANK, .rank = 2};
	rig_layout(rig, 4);
	rig_step(rig, keep, NULL);
	rig_end_captures(rig);
	expect_input(rig, 0, "", 0);
	expect_input(rig, 1, "", 0);
	expect_input(rig, 2, data, size);
	expect_input(rig, 3, "", 0);
}

static void test_null_is_not_carried(void **state)
{
	struct rig *rig = *state;

	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, 3);
	rig_std(rig, 0, open("/dev/null", O_RDONLY | O_CLOEXEC));
	expect_fds(rig, (int[]){0, 0, 0});
	rig_std(rig, 0, -1);
	expect_fds(rig, (int[]){-1, -1, -1});
	rig_end_captures(rig);
}

/* ---- a terminal ------------------------------------------------------------------------------ */

static int open_terminal(int *ret_master)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), fd;

	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	fd = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(fd >= 0);
	*ret_master = master;
	return fd;
}

/* One task does not have the terminal itself: it would be stopped, in the background. */
static void test_terminal(void **state)
{
	struct rig *rig = *state;
	struct stdio_task task;
	int master, fd = open_terminal(&master);

	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_std(rig, 0, fd);
	rig_open(rig);
	assert_int_equal(stdio_task_open(rig->io, 0, &task, &rig->err), 0);
	assert_true(task.stream[0].fd > 2);
	assert_false(isatty(task.stream[0].fd));
	stdio_task_close(rig->io, &task);
	rig_free(rig);
	rig_open(rig);
	assert_int_equal(write(master, "typed\n\004", 7), 7); /* and the end of the input */
	rig_fork(rig, keep, NULL);
	rig_run(rig);
	assert_int_equal(fcntl(0, F_GETFL) & O_NONBLOCK, 0);
	rig_free(rig);
	expect_input(rig, 0, "typed\n", 6);
	(void)close(master);
}

/* The agent, in a process group that is not the terminal's. */
static int agent_in_background(struct rig *rig, int slave)
{
	(void)setpgid(0, 0);
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_std(rig, 0, slave);
	rig_open(rig);
	rig_fork(rig, keep, NULL);
	rig_run(rig);
	expect_input(rig, 0, "", 0);
	return 0;
}

/* A shell's part: what is typed for it stays there, and the agent is not stopped. */
static int shell_in_foreground(struct rig *rig)
{
	int master, slave, status;
	pid_t pid;
	char c;

	if (setsid() < 0)
		return 81;
	slave = open_terminal(&master);
	if (ioctl(slave, TIOCSCTTY, 0) < 0)
		return 82;
	pid = fork();
	if (pid == 0)
		_exit(agent_in_background(rig, slave));
	(void)setpgid(pid, pid);
	if (write(master, "for the shell\n", 14) != 14)
		return 83;
	if (waitpid(pid, &status, WUNTRACED) != pid || status != 0) {
		(void)kill(pid, SIGKILL);
		return 84;
	}
	return read(slave, &c, 1) != 1 || c != 'f';
}

static void test_background_terminal(void **state)
{
	struct rig *rig = *state;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(shell_in_foreground(rig));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_unreadable(void **state)
{
	struct rig *rig = *state;

	rig_std(rig, 0, open(rig->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, 2);
	rig_step(rig, keep, NULL);
	expect_input(rig, 0, "", 0);
	expect_input(rig, 1, "", 0);
	assert_int_equal(
		rig_log_count(rig, "warning: read the agent's standard input: Is a directory"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_set_up, rig_tear_down)
		T(test_all_from_pipe),
		T(test_all_from_socket),
		T(test_all_from_file),
		T(test_empty_input),
		T(test_64_tasks),
		T(test_readers_that_leave),
		T(test_all_leave),
		T(test_bounded),
		T(test_one_task_reads_itself),
		T(test_rank_reads),
		T(test_null_is_not_carried),
		T(test_terminal),
		T(test_background_terminal),
		T(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
