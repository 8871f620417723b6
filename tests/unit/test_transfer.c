/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where a launcher makes the tasks' pipes: the agent gets its ends of all of them, or one sentence
 * with the reason, and neither process has more descriptors than it needs.
 */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/lib/stdio_rig.h"

#define TASKS     300u
#define BATCH     32 /* of transfer.c */
#define PER_TASK  2  /* stdout and stderr */
#define NOT_TAKEN 80 /* statuses of the launcher */
#define GROWN     81

/* What the launcher does: each task's first bytes are written here in its place. */
struct launcher {
	uint32_t killed_at; /* after as many tasks; 0: not killed */
	pid_t pid;
	int pidfd;
	int status;
};

/* ---- sendmsg(2), as where the user's other programs have many descriptors in flight ------------
 */

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

static struct {
	int refused_from, refused_to; /* which calls of this process */
	int calls;
} sent;

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	int call = ++sent.calls;

	if (call >= sent.refused_from && call < sent.refused_to) {
		errno = ETOOMANYREFS;
		return -1;
	}
	return __real_sendmsg(fd, m, flags);
}

/* ---- the launcher ------------------------------------------------------------------------------
 */

/* EPIPE: the agent takes no more ends. */
static void write_lines(const struct stdio_task *task)
{
	(void)dprintf(task->stream[1].fd, "out %u\n", task->rank);
	(void)dprintf(task->stream[2].fd, "err %u\n", task->rank);
}

_noreturn_ static void be_launcher(struct rig *rig, const struct launcher *l)
{
	struct stdio_task task;
	struct err err = ERR_INIT;
	uint32_t i;
	int fds, r = 0;

	stdio_transfer_begin(rig->io);
	fds = scratch_count_fds();
	for (i = 0; i < rig->spec.local_ntasks && r == 0; i++) {
		r = stdio_task_open(rig->io, i, &task, &err);
		if (r < 0)
			break;
		write_lines(&task);
		stdio_task_close(rig->io, &task);
		if (scratch_count_fds() >= fds + BATCH)
			_exit(GROWN);
		if (l->killed_at == i + 1)
			(void)raise(SIGKILL);
	}
	if (r == 0)
		r = stdio_transfer_flush(rig->io, &err);
	if (r == -ETOOMANYREFS && !strstr(err.text, "raise it"))
		_exit(NOT_TAKEN + 1);
	_exit(r < 0 ? NOT_TAKEN : 0);
}

static void begin_launcher(struct rig *rig, struct launcher *l)
{
	assert_int_equal(stdio_transfer_open(rig->io, &rig->err), 0);
	l->pid = fork();
	if (l->pid == 0)
		be_launcher(rig, l);
	l->pidfd = (int)syscall(SYS_pidfd_open, l->pid, 0);
	if (l->pid < 0 || l->pidfd < 0)
		err(99, "fork");
}

static void on_ended(struct ev_loop *loop, ev_io *io, int revents)
{
	(void)io;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

/* As the agent: its loop runs until the launcher has ended. Returns the transfer's result. */
static int end_launcher(struct rig *rig, struct launcher *l)
{
	ev_io io;

	ev_io_init(&io, on_ended, l->pidfd, EV_READ);
	ev_io_start(rig->loop, &io);
	(void)ev_run(rig->loop, 0);
	ev_io_stop(rig->loop, &io);
	assert_int_equal(waitpid(l->pid, &l->status, 0), l->pid);
	l->pidfd = close_fd(l->pidfd);
	return stdio_transfer_close(rig->io, &rig->err);
}

/* ---- what reaches the agent --------------------------------------------------------------------
 */

static void capture_both(struct rig *rig)
{
	rig_capture(rig, 1, "out");
	rig_capture(rig, 2, "err");
}

/* Each task's line, once, behind its label. */
static void expect_lines(struct rig *rig, const char *name, const char *text, uint32_t count)
{
	_cleanup_free_ char *got = NULL, *line = NULL;
	size_t size, lines = 0;
	uint32_t i;
	char *p;

	got = rig_file(rig, name, &size);
	for (p = got; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		lines++;
	assert_int_equal(lines, count);
	for (i = 0; i < count; i++) {
		assert_true(asprintf(&line, "%3u: %s %u\n", i, text, i) > 0);
		assert_non_null(strstr(got, line));
		free(take_ptr(line));
	}
}

static void finish(struct rig *rig, uint32_t count)
{
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
	expect_lines(rig, "out", "out", count);
	expect_lines(rig, "err", "err", count);
}

static void begin(struct rig *rig)
{
	rig->spec.label = true;
	rig_layout(rig, TASKS);
	capture_both(rig);
	rig_open(rig);
}

static void test_all(void **state)
{
	struct launcher l = {0};
	struct rig *rig = *state;
	int fds;

	begin(rig);
	fds = scratch_count_fds();
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), 0);
	assert_int_equal(l.status, 0);
	assert_int_equal(scratch_count_fds(), fds + (int)TASKS * PER_TASK);
	finish(rig, TASKS);
}

/* Labels, and a file of each task's own, which the agent opens. */
static void test_files(void **state)
{
	_cleanup_free_ char *name = NULL;
	struct launcher l = {0};
	struct rig *rig = *state;
	char wanted[32];
	uint32_t i;

	rig->spec.label = true;
	rig->spec.out = (struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("out.%t")};
	rig->spec.err.mode = SPEC_STREAM_STDOUT;
	rig_layout(rig, 40);
	rig_open(rig);
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), 0);
	rig_run(rig);
	rig_free(rig);
	for (i = 0; i < 40; i++) {
		assert_true(asprintf(&name, "out.%u", i) > 0);
		(void)snprintf(wanted, sizeof(wanted), "%2u: out %u\n%2u: err %u\n", i, i, i, i);
		rig_expect_file(rig, name, wanted);
		free(take_ptr(name));
	}
}

static void test_file_refused(void **state)
{
	struct launcher l = {0};
	struct rig *rig = *state;

	rig->spec.label = true;
	rig->spec.out =
		(struct spec_stream){.mode = SPEC_STREAM_FILE, .pattern = strdup("no/out.%t")};
	rig_layout(rig, TASKS);
	rig_open(rig);
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), -ENOENT);
	assert_non_null(strstr(rig->err.text, "/no/out.0' as user ada"));
	assert_int_equal(
		WEXITSTATUS(l.status), NOT_TAKEN); /* it was stopped, long before its end */
	rig_free(rig);
}

/* The other way: the agent has the ends to write to, of 40 pipes. */
static void test_input(void **state)
{
	struct launcher l = {0};
	struct rig *rig = *state;
	int fds;

	rig->spec.in.mode = SPEC_STREAM_ALL;
	rig_layout(rig, 40);
	rig_std(rig, 0, memfd_create("input", MFD_CLOEXEC));
	rig_capture(rig, 1, "out");
	rig_capture(rig, 2, "err");
	rig_open(rig);
	fds = scratch_count_fds();
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), 0);
	assert_int_equal(scratch_count_fds(), fds + 40);
	rig_run(rig);
	rig_free(rig);
	rig_end_captures(rig);
}

/* ---- failures ----------------------------------------------------------------------------------
 */

static void test_no_descriptors_left(void **state)
{
	struct rlimit old, few;
	struct launcher l = {0};
	struct rig *rig = *state;
	int r;

	begin(rig);
	begin_launcher(rig, &l);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = (struct rlimit){.rlim_cur = (rlim_t)rig->fds + 200, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = end_launcher(rig, &l);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, -EMFILE);
	assert_non_null(strstr(rig->err.text, "take the pipe of rank"));
	assert_non_null(strstr(rig->err.text, "raise the limit of open files"));
	assert_int_equal(WEXITSTATUS(l.status), NOT_TAKEN);
	rig_free(rig);
}

/* All whole batches are there; the last ends went with the launcher. */
static void test_killed(void **state)
{
	struct launcher l = {.killed_at = 100};
	struct rig *rig = *state;
	int fds, ends = 100 * PER_TASK / BATCH * BATCH;

	begin(rig);
	fds = scratch_count_fds();
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), 0);
	assert_int_equal(WTERMSIG(l.status), SIGKILL);
	assert_int_equal(scratch_count_fds(), fds + ends);
	finish(rig, (uint32_t)ends / PER_TASK);
}

/* It sends a batch again once the agent has taken one before. */
static void test_too_many_in_flight(void **state)
{
	struct launcher l = {0};
	struct rig *rig = *state;

	sent = (__typeof__(sent)){.refused_from = 3, .refused_to = 5};
	begin(rig);
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), 0);
	assert_int_equal(l.status, 0);
	finish(rig, TASKS);
}

/* With none of its own in flight it can't wait for anything. */
static void test_too_many_of_others(void **state)
{
	struct launcher l = {0};
	struct rig *rig = *state;

	sent = (__typeof__(sent)){.refused_from = 2, .refused_to = 1000};
	begin(rig);
	begin_launcher(rig, &l);
	assert_int_equal(end_launcher(rig, &l), 0);
	assert_int_equal(WEXITSTATUS(l.status), NOT_TAKEN);
	finish(rig, BATCH / PER_TASK);
}

static void test_nothing_to_send(void **state)
{
	struct rig *rig = *state;

	rig_open(rig);
	assert_int_equal(stdio_transfer_open(rig->io, &rig->err), 0);
	assert_int_equal(scratch_count_fds(), rig->fds + 1); /* /dev/null */
	assert_int_equal(stdio_transfer_flush(rig->io, &rig->err), 0);
	assert_int_equal(stdio_transfer_close(rig->io, &rig->err), 0);
	rig_free(rig);
}

static void test_given_up(void **state)
{
	struct rig *rig = *state;

	begin(rig);
	assert_int_equal(stdio_transfer_open(rig->io, &rig->err), 0);
	rig_free(rig); /* the socket goes with the object */
	rig_end_captures(rig);
}

static int set_up(void **state)
{
	sent = (__typeof__(sent)){0};
	return rig_set_up(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, rig_tear_down)
		T(test_all),
		T(test_files),
		T(test_file_refused),
		T(test_input),
		T(test_no_descriptors_left),
		T(test_killed),
		T(test_too_many_in_flight),
		T(test_too_many_of_others),
		T(test_nothing_to_send),
		T(test_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
