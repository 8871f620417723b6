/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/proc.h"

#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/child.h"
#include "tests/lib/scratch.h"

static void test_open_and_signal(void **state)
{
	struct pidref ref = PIDREF_INIT;
	pid_t pid = child_start(0);
	int status, fds = scratch_count_fds();

	(void)state;
	assert_true(pid > 0);
	assert_int_equal(pidref_open(pid, child_stat(pid).start_ticks, &ref), 0);
	assert_int_equal(ref.pid, pid);
	assert_true(fcntl(ref.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(pidref_signal(&ref, 0), 0);
	assert_int_equal(pidref_signal(&ref, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WTERMSIG(status), SIGTERM);
	assert_int_equal(pidref_signal(&ref, 0), -ESRCH);
	pidref_close(&ref);
	assert_int_equal(ref.pid, 0);
	assert_int_equal(ref.fd, -1);
	pidref_close(&ref);
	assert_int_equal(scratch_count_fds(), fds);
}

static void test_what_is_no_process(void **state)
{
	static const pid_t pids[] = {0, -1, INT_MIN, INT_MAX};
	struct pidref ref = PIDREF_INIT;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(pids); i++) {
		assert_int_equal(pidref_open(pids[i], 0, &ref), -ESRCH);
		assert_int_equal(pidref_signal_pid(pids[i], 0, SIGKILL), -ESRCH);
	}
	assert_int_equal(ref.fd, -1);
	assert_int_equal(pidref_signal(&ref, 0), -EINVAL);
}

static void *thread_wait(void *userdata)
{
	int *fds = userdata;
	int32_t tid = (int32_t)syscall(SYS_gettid);
	char byte;

	if (write(fds[1], &tid, sizeof(tid)) != sizeof(tid))
		abort();
	return read(fds[2], &byte, 1) == 0 ? NULL : userdata;
}

/* A thread's id is no process. */
static void test_thread(void **state)
{
	struct pidref ref = PIDREF_INIT;
	int fds[4], r;
	pthread_t thread;
	int32_t tid;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(pipe2(fds + 2, O_CLOEXEC), 0);
	assert_int_equal(pthread_create(&thread, NULL, thread_wait, fds), 0);
	assert_int_equal(read(fds[0], &tid, sizeof(tid)), sizeof(tid));
	r = pidref_open(tid, 0, &ref);
	(void)close(fds[3]);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
	(void)close(fds[2]);
	assert_int_equal(r, -ESRCH);
}

static void test_false_start_time(void **state)
{
	struct pidref ref = PIDREF_INIT;
	pid_t pid = child_start(0);
	uint64_t ticks = child_stat(pid).start_ticks;
	int fds = scratch_count_fds();

	(void)state;
	assert_int_equal(pidref_open(pid, ticks + 1, &ref), -ESRCH);
	assert_int_equal(ref.fd, -1);
	assert_int_equal(pidref_signal_pid(pid, ticks - 1, SIGKILL), -ESRCH);
	assert_int_equal(scratch_count_fds(), fds);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it lives */
	assert_int_equal(pidref_signal_pid(pid, ticks, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(pidref_signal_pid(pid, ticks, SIGKILL), -ESRCH);
	assert_int_equal(scratch_count_fds(), fds);
}

/* The pid goes to a stranger: neither the held nor the seen reference reaches that. */
static void test_reused_pid(void **state)
{
	struct pidref held = PIDREF_INIT;
	pid_t pid = child_start(0), stranger;
	uint64_t ticks = child_stat(pid).start_ticks;

	(void)state;
	assert_int_equal(pidref_open(pid, ticks, &held), 0);
	child_end(pid);
	(void)poll(NULL, 0, 30); /* a start time is counted in ticks of 10 ms */
	stranger = child_start(pid);
	if (stranger == -EPERM || stranger == -ENOSYS) {
		(void)printf(
			"# the pid can't be forced here: only the false start time is tested\n");
		pidref_close(&held);
		return;
	}
	assert_int_equal(stranger, pid);
	assert_int_equal(pidref_signal(&held, SIGKILL), -ESRCH);
	assert_int_equal(pidref_signal_pid(pid, ticks, SIGKILL), -ESRCH);
	assert_int_equal(waitpid(stranger, NULL, WNOHANG), 0);
	pidref_close(&held);
	child_end(stranger);
}

static void test_no_descriptors_left(void **state)
{
	struct pidref ref = PIDREF_INIT;
	struct rlimit saved, none;
	int fds = scratch_count_fds(), r;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	none = saved;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = pidref_open(getpid(), 0, &ref);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(r, -EMFILE);
	/* room for the pidfd, and none for the look at the start time */
	none.rlim_cur = (rlim_t)dup(0) + 1;
	(void)close((int)none.rlim_cur - 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = pidref_open(getpid(), 1, &ref);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(r, -EMFILE);
	assert_int_equal(ref.fd, -1);
	assert_int_equal(scratch_count_fds(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open_and_signal),
		cmocka_unit_test(test_what_is_no_process),
		cmocka_unit_test(test_thread),
		cmocka_unit_test(test_false_start_time),
		cmocka_unit_test(test_reused_pid),
		cmocka_unit_test(test_no_descriptors_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
