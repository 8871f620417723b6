/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/clone.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/base/rawcall.h"

#define TRIAL_MS 1000 /* for a birth and an end, which take some 0.1 ms */

static void exit_child(void *unused)
{
	(void)unused;
	for (;;)
		(void)rawcall(SYS_exit_group, 0); /* no atexit, no flush */
}

/* A child that is born in the cgroup and ends at once. It shares the memory where it can have a
 * stack in it, which is a sixth of the cost of a copy. */
static int clone_child(int fd, void *stack, size_t stack_size, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = 0, /* a child that wait() without __WALL passes over */
		.cgroup = (uint64_t)fd,
	};
	long r;

	if (RAWCALL_NATIVE) {
		args.flags |= CLONE_VM;
		args.stack = (uint64_t)(uintptr_t)stack;
		args.stack_size = stack_size;
		r = rawcall_clone_onto(&args, sizeof(args), exit_child, NULL);
	} else {
		r = rawcall(SYS_clone3, &args, sizeof(args));
		if (r == 0)
			exit_child(NULL);
	}
	return r < 0 ? (int)r : 0;
}

/* Or is killed: in a group that is frozen, or below one, it does not run, but SIGKILL ends it. What
 * kills at birth would have done so by then, so a birth is possible there. */
static bool ends_in_time(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, TRIAL_MS);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		(void)syscall(
			SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0); /* not reaped: there */
	return r != 0;
}

int clone_try(int fd)
{
	_Alignas(16) char stack[1024]; /* the child's, which has ended when this returns */
	_cleanup_close_ int pidfd = -1;
	bool stood;
	siginfo_t info = {.si_pid = 0};
	sigset_t all, before;
	int r;

	/* A handler of the caller must not run in the child. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	r = clone_child(fd, stack, sizeof(stack), &pidfd);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return r == -EAGAIN || r == -ENOMEM || r == -EMFILE || r == -ENFILE ? r
										    : -EOPNOTSUPP;
	stood = !ends_in_time(pidfd);
	do
		r = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return stood || (info.si_code == CLD_EXITED && info.si_status == 0) ? 0 : -EOPNOTSUPP;
}
