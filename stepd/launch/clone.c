/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/launch/clone.h"

#include <assert.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>

#include "stepd/base/rawcall.h"

/* Not fork(), which lacks these flags. The caller has one thread, so a child with a copy of the
 * memory may use the C library. */
static int clone_task(const struct clone *how, void (*run)(void *arg), void *arg, pid_t *ret_pid)
{
	struct clone_args args = {
		.flags = CLONE_CLEAR_SIGHAND | CLONE_PARENT_SETTID,
		.parent_tid = (uint64_t)(uintptr_t)ret_pid,
		.exit_signal = how->siblings ? 0 : SIGCHLD, /* with CLONE_PARENT: the caller's */
	};
	long r;

	if (how->siblings)
		args.flags |= CLONE_PARENT;
	if (how->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)how->cgroup_fd;
	}
	if (how->stack) {
		args.flags |= CLONE_VM;
		args.stack = (uint64_t)(uintptr_t)how->stack;
		args.stack_size = how->stack_size;
		r = rawcall_clone_onto(&args, sizeof(args), run, arg);
		return r < 0 ? (int)r : 0;
	}
	r = syscall(SYS_clone3, &args, sizeof(args));
	if (r == 0)
		run(arg);
	return r < 0 ? -errno : 0;
}

static int fork_task(void (*run)(void *arg), void *arg, pid_t *ret_pid)
{
	pid_t pid = fork();

	if (pid == 0)
		run(arg);
	*ret_pid = pid;
	return pid < 0 ? -errno : 0;
}

int clone_child(struct clone *how, void (*run)(void *arg), void *arg, bool *cleared, pid_t *ret_pid)
{
	int r;

	assert(how->stack_size % 16 == 0);
	if (!how->clone3_absent) {
		*cleared = true;
		r = clone_task(how, run, arg, ret_pid);
		/* EINVAL: a flag that this kernel does not know */
		if (r != -ENOSYS && r != -EINVAL && r != -EPERM)
			return r;
		how->clone3_absent = true;
	}
	if (how->cgroup_fd >= 0 || how->stack || how->siblings)
		return -EOPNOTSUPP;
	*cleared = false;
	return fork_task(run, arg, ret_pid);
}
