/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A mount namespace that somebody else has made for a step, such as one with a /tmp of its own:
 * its tasks enter it before they become the user.
 */
#ifndef STEPD_PROCESS_MOUNT_NAMESPACE_H
#define STEPD_PROCESS_MOUNT_NAMESPACE_H

#include "stepd/base/err.h"

/* Opens the namespace that path stands for: a file of /proc/PID/ns, or one that it is bound to. A
 * descriptor, or -errno: -EPERM where this process is not root's, -EINVAL for another file. */
int mount_namespace_open(const char *path, struct err *err) _must_check_;

/* In a process with one thread, which has CAP_SYS_ADMIN and CAP_SYS_CHROOT: its root and its
 * directory are those of the namespace then. 0 or -errno; makes system calls only, setns(2). */
int mount_namespace_enter(int fd) _must_check_;

#endif
