/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/launch.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/plan.h"
#include "stepd/agent/stdio.h"

int launch_open(
	struct launch *l, struct proctrack *pt, struct stdio *io, bool hold, struct err *err)
{
	int report[2], held[2], fd;

	l->pt = pt;
	l->io = io;
	fd = proctrack_clone_fd(pt, &l->setup.plan->job, 0);
	if (fd < 0 && fd != -EOPNOTSUPP)
		return err_set(err, fd, "make the container of task 0");
	l->into = fd >= 0;
	l->next_clone_fd = fd >= 0 ? fd : -1;
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make the pipe for the tasks' reports");
	l->report_fd = report[0];
	l->setup.report_fd = report[1];
	if (fcntl(l->report_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, -errno, "make the pipe for the tasks' reports");
	if (!hold && l->into)
		return 0;
	if (pipe2(held, O_CLOEXEC) < 0)
		return err_set(err, -errno, "make the pipe that holds the tasks");
	l->setup.hold_fd = held[0];
	l->setup.hold_write_fd = l->hold_write_fd = held[1];
	return 0;
}

/* A fork that also gives a pidfd, into the cgroup of cgroup_fd unless that is -1. Not the C
 * library's fork(): it can't do either. The agent has one thread, so the child may go on using
 * what the C library holds. */
static pid_t clone_task(int cgroup_fd, int *pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
		.pidfd = (uint64_t)(uintptr_t)pidfd,
		.exit_signal = SIGCHLD,
	};

	if (cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)cgroup_fd;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* For kernels and filters without clone3(2). */
static pid_t fork_task(int *pidfd)
{
	pid_t pid = fork();

	if (pid > 0) {
		*pidfd =
			(int)syscall(SYS_pidfd_open, pid, 0); /* ours and not reaped: it is there */
		if (*pidfd >= 0)
			return pid;
		(void)kill(pid, SIGKILL); /* our own child, not reaped: no other has its pid */
		return -1;
	}
	return pid;
}

static pid_t spawn(struct launch *l, int cgroup_fd, int *pidfd)
{
	pid_t pid = -1;

	l->setup.own_signals = !l->clone3_absent;
	if (!l->clone3_absent) {
		pid = clone_task(cgroup_fd, pidfd);
		/* EINVAL: a flag that this kernel does not know */
		if (pid >= 0 || (errno != ENOSYS && errno != EINVAL && errno != EPERM))
			return pid;
		l->clone3_absent = true;
		l->setup.own_signals = false;
	}
	if (cgroup_fd >= 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return fork_task(pidfd);
}

static int next_clone_fd(struct launch *l, uint32_t local_id)
{
	if (!l->into)
		return -1;
	if (l->next_clone_fd >= 0)
		return take_fd(&l->next_clone_fd);
	return proctrack_clone_fd(l->pt, &l->setup.plan->job, local_id);
}

/* Held tasks are put where they belong by the agent: into the step's process group first, for a
 * backend that works by groups then takes them into its own. */
static int adopt_held(struct launch *l, uint32_t rank, const struct pidref *ref, struct err *err)
{
	stepd_step_rec_t *job = &l->setup.plan->job;
	int r;

	if (setpgid(ref->pid, l->group ? l->group : ref->pid) < 0)
		r = err_set(err, -errno, "put task %u into the step's process group", rank);
	else if ((r = proctrack_add(l->pt, job, ref->pid)) == -ESRCH)
		r = 0; /* it ended before it was held: its report tells why */
	else if (r < 0)
		(void)err_set(err, r, "put task %u into the step's container", rank);
	if (r < 0)
		(void)!pidref_signal(ref, SIGKILL); /* r says more */
	return r;
}

static int fork_into(struct launch *l, uint32_t local_id, const struct stdio_task *io,
	struct pidref *ret_ref, struct err *err)
{
	stepd_step_rec_t *job = &l->setup.plan->job;
	uint32_t rank = job->task[local_id].gtid;
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	_cleanup_close_ int cgroup_fd = next_clone_fd(l, local_id);
	int r;

	if (l->into && cgroup_fd < 0)
		return err_set(err, cgroup_fd, "make the container of task %u", rank);
	l->setup.group = l->into ? l->group : -1;
	ref.pid = spawn(l, cgroup_fd, &ref.fd);
	if (ref.pid == 0)
		child_main(&l->setup, local_id, io);
	if (ref.pid < 0)
		return err_set(err, -errno, "fork task %u", rank);
	job->task[local_id].pid = ref.pid;
	if (!l->into) {
		r = adopt_held(l, rank, &ref, err);
		if (r < 0)
			return r;
	}
	if (l->group == 0) /* a backend may have put the first one into a group of its own */
		l->group = l->into ? ref.pid : getpgid(ref.pid);
	*ret_ref = ref;
	ref = (struct pidref)PIDREF_INIT;
	return 0;
}

int launch_fork(struct launch *l, uint32_t local_id, struct pidref *ret_ref, struct err *err)
{
	struct stdio_task io;
	int r;

	r = stdio_task_open(l->io, local_id, &io, err);
	if (r < 0)
		return r;
	r = fork_into(l, local_id, &io, ret_ref, err);
	stdio_task_close(l->io, &io);
	return r;
}

int launch_release(struct launch *l, struct err *err)
{
	int r = 0;

	l->setup.report_fd = close_fd(l->setup.report_fd);
	l->released = true;
	/* The byte stays in the pipe: everyone who polls finds it. Our own reading end is open
	 * until then, for all tasks may have failed before. */
	if (l->hold_write_fd >= 0 && write(l->hold_write_fd, "", 1) != 1)
		r = err_set(err, -errno, "release the tasks");
	l->setup.hold_fd = close_fd(l->setup.hold_fd);
	return r;
}

void launch_close(struct launch *l)
{
	l->setup.report_fd = close_fd(l->setup.report_fd);
	l->setup.hold_fd = close_fd(l->setup.hold_fd);
	l->next_clone_fd = close_fd(l->next_clone_fd);
	l->report_fd = close_fd(l->report_fd);
	l->hold_write_fd = close_fd(l->hold_write_fd);
	l->setup.hold_write_fd = -1; /* the same one */
}
