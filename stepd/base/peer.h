/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The user at the other end of a TCP connection within this machine, from the kernel: TCP knows no
 * SO_PEERCRED, and what a client claims proves nothing. The kernel's table of sockets
 * (NETLINK_SOCK_DIAG) has the socket of the other end, found by the exact addresses and ports, and
 * the user that made it.
 *
 * The answer holds for as long as the connection does. A connection of another machine or network
 * namespace has no owner here, nor has one whose other end is closed or about to: such a one stands
 * in the table as user 0 with no inode.
 */
#ifndef STEPD_BASE_PEER_H
#define STEPD_BASE_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

/* One end of a connection, as IPv6 where it is IPv4. */
struct peer_end {
	struct in6_addr address;
	in_port_t port; /* as it goes over the wire */
};

struct peer {
	struct peer_end own, other;
	uid_t uid;      /* that made the other end's socket */
	uint32_t inode; /* of that socket: "socket:[INODE]" among the descriptors of its process */
};

/* A socket for peer_find(), bound to the network namespace of the caller. The process needs
 * socket(AF_NETLINK) for this alone, later only sendto, recvfrom, getsockname, getpeername and
 * getsockopt. Two threads need one each. */
int peer_open(int *ret_diag_fd, struct err *err);

/* The other end of accepted_fd and its owner: an IPv4 or IPv6 connection, accepted in the namespace
 * of diag_fd. Reads nothing from it. -EPERM: it has no owner here, and the connection must be
 * refused, as after every other error. */
int peer_find(int diag_fd, int accepted_fd, struct peer *ret_peer, struct err *err) _must_check_;

/* Whether the other end is still open and connected. */
bool peer_is_connected(int diag_fd, const struct peer *peer);

/* Whether one process has the other ends of both among its descriptors, as far as this process may
 * see those of others: of its own user's. Reads all of /proc. */
bool peer_share_process(const struct peer *a, const struct peer *b);

#endif
