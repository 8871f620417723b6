/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens paths that a user has chosen, in a process that holds more than that user has: a fresh
 * child of root's agent, or the agent itself with the user's effective ids.
 *
 * No link of /proc to an open file, a directory or a program is followed (/proc/PID/fd/N and
 * /dev/fd/N, cwd, root, exe, map_files): these lead past the permissions of the path to whatever
 * the process holds. Nor is a file of /proc opened: one of /proc/self shows the process as it was,
 * root's, whatever process reads it later. openat2(2) does it (Linux 5.6); without that the path is
 * walked here, name by name.
 *
 * All calls are rawcall()s: for a child that shares its parent's memory.
 */
#ifndef STEPD_BASE_USERPATH_H
#define STEPD_BASE_USERPATH_H

#include <sys/types.h>

/* open(2): a descriptor or -errno. -ELOOP also for a link of /proc, -EXDEV for a file of it. */
int userpath_open(const char *path, int flags, mode_t mode);

/* chdir(2). 0 or -errno; -ELOOP as above. */
int userpath_chdir(const char *path);

/* What these two codes mean, for a message; NULL for any other. */
const char *userpath_explain(int error);

#endif
