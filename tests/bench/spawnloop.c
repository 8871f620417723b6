/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The floor that a launch is measured against: clone3(2), execve(2) and waitid(2) of N programs
 * in a loop, with nothing around it. spawnloop N PROGRAM [ARG...]
 */
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0, i, fd;
	struct clone_args args = {.flags = CLONE_PIDFD, .exit_signal = SIGCHLD};
	int *pidfds = calloc((size_t)n + 1, sizeof(int));
	siginfo_t info;
	long pid;

	if (n <= 0 || !pidfds) {
		fprintf(stderr, "Usage: spawnloop N PROGRAM [ARG...]\n");
		return 2;
	}
	for (i = 0; i < n; i++) {
		args.pidfd = (uint64_t)(uintptr_t)&fd;
		pid = syscall(SYS_clone3, &args, sizeof(args));
		if (pid == 0) {
			execve(argv[2], argv + 2, environ);
			_exit(127);
		}
		if (pid < 0) {
			perror("clone3");
			return 1;
		}
		pidfds[i] = fd;
	}
	for (i = 0; i < n; i++) {
		if (waitid(P_PIDFD, (id_t)pidfds[i], &info, WEXITED) < 0) {
			perror("waitid");
			return 1;
		}
	}
	return 0;
}
