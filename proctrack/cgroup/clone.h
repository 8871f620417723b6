/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a process can be born in a cgroup by clone3(CLONE_INTO_CGROUP), found out by trying.
 *
 * There is no other way to know: older kernels and some seccomp filters have no clone3, a group
 * beside or below a threaded one takes no process, and where a group above was once written to
 * cgroup.kill the child is killed at birth (seen on Linux 6.18), a history that no file shows.
 */
#ifndef PROCTRACK_CGROUP_CLONE_H
#define PROCTRACK_CGROUP_CLONE_H

#include "stepd/base/cleanup.h"

/* Lets a child that does nothing be born in the cgroup at fd, and takes its end: no SIGCHLD, and
 * no wait() of the caller sees it. 0; -EOPNOTSUPP: not here, fork and write cgroup.procs instead;
 * another -errno: it could not be tried (no memory, too many processes). */
int clone_try(int fd) _must_check_;

#endif
