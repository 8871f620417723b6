/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The confinement of an MPI service process once it has begun: it parses what tasks and other
 * nodes write, so an attacker who takes it over finds a process without capabilities, in any set,
 * that can't get one, and with a filter of system calls (seccomp(2), Linux 3.5) that lets through
 * what a server of PMI needs. It may make threads, no processes.
 *
 * The filter is made by libseccomp when stepd is built (mpi/confine_filter.c): made at each start
 * it would cost 2 ms. What it refuses fails with an errno and is reported over the link, once for
 * each system call; what no server does by accident (execve(2), ptrace(2), mount(2)) kills the
 * process.
 */
#ifndef MPI_CONFINE_H
#define MPI_CONFINE_H

#include <stdbool.h>

#include "stepd/base/cleanup.h"

/* Whether this build has a filter (configure --without-libseccomp). */
bool confine_has_filter(void);

/* While the process still has the right to it: gives up the bounding set and locks the securebits.
 * What it lacks the privilege for is left as it is: then it can't use it either (no_new_privs). */
int confine_drop_bounds(void) _must_check_;

/* Once it has its identity: gives up all capabilities. */
int confine_drop_capabilities(void) _must_check_;

/* The filter, for all threads that the process will have, and for good. What is refused is reported
 * on link_fd. no_new_privs is set. 0; -EOPNOTSUPP: this build or this kernel has none. */
int confine_filter(int link_fd) _must_check_;

#endif
