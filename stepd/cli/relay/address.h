/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the other nodes of a step can reach this one, and which of several networks they take.
 */
#ifndef STEPD_CLI_RELAY_ADDRESS_H
#define STEPD_CLI_RELAY_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

#define ADDRESS_MAX 8u /* of one node */

/* "10.0.0.7/24" in parts. */
struct address {
	int family; /* AF_INET or AF_INET6 */
	unsigned char bytes[16];
	unsigned prefix; /* bits of the network */
};

#define ADDRESS_TEXT_SIZE (INET6_ADDRSTRLEN + 8)

/* -EINVAL: not an address. */
int address_parse(const char *text, struct address *ret_address) _must_check_;
const char *address_format(const struct address *address, char *buf, size_t size);

/* "10.0.0.7:4711" or "[fd00::7]:4711" */
const char *address_format_port(
	const struct address *address, uint16_t port, char *buf, size_t size);

/* This machine's addresses in networks, of that interface alone if ifname is not NULL: how many.
 * Without those of the loopback interface, and link-local ones. */
size_t address_list(const char *ifname, struct address list[ADDRESS_MAX]);

/* Opens a listening TCP socket at a port that the system chooses, for all addresses: the
 * descriptor, O_CLOEXEC, or -errno. */
int address_listen(uint16_t *ret_port) _must_check_;

/* Those that a node has reported. */
struct address_node {
	struct address list[ADDRESS_MAX];
	size_t count;
};

/* Chooses the address of each node for the others: that in the first network (of node 0) in which
 * every node has one, and no two the same. False: there is no such network. ret_choice has
 * nodes_count entries. */
bool address_choose(const struct address_node *nodes, size_t nodes_count, size_t *ret_choice);

#endif
