/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "HOST:PORT" and "[IPV6]:PORT". Names are resolved here and may take their time: before the loop
 * runs.
 */
#ifndef MPI_WIRE_ADDR_H
#define MPI_WIRE_ADDR_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "stepd/base/err.h"

/* *ret_list is for freeaddrinfo(). */
int wire_addr_resolve(
	const char *address, bool is_own, struct addrinfo **ret_list, struct err *err) _must_check_;

/* An address of that interface, of that family, with port 0. */
int wire_addr_of_interface(const char *ifname, int family, struct sockaddr_storage *ret_address,
	socklen_t *ret_size, struct err *err) _must_check_;

/* A listening socket there. */
int wire_addr_listen(const char *address, int *ret_fd, struct err *err) _must_check_;

#endif
