/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Points at which a test can have the agent killed, or something in it fail: the name of each is
 * what has just been done, or is about to be. Only a program built with STEPD_FAILPOINTS has
 * them, tests/lib/stepd-failpoints.
 */
#ifndef STEPD_BASE_FAILPOINT_H
#define STEPD_BASE_FAILPOINT_H

#include <stdbool.h>

#ifdef STEPD_FAILPOINTS
/* Ends this process by SIGKILL if STEPD_FAILPOINT is name, or name:N at the N-th time. */
void failpoint(const char *name);

/* Whether the next operation is to fail: if STEPD_FAILPOINT is name. */
bool failpoint_breaks(const char *name);
#else
#define failpoint(name)        ((void)0)
#define failpoint_breaks(name) false
#endif

#endif
