/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/netaddr.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

#define BACKLOG 1024 /* a wide tree connects at once; the kernel has its own limit */

/* Preference of an address; 0: not usable. */
static unsigned get_rank(const struct ifaddrs *one, const char *ifname)
{
	const struct sockaddr_in6 *in6;
	unsigned rank = 0;

	if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) ||
		(ifname && strcmp(one->ifa_name, ifname) != 0))
		return 0;
	if (one->ifa_addr->sa_family == AF_INET)
		rank = 3;
	if (one->ifa_addr->sa_family == AF_INET6) {
		in6 = (const struct sockaddr_in6 *)(const void *)one->ifa_addr;
		rank = IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ? 1 : 2;
	}
	/* An address of a network is preferred to any of the loopback. */
	return rank && !(one->ifa_flags & IFF_LOOPBACK) ? rank + 4 : rank;
}

int netaddr_own(const char *ifname, struct sockaddr_storage *ret_address, socklen_t *ret_size,
	struct err *err)
{
	struct ifaddrs *all = NULL, *one;
	unsigned rank, best = 0;

	if (getifaddrs(&all) < 0)
		return err_set(err, -errno, "list this machine's addresses");
	for (one = all; one; one = one->ifa_next) {
		rank = get_rank(one, ifname);
		if (rank <= best)
			continue;
		best = rank;
		*ret_size = one->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
								: sizeof(struct sockaddr_in6);
		memset(ret_address, 0, sizeof(*ret_address));
		memcpy(ret_address, one->ifa_addr, *ret_size);
	}
	freeifaddrs(all);
	if (best == 0 && ifname)
		return err_set_text(err, -EADDRNOTAVAIL,
			"the network interface '%s' is not there, is down or has no address",
			ifname);
	return best ? 0
		    : err_set_text(err, -EADDRNOTAVAIL,
			      "no network interface of this machine is up and has an address");
}

int netaddr_listen(const struct sockaddr_storage *address, socklen_t size,
	char text[static NETADDR_TEXT_SIZE], struct err *err)
{
	char host[NETADDR_TEXT_SIZE - 10], port[8];
	struct sockaddr_storage bound = *address;
	_cleanup_close_ int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int off = 0, r;

	if (fd < 0)
		return err_set(err, -errno, "make a socket for the step's other nodes");
	if (address->ss_family == AF_INET6) /* of the wildcard address: IPv4, too */
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, (const struct sockaddr *)address, size) < 0 || listen(fd, BACKLOG) < 0 ||
		getsockname(fd, (struct sockaddr *)&bound, &size) < 0)
		return err_set(err, -errno, "listen for the step's other nodes");
	r = getnameinfo((const struct sockaddr *)&bound, size, host, sizeof(host), port,
		sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	if (r != 0)
		return err_set_text(err, -EADDRNOTAVAIL, "write this node's address as text: %s",
			gai_strerror(r));
	(void)snprintf(text, NETADDR_TEXT_SIZE,
		address->ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
	return take_fd(&fd);
}
