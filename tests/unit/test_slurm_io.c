/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The streams of one task between its FIFOs, srun and an sattach, which are sockets here. Needs
 * root.
 */
#include "contrib/slurm/srun_io.h"

#include <arpa/inet.h>
#include <ev.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "contrib/slurm/io_client.h"
#include "stepd/base/buffer.h"
#include "stepd/base/clock.h"

#define RANK 3

/* A client's side: what has come. */
struct peer {
	int listener, fd;
	struct sockaddr_in address;
	struct buffer got;
};

struct rig {
	struct ev_loop *loop;
	struct fifos fifos;
	struct srun_io *io;
	struct peer srun, sattach;
	int out_fd, in_fd; /* the task's */
	bool finished;
	unsigned detached;
};

static const uint32_t ranks[] = {RANK};

static void on_connected(int r, void *userdata)
{
	(void)userdata;
	assert_int_equal(r, 0);
}

static void on_finished(void *userdata)
{
	((struct rig *)userdata)->finished = true;
}

static void on_detached(unsigned id, void *userdata)
{
	((struct rig *)userdata)->detached = id;
}

static void peer_listen(struct peer *p)
{
	socklen_t size = sizeof(p->address);

	p->fd = -1;
	p->address = (struct sockaddr_in){.sin_family = AF_INET};
	p->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(p->listener >= 0);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&p->address, size), 0);
	assert_int_equal(listen(p->listener, 1), 0);
	assert_int_equal(getsockname(p->listener, (struct sockaddr *)&p->address, &size), 0);
}

static void peer_close(struct peer *p)
{
	(void)close_fd(p->fd);
	(void)close_fd(p->listener);
	buffer_clear(&p->got);
}

static void peer_read(struct peer *p)
{
	char piece[65536];
	ssize_t n;

	if (p->fd < 0)
		p->fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (p->fd >= 0 && (n = recv(p->fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		assert_int_equal(buffer_add(&p->got, piece, (size_t)n), 0);
}

static bool peer_has(const struct peer *p, const void *bytes, size_t size)
{
	return buffer_size(&p->got) > 0 &&
		memmem(buffer_bytes(&p->got), buffer_size(&p->got), bytes, size);
}

/* Lets both sides go on until that has come. */
static void await(struct rig *r, struct peer *p, const void *bytes, size_t size)
{
	while (!peer_has(p, bytes, size)) {
		ev_run(r->loop, EVRUN_NOWAIT);
		peer_read(p);
	}
}

#define AWAIT(rig_, peer_, text_) await(rig_, peer_, text_, sizeof(text_) - 1)

/* The first message: its version, node, and how many streams of both kinds. */
#define HELLO(outputs_, errors_) "\x26\0\0\0\0\2\0\0\0" outputs_ "\0\0\0" errors_ "\0\0\0\3key"

static int rig_open_fifo(const struct rig *r, const char *name, int flags)
{
	int fd = openat(r->fifos.dir_fd, name, flags | O_NONBLOCK | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int rig_set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct srun_io_options options = {.version = 0x2600,
		.node_id = 2,
		.attach_node_id = 2,
		.key = "key",
		.key_size = 3,
		.uid = getuid(),
		.ntasks = 1,
		.ranks = ranks,
		.uses = {true, true, true},
		.terminal_fd = -1,
		.patience_s = 0.05,
		.connected = on_connected,
		.finished = on_finished,
		.detached = on_detached,
		.userdata = r};
	struct err err = ERR_INIT;
	char name[32];

	assert_non_null(r);
	if (geteuid() != 0) {
		free(r);
		return 0;
	}
	r->fifos = (struct fifos)FIFOS_INIT;
	(void)snprintf(name, sizeof(name), "test-%d", (int)getpid());
	assert_int_equal(fifos_open(&r->fifos, name, &err), 0);
	peer_listen(&r->srun);
	peer_listen(&r->sattach);
	options.loop = r->loop = ev_loop_new(EVFLAG_NOENV);
	options.fifos = &r->fifos;
	options.address = r->srun.address;
	assert_int_equal(srun_io_open(&options, &r->io, &err), 0);
	r->out_fd = rig_open_fifo(r, "o3", O_WRONLY);
	r->in_fd = rig_open_fifo(r, "i3", O_RDONLY);
	(void)close_fd(rig_open_fifo(r, "e3", O_WRONLY)); /* its standard error ends at once */
	*state = r;
	return 0;
}

static int rig_tear_down(void **state)
{
	struct rig *r = *state;

	if (!r)
		return 0;
	peer_close(&r->srun); /* else its end is waited for */
	peer_close(&r->sattach);
	r->io = srun_io_close(r->io);
	(void)close_fd(r->out_fd);
	(void)close_fd(r->in_fd);
	fifos_close(&r->fifos);
	ev_loop_destroy(r->loop);
	free(r);
	return 0;
}

/* Without root there is none. */
static struct rig *rig_of(void **state)
{
	if (!*state)
		skip();
	return *state;
}

static void rig_write(struct rig *r, const char *text)
{
	while (write(r->out_fd, text, strlen(text)) < 0) {
		ev_run(r->loop, EVRUN_NOWAIT);
		peer_read(&r->srun);
	}
}

static void rig_attach(struct rig *r, unsigned id)
{
	const struct srun_io_attach attach = {.id = id,
		.address = r->sattach.address,
		.version = 0x2600,
		.key = "key",
		.key_size = 3};
	struct err err = ERR_INIT;

	assert_int_equal(srun_io_attach(r->io, &attach, &err), 0);
}

static void rig_finish(struct rig *r)
{
	srun_io_finish(r->io);
	while (!r->finished) {
		ev_run(r->loop, EVRUN_NOWAIT);
		peer_read(&r->srun);
	}
}

static void test_attach(void **state)
{
	struct rig *r = rig_of(state);
	char text[16];
	ssize_t n;

	AWAIT(r, &r->srun, HELLO("\1", "\1"));
	AWAIT(r, &r->srun, "\0\2\0\3\0\0\0\0\0\0");
	rig_write(r, "one\n");
	AWAIT(r, &r->srun, "\0\1\0\3\0\0\0\0\0\4one\n");

	/* It gets what was before, with the end of a stream, and then what srun gets. */
	rig_attach(r, 7);
	AWAIT(r, &r->sattach, HELLO("\1", "\1"));
	AWAIT(r, &r->sattach, "\0\2\0\3\0\0\0\0\0\0\0\1\0\3\0\0\0\0\0\4one\n");
	rig_write(r, "two\n");
	AWAIT(r, &r->sattach, "\0\1\0\3\0\0\0\0\0\4two\n");
	AWAIT(r, &r->srun, "\0\1\0\3\0\0\0\0\0\4two\n");

	/* Both types to the task. */
	assert_int_equal(send(r->sattach.fd, "\0\3\xff\xff\xff\xff\0\0\0\2a\n", 12, 0), 12);
	assert_int_equal(send(r->srun.fd, "\0\4\0\0\0\0\0\0\0\0", 10, 0), 10);
	AWAIT(r, &r->srun, "\0\4\0\0\0\0\0\0\0\0");
	while ((n = read(r->in_fd, text, sizeof(text))) < 0)
		ev_run(r->loop, EVRUN_NOWAIT);
	assert_int_equal(n, 2);
	assert_memory_equal(text, "a\n", 2);
	rig_finish(r);
	AWAIT(r, &r->sattach, "\0\1\0\3\0\0\0\0\0\0");
	assert_int_equal(r->detached, 0);
}

/* The last 128 messages are held; of a stream whose end is not among them there is none. */
static void test_replay(void **state)
{
	struct rig *r = rig_of(state);
	char line[16];
	int i;

	AWAIT(r, &r->srun, "\0\2\0\3\0\0\0\0\0\0");
	for (i = 0; i < 200; i++) {
		(void)snprintf(line, sizeof(line), "%d\n", i);
		rig_write(r, line);
		await(r, &r->srun, line, strlen(line));
	}
	rig_attach(r, 1);
	AWAIT(r, &r->sattach, "199\n");
	assert_true(peer_has(&r->sattach, HELLO("\1", "\0"), sizeof(HELLO("\1", "\0")) - 1));
	assert_false(peer_has(&r->sattach, "\00371\n", 4));
	assert_true(peer_has(&r->sattach, "\00372\n", 4));
	rig_finish(r);
}

/* One that goes, and one that does not read. */
static void test_slow_and_dead(void **state)
{
	static const char zeros[4096];
	struct rig *r = rig_of(state);
	size_t sent = 0;
	ssize_t n;

	rig_attach(r, 1);
	AWAIT(r, &r->sattach, HELLO("\1", "\1"));
	r->sattach.fd = close_fd(r->sattach.fd);
	while (r->detached != 1) {
		rig_write(r, "x\n");
		ev_run(r->loop, EVRUN_NOWAIT);
		peer_read(&r->srun);
	}

	buffer_clear(&r->sattach.got);
	rig_attach(r, 2);
	AWAIT(r, &r->sattach, HELLO("\1", "\1"));
	while (r->detached != 2) {
		n = write(r->out_fd, zeros, sizeof(zeros));
		sent += n > 0 ? (size_t)n : 0;
		ev_run(r->loop, EVRUN_NOWAIT);
		peer_read(&r->srun);
	}
	assert_true(sent > IO_PENDING_MAX);
	rig_write(r, "\nafter\n");
	AWAIT(r, &r->srun, "after\n");
	rig_finish(r);
}

static void on_client_connected(struct io_client *client, int r, void *userdata)
{
	(void)client;
	*(bool *)userdata = true;
	assert_int_equal(r, 0);
}

static int on_client_message(
	struct io_client *client, const struct io_message *message, void *userdata)
{
	(void)client;
	(void)message;
	(void)userdata;
	return 0;
}

static void on_client_event(struct io_client *client, void *userdata)
{
	(void)userdata;
	io_client_watch(client, true);
}

/* Others wait from IO_PENDING_MAX on until it has no more than half as much to take: one that stops
 * in between is given up, too. */
static void test_stopped_between(void **state)
{
	static const char zeros[IO_MESSAGE_MAX];
	const struct io_message message = {
		.type = IO_STDOUT, .rank = RANK, .data = zeros, .size = sizeof(zeros)};
	struct rig *r = rig_of(state);
	bool connected = false;
	struct io_client_options options = {.loop = r->loop,
		.address = r->sattach.address,
		.version = 0x2600,
		.key = "key",
		.key_size = 3,
		.patience_s = 0.05,
		.connected = on_client_connected,
		.message = on_client_message,
		.event = on_client_event,
		.userdata = &connected};
	struct err err = ERR_INIT;
	struct io_client *client;
	int64_t end_ms = clock_now_ms() + 30000;

	assert_int_equal(io_client_new(&options, &client, &err), 0);
	while (!connected)
		ev_run(r->loop, EVRUN_ONCE);
	while (!io_client_has_gone(client)) {
		if (io_client_get_pending(client) < IO_PENDING_LOW)
			io_client_put(client, &message);
		assert_true(io_client_get_pending(client) < IO_PENDING_MAX);
		io_client_watch(client, true);
		ev_run(r->loop, EVRUN_NOWAIT);
		assert_true(clock_now_ms() < end_ms);
	}
	(void)io_client_free(client);
	rig_finish(r);
}

/* srun is gone, and the tasks' output is for those who are attached. */
static void test_without_srun(void **state)
{
	struct rig *r = rig_of(state);
	char text[16];

	AWAIT(r, &r->srun, HELLO("\1", "\1"));
	rig_attach(r, 1);
	AWAIT(r, &r->sattach, HELLO("\1", "\1"));
	r->srun.fd = close_fd(r->srun.fd);
	while (read(r->in_fd, text, sizeof(text)) != 0)
		ev_run(r->loop, EVRUN_NOWAIT); /* until its input has ended */
	rig_write(r, "on\n");
	AWAIT(r, &r->sattach, "on\n");
	srun_io_finish(r->io);
	AWAIT(r, &r->sattach, "\0\1\0\3\0\0\0\0\0\0");
}

/* Messages that are none, and a rank that is not here. */
static void test_hostile(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
	} rows[] = {
		{"\0\1\0\3\0\0\0\0\0\0", 10},
		{"\0\0\0\4\0\0\0\0\0\0", 10},
		{"\0\3\xff\xff\xff\xff\0\0\4\1", 10},
		{"\0\3\xff\xff\xff\xff\xff\xff\xff\xff", 10},
	};
	struct rig *r = rig_of(state);
	unsigned i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		buffer_clear(&r->sattach.got);
		rig_attach(r, i + 1);
		AWAIT(r, &r->sattach, HELLO("\1", "\1"));
		assert_int_equal(
			send(r->sattach.fd, rows[i].bytes, rows[i].size, 0), (ssize_t)rows[i].size);
		while (r->detached != i + 1)
			ev_run(r->loop, EVRUN_NOWAIT);
		r->sattach.fd = close_fd(r->sattach.fd);
	}
	rig_write(r, "still\n");
	AWAIT(r, &r->srun, "still\n");
	rig_finish(r);
}

#define RIG_TEST(function_) cmocka_unit_test_setup_teardown(function_, rig_set_up, rig_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_attach),
		RIG_TEST(test_replay),
		RIG_TEST(test_slow_and_dead),
		RIG_TEST(test_stopped_between),
		RIG_TEST(test_without_srun),
		RIG_TEST(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
