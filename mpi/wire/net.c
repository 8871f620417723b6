/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/net.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "mpi/wire/net_impl.h"

/* ---- addresses ------------------------------------------------------------------------------ */

/* Splits it into host and port, which stand in text. */
static int addr_split(
	const char *address, char *text, size_t size, char **ret_host, char **ret_port)
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

	if (addr_split(address, text, sizeof(text), &host, &port) < 0)
		return err_set_text(err, -EINVAL,
			"'%s' is no address of a node: it is HOST:PORT or [IPV6]:PORT", address);
	r = getaddrinfo(host, port, &hints, ret_list);
	if (r == EAI_NONAME) {
		hints.ai_flags &= ~AI_NUMERICHOST;
		r = getaddrinfo(host, port, &hints, ret_list);
	}
	if (r != 0)
		return err_set_text(err, -EHOSTUNREACH,
			"the address '%s' of a node can't be found: %s", address, gai_strerror(r));
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
		return err_set_text(err, -EADDRNOTAVAIL,
			"the network interface '%s' has no %s address: name another one", ifname,
			family == AF_INET6 ? "IPv6" : "IPv4");
	return 0;
}

static int addr_listen_at(const struct addrinfo *a)
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
		r = addr_listen_at(a);
	freeaddrinfo(list);
	if (r < 0)
		return err_set(err, r, "this node's address '%s' can't be listened on", address);
	*ret_fd = r;
	return 0;
}

/* ---- the carrier of the exchange ------------------------------------------------------------ */

static void net_wake(void *carrier, size_t edge)
{
	struct net *net = carrier;

	if (net->edge[edge].conn)
		conn_wake(net->edge[edge].conn);
}

static void net_flow(void *carrier)
{
	struct net *net = carrier;
	size_t i;

	for (i = 0; i < net->edges_count; i++) {
		if (net->edge[i].conn)
			conn_watch(net->edge[i].conn);
	}
}

static void net_on_timer(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct net_timer *t = timer->data;
	struct wire_timer *wire_timer = t->wire_timer;
	struct wire *wire = t->net->wire;

	free(t);
	wire_timer->handle = NULL;
	/* Closed or not, there is nothing left to be done here. */
	(void)!wire_link_timer(wire, wire_timer);
}

static int net_timer_start(void *carrier, struct wire_timer *timer, uint64_t timeout_ms)
{
	struct net *net = carrier;
	struct net_timer *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->net = net;
	t->wire_timer = timer;
	ev_timer_init(&t->timer, net_on_timer, 0., 0.);
	t->timer.data = t;
	/* from now, not from when the loop last read the clock */
	ev_timer_set(&t->timer,
		timeout_ms == 0 ? 0. : ev_time() - ev_now(net->loop) + (double)timeout_ms / 1000.,
		0.);
	ev_timer_start(net->loop, &t->timer);
	timer->handle = t;
	return 0;
}

static void net_timer_stop(void *carrier, struct wire_timer *timer)
{
	struct net *net = carrier;
	struct net_timer *t = timer->handle;

	ev_timer_stop(net->loop, &t->timer);
	free(t);
	timer->handle = NULL;
}

static void net_drop(void *carrier, size_t edge)
{
	struct net *net = carrier;

	net->edge[edge].is_over = true;
	net->edge[edge].conn = conn_free(net->edge[edge].conn);
}

static void net_close(void *carrier)
{
	struct net *net = carrier;
	size_t i;

	while (!TAILQ_EMPTY(&net->strangers))
		(void)conn_free(TAILQ_FIRST(&net->strangers));
	for (i = 0; i < net->edges_count; i++) {
		(void)conn_free(net->edge[i].conn);
		free(net->edge[i].why);
	}
	wire_listener_stop(&net->listener);
	ev_timer_stop(net->loop, &net->opening);
	ev_timer_stop(net->loop, &net->retry);
	(void)close_fd(net->listen_fd);
	if (net->parent)
		freeaddrinfo(net->parent);
	wire_auth_clear(&net->auth);
	free(net->ifname);
	free(net);
}

static const struct wire_carrier ops = {.wake = net_wake,
	.flow = net_flow,
	.timer_start = net_timer_start,
	.timer_stop = net_timer_stop,
	.drop = net_drop,
	.close = net_close};

/* ---- connections ---------------------------------------------------------------------------- */

static bool is_open(const struct net *net)
{
	size_t i;

	for (i = 0; i < net->edges_count; i++) {
		if (!net->edge[i].conn && !net->edge[i].is_over)
			return false;
	}
	return true;
}

static void stop_listening(struct net *net)
{
	wire_listener_stop(&net->listener);
	net->listen_fd = close_fd(net->listen_fd);
}

void net_known(struct net *net, struct conn *conn)
{
	struct net_edge *e = &net->edge[conn->edge];

	TAILQ_REMOVE(&net->strangers, conn, link);
	net->strangers_count--;
	ev_timer_stop(net->loop, &conn->greeting);
	conn->is_known = true;
	e->conn = conn;
	free(take_ptr(e->why));
	if (!is_open(net))
		return;
	/* All are here: there is nobody else to accept. */
	ev_timer_stop(net->loop, &net->opening);
	stop_listening(net);
}

/* Attempts that are still under way. */
static void stop_connecting(struct net *net)
{
	struct conn *conn, *next;

	ev_timer_stop(net->loop, &net->retry);
	for (conn = TAILQ_FIRST(&net->strangers); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn->is_ours)
			(void)conn_free(conn);
	}
}

static int edge_lost(struct net *net, size_t edge, const struct err *err)
{
	net->edge[edge].is_over = true;
	if (wire_link_is_parent(net->wire, edge))
		stop_connecting(net);
	if (is_open(net)) {
		ev_timer_stop(net->loop, &net->opening);
		stop_listening(net);
	}
	return wire_link_lost(net->wire, edge, err);
}

static void retry_later(struct net *net)
{
	ev_timer_set(&net->retry, (double)net->retry_ms / 1000., 0.);
	ev_timer_start(net->loop, &net->retry);
	net->retry_ms =
		2 * net->retry_ms < NET_RETRY_MOST_MS ? 2 * net->retry_ms : NET_RETRY_MOST_MS;
}

static void note_why(struct net *net, size_t edge, const char *why)
{
	char *copy = strdup(why);

	free(net->edge[edge].why);
	net->edge[edge].why = copy; /* without memory, without a reason */
}

void net_conn_failed(struct conn *conn, const struct err *err)
{
	struct net *net = conn->net;
	size_t edge = conn->edge;
	bool is_known = conn->is_known, is_ours = conn->is_ours;

	if (is_known) {
		net->edge[edge].conn = NULL;
		(void)conn_free(conn);
		(void)edge_lost(net, edge, err); /* after which the net may be no more */
		return;
	}
	conn_refuse(conn, err->text);
	(void)conn_free(conn);
	if (edge != SIZE_MAX && !net->edge[edge].conn)
		note_why(net, edge, err->text);
	if (is_ours && !net->edge[edge].is_over)
		retry_later(net);
}

/* ---- to the parent -------------------------------------------------------------------------- */

static int start_connect(struct net *net, const struct addrinfo *a, struct err *err)
{
	_cleanup_close_ int fd =
		socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
	struct sockaddr_storage own;
	socklen_t size;
	struct conn *conn;
	int r;

	if (fd < 0)
		return err_set(err, -errno, "a socket");
	if (net->ifname) {
		r = wire_addr_of_interface(net->ifname, a->ai_family, &own, &size, err);
		if (r < 0)
			return r;
		if (bind(fd, (struct sockaddr *)&own, size) < 0)
			return err_set(err, -errno, "the address of interface '%s'", net->ifname);
	}
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)
		return err_set(err, -errno, "it can't be connected to");
	conn = conn_new(net, take_fd(&fd), true);
	if (!conn)
		return err_set(err, -ENOMEM, "a connection");
	conn_watch(conn);
	return 0;
}

static void try_parent(struct net *net)
{
	struct err err = ERR_INIT;
	const struct addrinfo *a = net->parent_at;

	net->parent_at = a->ai_next ? a->ai_next : net->parent;
	if (start_connect(net, a, &err) == 0)
		return;
	note_why(net, 0, err.text);
	retry_later(net);
}

static void on_retry(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	try_parent(timer->data);
}

/* ---- from children -------------------------------------------------------------------------- */

/* Not the oldest: a flood would push out a child that is about to prove itself. */
static void drop_any_stranger(struct net *net)
{
	struct conn *conn, *dropped = NULL;
	struct err err = ERR_INIT;
	uint32_t at = 0, seen = 0;

	if (wire_auth_random((unsigned char *)&at, sizeof(at), &err) < 0)
		at = 0; /* the oldest, then */
	if (net->strangers_count)
		at %= net->strangers_count;
	TAILQ_FOREACH(conn, &net->strangers, link)
	{
		if (conn->is_ours)
			continue;
		dropped = conn;
		if (seen++ == at)
			break;
	}
	(void)conn_free(dropped);
}

static void on_accepted(int fd, void *userdata)
{
	struct net *net = userdata;
	struct conn *conn;

	if (fd < 0) {
		drop_any_stranger(net);
		return;
	}
	if (net->strangers_count >= NET_STRANGERS_MAX + net->edges_count)
		drop_any_stranger(net);
	conn = conn_new(net, fd, false);
	if (conn)
		conn_watch(conn);
}

/* ---- until all are there -------------------------------------------------------------------- */

static void on_opening(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	struct net *net = timer->data;
	size_t i, count = net->edges_count;
	struct err err = ERR_INIT;

	for (i = 0; i < count; i++) {
		const char *why = net->edge[i].why;

		if (net->edge[i].conn || net->edge[i].is_over)
			continue;
		(void)err_set_text(&err, -ETIMEDOUT,
			"there was no connection to it within %llu ms%s%.600s%s",
			(unsigned long long)net->connect_timeout_ms, why ? " (" : "",
			why ? why : "", why ? ")" : "");
		if (edge_lost(net, i, &err) < 0)
			return; /* the net is no more */
	}
}

/* ---- open ----------------------------------------------------------------------------------- */

static int open_listen(struct net *net, const struct wire_net_options *o, struct err *err)
{
	bool has_children = net->edges_count > (net->node > 0 ? 1u : 0u);
	int flags, r;

	if (!has_children) {
		net->listen_fd = close_fd(net->listen_fd);
		return 0;
	}
	if (net->listen_fd < 0) {
		if (!o->wire->addresses)
			return err_set_text(err, -EINVAL,
				"node %u has no socket to listen on and no address for one",
				net->node);
		r = wire_addr_listen(o->wire->addresses[net->node], &net->listen_fd, err);
		if (r < 0)
			return r;
	}
	flags = fcntl(net->listen_fd, F_GETFL);
	if (flags < 0 || fcntl(net->listen_fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		fcntl(net->listen_fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(err, -errno, "the listening socket of node %u", net->node);
	wire_listener_start(&net->listener, net->listen_fd);
	return 0;
}

static int open_parent(struct net *net, const struct wire_net_options *o, struct err *err)
{
	uint32_t parent;
	int r;

	if (net->node == 0)
		return 0;
	parent = wire_link_node(net->wire, 0);
	if (!o->wire->addresses)
		return err_set_text(err, -EINVAL, "the address of node %u is not known", parent);
	r = wire_addr_resolve(o->wire->addresses[parent], false, &net->parent, err);
	if (r < 0)
		return r;
	net->parent_at = net->parent;
	try_parent(net);
	return 0;
}

static int open_edges(struct net *net, const struct wire_net_options *o, struct err *err)
{
	int r;

	if (net->edges_count == 0) {
		net->listen_fd = close_fd(net->listen_fd);
		return 0;
	}
	r = wire_auth_init(&net->auth, o->wire->auth, o->wire->secret, o->wire->secret_size, err);
	if (r == 0 && o->wire->ifname) {
		net->ifname = strdup(o->wire->ifname);
		r = net->ifname ? 0 : err_set(err, -ENOMEM, "the wire");
	}
	if (r == 0)
		r = open_listen(net, o, err);
	if (r == 0)
		r = open_parent(net, o, err);
	if (r < 0)
		return r;
	if (net->connect_timeout_ms > 0) {
		ev_timer_set(&net->opening, (double)net->connect_timeout_ms / 1000., 0.);
		ev_timer_start(net->loop, &net->opening);
	}
	return 0;
}

static void net_init(struct net *net, struct ev_loop *loop, const struct wire_net_options *o)
{
	net->loop = loop;
	net->step = (uint64_t)o->job->job_id << 32 | o->job->step_id;
	net->node = o->job->nodeid;
	net->node_count = o->job->nnodes;
	net->connect_timeout_ms = o->connect_timeout_ms;
	net->listen_fd = o->wire ? o->wire->listen_fd : -1;
	net->retry_ms = NET_RETRY_LEAST_MS;
	TAILQ_INIT(&net->strangers);
	wire_listener_init(&net->listener, loop, on_accepted, net);
	ev_init(&net->opening, on_opening);
	ev_init(&net->retry, on_retry);
	net->opening.data = net->retry.data = net;
}

int wire_net_open(struct ev_loop *loop, const struct wire_net_options *options,
	struct wire **ret_wire, struct err *err)
{
	const stepd_step_rec_t *job = options->job;
	struct wire_link_options link = {.node = job->nodeid,
		.node_count = job->nnodes ? job->nnodes : 1,
		.fanout = options->wire ? options->wire->fanout : 0,
		.step = (uint64_t)job->job_id << 32 | job->step_id,
		.names = job->node_names,
		.events = options->events,
		.userdata = options->userdata,
		.ops = &ops};
	struct net *net;
	size_t edges = 1 + (link.fanout ? link.fanout : WIRE_FANOUT_DEFAULT); /* at most */
	int r;

	if (!options->wire && link.node_count > 1)
		return err_set_text(err, -EINVAL,
			"a step of %u nodes needs the addresses of its nodes", link.node_count);
	edges = edges < WIRE_NODES_MAX ? edges : WIRE_NODES_MAX;
	net = calloc(1, sizeof(*net) + edges * sizeof(net->edge[0]));
	if (!net)
		return err_set(err, -ENOMEM, "the wire");
	net_init(net, loop, options);
	link.carrier = net;
	r = wire_link_open(&link, &net->wire, err);
	if (r < 0) {
		net_close(net);
		return r;
	}
	net->edges_count = wire_link_edges(net->wire);
	r = open_edges(net, options, err);
	if (r < 0) {
		(void)wire_close(net->wire); /* and the net with it */
		return r;
	}
	*ret_wire = net->wire;
	return 0;
}
