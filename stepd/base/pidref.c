/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/pidref.h"

#include <sys/syscall.h>

#include "stepd/base/procstat.h"

/* glibc has these wrappers since 2.36; the kernel since 5.3 and 5.1. */
static int sys_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int sys_pidfd_send_signal(int fd, int signal)
{
	return (int)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
}

int pidref_open(pid_t pid, uint64_t start_ticks, struct pidref *ret_ref)
{
	_cleanup_close_ int fd = -1;
	struct procstat st;
	int r;

	if (pid <= 0)
		return -ESRCH;
	fd = sys_pidfd_open(pid);
	if (fd < 0)
		/* a thread's id is EINVAL, and ENOENT in later kernels (6.18 for one) */
		return errno == EINVAL || errno == ENOENT ? -ESRCH : -errno;
	if (start_ticks) {
		/* The pidfd is open: if the start time fits now, it is of this process. */
		r = procstat_read(pid, &st);
		if (r < 0)
			return r;
		if (st.start_ticks != start_ticks)
			return -ESRCH;
	}
	*ret_ref = (struct pidref){.pid = pid, .fd = take_fd(&fd), .start_ticks = start_ticks};
	return 0;
}

int pidref_signal(const struct pidref *ref, int signal)
{
	if (ref->fd < 0)
		return -EINVAL;
	return sys_pidfd_send_signal(ref->fd, signal) < 0 ? -errno : 0;
}

int pidref_signal_pid(pid_t pid, uint64_t start_ticks, int signal)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	int r = pidref_open(pid, start_ticks, &ref);

	return r < 0 ? r : pidref_signal(&ref, signal);
}

void pidref_close(struct pidref *ref)
{
	ref->fd = close_fd(ref->fd);
	ref->pid = 0;
	ref->start_ticks = 0;
}
