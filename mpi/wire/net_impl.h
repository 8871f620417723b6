/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The inside of the way over TCP. A connection is a stranger's until its greeting has gone
 * through; then it is an edge's, and carries frames (conn.c).
 */
#ifndef MPI_WIRE_NET_IMPL_H
#define MPI_WIRE_NET_IMPL_H

#include <ev.h>
#include <netdb.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "mpi/wire/auth.h"
#include "mpi/wire/listener.h"
#include "mpi/wire/wire_link.h"

#define NET_GREETING_MS    5000u /* for a stranger to name and prove its node */
#define NET_STRANGERS_MAX  64u   /* beside the children; above it any of them is dropped */
#define NET_RETRY_LEAST_MS 20u
#define NET_RETRY_MOST_MS  1000u
#define NET_STAGING_SIZE   (32u << 10)

struct net;

/* Input: staged bytes, then a frame whose beginning has come. */
struct conn_in {
	struct wire_cipher cipher;
	uint64_t counter; /* of frames */
	unsigned char staging[NET_STAGING_SIZE];
	size_t staged, staged_at;
	bool is_paused; /* what is staged can't be taken now */
	bool has_header;
	unsigned char header_bytes[WIRE_HEADER_SIZE];
	struct wire_header header;
	struct wire_buffer *payload; /* with its tag behind it */
	size_t payload_have;
};

/* Output: a greeting, or the frame that is wire_link_next()'s. */
struct conn_out {
	struct wire_cipher cipher;
	uint64_t counter; /* of frames */
	unsigned char *hello;
	size_t hello_size;
	bool is_sending;
	bool is_blocked; /* the socket takes no more now */
	unsigned char header[WIRE_HEADER_SIZE];
	struct wire_buffer *sealed; /* its payload and tag; NULL: it goes as it is */
	size_t sent;
};

struct conn {
	TAILQ_ENTRY(conn) link; /* of net.strangers */
	struct net *net;
	int fd;
	size_t edge;   /* SIZE_MAX: not known yet */
	bool is_ours;  /* this node has connected */
	bool is_known; /* its greeting has gone through */
	ev_io io;
	ev_timer greeting; /* its end */
	struct wire_handshake handshake;
	unsigned stage; /* of the greeting: the number of the last message sent or received */
	bool is_sealed; /* both ciphers have their keys: every frame from now on */
	struct conn_in in;
	struct conn_out out;
};
TAILQ_HEAD(conns, conn);

/* The exchange stops all of its timers before it closes the net. */
struct net_timer {
	ev_timer timer;
	struct net *net;
	struct wire_timer *wire_timer;
};

struct net_edge {
	struct conn *conn; /* NULL: not there */
	bool is_over;      /* lost, or dropped by the exchange */
	char *why;         /* why the last attempt has failed */
};

struct net {
	struct ev_loop *loop;
	struct wire *wire;
	struct wire_auth auth;
	uint64_t step;
	uint32_t node, node_count;
	char *ifname;
	uint64_t connect_timeout_ms;

	int listen_fd;
	struct wire_listener listener;
	ev_timer opening; /* until all neighbours must be there */
	struct conns strangers;
	unsigned strangers_count;

	struct addrinfo *parent, *parent_at; /* where it may be; the one to try next */
	ev_timer retry;
	uint64_t retry_ms;

	size_t edges_count;
	struct net_edge edge[];
};

/* ---- conn.c */
/* Takes fd. NULL: no memory. */
struct conn *conn_new(struct net *net, int fd, bool is_ours);
struct conn *conn_free(struct conn *conn);
void conn_watch(struct conn *conn); /* for what it can do next */
void conn_wake(struct conn *conn);  /* there is something to be sent */
/* Sends a stranger why it has to go; that may get there, or not. */
void conn_refuse(struct conn *conn, const char *why);

/* ---- net.c */
/* The greeting has gone through: the edge has its connection. */
void net_known(struct net *net, struct conn *conn);
/* It is of no more use; conn is gone then, and the net may be. */
void net_conn_failed(struct conn *conn, const struct err *err);

/* Of "HOST:PORT" and "[IPV6]:PORT". Names are resolved, which may take its time: before the loop
 * runs. *ret_list is for freeaddrinfo(). */
int wire_addr_resolve(
	const char *address, bool is_own, struct addrinfo **ret_list, struct err *err) _must_check_;
/* An address of that interface, of that family, with port 0. */
int wire_addr_of_interface(const char *ifname, int family, struct sockaddr_storage *ret_address,
	socklen_t *ret_size, struct err *err) _must_check_;
/* A listening socket there. */
int wire_addr_listen(const char *address, int *ret_fd, struct err *err) _must_check_;

#endif
