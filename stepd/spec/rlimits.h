/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Resource limits by name: those of setrlimit(2) in lower case without "RLIMIT_" ("nofile").
 */
#ifndef STEPD_SPEC_RLIMITS_H
#define STEPD_SPEC_RLIMITS_H

#include <stddef.h>

/* The RLIMIT_ number of that name in lower case, or -EINVAL. */
int rlimits_parse(const char *name);

/* The name of an RLIMIT_ number, or NULL. */
const char *rlimits_name(int resource);

/* All names, separated by ", ", into text, which is returned: for messages and help. */
const char *rlimits_list(char *text, size_t size);

#define RLIMITS_LIST_SIZE 256

#endif
