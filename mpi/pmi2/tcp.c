/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/pmi2/tcp.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "mpi/pmi2/service.h"
#include "mpi/serve/peer.h"
#include "mpi/wire/listener.h"

#define HELLO_MAX    128u
#define CALLERS_MAX  1024u /* not identified yet */
#define CALL_LIMIT_S 30.0
#define REFUSALS_MAX 64u

/* A connection that has not sent its PMI_ID yet. */
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
	int fd, diag_fd;
	struct wire_listener listener;
	struct sockaddr_in address;
	char port[32];
	TAILQ_HEAD(caller_list, caller) callers;
	uint32_t callers_count;
	unsigned refusals;
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

/* ---- access --------------------------------------------------------------------------------- */

/* Everybody on the node may connect: they must not fill the log. */
static void report_refusal(struct tcp *tcp, const char *text)
{
	if (tcp->refusals > REFUSALS_MAX)
		return;
	serve_log(tcp->service->serve, LOG_LEVEL_WARNING, "PMI: a connection %s%s", text,
		tcp->refusals == REFUSALS_MAX ? "; no more of them are reported" : "");
	tcp->refusals++;
}

static bool is_own_user(struct tcp *tcp, int fd)
{
	struct err err = ERR_INIT;
	char text[300];
	struct peer peer;

	if (peer_find(tcp->diag_fd, fd, &peer, &err) < 0) {
		(void)snprintf(text, sizeof(text), "is refused: %.280s", err.text);
		report_refusal(tcp, text);
		return false;
	}
	if (peer.uid != geteuid()) {
		(void)snprintf(text, sizeof(text), "of user %u is refused", (unsigned)peer.uid);
		report_refusal(tcp, text);
		return false;
	}
	return true;
}

int tcp_admit(struct tcp *tcp, struct pmi_task *task, char id[TCP_ID_SIZE])
{
	struct pmi *pmi = tcp->service->pmi;
	uint32_t number;
	ssize_t n;

	do {
		n = getrandom(&number, sizeof(number), 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		number &= INT32_MAX;
	} while (n != sizeof(number) || number == 0 || pmi_find_by_secret(pmi, number));
	task->secret = number;
	(void)snprintf(id, TCP_ID_SIZE, "%u", number);
	return 0;
}

/* ---- the first line: "cmd=initack pmiid=3" -------------------------------------------------- */

static int parse_hello(const char *hello, size_t size, uint32_t *ret_id)
{
	static const char begin[] = "cmd=initack pmiid=";
	const char *end = memchr(hello, '\n', size);
	struct slice id = {hello + sizeof(begin) - 1, 0};
	int64_t number;

	if (!end || size < sizeof(begin) || memcmp(hello, begin, sizeof(begin) - 1) != 0)
		return -EBADMSG;
	while (id.data + id.size < end && id.data[id.size] != ' ')
		id.size++;
	if (slice_parse_int(id, 1, INT32_MAX, &number) < 0)
		return -EBADMSG;
	*ret_id = (uint32_t)number;
	return 0;
}

static void introduce(struct caller *c)
{
	struct service *s = c->tcp->service;
	struct pmi_task *task = NULL;
	uint32_t id;

	if (parse_hello(c->hello, c->size, &id) == 0)
		task = pmi_find_by_secret(s->pmi, id);
	if (!task || task->endpoint) {
		report_refusal(c->tcp,
			"is refused that does not begin with the PMI_ID of a task that has none yet");
		hang_up(c);
		return;
	}
	if (endpoint_open(s, task, take_fd(&c->fd)) == 0)
		pmi_input(task, c->hello, c->size);
	hang_up(c);
}

static void on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct caller *c = io->data;
	ssize_t n;

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

static void on_limit(_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	hang_up(timer->data);
}

static void on_accepted(int accepted_fd, void *userdata)
{
	struct tcp *tcp = userdata;
	struct ev_loop *loop = tcp->service->loop;
	_cleanup_close_ int fd = accepted_fd;
	struct caller *c;
	int on = 1;

	if (fd < 0 || tcp->callers_count == CALLERS_MAX || !is_own_user(tcp, fd))
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
	int r;

	if (!tcp)
		return err_set(err, -ENOMEM, "PMI: listen on 127.0.0.1");
	*tcp = (struct tcp){.service = s, .fd = -1, .diag_fd = -1};
	TAILQ_INIT(&tcp->callers);
	wire_listener_init(&tcp->listener, s->loop, on_accepted, tcp);
	r = peer_open(&tcp->diag_fd, err);
	if (r == 0) {
		r = listen_on(tcp);
		if (r < 0)
			(void)err_set(err, r, "PMI: listen on 127.0.0.1");
	}
	if (r < 0) {
		(void)tcp_close(tcp);
		return r;
	}
	(void)snprintf(tcp->port, sizeof(tcp->port), "127.0.0.1:%u", ntohs(tcp->address.sin_port));
	wire_listener_start(&tcp->listener, tcp->fd);
	*ret_tcp = tcp;
	return 0;
}

struct tcp *tcp_close(struct tcp *tcp)
{
	if (!tcp)
		return NULL;
	while (!TAILQ_EMPTY(&tcp->callers))
		hang_up(TAILQ_FIRST(&tcp->callers));
	wire_listener_stop(&tcp->listener);
	(void)close_fd(tcp->fd);
	(void)close_fd(tcp->diag_fd);
	free(tcp);
	return NULL;
}

const char *tcp_get_port(const struct tcp *tcp)
{
	return tcp->port;
}
