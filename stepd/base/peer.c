/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stepd/base/clock.h"
#include "stepd/base/fs.h"

/* An answer has some 100 bytes, and no attributes that were not requested. */
#define REPLY_MAX 4096

/* An IPv4 client may have made its socket as one of IPv6: so all addresses are compared as those.
 */
static void map_ipv4(struct in6_addr *address, const void *ipv4)
{
	*address = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&address->s6_addr[12], ipv4, 4);
}

static int end_from_sockaddr(struct peer_end *end, const struct sockaddr_storage *from)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

	*end = (struct peer_end){.port = 0};
	if (from->ss_family == AF_INET) {
		map_ipv4(&end->address, &v4->sin_addr);
		end->port = v4->sin_port;
	} else if (from->ss_family == AF_INET6) {
		end->address = v6->sin6_addr;
		end->port = v6->sin6_port;
	} else {
		return -EAFNOSUPPORT;
	}
	return 0;
}

static void end_from_diag(struct peer_end *end, uint8_t family, const __be32 *address, __be16 port)
{
	end->port = port;
	if (family == AF_INET)
		map_ipv4(&end->address, address);
	else
		memcpy(&end->address, address, sizeof(end->address));
}

static void end_to_diag(const struct peer_end *end, uint8_t family, __be32 *address, __be16 *port)
{
	*port = end->port;
	if (family == AF_INET)
		memcpy(address, &end->address.s6_addr[12], 4);
	else
		memcpy(address, &end->address, sizeof(end->address));
}

static bool end_equal(const struct peer_end *a, const struct peer_end *b)
{
	return a->port == b->port && memcmp(&a->address, &b->address, sizeof(a->address)) == 0;
}

/* ---- the conversation with the kernel ---- */

static int diag_send(
	int diag_fd, const struct peer_end *wanted, const struct peer_end *own, uint32_t seq)
{
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 query;
	} message = {
		.header = {.nlmsg_len = sizeof(message),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = seq},
		.query = {.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = 1u << TCP_ESTABLISHED,
			.id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
	};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	uint8_t family = IN6_IS_ADDR_V4MAPPED(&own->address) ? AF_INET : AF_INET6;
	struct inet_diag_sockid *id = &message.query.id;
	ssize_t n;

	message.query.sdiag_family = family;
	end_to_diag(wanted, family, id->idiag_src, &id->idiag_sport);
	end_to_diag(own, family, id->idiag_dst, &id->idiag_dport);
	do
		n = sendto(diag_fd, &message, sizeof(message), 0, (const struct sockaddr *)&kernel,
			sizeof(kernel));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* The answer is there when sendto() returns. One of an earlier question that was given up is
 * dropped, as is what comes from another process than the kernel (port 0). */
static int diag_receive(int diag_fd, uint32_t seq, struct inet_diag_msg *ret_message)
{
	for (;;) {
		_Alignas(struct nlmsghdr) char reply[REPLY_MAX];
		const struct nlmsghdr *header = (const struct nlmsghdr *)reply;
		struct sockaddr_nl from = {0};
		socklen_t from_size = sizeof(from);
		ssize_t n = recvfrom(diag_fd, reply, sizeof(reply), MSG_DONTWAIT,
			(struct sockaddr *)&from, &from_size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (from.nl_pid != 0 || !NLMSG_OK(header, (size_t)n) || header->nlmsg_seq != seq)
			continue;
		if (header->nlmsg_type == NLMSG_ERROR &&
			header->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
			return ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
		if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
			header->nlmsg_len < NLMSG_LENGTH(sizeof(*ret_message)))
			return -EBADMSG;
		memcpy(ret_message, NLMSG_DATA(header), sizeof(*ret_message));
		return 0;
	}
}

/* ---- what it means ---- */

/* Where there is no such connection, the kernel answers with a socket that listens at the port. */
static bool is_wanted(const struct inet_diag_msg *found, const struct peer_end *wanted,
	const struct peer_end *own)
{
	const struct inet_diag_sockid *id = &found->id;
	struct peer_end src = {.port = 0}, dst = {.port = 0};

	end_from_diag(&src, found->idiag_family, id->idiag_src, id->idiag_sport);
	end_from_diag(&dst, found->idiag_family, id->idiag_dst, id->idiag_dport);
	return found->idiag_state == TCP_ESTABLISHED && found->idiag_inode != 0 &&
		end_equal(&src, wanted) && end_equal(&dst, own);
}

/* If it is established now, after the question, it was all the time: then the other end can't have
 * been replaced by another user's socket with the same port before the table was read. */
static bool is_established(int fd)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
		info.tcpi_state == TCP_ESTABLISHED;
}

static int get_ends(int fd, struct peer_end *own, struct peer_end *peer)
{
	struct sockaddr_storage address = {0};
	socklen_t size = sizeof(address);
	int r;

	if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return -errno;
	r = end_from_sockaddr(own, &address);
	if (r < 0)
		return r;
	size = sizeof(address);
	if (getpeername(fd, (struct sockaddr *)&address, &size) < 0)
		return -errno;
	return end_from_sockaddr(peer, &address);
}

int peer_open(int *ret_diag_fd, struct err *err)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	if (fd < 0)
		return err_set(err, -errno,
			"open NETLINK_SOCK_DIAG, which finds the owner of a connection");
	*ret_diag_fd = fd;
	return 0;
}

/* -ENOENT: there is no such connection, or nobody has it open. */
static int find_other(int diag_fd, const struct peer_end *own, const struct peer_end *other,
	struct peer *ret_peer)
{
	struct inet_diag_msg found = {0};
	uint32_t seq = (uint32_t)clock_now_ns(); /* no number twice */
	int r = diag_send(diag_fd, other, own, seq);

	if (r == 0)
		r = diag_receive(diag_fd, seq, &found);
	if (r < 0)
		return r;
	if (!is_wanted(&found, other, own))
		return -ENOENT;
	*ret_peer = (struct peer){
		.own = *own, .other = *other, .uid = found.idiag_uid, .inode = found.idiag_inode};
	return 0;
}

int peer_find(int diag_fd, int accepted_fd, struct peer *ret_peer, struct err *err)
{
	struct peer_end own = {.port = 0}, other = {.port = 0};
	struct peer peer = {.uid = 0};
	int r = get_ends(accepted_fd, &own, &other);

	if (r < 0)
		return err_set(err, r, "a connection is gone before its owner is known");
	r = find_other(diag_fd, &own, &other, &peer);
	if (r < 0 && r != -ENOENT)
		return err_set(err, r, "find the owner of a connection (NETLINK_SOCK_DIAG)");
	if (r < 0 || !is_established(accepted_fd))
		return err_set_text(err, -EPERM,
			"a connection has no owner on this machine: it is closed, or comes from "
			"another network namespace, or the kernel module tcp_diag can't be loaded");
	*ret_peer = peer;
	return 0;
}

bool peer_is_connected(int diag_fd, const struct peer *peer)
{
	struct peer now = {.uid = 0};

	return find_other(diag_fd, &peer->own, &peer->other, &now) == 0 &&
		now.inode == peer->inode && now.uid == peer->uid;
}

/* ---- its process ---- */

static bool has_both(int proc_fd, const char *pid, const char *a, const char *b)
{
	char path[64], link[64];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	bool has_a = false, has_b = false;

	(void)snprintf(path, sizeof(path), "%.20s/fd", pid);
	dir = fs_opendir(proc_fd, path);
	while (dir && !(has_a && has_b) && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (n < 0)
			continue;
		link[n] = '\0';
		has_a |= strcmp(link, a) == 0;
		has_b |= strcmp(link, b) == 0;
	}
	return has_a && has_b;
}

bool peer_share_process(const struct peer *a, const struct peer *b)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	const struct dirent *entry;
	char name_a[32], name_b[32];

	(void)snprintf(name_a, sizeof(name_a), "socket:[%u]", a->inode);
	(void)snprintf(name_b, sizeof(name_b), "socket:[%u]", b->inode);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			has_both(dirfd(dir), entry->d_name, name_a, name_b))
			return true;
	}
	return false;
}
