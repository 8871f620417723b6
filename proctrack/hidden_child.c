/* SPDX-License-Identifier: BSD-3-Clause */
#include "proctrack/hidden_child.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef P_PIDFD /* glibc has it since 2.36 */
#define P_PIDFD 3
#endif

pid_t hidden_child_start(hidden_child_fn run, void *userdata, int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd};
	sigset_t all, saved;
	long pid;

	(void)sigfillset(&all); /* can't fail */
	if (sigprocmask(SIG_SETMASK, &all, &saved) < 0)
		return -errno;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0)
		run(userdata);
	if (pid < 0)
		pid = -errno;
	(void)sigprocmask(SIG_SETMASK, &saved, NULL); /* as good as the first time */
	if (pid > 0)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}

int hidden_child_wait(int pidfd, int options, siginfo_t *ret_info)
{
	int r;

	do
		r = waitid(P_PIDFD, (id_t)pidfd, ret_info, WEXITED | __WALL | options);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

void hidden_child_reap(int pidfd)
{
	siginfo_t info;

	(void)!hidden_child_wait(pidfd, 0, &info); /* ours: nothing to fail */
	(void)close_fd(pidfd);
}
