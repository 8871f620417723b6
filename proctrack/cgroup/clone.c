/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/cgroup/clone.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define TRIAL_MS 1000 /* for a birth and an end, which take some 0.1 ms */

/* As fork(), but the child is born in the cgroup and never returns. It shares no memory, so that
 * the plain system call is safe: with CLONE_VM both would return on one stack. */
static pid_t clone_child(int fd, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = 0, /* a child that wait() without __WALL passes over */
		.cgroup = (uint64_t)fd,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0) {
		for (;;)
			(void)syscall(SYS_exit_group, 0); /* no atexit, no flush */
	}
	return pid;
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
	_cleanup_close_ int pidfd = -1;
	bool stood;
	siginfo_t info = {.si_pid = 0};
	sigset_t all, before;
	pid_t pid;
	int r, code;

	/* A handler of the caller must not run in the child. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	pid = clone_child(fd, &pidfd);
	code = errno;
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE
			? -code
			: -EOPNOTSUPP;
	stood = !ends_in_time(pidfd);
	do
		r = waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return stood || (info.si_code == CLD_EXITED && info.si_status == 0) ? 0 : -EOPNOTSUPP;
}
