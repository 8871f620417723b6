/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The names in a directory, read by the descriptor itself and a few at a time: readdir(3) takes a
 * descriptor of its own, and a thousand names before it gives the first.
 */
#ifndef STEPD_BASE_DIRNAMES_H
#define STEPD_BASE_DIRNAMES_H

#include <stdint.h>

#include "stepd/base/cleanup.h"

#define DIRNAMES_PIECE_MAX 4096

/* Calls fn for each name from where fd stands, "." and ".." too, until it returns other than 0,
 * which is handed on. type is one of DT_... of <dirent.h>. At most piece_bytes are read before
 * they are read, up to DIRNAMES_PIECE_MAX: 20 for a name and its length, in eights. -errno where
 * the directory can't be read, -EINVAL where one name takes more. */
typedef int (*dirnames_fn)(const char *name, uint8_t type, void *userdata);
int dirnames_each(int fd, size_t piece_bytes, dirnames_fn fn, void *userdata) _must_check_;

#endif
