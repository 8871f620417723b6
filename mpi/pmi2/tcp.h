/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI over TCP, for programs that can't use a descriptor that they inherit: tasks get PMI_PORT, an
 * address of the loopback interface, and PMI_ID, their rank in the step, which they say first. A
 * connection of another user's process is refused; among the processes of the step's own user
 * nothing is secret.
 */
#ifndef MPI_PMI2_TCP_H
#define MPI_PMI2_TCP_H

#include <stdint.h>

#include "stepd/base/err.h"

struct service;
struct tcp;

int tcp_open(struct service *s, struct tcp **ret_tcp, struct err *err) _must_check_;
struct tcp *tcp_close(struct tcp *tcp);

/* "127.0.0.1:40000" */
const char *tcp_get_port(const struct tcp *tcp);

#endif
