/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "mpi/pmi2/service.h"
#include "stepd/base/fs.h"

#define HELLO_MAX      128u
#define CALLERS_MAX    1024u /* that have not said who they are */
#define CALL_LIMIT_S   30.0
#define PROC_TCP_BYTES (64u << 20)

/* A connection that has not said who it is. */
struct caller {
	TAILQ_ENTRY(caller) link;
	struct tcp *tcp;
	int fd;
	ev_io readable;
	ev_timer limit;
	char hello[HELLO_MAX];
	size_t size;
};

struct tcp {
	struct service *service;
	int fd;
	ev_io acceptable;
	struct sockaddr_in address;
	char port[32];
	TAILQ_HEAD(caller_list, caller) callers;
	uint32_t callers_count;
};

static void hang_up(struct caller *c)
{
	ev_io_stop(c->tcp->service->loop, &c->readable);
	ev_timer_stop(c->tcp->service->loop, &c->limit);
	TAILQ_REMOVE(&c->tcp->callers, c, link);
	c->tcp->callers_count--;
	c->fd = close_fd(c->fd);
	free(c);
}

/* ---- who calls ----------------------------------------------------------------------------- */

/* The kernel's table of connections has the one from the other side: its local address is the
 * caller's. TCP knows no SO_PEERCRED. -ENOENT: it is closed already. */
static int find_owner(const struct sockaddr_in *peer, const struct sockaddr_in *own, uid_t *ret_uid)
{
	_cleanup_free_ char *table = NULL;
	char wanted[64], *line, *rest = NULL;
	unsigned long uid;
	int r;

	r = fs_read(AT_FDCWD, "/proc/net/tcp", PROC_TCP_BYTES, &table, NULL);
	if (r < 0)
		return r;
	(void)snprintf(wanted, sizeof(wanted), " %08" PRIX32 ":%04X %08" PRIX32 ":%04X ",
		(uint32_t)peer->sin_addr.s_addr, ntohs(peer->sin_port),
		(uint32_t)own->sin_addr.s_addr, ntohs(own->sin_port));
	for (line = strtok_r(table, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (!strstr(line, wanted))
			continue;
		/* "sl: local remote state queues timer retransmits uid ..." */
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %lu", &uid) != 1)
			return -EBADMSG;
		*ret_uid = (uid_t)uid;
		return 0;
	}
	return -ENOENT;
}

static bool is_own_user(struct tcp *tcp, const struct sockaddr_in *peer)
{
	uid_t uid = 0;
	int r = find_owner(peer, &tcp->address, &uid);

	if (r == 0 && uid == geteuid())
		return true;
	if (r == 0)
		serve_log(tcp->service->serve, LOG_LEVEL_WARNING,
			"PMI: a connection of user %u is refused", (unsigned)uid);
	else
		serve_log(tcp->service->serve, LOG_LEVEL_WARNING,
			"PMI: a connection is refused, as whose it is can't be told: %s",
			strerror(-r));
	return false;
}

/* ---- what is said first: "cmd=initack pmiid=3" ---------------------------------------------- */

static int parse_hello(const char *hello, size_t size, uint32_t *ret_id)
{
	static const char key[] = "pmiid=";
	char line[HELLO_MAX + 1];
	const char *at;
	unsigned id;

	(void)snprintf(line, sizeof(line), "%.*s", (int)size, hello);
	at = strstr(line, key);
	if (strncmp(line, "cmd=initack ", 12) != 0 || !at ||
		sscanf(at + sizeof(key) - 1, "%9u", &id) != 1)
		return -EBADMSG;
	*ret_id = id;
	return 0;
}

static void introduce(struct caller *c)
{
	struct service *s = c->tcp->service;
	char hello[HELLO_MAX];
	size_t size = c->size;
	struct pmi_task *task = NULL;
	uint32_t id;

	memcpy(hello, c->hello, size);
	if (parse_hello(hello, size, &id) == 0)
		task = pmi_find_task(s->pmi, id);
	if (!task || pmi_get_data(task)) {
		serve_log(s->serve, LOG_LEVEL_WARNING,
			"PMI: a connection is refused that does not begin with the PMI_ID of a task "
			"that has none yet");
		hang_up(c);
		return;
	}
	if (door_open(s, task, take_fd(&c->fd)) == 0)
		pmi_feed(task, hello, size);
	hang_up(c);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int revents)
{
	struct caller *c = io->data;
	ssize_t n;

	(void)loop;
	(void)revents;
	n = recv(c->fd, c->hello + c->size, sizeof(c->hello) - c->size, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hang_up(c);
		return;
	}
	c->size += (size_t)n;
	if (memchr(c->hello, '\n', c->size) || c->size == sizeof(c->hello))
		introduce(c);
}

static void on_limit(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void)loop;
	(void)revents;
	hang_up(timer->data);
}

static void on_acceptable(struct ev_loop *loop, ev_io *io, int revents)
{
	struct tcp *tcp = io->data;
	struct sockaddr_in peer = {0};
	socklen_t size = sizeof(peer);
	_cleanup_close_ int fd = -1;
	struct caller *c;
	int on = 1;

	(void)revents;
	fd = accept4(tcp->fd, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 || tcp->callers_count == CALLERS_MAX || !is_own_user(tcp, &peer))
		return;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only slower without */
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	*c = (struct caller){.tcp = tcp, .fd = take_fd(&fd)};
	ev_io_init(&c->readable, on_readable, c->fd, EV_READ);
	ev_timer_init(&c->limit, on_limit, CALL_LIMIT_S, 0);
	c->readable.data = c->limit.data = c;
	ev_io_start(loop, &c->readable);
	ev_timer_start(loop, &c->limit);
	TAILQ_INSERT_TAIL(&tcp->callers, c, link);
	tcp->callers_count++;
}

/* ---- its life ------------------------------------------------------------------------------ */

static int listen_on(struct tcp *tcp)
{
	socklen_t size = sizeof(tcp->address);

	tcp->address.sin_family = AF_INET;
	tcp->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	tcp->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (tcp->fd < 0 || bind(tcp->fd, (struct sockaddr *)&tcp->address, size) < 0 ||
		listen(tcp->fd, SOMAXCONN) < 0 ||
		getsockname(tcp->fd, (struct sockaddr *)&tcp->address, &size) < 0)
		return -errno;
	return 0;
}

int tcp_open(struct service *s, struct tcp **ret_tcp, struct err *err)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));
	int r = -ENOMEM;

	if (tcp) {
		*tcp = (struct tcp){.service = s, .fd = -1};
		TAILQ_INIT(&tcp->callers);
		r = listen_on(tcp);
	}
	if (r < 0) {
		if (tcp)
			(void)close_fd(tcp->fd);
		free(tcp);
		return err_set(err, r, "PMI: listen on 127.0.0.1");
	}
	(void)snprintf(tcp->port, sizeof(tcp->port), "127.0.0.1:%u", ntohs(tcp->address.sin_port));
	ev_io_init(&tcp->acceptable, on_acceptable, tcp->fd, EV_READ);
	tcp->acceptable.data = tcp;
	ev_io_start(s->loop, &tcp->acceptable);
	*ret_tcp = tcp;
	return 0;
}

struct tcp *tcp_close(struct tcp *tcp)
{
	if (!tcp)
		return NULL;
	while (!TAILQ_EMPTY(&tcp->callers))
		hang_up(TAILQ_FIRST(&tcp->callers));
	ev_io_stop(tcp->service->loop, &tcp->acceptable);
	(void)close_fd(tcp->fd);
	free(tcp);
	return NULL;
}

const char *tcp_get_port(const struct tcp *tcp)
{
	return tcp->port;
}
