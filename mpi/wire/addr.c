/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/addr.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

/* Splits it into host and port, which stand in text. */
static int split(const char *address, char *text, size_t size, char **ret_host, char **ret_port)
{
	char *colon;

	if (strlen(address) >= size)
		return -EINVAL;
	memcpy(text, address, strlen(address) + 1);
	colon = strrchr(text, ':');
	if (!colon || !colon[1] || colon == text)
		return -EINVAL;
	*colon = '\0';
	*ret_port = colon + 1;
	*ret_host = text;
	if (text[0] == '[' && colon[-1] == ']') {
		colon[-1] = '\0';
		*ret_host = text + 1;
	} else if (strchr(text, ':')) {
		return -EINVAL; /* IPv6 without brackets: where does its port begin? */
	}
	return 0;
}

int wire_addr_resolve(const char *address, bool is_own, struct addrinfo **ret_list, struct err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST | (is_own ? AI_PASSIVE : 0)};
	char text[300], *host, *port;
	int r;

	if (split(address, text, sizeof(text), &host, &port) < 0)
		return err_say(err, -EINVAL,
			"'%s' is no address of a node: it is HOST:PORT or [IPV6]:PORT", address);
	r = getaddrinfo(host, port, &hints, ret_list);
	if (r == EAI_NONAME) {
		hints.ai_flags &= ~AI_NUMERICHOST;
		r = getaddrinfo(host, port, &hints, ret_list);
	}
	if (r != 0)
		return err_say(err, -EHOSTUNREACH, "the address '%s' of a node can't be found: %s",
			address, gai_strerror(r));
	return 0;
}

int wire_addr_of_interface(const char *ifname, int family, struct sockaddr_storage *ret_address,
	socklen_t *ret_size, struct err *err)
{
	struct ifaddrs *all, *i;
	socklen_t size =
		family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (getifaddrs(&all) < 0)
		return err_set(err, -errno, "the network interfaces");
	for (i = all; i; i = i->ifa_next) {
		if (i->ifa_addr && i->ifa_addr->sa_family == family &&
			strcmp(i->ifa_name, ifname) == 0)
			break;
	}
	if (i) {
		memcpy(ret_address, i->ifa_addr, size);
		*ret_size = size;
	}
	freeifaddrs(all);
	if (!i)
		return err_say(err, -EADDRNOTAVAIL,
			"the network interface '%s' has no %s address: name another one", ifname,
			family == AF_INET6 ? "IPv6" : "IPv4");
	return 0;
}

static int listen_at(const struct addrinfo *a)
{
	_cleanup_close_ int fd =
		socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	int yes = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
		bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	return take_fd(&fd);
}

int wire_addr_listen(const char *address, int *ret_fd, struct err *err)
{
	struct addrinfo *list, *a;
	int r = wire_addr_resolve(address, true, &list, err);

	if (r < 0)
		return r;
	for (a = list, r = -EADDRNOTAVAIL; a && r < 0; a = a->ai_next)
		r = listen_at(a);
	freeaddrinfo(list);
	if (r < 0)
		return err_set(err, r, "this node's address '%s' can't be listened on", address);
	*ret_fd = r;
	return 0;
}
