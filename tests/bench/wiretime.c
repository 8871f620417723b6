/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wiretime [-k FANOUT] [-s BYTES] [-n ROUNDS] [-a secret|none] NODES...: what a fence among the
 * service processes of that many nodes costs, each a process of its own on this machine, which
 * contributes that many bytes; beside a round over bare TCP sockets, where a process gets as many
 * bytes as a node contributes and sends back as many as the fence brings each. A line for each
 * number of nodes: medians of ROUNDS, in microseconds, and the ratio of a node's share, the fence
 * by the number of edges, to the bare round: all nodes share the processors of this machine.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "mpi/wire/net.h"

#define NODES_MAX 256u

struct bench {
	uint32_t nodes, fanout, rounds;
	size_t size;
	const char *auth;
	const char *addresses[NODES_MAX];
	char address[NODES_MAX][32];
	int listen_fd[NODES_MAX];

	/* of this process */
	uint32_t node, done;
	struct ev_loop *loop;
	struct wire *wire;
	unsigned char *bytes;
	double *took_us, began_us;
};

static double now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *n, size_t count)
{
	qsort(n, count, sizeof(*n), compare);
	return n[count / 2];
}

static int listen_here(char *address, size_t size)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 || listen(fd, 128) < 0 ||
		getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		err(1, "a listening socket");
	(void)snprintf(address, size, "127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

/* ---- the fences --------------------------------------------------------------------------- */

static void begin(struct bench *b);

static void on_done(
	void *userdata, int r, const struct wire_block *blocks, size_t count, const struct err *why)
{
	struct bench *b = userdata;

	(void)blocks;
	if (r < 0 || count != b->nodes)
		errx(1, "node %u: %s", b->node, why ? why->text : "wrong fence");
	b->took_us[b->done++] = now_us() - b->began_us;
	if (b->done < b->rounds)
		begin(b);
	else
		wire_leave(b->wire);
}

static void begin(struct bench *b)
{
	_cleanup_bitset_ struct bitset all = {.words = NULL};
	struct iovec iov = {b->bytes, b->size};
	struct err why = ERR_INIT;
	uint32_t i;

	if (bitset_init(&all, b->nodes) < 0)
		err(1, "a set");
	for (i = 0; i < b->nodes; i++)
		bitset_set(&all, i);
	b->began_us = now_us();
	if (wire_fence(b->wire, &(struct wire_set){all, 1}, &iov, 1, 60000, on_done, b, &why) < 0)
		errx(1, "%s", why.text);
}

static void on_left(void *userdata)
{
	struct bench *b = userdata;

	ev_break(b->loop, EVBREAK_ALL);
}

static void on_lost(void *userdata, uint32_t node, const struct err *why)
{
	(void)userdata;
	(void)node;
	errx(1, "%s", why->text);
}

static void run_node(struct bench *b)
{
	static const struct wire_events events = {.left = on_left, .lost = on_lost};
	stepd_step_rec_t job = {.job_id = 1, .nodeid = b->node, .nnodes = b->nodes};
	stepd_mpi_wire_t net = {.addresses = b->addresses,
		.listen_fd = b->listen_fd[b->node],
		.auth = b->auth,
		.secret = "what only this run has",
		.secret_size = 22,
		.fanout = b->fanout};
	struct wire_net_options o = {.job = &job,
		.wire = &net,
		.events = &events,
		.userdata = b,
		.connect_timeout_ms = 30000};
	struct err why = ERR_INIT;

	b->loop = ev_loop_new(EVFLAG_NOENV);
	b->bytes = calloc(1, b->size + 1);
	b->took_us = calloc(b->rounds, sizeof(*b->took_us));
	if (!b->loop || !b->bytes || !b->took_us)
		err(1, "memory");
	if (wire_net_open(b->loop, &o, &b->wire, &why) < 0)
		errx(1, "%s", why.text);
	begin(b);
	(void)ev_run(b->loop, 0);
	b->wire = wire_close(b->wire);
}

static double fences(struct bench *b)
{
	pid_t pids[NODES_MAX];
	int status;
	uint32_t i;

	b->node = b->done = 0;
	for (i = 0; i < b->nodes; i++) {
		b->listen_fd[i] = listen_here(b->address[i], sizeof(b->address[i]));
		b->addresses[i] = b->address[i];
	}
	for (i = 1; i < b->nodes; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			err(1, "fork");
		if (pids[i] == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			b->node = i;
			run_node(b);
			_exit(0);
		}
		b->listen_fd[i] = close_fd(b->listen_fd[i]);
	}
	run_node(b);
	for (i = 1; i < b->nodes; i++) {
		if (waitpid(pids[i], &status, 0) < 0 || status != 0)
			errx(1, "node %u has failed", i);
	}
	/* the first ones wait for connections */
	return median(b->took_us + b->rounds / 10, b->rounds - b->rounds / 10);
}

/* ---- bare sockets ------------------------------------------------------------------------- */

static void receive(int fd, unsigned char *bytes, size_t size)
{
	ssize_t n;

	for (; size > 0; size -= (size_t)n) {
		n = recv(fd, bytes, size < 65536 ? size : 65536, 0);
		if (n <= 0)
			_exit(0);
	}
}

static double bare(const struct bench *b)
{
	size_t down = b->size * b->nodes;
	_cleanup_free_ unsigned char *bytes = calloc(1, down + 65536);
	_cleanup_free_ double *took_us = calloc(b->rounds, sizeof(*took_us));
	char address[32];
	struct sockaddr_in a;
	socklen_t len = sizeof(a);
	int listening = listen_here(address, sizeof(address)), fd = -1, yes = 1;
	uint32_t i;
	pid_t pid;

	if (!bytes || !took_us || getsockname(listening, (struct sockaddr *)&a, &len) < 0)
		err(1, "memory");
	pid = fork();
	if (pid == 0) {
		fd = accept(listening, NULL, NULL);
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		for (;;) {
			receive(fd, bytes, b->size);
			if (send(fd, bytes, down, MSG_NOSIGNAL) < 0)
				_exit(0);
		}
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, len) < 0)
		err(1, "connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	for (i = 0; i < b->rounds; i++) {
		double began_us = now_us();

		if (send(fd, bytes, b->size, MSG_NOSIGNAL) < 0)
			err(1, "send");
		receive(fd, bytes, down);
		took_us[i] = now_us() - began_us;
	}
	(void)close_fd(fd);
	(void)close_fd(listening);
	(void)waitpid(pid, NULL, 0);
	return median(took_us, b->rounds);
}

int main(int argc, char **argv)
{
	struct bench b = {.fanout = 16, .rounds = 200, .size = 16 << 10, .auth = "secret"};
	double wire_us, bare_us;
	int option;

	while ((option = getopt(argc, argv, "k:s:n:a:")) != -1) {
		if (option == 'k')
			b.fanout = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 's')
			b.size = strtoul(optarg, NULL, 10);
		else if (option == 'n')
			b.rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'a')
			b.auth = optarg;
		else
			errx(2, "wiretime [-k FANOUT] [-s BYTES] [-n ROUNDS] [-a AUTH] NODES...");
	}
	(void)printf("fence of %zu bytes a node, fanout %u, auth %s, %u rounds\n", b.size, b.fanout,
		b.auth, b.rounds);
	for (; optind < argc; optind++) {
		b.nodes = (uint32_t)strtoul(argv[optind], NULL, 10);
		if (b.nodes < 2 || b.nodes > NODES_MAX || b.rounds < 10 || b.size == 0)
			errx(2, "2 to %u nodes, 10 rounds and a byte at least", NODES_MAX);
		(void)fflush(stdout);
		wire_us = fences(&b);
		bare_us = bare(&b);
		(void)printf(
			"%4u nodes  fence %9.0f us  bare round %9.0f us  a node's share of the fence to it %5.2f\n",
			b.nodes, wire_us, bare_us, wire_us / (b.nodes - 1) / bare_us);
	}
	return 0;
}
