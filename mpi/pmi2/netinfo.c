/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI_netinfo_of_task, as Slurm's server tells it: the node's name and its addresses,
 * "(n1,(eth0,IP_V4,10.0.0.1),(eth0,IP_V6,fe80::1))".
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include "mpi/pmi2/pmi_impl.h"

static void free_addresses(struct ifaddrs **list)
{
	if (*list)
		freeifaddrs(*list);
}

static void add_address(struct bytes *b, const struct ifaddrs *address)
{
	const struct sockaddr *sa = address->ifa_addr;
	char text[INET6_ADDRSTRLEN];
	const void *raw;

	if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return;
	if (address->ifa_flags & IFF_LOOPBACK)
		return;
	raw = sa->sa_family == AF_INET ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
				       : &((const struct sockaddr_in6 *)sa)->sin6_addr;
	if (inet_ntop(sa->sa_family, raw, text, sizeof(text)))
		bytes_addf(b, ",(%s,%s,%s)", address->ifa_name,
			sa->sa_family == AF_INET ? "IP_V4" : "IP_V6", text);
}

char *netinfo_text(const char *node_name)
{
	_cleanup_(free_addresses) struct ifaddrs *list = NULL;
	_cleanup_bytes_ struct bytes text = {0};
	const struct ifaddrs *p;

	if (getifaddrs(&list) < 0)
		return NULL; /* not found */
	bytes_addf(&text, "(%.200s", node_name);
	for (p = list; p; p = p->ifa_next)
		add_address(&text, p);
	bytes_add_text(&text, ")");
	return text.failed ? NULL : slice_dup(slice_of(&text));
}
