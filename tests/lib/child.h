/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests: a child process that rests until it is killed, also under a pid of choice, and
 * what /proc has of a process. For behind <cmocka.h>.
 */
#ifndef TESTS_LIB_CHILD_H
#define TESTS_LIB_CHILD_H

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/proc.h"

/* With pid 0 of any pid. -errno where the kernel refuses (set_tid takes root, Linux 5.5). */
static inline pid_t child_start(pid_t pid)
{
	struct clone_args args = {.exit_signal = SIGCHLD};
	long r;

	if (pid > 0) {
		args.set_tid = (uintptr_t)&pid;
		args.set_tid_size = 1;
	}
	r = syscall(SYS_clone3, &args, sizeof(args));
	if (r == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
		for (;;)
			pause();
	}
	return r < 0 ? -errno : (pid_t)r;
}

static inline void child_end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static inline struct procstat child_stat(pid_t pid)
{
	struct procstat st;

	assert_int_equal(procstat_read(pid, &st), 0);
	return st;
}

#endif
