/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/process/mount_namespace.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "stepd/base/fs.h"
#include "stepd/base/rawcall.h"

int mount_namespace_open(const char *path, struct err *err)
{
	_cleanup_close_ int fd = -1;

	if (geteuid() != 0)
		return err_set_text(err, -EPERM,
			"mount namespace '%s': only root's agent can have tasks enter one", path);
	/* A FIFO would wait for a writer. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "open the mount namespace '%s'", path);
	if (ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNS)
		return err_set_text(err, -EINVAL,
			"'%s' is not a mount namespace; give a file like /proc/PID/ns/mnt, or one "
			"that such a file is bound to by mount(8)",
			path);
	return take_fd(&fd);
}

int mount_namespace_enter(int fd)
{
	return (int)rawcall(SYS_setns, fd, CLONE_NEWNS);
}
