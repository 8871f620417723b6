/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Access control for libpmix. It listens at a port of the loopback address, which every user
 * of the machine can reach, and believes what a client claims of its user; its host can't decide
 * (the member `listener` of pmix_server_module_t is not heeded by any version served). So each
 * connection that libpmix accepts is checked before libpmix gets it: accept() in libpmix is ours.
 *
 * - The user is the one that the kernel has for the other end (stepd/base/peer.h): the step's
 *   owner, or root as a tool. A tool's claim must agree with it.
 * - A rank is one process: while it is connected, another process that claims to be it is refused.
 *   The same process may connect again (two copies of libpmix in one program), and another once the
 *   first has finalized or ended (two programs of one task, one after the other).
 *
 * A client that is refused reads nothing but the end of the connection. The step's log names it.
 */
#ifndef MPI_PMIX_ADMIT_H
#define MPI_PMIX_ADMIT_H

#include "mpi/serve/serve.h"

struct ev_loop;

/* Before libpmix listens. One a process: libpmix passes nothing of ours to accept(). */
int admit_open(struct ev_loop *loop, struct serve *serve, struct err *err) _must_check_;

/* An environment entry of a task: one of them has the address of libpmix's listener. */
void admit_learn_uri(const char *entry);

/* Once that is known: connects, and fails unless the connection came through the check. */
int admit_prove(struct err *err) _must_check_;

/* Whether fd is a connection that libpmix has accepted. */
bool admit_has_accepted(int fd);

/* Nothing is logged any more. Connections to a libpmix that is still there are checked as ever. */
void admit_close(void);

#endif
