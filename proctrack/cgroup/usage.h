/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The usage of a cgroup and all below it, past groups too: from the files that the kernel shows
 * in it. A file that is not there (its controller is not enabled here, the kernel is older, PSI is
 * off) leaves its values without a source.
 *
 * All files but one count what was removed below: cpu.stat, memory.* and io.stat add a group's
 * numbers to those above it before it goes. pids.events did not before Linux 6.11: it counts a
 * refused fork in the group of the process that forked, and nowhere else. There the sum over the
 * tree is taken, and usage_get_refused() has what goes with a group that is about to be removed.
 *
 * io.stat is summed over all devices, as systemd does it: what passes through a stacked device
 * (LVM, md) is counted there and in the disk below.
 */
#ifndef PROCTRACK_CGROUP_USAGE_H
#define PROCTRACK_CGROUP_USAGE_H

#include <stdbool.h>

#include "stepd/api/usage.h"
#include "stepd/base/cleanup.h"

/* The usage of the group at fd; its processes are those at members_fd, the same or a part of it.
 * -ESRCH: the group is gone. */
int usage_read(int fd, int members_fd, stepd_usage_t *ret_usage) _must_check_;

/* Whether the kernel is one of those. */
bool usage_forgets_refused(int fd);

/* Forks that pids.max refused in the group and below it. */
uint64_t usage_get_refused(int fd);

/* Takes from a file's text what is counted there. */
void usage_parse(const char *file, const char *text, stepd_usage_t *usage);

#endif
