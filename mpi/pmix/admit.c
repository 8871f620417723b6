/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmix/admit.h"

#include <arpa/inet.h>
#include <ev.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pmix_server.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "mpi/pmix/claim.h"
#include "mpi/pmix/interpose.h"
#include "mpi/wire/listener.h"
#include "stepd/base/buffer.h"
#include "stepd/base/peer.h"

#define CLAIM_LIMIT_S  10    /* for a client's first message; libpmix waits without a limit */
#define PROOF_LIMIT_MS 10000 /* twice: within what the agent gives the service to start */
#define NOTICES_MAX    32u   /* lines of the log; then one that ends them */

/* A process that has connected as a rank. */
struct holder {
	char nspace[sizeof(((struct claim *)NULL)->nspace)];
	uint32_t rank;
	struct peer peer;
};

#define NOTICE_SIZE 480u /* from libpmix's thread to the loop, whole in one write */

struct admit {
	/* Of the thread on which libpmix accepts. */
	int diag_fd;
	struct holder *holders;
	size_t holders_count, holders_capacity;

	/* Of the loop. */
	struct ev_loop *loop;
	struct serve *serve;
	int notice_fd;
	ev_io noticed;
	unsigned notices;
	struct sockaddr_storage address; /* where libpmix listens */
	socklen_t address_size;

	/* Of both. */
	int notify_fd;
	_Atomic in_port_t proof_port; /* of admit_prove(), as it goes over the wire; 0: none */
	atomic_bool proven;
};

/* Never freed: libpmix's threads may accept until the process ends. */
static struct admit *admit;

/* ---- a rank is one process ---- */

static bool holder_is(const struct holder *h, const struct claim *claim)
{
	return h->rank == claim->rank && strcmp(h->nspace, claim->nspace) == 0;
}

static void drop_holder(struct admit *a, size_t i)
{
	a->holders[i] = a->holders[--a->holders_count];
}

static int add_holder(struct admit *a, const struct claim *claim, const struct peer *peer)
{
	struct holder *h;

	/* Entries of closed connections are reused before the table grows. */
	for (size_t i = a->holders_count; a->holders_count == a->holders_capacity && i > 0; i--) {
		if (!peer_is_connected(a->diag_fd, &a->holders[i - 1].peer))
			drop_holder(a, i - 1);
	}
	if (array_reserve(a->holders, a->holders_capacity, a->holders_count + 1) < 0)
		return -ENOMEM;
	h = &a->holders[a->holders_count++];
	*h = (struct holder){.rank = claim->rank, .peer = *peer};
	(void)snprintf(h->nspace, sizeof(h->nspace), "%s", claim->nspace);
	return 0;
}

static int take_rank(
	struct admit *a, const struct claim *claim, const struct peer *peer, struct err *err)
{
	for (size_t i = a->holders_count; i > 0; i--) {
		const struct holder *h = &a->holders[i - 1];

		if (!holder_is(h, claim))
			continue;
		if (!peer_is_connected(a->diag_fd, &h->peer))
			drop_holder(a, i - 1);
		else if (!peer_share_process(&h->peer, peer))
			return err_set_text(err, -EBUSY,
				"a second process claims to be rank %u of %s while the first is "
				"connected",
				claim->rank, claim->nspace);
	}
	return add_holder(a, claim, peer) < 0 ? err_set(err, -ENOMEM, "record a connection") : 0;
}

/* ---- identity ---- */

/* Leaves the bytes where they are, for libpmix. */
static int peek_claim(int fd, struct claim *ret_claim)
{
	struct timeval limit = {.tv_sec = CLAIM_LIMIT_S}, none = {.tv_sec = 0};
	char bytes[CLAIM_SIZE_MAX];
	ssize_t n;
	int r = -EBADMSG;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0)
		return -errno;
	n = recv(fd, bytes, CLAIM_HEADER_SIZE, MSG_PEEK | MSG_WAITALL);
	if (n == (ssize_t)CLAIM_HEADER_SIZE)
		n = recv(fd, bytes, claim_size(bytes), MSG_PEEK | MSG_WAITALL);
	if (n > 0)
		r = claim_parse(bytes, (size_t)n, ret_claim);
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none)) < 0)
		return -errno;
	return r;
}

static int check_user(const struct claim *claim, const struct peer *peer, struct err *err)
{
	if (peer->uid == 0 && geteuid() != 0 && !claim->is_tool)
		return err_set_text(err, -EPERM, "root is no rank of another user's step");
	if (claim->is_tool && claim->uid != peer->uid)
		return err_set_text(err, -EPERM, "a tool of uid %u claims to be of uid %u",
			(unsigned)peer->uid, (unsigned)claim->uid);
	return 0;
}

static int check_connection(struct admit *a, int fd, struct err *err)
{
	struct claim claim = {.is_tool = false};
	struct peer peer = {.uid = 0};
	int r = peer_find(a->diag_fd, fd, &peer, err);

	if (r < 0)
		return r;
	if (peer.uid != geteuid() && peer.uid != 0)
		return err_set_text(err, -EPERM,
			"it is of uid %u: only the step's owner and root may connect",
			(unsigned)peer.uid);
	if (peer.other.port == a->proof_port) {
		a->proven = true;
		return -ECANCELED; /* nobody reads of it */
	}
	r = peek_claim(fd, &claim);
	if (r < 0)
		return err_set(err, r, "its first message can't be parsed");
	r = check_user(&claim, &peer, err);
	return r == 0 && claim.has_proc ? take_rank(a, &claim, &peer, err) : r;
}

/* ---- instead of accept() ---- */

/* Some are lost if nobody reads them, as in a flood. */
static void notify(struct admit *a, const struct err *err)
{
	char notice[NOTICE_SIZE] = "";

	(void)snprintf(notice, sizeof(notice), "%.*s", (int)sizeof(notice) - 1, err->text);
	(void)!write(a->notify_fd, notice, sizeof(notice));
}

/* What is wrong with one connection is nothing wrong with the listener, which libpmix 5 closes
 * after most errors. */
static bool is_of_connection(int error)
{
	return error != EBADF && error != EINVAL && error != ENOTSOCK;
}

/* The connection waits in the queue until there is something again. libpmix would call at once,
 * without end, or, given the error of the shortage, never again. Its thread does nothing but
 * accept. */
static void wait_for_resources(void)
{
	(void)poll(NULL, 0, WIRE_LISTENER_PAUSE_MS); /* cut short it is tried earlier */
}

/* Without a connection that is admitted libpmix waits for the next, in all versions after EAGAIN.
 */
static int admit_accept(int listen_fd, struct sockaddr *address, socklen_t *size)
{
	_cleanup_close_ int fd = accept4(listen_fd, address, size, SOCK_CLOEXEC);
	struct err err = ERR_INIT;
	int r;

	if (fd < 0) {
		r = errno;
		if (wire_listener_is_shortage(r))
			wait_for_resources();
		errno = is_of_connection(r) ? EAGAIN : r;
		return -1;
	}
	r = admit ? check_connection(admit, fd, &err) : -EPERM;
	if (r == 0)
		return take_fd(&fd);
	if (admit && err.code)
		notify(admit, &err);
	fd = close_fd(fd);
	errno = EAGAIN;
	return -1;
}

static void on_notice(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct admit *a = io->data;
	char notice[NOTICE_SIZE];

	while (read(a->notice_fd, notice, sizeof(notice)) == (ssize_t)sizeof(notice)) {
		if (a->notices > NOTICES_MAX)
			continue;
		if (a->notices++ == NOTICES_MAX)
			serve_log(a->serve, LOG_LEVEL_WARNING,
				"further refused connections to the PMIx server are not logged");
		else
			serve_log(a->serve, LOG_LEVEL_WARNING,
				"a connection to the PMIx server is refused: %s", notice);
	}
}

/* ---- the proof ---- */

/* "PMIX_SERVER_URI41=NSPACE.RANK;tcp4://127.0.0.1:34567", or "tcp6://::1:34567" */
void admit_learn_uri(const char *entry)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&admit->address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&admit->address;
	const char *host = strstr(entry, ";tcp"), *port = strrchr(entry, ':');
	char text[INET6_ADDRSTRLEN];

	if (strncmp(entry, "PMIX_SERVER_URI", 15) != 0 || !host || admit->address_size)
		return;
	host += strlen(";tcp4://");
	if (port <= host)
		return;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(port - host), host);
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
		admit->address_size = sizeof(*v4);
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
		admit->address_size = sizeof(*v6);
	}
}

static bool is_loopback(const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	return address->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					     : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static in_port_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
					     : &((struct sockaddr_in6 *)address)->sin6_port;
}

bool admit_has_accepted(int fd)
{
	struct sockaddr_storage own = {.ss_family = AF_UNSPEC}, peer;
	socklen_t own_size = sizeof(own), peer_size = sizeof(peer);

	return admit->address_size && getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
		getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
		(own.ss_family == AF_INET || own.ss_family == AF_INET6) &&
		*port_of(&own) == *port_of(&admit->address);
}

/* From a port that is known before libpmix can accept. */
static int connect_for_proof(struct admit *a)
{
	_cleanup_close_ int fd = socket(a->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static const struct timeval limit = {.tv_sec = PROOF_LIMIT_MS / 1000};
	struct sockaddr_storage own = a->address;
	socklen_t size = a->address_size;

	*port_of(&own) = 0;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
		bind(fd, (struct sockaddr *)&own, size) < 0 ||
		getsockname(fd, (struct sockaddr *)&own, &size) < 0)
		return -errno;
	a->proof_port = *port_of(&own);
	if (connect(fd, (struct sockaddr *)&a->address, a->address_size) < 0)
		return -errno;
	return take_fd(&fd);
}

/* A header that no libpmix takes, so that one that is not checked hangs up, too. */
static int await_end(int fd)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};
	char header[CLAIM_HEADER_SIZE];
	int r;

	memset(header, 0xff, sizeof(header));
	(void)send(fd, header, sizeof(header), MSG_NOSIGNAL); /* fails where it is closed already */
	do
		r = poll(&end, 1, PROOF_LIMIT_MS);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r == 0 ? -ETIMEDOUT : 0;
}

int admit_prove(struct err *err)
{
	struct admit *a = admit;
	_cleanup_close_ int fd = -1;
	int r;

	if (!a->address_size)
		return err_set_text(err, -EIO, "libpmix gives no address that it listens at");
	if (!is_loopback(&a->address))
		return err_set_text(err, -EPERM,
			"libpmix does not listen on the loopback address; see "
			"ptl_base_remote_connections and the like in pmix-mca-params.conf");
	fd = connect_for_proof(a);
	r = fd < 0 ? fd : await_end(fd);
	a->proof_port = 0;
	if (r < 0)
		return err_set(err, r, "try whether connections to libpmix are checked");
	if (!a->proven)
		return err_set_text(err, -EPERM,
			"connections to libpmix can't be checked for their user: the kernel module "
			"tcp_diag can't be loaded, or this libpmix accepts in another way");
	return 0;
}

/* ---- its life ---- */

int admit_open(struct ev_loop *loop, struct serve *serve, struct err *err)
{
	struct admit *a = calloc(1, sizeof(*a));
	int fds[2], r;

	if (!a)
		return err_set(err, -ENOMEM, "check connections");
	*a = (struct admit){.loop = loop, .serve = serve};
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
		r = -errno;
		free(a);
		return err_set(err, r, "check connections");
	}
	a->notice_fd = fds[0];
	a->notify_fd = fds[1];
	r = peer_open(&a->diag_fd, err);
	if (r == 0) {
		admit = a; /* with its pipe, for as long as the process lives */
		ev_io_init(&a->noticed, on_notice, a->notice_fd, EV_READ);
		a->noticed.data = a;
		ev_io_start(loop, &a->noticed);
		return interpose((const void *)(uintptr_t)PMIx_server_init, "accept",
			(void *)(uintptr_t)admit_accept, err);
	}
	(void)close_fd(fds[0]);
	(void)close_fd(fds[1]);
	free(a);
	return r;
}

void admit_close(void)
{
	if (admit)
		ev_io_stop(admit->loop, &admit->noticed);
}
