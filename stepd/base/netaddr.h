/* SPDX-License-Identifier: BSD-3-Clause
 *
 * This machine's own addresses: which one others can reach it by, and a socket that listens there.
 */
#ifndef STEPD_BASE_NETADDR_H
#define STEPD_BASE_NETADDR_H

#include <sys/socket.h>

#include "stepd/base/err.h"

#define NETADDR_TEXT_SIZE 80 /* "[IPV6%ZONE]:PORT" */

/* The address by which others reach this machine: that of the interface ifname, or with NULL the
 * first one of an interface that is up, in the kernel's order; IPv4 before IPv6, loopback and
 * link-local addresses only if there is no other. */
int netaddr_own(const char *ifname, struct sockaddr_storage *ret_address, socklen_t *ret_size,
	struct err *err) _must_check_;

/* Listens there on a port that is free: the socket, or -errno. text is "HOST:PORT". */
int netaddr_listen(const struct sockaddr_storage *address, socklen_t size,
	char text[static NETADDR_TEXT_SIZE], struct err *err) _must_check_;

#endif
