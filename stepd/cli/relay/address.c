/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/relay/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

#include "stepd/base/netaddr.h"
#include "stepd/base/parse.h"

static unsigned address_bits(int family)
{
	return family == AF_INET ? 32 : 128;
}

int address_parse(const char *text, struct address *ret_address)
{
	struct address a = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};
	const char *slash = strchr(text, '/');
	char host[INET6_ADDRSTRLEN];

	if (!slash || (size_t)(slash - text) >= sizeof(host) ||
		parse_u32(slash + 1, 0, address_bits(a.family), &a.prefix) < 0)
		return -EINVAL;
	memcpy(host, text, (size_t)(slash - text));
	host[slash - text] = '\0';
	if (inet_pton(a.family, host, a.bytes) != 1)
		return -EINVAL;
	*ret_address = a;
	return 0;
}

const char *address_format(const struct address *a, char *buf, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "";

	(void)inet_ntop(a->family, a->bytes, host, sizeof(host)); /* it fits any */
	(void)snprintf(buf, size, "%s/%u", host, a->prefix);
	return buf;
}

const char *address_format_port(const struct address *a, uint16_t port, char *buf, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "";

	(void)inet_ntop(a->family, a->bytes, host, sizeof(host)); /* as above */
	(void)snprintf(buf, size, a->family == AF_INET ? "%s:%u" : "[%s]:%u", host, port);
	return buf;
}

/* ---- this machine -------------------------------------------------------------------------- */

/* The bytes of a socket's address of that family. */
static const unsigned char *get_bytes(const struct sockaddr *address, int family)
{
	return family == AF_INET
		? (const unsigned char *)&((const struct sockaddr_in *)address)->sin_addr
		: (const unsigned char *)&((const struct sockaddr_in6 *)address)->sin6_addr;
}

static bool address_of_interface(const struct ifaddrs *ifa, int family, struct address *ret_address)
{
	struct address a = {.family = family};
	unsigned i;

	if (!ifa->ifa_addr || !ifa->ifa_netmask || ifa->ifa_addr->sa_family != family ||
		!(ifa->ifa_flags & IFF_UP) || (ifa->ifa_flags & IFF_LOOPBACK))
		return false;
	for (i = 0; i < address_bits(family) / 8; i++) {
		a.bytes[i] = get_bytes(ifa->ifa_addr, family)[i];
		a.prefix += (unsigned)__builtin_popcount(get_bytes(ifa->ifa_netmask, family)[i]);
	}
	*ret_address = a;
	/* fe80::/10 is link-local */
	return family == AF_INET || a.bytes[0] != 0xfe || (a.bytes[1] & 0xc0) != 0x80;
}

size_t address_list(const char *ifname, struct address list[ADDRESS_MAX])
{
	static const int families[] = {AF_INET, AF_INET6};
	struct ifaddrs *all = NULL, *ifa;
	size_t n = 0, i;

	if (getifaddrs(&all) < 0)
		return 0;
	for (i = 0; i < ARRAY_SIZE(families); i++) {
		for (ifa = all; ifa && n < ADDRESS_MAX; ifa = ifa->ifa_next) {
			if ((!ifname || strcmp(ifname, ifa->ifa_name) == 0) &&
				address_of_interface(ifa, families[i], &list[n]))
				n++;
		}
	}
	freeifaddrs(all);
	return n;
}

static int listen_any(int family, uint16_t *ret_port)
{
	struct sockaddr_storage any = {.ss_family = (sa_family_t)family};
	char text[NETADDR_TEXT_SIZE];
	struct err err = ERR_INIT;
	uint32_t port;
	int fd = netaddr_listen(&any,
		family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in), text,
		&err);

	if (fd < 0)
		return fd;
	if (parse_u32(strrchr(text, ':') + 1, 1, UINT16_MAX, &port) < 0) {
		(void)close_fd(fd);
		return -EPROTO;
	}
	*ret_port = (uint16_t)port;
	return fd;
}

int address_listen(uint16_t *ret_port)
{
	int fd = listen_any(AF_INET6, ret_port); /* IPv4, too */

	return fd < 0 ? listen_any(AF_INET, ret_port) : fd;
}

/* ---- the choice ---------------------------------------------------------------------------- */

static bool same_network(const struct address *a, const struct address *b)
{
	unsigned whole = a->prefix / 8, rest = a->prefix % 8;

	if (a->family != b->family || a->prefix != b->prefix ||
		memcmp(a->bytes, b->bytes, whole) != 0)
		return false;
	return rest == 0 || (a->bytes[whole] ^ b->bytes[whole]) >> (8 - rest) == 0;
}

static bool find_in(const struct address_node *node, const struct address *net, size_t *ret_i)
{
	size_t i;

	for (i = 0; i < node->count; i++) {
		if (same_network(net, &node->list[i])) {
			*ret_i = i;
			return true;
		}
	}
	return false;
}

static int compare_bytes(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

/* A bridge with the same address on every machine does not reach other nodes. */
static bool are_different(const struct address_node *nodes, size_t n, const size_t *choice,
	unsigned char (*bytes)[16])
{
	size_t i;

	for (i = 0; i < n; i++)
		memcpy(bytes[i], nodes[i].list[choice[i]].bytes, 16);
	qsort(bytes, n, sizeof(*bytes), compare_bytes);
	for (i = 1; i < n && memcmp(bytes[i - 1], bytes[i], 16) != 0; i++)
		;
	return i >= n;
}

bool address_choose(const struct address_node *nodes, size_t n, size_t *ret_choice)
{
	_cleanup_free_ unsigned char(*bytes)[16] = calloc(n, sizeof(*bytes));
	size_t net, i;

	for (net = 0; bytes && net < nodes[0].count; net++) {
		for (i = 0; i < n && find_in(&nodes[i], &nodes[0].list[net], &ret_choice[i]); i++)
			;
		if (i == n && are_different(nodes, n, ret_choice, bytes))
			return true;
	}
	return false;
}
