/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "stepd/base/proc.h"
#include "stepd/base/rawcall.h"

#define STACK_BYTES 16384

/* What a child and its parent both see; where memory is not shared the child has a copy. */
struct context {
	bool cleared;
	volatile int *told; /* in memory that is always shared */
	volatile int own;   /* written by the child */
	pid_t pid;
};

static volatile int *told; /* MAP_SHARED */

enum {
	TOLD_CLEARED,
	TOLD_PID, /* whether clone3() had written the pid before the child's first instruction */
	TOLD_PARENT,
	TOLD_COUNT,
};

static void run(void *arg)
{
	struct context *context = arg;

	context->own = 42;
	context->told[TOLD_CLEARED] = context->cleared;
	context->told[TOLD_PID] = context->pid == (pid_t)rawcall(SYS_getpid);
	context->told[TOLD_PARENT] = (int)rawcall(SYS_getppid);
	(void)rawcall(SYS_exit_group, 7);
}

static int setup(void **state)
{
	(void)state;
	told = mmap(NULL, TOLD_COUNT * sizeof(*told), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return told == MAP_FAILED ? -1 : 0;
}

static void await_end(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_copy(void **state)
{
	struct clone how = {.cgroup_fd = -1};
	struct context context = {.told = told};

	(void)state;
	assert_int_equal(clone_child(&how, run, &context, &context.cleared, &context.pid), 0);
	await_end(context.pid);
	assert_int_equal(context.own, 0);
	assert_int_equal(told[TOLD_CLEARED], !how.clone3_absent);
	assert_int_equal(told[TOLD_PARENT], getpid());
}

static void test_shared(void **state)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	struct clone how = {.cgroup_fd = -1, .stack = stack, .stack_size = sizeof(stack)};
	struct context context = {.told = told};
	int saved_errno = EXDEV;

	(void)state;
#ifdef STEPD_SANITIZERS
	skip();
#endif
	errno = saved_errno;
	assert_int_equal(clone_child(&how, run, &context, &context.cleared, &context.pid),
		RAWCALL_NATIVE ? 0 : -EOPNOTSUPP);
	if (!RAWCALL_NATIVE)
		return;
	assert_int_equal(errno, saved_errno);
	await_end(context.pid);
	assert_int_equal(context.own, 42);
	assert_int_equal(told[TOLD_CLEARED], 1);
	assert_int_equal(told[TOLD_PID], 1);
}

static void test_siblings(void **state)
{
	struct clone how = {.cgroup_fd = -1, .siblings = true};
	struct context *context = mmap(
		NULL, sizeof(*context), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t between;
	int status;

	(void)state;
	assert_true(context != MAP_FAILED);
	context->told = told;
	between = fork();
	if (between == 0)
		_exit(clone_child(&how, run, context, &context->cleared, &context->pid) == 0 ? 0
											     : 1);
	assert_int_equal(waitpid(between, &status, 0), between);
	assert_int_equal(status, 0);
	await_end(context->pid); /* ours, not its */
	assert_int_equal(told[TOLD_PARENT], getpid());
	assert_int_equal(told[TOLD_PID], 1);
	(void)munmap(context, sizeof(*context));
}

static void test_without_clone3(void **state)
{
	static char stack[STACK_BYTES] __attribute__((aligned(16)));
	struct clone plain = {.cgroup_fd = -1, .clone3_absent = true};
	struct clone into = {.cgroup_fd = 0, .clone3_absent = true};
	struct clone shared = {.cgroup_fd = -1,
		.stack = stack,
		.stack_size = sizeof(stack),
		.clone3_absent = true};
	struct clone siblings = {.cgroup_fd = -1, .siblings = true, .clone3_absent = true};
	struct context context = {.told = told};

	(void)state;
	assert_int_equal(
		clone_child(&into, run, &context, &context.cleared, &context.pid), -EOPNOTSUPP);
	assert_int_equal(
		clone_child(&shared, run, &context, &context.cleared, &context.pid), -EOPNOTSUPP);
	assert_int_equal(
		clone_child(&siblings, run, &context, &context.cleared, &context.pid), -EOPNOTSUPP);
	assert_int_equal(clone_child(&plain, run, &context, &context.cleared, &context.pid), 0);
	await_end(context.pid);
	assert_int_equal(told[TOLD_CLEARED], 0);
}

static void test_bad_cgroup(void **state)
{
	struct clone how = {.cgroup_fd = STDIN_FILENO};
	struct context context = {.told = told};

	(void)state;
	/* EBADF: a descriptor, but of no cgroup; older kernels don't know the flag */
	assert_true(clone_child(&how, run, &context, &context.cleared, &context.pid) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_siblings),
		cmocka_unit_test(test_without_clone3),
		cmocka_unit_test(test_bad_cgroup),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
