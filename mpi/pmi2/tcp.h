/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI over TCP, for programs that can't use a descriptor that they inherit. Tasks get PMI_PORT, an
 * address of the loopback interface, and PMI_ID, which they send first. Any local user can connect,
 * so two things must be right: the kernel names the step's user as the owner of the other end
 * (peer.h), and the PMI_ID is that of a task without a connection. PMI_ID is no rank but a random
 * number, which only that task's environment has; clients read it as an int, so it has 31 bits.
 * Among the processes of the step's own user nothing is secret.
 */
#ifndef MPI_PMI2_TCP_H
#define MPI_PMI2_TCP_H

#include <stdint.h>

#include "stepd/base/err.h"

struct pmi_task;
struct service;
struct tcp;

#define TCP_ID_SIZE 16u

int tcp_open(struct service *s, struct tcp **ret_tcp, struct err *err) _must_check_;
struct tcp *tcp_close(struct tcp *tcp);

/* The task's PMI_ID from now on, another one than any other task has. 0 or -errno. */
int tcp_admit(struct tcp *tcp, struct pmi_task *task, char id[TCP_ID_SIZE]) _must_check_;

/* "127.0.0.1:40000" */
const char *tcp_get_port(const struct tcp *tcp);

#endif
