/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pids of another pid namespace, as pids of this one. A process has a pid in its own namespace and
 * in each above it (pid_namespaces(7)). Found are those whose namespace the caller may read,
 * proc_pid_ns(5): as root, all.
 */
#ifndef STEPD_CLI_CTL_NAMESPACE_H
#define STEPD_CLI_CTL_NAMESPACE_H

#include <sys/types.h>

#include "stepd/base/err.h"

/* The value of "--namespace": the inode of a pid namespace, or a pid, whose namespace it is. Inodes
 * of namespaces are larger than any pid. */
int namespace_parse(const char *text, ino_t *ret_inode, struct err *err) _must_check_;

/* Calls fn for each process that has a number there, with it and its pid here, until it returns
 * other than 0, which is handed on. */
typedef int (*namespace_fn)(pid_t number, pid_t pid, void *userdata);
int namespace_each(ino_t inode, namespace_fn fn, void *userdata, struct err *err) _must_check_;

#endif
