/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange over TCP: how nodes find and believe each other, what strangers and liars do to it,
 * and what it does when a node dies, hangs or does not read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "mpi/wire/auth.h"
#include "mpi/wire/net_impl.h"
#include "stepd/base/munge_client.h"
#include "stepd/base/proc.h"
#include "tests/lib/scratch.h"
#include "tests/lib/wire_rig.h"

#define LIMIT_MS 30000

static bool all_ended(const struct rig *rig)
{
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		if (rig->node[i].wire && rig->node[i].ends == 0)
			return false;
	}
	return true;
}

static bool all_left(const struct rig *rig)
{
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		if (rig->node[i].wire && rig->node[i].left == 0)
			return false;
	}
	return true;
}

static bool all_lost(const struct rig *rig)
{
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		if (rig->node[i].wire && rig->node[i].lost == 0)
			return false;
	}
	return true;
}

static bool others_got_message(const struct rig *rig)
{
	uint32_t i;

	for (i = 0; i < rig->count; i++) {
		if (rig->node[i].wire && rig->node[i].messages == 0)
			return false;
	}
	return true;
}

/* Fence, message, goodbye, end: nothing is lost, and no descriptor stays. */
static void run_whole(struct rig *rig)
{
	struct iovec iov = {(void *)"hello", 5};
	struct err err = ERR_INIT;
	uint32_t i;

	for (i = 0; i < rig->count; i++)
		rig_fence(rig, i, LIMIT_MS);
	assert_true(rig_run(rig, all_ended, LIMIT_MS));
	for (i = 0; i < rig->count; i++) {
		assert_string_equal(rig->node[i].end_text, "");
		assert_int_equal(rig->node[i].good, 1);
	}
	assert_int_equal(wire_broadcast(rig->node[rig->count - 1].wire, 5, &iov, 1, &err), 0);
	assert_int_equal(wire_send(rig->node[0].wire, rig->count - 1, 5, &iov, 1, &err), 0);
	assert_true(rig_run(rig, others_got_message, LIMIT_MS));
	for (i = 0; i < rig->count; i++)
		wire_leave(rig->node[i].wire);
	assert_true(rig_run(rig, all_left, LIMIT_MS));
	for (i = 0; i < rig->count; i++)
		assert_int_equal(rig->node[i].lost, 0);
}

static void a_tree_over_tcp_fences_and_ends(void **state)
{
	static const struct {
		uint32_t count, fanout;
		const char *auth;
		size_t size;
	} cases[] = {{2, 16, "secret", 100}, {20, 3, "secret", 100}, {20, 3, "none", 0},
		{9, 2, "secret", 300000}, {9, 2, "none", 300000}, {40, 16, "secret", 1024},
		{1, 16, "secret", 10}};
	int before = scratch_count_fds();
	size_t i;
	uint32_t n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rig rig;

		assert_true(rig_open(&rig, cases[i].count, cases[i].fanout, "127.0.0.1"));
		rig.size = cases[i].size;
		for (n = 0; n < rig.count; n++)
			rig.node[n].net.auth = cases[i].auth;
		rig_start_all(&rig);
		run_whole(&rig);
		rig_close(&rig);
		assert_int_equal(scratch_count_fds(), before);
	}
}

static void addresses_may_be_ipv6(void **state)
{
	struct rig rig;

	(void)state;
	if (!rig_open(&rig, 5, 2, "::1")) {
		print_message("no IPv6 here\n");
		skip();
	}
	rig.size = 10;
	rig_start_all(&rig);
	run_whole(&rig);
	rig_close(&rig);
}

/* Without a socket, a node listens on its own address; names are looked up; an interface. */
static void a_node_may_listen_at_a_name_or_an_interface(void **state)
{
	struct rig rig;
	char *colon;
	uint32_t i;

	(void)state;
	assert_true(rig_open(&rig, 3, 2, "127.0.0.1"));
	for (i = 0; i < 3; i++) {
		rig.listen_fd[i] = close_fd(rig.listen_fd[i]);
		rig.node[i].net.listen_fd = -1;
		rig.node[i].net.ifname = "lo";
	}
	colon = strrchr(rig.address[0], ':');
	memmove(rig.address[0] + 9, colon, strlen(colon) + 1);
	memcpy(rig.address[0], "localhost", 9);
	rig_start_all(&rig);
	run_whole(&rig);
	rig_close(&rig);
}

static void options_that_can_not_work_are_refused(void **state)
{
	static const char *const addresses[] = {"127.0.0.1", "::1:5", "nosuch.invalid:5", ":7"};
	struct addrinfo *list;
	struct sockaddr_storage a;
	socklen_t size;
	struct wire_auth auth;
	struct err err = ERR_INIT;
	size_t i;
	int fd;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(addresses); i++) {
		err.text[0] = '\0';
		assert_true(wire_addr_resolve(addresses[i], false, &list, &err) < 0);
		assert_non_null(strstr(err.text, addresses[i]));
	}
	assert_int_equal(
		wire_addr_of_interface("nosuch0", AF_INET, &a, &size, &err), -EADDRNOTAVAIL);
	assert_non_null(strstr(err.text, "'nosuch0' has no IPv4 address"));
	assert_true(wire_addr_listen("192.0.2.1:7", &fd, &err) < 0);
	assert_int_equal(wire_auth_init(&auth, "secret", "short", 5, &err), -EINVAL);
	assert_int_equal(wire_auth_init(&auth, "oracle", NULL, 0, &err), -EINVAL);
	assert_string_equal(
		err.text, "nodes can't authenticate by 'oracle': it is secret, munge or none");
}

/* ---- the greeting ------------------------------------------------------------------------- */

/* Node 1 of two is not as node 0 expects; what node 0 and node 1 say of each other then. */
static void check_refused(void (*change)(struct rig_node *n), const char *why)
{
	struct rig rig;
	uint32_t i;

	assert_true(rig_open(&rig, 2, 16, "127.0.0.1"));
	rig.connect_timeout_ms = 1000;
	change(&rig.node[1]);
	rig_start_all(&rig);
	for (i = 0; i < 2; i++)
		rig_fence(&rig, i, 0);
	assert_true(rig_run(&rig, all_lost, LIMIT_MS));
	for (i = 0; i < 2; i++) {
		assert_int_equal(rig.node[i].ends, 1);
		assert_int_equal(rig.node[i].good, 0);
		assert_string_equal(rig.node[i].end_text, rig.node[i].lost_text);
	}
	assert_non_null(strstr(rig.node[0].end_text,
		"node 1 (n1) is lost: there was no connection to it within 1000 ms"));
	assert_non_null(strstr(rig.node[1].end_text,
		"node 0 (n0) is lost: there was no connection to it within 1000 ms (it refuses this"
		" node: "));
	if (!strstr(rig.node[1].end_text, why))
		fail_msg("%s", rig.node[1].end_text);
	rig_close(&rig);
}

static void other_secret(struct rig_node *n)
{
	n->net.secret = "a secret of another step";
	n->net.secret_size = 24;
}

static void other_step(struct rig_node *n)
{
	n->job.step_id = 4;
}

static void other_auth(struct rig_node *n)
{
	n->net.auth = "none";
}

static void a_child_of_another_step_or_secret_is_refused(void **state)
{
	(void)state;
	check_refused(other_secret, "it does not have the secret of this step");
	check_refused(other_step, "it is of step 77.4 and this node of step 77.0");
	check_refused(other_auth, "it authenticates by none and this node by secret");
}

/* The parent is no parent: it has another secret, and its child does not believe it either. */
static void a_false_parent_is_not_believed(void **state)
{
	struct rig rig;

	(void)state;
	assert_true(rig_open(&rig, 2, 16, "127.0.0.1"));
	rig.connect_timeout_ms = 1000;
	rig.listen_fd[0] = close_fd(rig.listen_fd[0]);
	rig_start(&rig, 1);
	rig_fence(&rig, 1, 0);
	assert_true(rig_run(&rig, all_ended, LIMIT_MS));
	assert_string_equal(rig.node[1].end_text,
		"node 0 (n0) is lost: there was no connection to it within 1000 ms (it can't be"
		" connected to: Connection refused)");
	rig_close(&rig);
}

static int connect_to(const char *address)
{
	struct addrinfo *list;
	struct err err = ERR_INIT;
	int fd;

	assert_int_equal(wire_addr_resolve(address, false, &list, &err), 0);
	fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, list->ai_addr, list->ai_addrlen), 0);
	freeaddrinfo(list);
	return fd;
}

static bool has_strangers(const struct rig *rig)
{
	(void)rig;
	return false;
}

/* Those who say nothing, rubbish, or what nobody may say; then the right one comes. */
static void strangers_do_not_disturb_a_node(void **state)
{
	unsigned char header[WIRE_HEADER_SIZE];
	struct wire_header hello = {
		.type = WIRE_HELLO, .source = 1, .step = 77ull << 32, .channel = 1};
	struct wire_header rubbish[6];
	struct rig rig;
	int fds[200];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rubbish); i++)
		rubbish[i] = hello;
	rubbish[0].source = 7;          /* no such node */
	rubbish[1].channel = 3;         /* a proof before its time */
	rubbish[2].length = 0xffffffff; /* more than anything */
	rubbish[3].length = WIRE_PROOF_MAX + 1;
	rubbish[4].type = WIRE_FENCE_UP; /* no greeting */
	rubbish[5].target = 1;
	assert_true(rig_open(&rig, 2, 16, "127.0.0.1"));
	rig_start(&rig, 0);
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = connect_to(rig.address[0]);
		if (i % 3 == 0)
			assert_int_equal(
				send(fds[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
		if (i % 3 == 1) {
			wire_header_encode(&rubbish[i / 3 % ARRAY_SIZE(rubbish)], header);
			if (i / 3 % 7 == 6)
				header[4] = WIRE_VERSION + 1;
			assert_true(send(fds[i], header, sizeof(header), MSG_NOSIGNAL) >= 0 ||
				errno == EPIPE || errno == ECONNRESET);
		}
		(void)rig_run(&rig, has_strangers, 1);
	}
	rig_start(&rig, 1);
	run_whole(&rig);
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close_fd(fds[i]);
	rig_close(&rig);
}

/* ---- somebody between --------------------------------------------------------------------- */

enum lie {
	LIE_NONE,
	LIE_CHANGE,
	LIE_HEADER,
	LIE_TAG,
	LIE_LATER,
	LIE_REPEAT,
	LIE_CUT,
	LIE_MAX
};

#define CONTRIBUTION_SIZE 50u

/* What the child sends before its first frame: two greetings, of an offer and of a proof. */
#define GREETING_SIZE (WIRE_HEADER_SIZE + 36 + WIRE_HEADER_SIZE + 32)

struct between {
	struct ev_loop *loop;
	int listen_fd, fd[2]; /* to the child, to the parent */
	ev_io listen, io[2];
	size_t passed; /* from the child */
	bool has_read; /* something of what the nodes contribute */
	enum lie lie;
	char address[80];
};

/* What rig_fence() contributes: each byte is one more than the one before. */
static bool has_contribution(const unsigned char *bytes, size_t size)
{
	size_t i, run = 1;

	for (i = 1; i < size && run < CONTRIBUTION_SIZE; i++)
		run = bytes[i] == (unsigned char)(bytes[i - 1] + 1) ? run + 1 : 1;
	return run >= CONTRIBUTION_SIZE;
}

static void pass(struct between *b, int to, unsigned char *bytes, size_t size)
{
	b->has_read |= has_contribution(bytes, size);
	if (to == 0) {
		assert_int_equal(send(b->fd[0], bytes, size, MSG_NOSIGNAL), size);
		return;
	}
	if (b->passed >= GREETING_SIZE && b->lie != LIE_NONE) {
		enum lie lie = b->lie;

		b->lie = LIE_NONE;
		if (lie == LIE_CHANGE)
			bytes[size - WIRE_TAG_SIZE - 1] ^= 1;
		if (lie == LIE_HEADER)
			bytes[24] ^= 1; /* another set */
		if (lie == LIE_TAG)
			bytes[size - 1] ^= 0x80;
		if (lie == LIE_LATER)
			bytes[40] ^= 3; /* the counter: 2 in place of 1 */
		if (lie == LIE_CUT)
			size -= 10;
		if (lie == LIE_REPEAT)
			assert_int_equal(send(b->fd[1], bytes, size, MSG_NOSIGNAL), size);
		assert_int_equal(send(b->fd[1], bytes, size, MSG_NOSIGNAL), size);
		if (lie == LIE_CUT)
			(void)shutdown(b->fd[1], SHUT_WR);
	} else {
		assert_int_equal(send(b->fd[1], bytes, size, MSG_NOSIGNAL), size);
	}
	b->passed += size;
}

static void on_pass(struct ev_loop *loop, ev_io *io, int revents)
{
	struct between *b = io->data;
	int from = io == &b->io[1];
	unsigned char bytes[4096];
	ssize_t n = recv(b->fd[from], bytes, sizeof(bytes), 0);

	(void)revents;
	if (n <= 0) {
		ev_io_stop(loop, io);
		(void)shutdown(b->fd[!from], SHUT_RDWR);
		return;
	}
	pass(b, !from, bytes, (size_t)n);
}

static void on_between(struct ev_loop *loop, ev_io *io, int revents)
{
	struct between *b = io->data;
	int i;

	(void)revents;
	ev_io_stop(loop, io);
	b->fd[0] = accept(b->listen_fd, NULL, NULL);
	b->fd[1] = connect_to(b->address);
	for (i = 0; i < 2; i++) {
		ev_io_init(&b->io[i], on_pass, b->fd[i], EV_READ);
		b->io[i].data = b;
		ev_io_start(loop, &b->io[i]);
	}
}

/* Node 1 of two reaches node 0 through it. */
static void between_open(struct between *b, struct rig *rig, const char *auth)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t size = sizeof(a);

	assert_true(rig_open(rig, 2, 16, "127.0.0.1"));
	rig->size = CONTRIBUTION_SIZE;
	rig->node[0].net.auth = rig->node[1].net.auth = auth;
	memcpy(b->address, rig->address[0], sizeof(b->address));
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	b->loop = rig->loop;
	b->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(b->listen_fd, (struct sockaddr *)&a, size), 0);
	assert_int_equal(listen(b->listen_fd, 1), 0);
	assert_int_equal(getsockname(b->listen_fd, (struct sockaddr *)&a, &size), 0);
	ev_io_init(&b->listen, on_between, b->listen_fd, EV_READ);
	b->listen.data = b;
	ev_io_start(rig->loop, &b->listen);
	(void)snprintf(rig->address[0], sizeof(rig->address[0]), "127.0.0.1:%u", ntohs(a.sin_port));
	rig_start_all(rig);
	rig_fence(rig, 0, 0);
	rig_fence(rig, 1, 0);
	assert_true(rig_run(rig, all_ended, LIMIT_MS));
}

static void between_close(struct between *b, struct rig *rig)
{
	rig_close(rig);
	(void)close_fd(b->fd[0]);
	(void)close_fd(b->fd[1]);
	(void)close_fd(b->listen_fd);
}

static void changed_frames_are_detected(void **state)
{
	static const char *const why[LIE_MAX] = {[LIE_NONE] = "",
		[LIE_CHANGE] = "a frame of it was changed on its way",
		[LIE_HEADER] = "a frame of it was changed on its way",
		[LIE_TAG] = "a frame of it was changed on its way",
		[LIE_LATER] = "it sent frame 2 after frame 0",
		[LIE_REPEAT] = "it sent frame 1 after frame 1",
		[LIE_CUT] = "it has closed the connection"};
	enum lie lie;

	(void)state;
	for (lie = LIE_NONE; lie < LIE_MAX; lie++) {
		struct rig rig;
		struct between b = {.lie = lie, .fd = {-1, -1}};

		between_open(&b, &rig, "secret");
		if (lie == LIE_NONE) {
			assert_int_equal(rig.node[0].good + rig.node[1].good, 2);
		} else if (lie == LIE_REPEAT) {
			assert_true(rig_run(&rig, all_lost, LIMIT_MS));
			assert_non_null(strstr(rig.node[0].lost_text, why[lie]));
		} else {
			assert_int_equal(rig.node[0].end_code, -EHOSTUNREACH);
			if (!strstr(rig.node[0].end_text, why[lie]))
				fail_msg("%s", rig.node[0].end_text);
			assert_non_null(strstr(rig.node[0].end_text, "node 1 (n1) is lost: "));
		}
		between_close(&b, &rig);
	}
}

/* Who reads along learns nothing of what nodes contribute, unless they trust their network. */
static void an_eavesdropper_learns_nothing_of_contributions(void **state)
{
	static const char *const ways[] = {"secret", "none"};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		struct rig rig;
		struct between b = {.fd = {-1, -1}};

		between_open(&b, &rig, ways[i]);
		assert_int_equal(rig.node[0].good + rig.node[1].good, 2);
		assert_int_equal(b.has_read, strcmp(ways[i], "none") == 0);
		between_close(&b, &rig);
	}
}

/* The greeting of a node that runs another version is refused in a sentence for its log. */
static void another_version_is_refused_with_a_reason(void **state)
{
	unsigned char bytes[WIRE_HEADER_SIZE];
	struct wire_header h = {.type = WIRE_HELLO};
	struct err err = ERR_INIT;

	(void)state;
	wire_header_encode(&h, bytes);
	bytes[4] = 1;
	assert_int_equal(wire_header_decode(bytes, &h, &err), -EPROTO);
	assert_string_equal(err.text,
		"it has version 1 of the wire and this node version 2: run the same stepd on "
		"all nodes");
}

/* ---- munge -------------------------------------------------------------------------------- */

struct munged {
	char dir[32], socket[100], key[100], pid[100];
};

static void make_key(const char *path)
{
	_cleanup_fclose_ FILE *f = fopen(path, "w");
	struct err err = ERR_INIT;
	unsigned char key[64];

	assert_non_null(f);
	assert_int_equal(wire_auth_random(key, sizeof(key), &err), 0);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	assert_int_equal(fwrite(key, 1, sizeof(key), f), sizeof(key));
	assert_int_equal(fflush(f), 0);
}

/* "--NAME=DIR/FILE", which the exec ends. */
static char *option(const char *name, const char *dir, const char *file)
{
	char *text = NULL;

	if (asprintf(&text, "--%s=%s/%s", name, dir, file) < 0)
		_exit(126);
	return text;
}

/* In a child: with nothing to read, and what it says in a file. */
static _noreturn_ void exec_munged(const char *dir)
{
	char name[] = "munged", force[] = "--force", threads[] = "--num-threads=1";
	char *argv[] = {name, force, threads, option("socket", dir, "socket"),
		option("key-file", dir, "key"), option("pid-file", dir, "pid"),
		option("seed-file", dir, "seed"), option("log-file", dir, "log"), NULL};
	int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int out = open(scratch_path(dir, "log.out"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
		dup2(out, STDERR_FILENO) < 0)
		_exit(126);
	(void)execv("/usr/sbin/munged", argv);
	_exit(127);
}

/* A munged of the test's own, with its own key: false where there is none. */
static bool munged_start(struct munged *m)
{
	int status;
	pid_t pid;

	if (access("/usr/sbin/munged", X_OK) < 0)
		return false;
	(void)snprintf(m->dir, sizeof(m->dir), "/tmp/stepd-munge.XXXXXX");
	assert_non_null(mkdtemp(m->dir));
	assert_int_equal(chmod(m->dir, 0755), 0);
	(void)snprintf(m->socket, sizeof(m->socket), "%.40s/socket", m->dir);
	(void)snprintf(m->key, sizeof(m->key), "%.40s/key", m->dir);
	(void)snprintf(m->pid, sizeof(m->pid), "%.40s/pid", m->dir);
	make_key(m->key);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		exec_munged(m->dir);
	/* it goes into the background when it listens */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		scratch_remove(m->dir);
	return status == 0;
}

static void munged_stop(struct munged *m)
{
	_cleanup_fclose_ FILE *f = fopen(m->pid, "r");
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	struct pollfd ended = {.events = POLLIN};
	int pid = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	assert_int_equal(pidref_open(pid, 0, &ref), 0);
	assert_int_equal(pidref_signal(&ref, SIGTERM), 0);
	/* it removes files of its own meanwhile */
	ended.fd = ref.fd;
	assert_int_equal(poll(&ended, 1, LIMIT_MS), 1);
	scratch_remove(m->dir);
}

static void run_munge(const char *const *methods, bool is_good)
{
	struct rig rig;
	uint32_t i;

	assert_true(rig_open(&rig, 5, 2, "127.0.0.1"));
	rig.size = 1000;
	rig.connect_timeout_ms = is_good ? LIMIT_MS : 2000;
	for (i = 0; i < rig.count; i++)
		rig.node[i].net.auth = methods[i == 4];
	rig_start_all(&rig);
	if (is_good) {
		run_whole(&rig);
	} else {
		assert_true(rig_run(&rig, all_lost, LIMIT_MS));
		assert_non_null(strstr(rig.node[4].lost_text, "munge can't read a credential: "));
		assert_non_null(strstr(rig.node[0].lost_text, "node 4 (n4) is lost: "));
	}
	rig_close(&rig);
}

static void nodes_authenticate_by_munge(void **state)
{
	struct munged m[2];
	char method[2][120];
	const char *methods[2] = {method[0], method[0]};
	struct wire_auth auth;
	struct err err = ERR_INIT;
	int i, r = wire_auth_init(&auth, "munge", NULL, 0, &err);

	(void)state;
	wire_auth_clear(&auth);
	if (r < 0) {
		print_message("%s\n", err.text);
		skip();
	}
	for (i = 0; i < 2; i++) {
		if (!munged_start(&m[i])) {
			print_message("munged can't be started here\n");
			if (i > 0)
				munged_stop(&m[0]);
			skip();
		}
		(void)snprintf(method[i], sizeof(method[i]), "munge:%s", m[i].socket);
	}
	run_munge(methods, true);
	methods[1] = method[1]; /* a node of another realm */
	run_munge(methods, false);
	for (i = 0; i < 2; i++)
		munged_stop(&m[i]);
}

/* What the command prints, as much as there is room for. */
static void read_command(const char *command, char *text, size_t size)
{
	int fds[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (dup2(fds[1], STDOUT_FILENO) >= 0)
			(void)execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	fds[1] = close_fd(fds[1]);
	while (used < size - 1 && (n = read(fds[0], text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	(void)close_fd(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The options of a credential are its maker's, and not those of the next that is made. */
static void a_credential_leaves_no_options(void **state)
{
	_cleanup_(munge_client_close_p) struct munge_client *munge = NULL;
	_cleanup_free_ char *credential = NULL;
	_cleanup_free_ void *data = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	char command[300], path[100], text[4096];
	struct err err = ERR_INIT;
	struct munged m;
	uid_t uid;
	size_t size;

	(void)state;
	if (access("/usr/bin/munge", X_OK) < 0 || !munged_start(&m))
		skip();
	if (munge_client_open(m.socket, &munge, &err) < 0) {
		munged_stop(&m);
		skip();
	}
	(void)snprintf(
		command, sizeof(command), "munge --socket=%s --string=hello --ttl=77", m.socket);
	read_command(command, text, sizeof(text));
	assert_int_equal(munge_client_decode(munge, text, false, &data, &size, &uid, &err), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(size, 5);
	assert_memory_equal(data, "hello", 5);
	assert_int_equal(munge_client_encode(munge, (uid_t)-1, "x", 1, &credential, &err), 0);
	(void)snprintf(path, sizeof(path), "%s/credential", m.dir);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(credential, f) >= 0 && fflush(f) == 0);
	(void)snprintf(command, sizeof(command),
		"unmunge --socket=%s --input=%s --output=/dev/null --keys=TTL", m.socket, path);
	read_command(command, text, sizeof(text));
	assert_non_null(strstr(text, "TTL:"));
	assert_null(strstr(text, "77"));
	munged_stop(&m);
}

/* ---- nodes in processes of their own ------------------------------------------------------ */

/* A node in another process, which does that and runs on. */
static pid_t fork_node(struct rig *rig, uint32_t node, void (*work)(struct rig *rig, uint32_t node))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)alarm(60);
		ev_loop_fork(rig->loop);
		rig_start(rig, node);
		work(rig, node);
		_exit(0);
	}
	rig->listen_fd[node] = close_fd(rig->listen_fd[node]);
	return pid;
}

static void reap(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void work_fence(struct rig *rig, uint32_t node)
{
	rig_fence(rig, node, 0);
	(void)rig_run(rig, has_strangers, 60000);
}

static bool edges_there(const struct rig *rig)
{
	const struct wire *w = rig->node[0].wire;
	const struct group *g = wire_group_find(w, 1);

	return g && g->op && g->op->branch[0] == BRANCH_COMPLETE &&
		g->op->branch[1] == BRANCH_COMPLETE;
}

static bool node_0_lost(const struct rig *rig)
{
	return rig->node[0].lost > 0;
}

static void a_killed_process_is_lost_at_once(void **state)
{
	struct rig rig;
	pid_t pid[2];

	(void)state;
	assert_true(rig_open(&rig, 3, 2, "127.0.0.1"));
	rig.size = 10;
	pid[0] = fork_node(&rig, 1, work_fence);
	pid[1] = fork_node(&rig, 2, work_fence);
	rig_start(&rig, 0);
	/* a fence that waits for this node alone: its answers are not right, but there */
	assert_true(rig_run(&rig, edges_there, LIMIT_MS));
	reap(pid[1]);
	assert_true(rig_run(&rig, node_0_lost, LIMIT_MS));
	rig_fence(&rig, 0, 0);
	assert_int_equal(rig.node[0].end_code, -EHOSTUNREACH);
	assert_non_null(strstr(rig.node[0].end_text, "node 2 (n2) is lost: "));
	reap(pid[0]);
	rig_close(&rig);
}

#define FLOOD_COUNT 400
#define FLOOD_SIZE  (200u << 10)

static void work_flood(struct rig *rig, uint32_t node)
{
	static char bytes[FLOOD_SIZE];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct err err = ERR_INIT;
	int i;

	for (i = 0; i < FLOOD_COUNT; i++) {
		if (wire_send(rig->node[node].wire, 1, 5, &iov, 1, &err) < 0)
			_exit(1);
	}
	(void)rig_run(rig, has_strangers, 60000);
}

static bool got_flood(const struct rig *rig)
{
	return rig->node[1].messages == FLOOD_COUNT;
}

static bool got_first(const struct rig *rig)
{
	return rig->node[1].messages > 0;
}

static void work_drain(struct rig *rig, uint32_t node)
{
	struct err err = ERR_INIT;

	if (!rig_run(rig, got_first, 50000))
		_exit(1);
	(void)raise(SIGSTOP);
	if (!rig_run(rig, got_flood, 50000) ||
		wire_send(rig->node[node].wire, 0, 5, NULL, 0, &err) < 0)
		_exit(1);
	(void)rig_run(rig, has_strangers, 60000);
}

static bool node_0_got_message(const struct rig *rig)
{
	return rig->node[0].messages > 0;
}

static bool is_congested(const struct rig *rig)
{
	return rig->node[0].wire->edge[0].is_congested;
}

static void assert_bounded(const struct rig *rig)
{
	assert_true(rig->node[0].wire->edge[0].queued_bytes <
		WIRE_QUEUE_HIGH + 2 * (WIRE_HEADER_SIZE + WIRE_PAYLOAD_MAX));
	assert_false(wire_link_may_read(rig->node[0].wire, 1));
}

/* 80 MB for a node that stops to read: the one between keeps no more than its bound, and all of it
 * arrives when it reads again. */
static void a_slow_node_does_not_let_memory_grow(void **state)
{
	struct rig rig;
	pid_t pid[2];
	int status;

	(void)state;
	assert_true(rig_open(&rig, 3, 2, "127.0.0.1"));
	pid[0] = fork_node(&rig, 1, work_drain);
	pid[1] = fork_node(&rig, 2, work_flood);
	rig_start(&rig, 0);
	assert_true(rig_run(&rig, is_congested, LIMIT_MS));
	assert_int_equal(waitpid(pid[0], &status, WUNTRACED), pid[0]);
	assert_true(WIFSTOPPED(status));
	assert_true(rig_run(&rig, is_congested, LIMIT_MS));
	(void)rig_run(&rig, has_strangers, 100);
	assert_bounded(&rig);
	assert_int_equal(kill(pid[0], SIGCONT), 0);
	assert_true(rig_run(&rig, node_0_got_message, LIMIT_MS));
	assert_int_equal(rig.node[0].lost, 0);
	reap(pid[0]);
	reap(pid[1]);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_over_tcp_fences_and_ends),
		cmocka_unit_test(addresses_may_be_ipv6),
		cmocka_unit_test(a_node_may_listen_at_a_name_or_an_interface),
		cmocka_unit_test(options_that_can_not_work_are_refused),
		cmocka_unit_test(a_child_of_another_step_or_secret_is_refused),
		cmocka_unit_test(a_false_parent_is_not_believed),
		cmocka_unit_test(strangers_do_not_disturb_a_node),
		cmocka_unit_test(changed_frames_are_detected),
		cmocka_unit_test(an_eavesdropper_learns_nothing_of_contributions),
		cmocka_unit_test(another_version_is_refused_with_a_reason),
		cmocka_unit_test(nodes_authenticate_by_munge),
		cmocka_unit_test(a_credential_leaves_no_options),
		cmocka_unit_test(a_killed_process_is_lost_at_once),
		cmocka_unit_test(a_slow_node_does_not_let_memory_grow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
