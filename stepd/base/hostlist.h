/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lists of nodes as Slurm writes them: "n[01-04,7],login", "rack[0-1]n[0-9]". Numbers retain the
 * width of the first one of their range; of several brackets in a name the last one counts fastest.
 */
#ifndef STEPD_BASE_HOSTLIST_H
#define STEPD_BASE_HOSTLIST_H

#include <stddef.h>

#include "stepd/base/cleanup.h"

#define HOSTLIST_NAME_MAX 255u

/* Calls add for each name, in order, until it returns a negative number, which is returned; NULL
 * only checks the text. -EINVAL: not a list; -E2BIG: more than most names. */
typedef int (*hostlist_fn)(const char *name, void *userdata);
int hostlist_each(const char *text, size_t most, hostlist_fn add, void *userdata) _must_check_;

/* The names in their order as a list: neighbours that differ in their last number share a
 * bracket. The caller frees it; NULL: no memory. */
char *hostlist_make(char *const *names, size_t n) _must_check_;

#endif
