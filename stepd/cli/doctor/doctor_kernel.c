/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/doctor/doctor.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "mpi/confine.h"
#include "stepd/base/fs.h"

/* With arguments that every kernel which has the call refuses. */
static int try_clone3(void)
{
	return syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL ? -errno : 0;
}

static int try_pidfd(void)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) < 0)
		return -errno;
	return 0;
}

/* Of no descriptor that can be open. */
static int try_close_range(void)
{
	return syscall(SYS_close_range, ~0u, ~0u, 0) < 0 ? -errno : 0;
}

static void tell_version(const struct tell *tell)
{
	struct utsname u;

	if (uname(&u) < 0)
		return; /* it can't fail */
	tell_finding(tell, STEPD_FINDING_OK, "kernel.version", u.release, NULL, "%s %s on %s",
		u.sysname, u.release, u.machine);
}

static void tell_clone3(const struct tell *tell, int r)
{
	if (r == 0)
		tell_finding(
			tell, STEPD_FINDING_OK, "kernel.clone3", NULL, NULL, "clone3 is there");
	else
		tell_finding(tell, STEPD_FINDING_WARNING, "kernel.clone3", NULL,
			"update to Linux 5.7, or allow clone3 in the seccomp filter (of the container)",
			"clone3 can't be used (%s): tasks are forked, then moved into their cgroup",
			strerror(-r));
}

static void tell_pidfd(const struct tell *tell)
{
	int r = try_pidfd();

	if (r == 0)
		tell_finding(tell, STEPD_FINDING_OK, "kernel.pidfd", NULL, NULL,
			"pidfd_open and pidfd_send_signal are there");
	else
		tell_finding(tell, STEPD_FINDING_WARNING, "kernel.pidfd", NULL,
			"update to Linux 5.4, or allow pidfd_open and pidfd_send_signal in the seccomp "
			"filter (of the container)",
			"pidfds can't be used (%s): most trackers can't signal a step's processes",
			strerror(-r));
}

static void tell_close_range(const struct tell *tell)
{
	int r = try_close_range();

	if (r == 0)
		tell_finding(tell, STEPD_FINDING_OK, "kernel.close_range", NULL, NULL,
			"close_range is there");
	else
		tell_finding(tell, STEPD_FINDING_NOTE, "kernel.close_range", NULL,
			"update to Linux 5.11 for a quicker launch",
			"close_range can't be used (%s): descriptors are marked one by one",
			strerror(-r));
}

static void tell_pressure(const struct tell *tell)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, "/proc/pressure/cpu", 1u << 16, &text, NULL);

	if (r == 0)
		tell_finding(tell, STEPD_FINDING_OK, "kernel.pressure", NULL, NULL,
			"pressure stall information is counted");
	else
		tell_finding(tell, STEPD_FINDING_NOTE, "kernel.pressure", NULL,
			"boot with psi=1 on the command line of a kernel built with CONFIG_PSI",
			"pressure stall information is not counted (%s)", strerror(-r));
}

/* With a filter that no kernel can read: one that has filters says so. */
static void tell_seccomp(const struct tell *tell)
{
	bool kernel_has = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) < 0 &&
		(errno == EFAULT || errno == EACCES);

	if (kernel_has && confine_has_filter())
		tell_finding(tell, STEPD_FINDING_OK, "kernel.seccomp", NULL, NULL,
			"a filter of system calls confines MPI service processes");
	else
		tell_finding(tell, STEPD_FINDING_NOTE, "kernel.seccomp", NULL,
			kernel_has ? "build stepd with libseccomp"
				   : "boot a kernel built with CONFIG_SECCOMP_FILTER",
			"no filter of system calls confines MPI service processes: %s",
			kernel_has ? "stepd was built without" : "the kernel has none");
}

void doctor_kernel(const struct tell *tell)
{
	tell_version(tell);
	tell_clone3(tell, try_clone3());
	tell_pidfd(tell);
	tell_close_range(tell);
	tell_pressure(tell);
	tell_seccomp(tell);
}
