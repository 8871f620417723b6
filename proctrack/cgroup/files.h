/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of cgroupfs have in common: how they are read, and how one of a group that is gone
 * answers.
 */
#ifndef PROCTRACK_CGROUP_FILES_H
#define PROCTRACK_CGROUP_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

#define CGFILE_MAX_BYTES (1u << 20)

/* A group that went answers ENOENT to open and ENODEV to read: -ESRCH for these. */
int cgfile_gone(int r);

/* The number behind key in a text of lines "KEY N". -EBADMSG: there is no such line, and
 * *ret_n stays. */
int cgfile_get_key(const char *text, const char *key, uint64_t *ret_n);

/* The path of the open directory fd. On failure path is "?", which is enough for a sentence. */
int cgfile_get_path(int fd, char path[PATH_MAX]);

/* Whether fd is on a cgroup2 file system. */
bool cgfile_is_cgroup2(int fd);

#endif
