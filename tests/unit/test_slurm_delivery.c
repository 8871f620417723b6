/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages to a slurmctld with backups: who is asked, in which order, and when it is over.
 */
#include "contrib/slurm/delivery.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <ev.h>

#include "contrib/slurm/release.h"
#include "tests/lib/fake_auth.h"

#define HOSTS   3
#define ANSWERS 4

/* ---- hosts --------------------------------------------------------------------------------- */

/* One that answers with these results, one after the other. */
struct host {
	struct ev_loop *loop;
	struct sockaddr_in address;
	int fd, connection;
	ev_io listener, reader;
	struct buffer in;
	uint32_t answers[ANSWERS];
	const char *behind; /* what it sends behind an answer; NULL: nothing, and it hangs up */
	unsigned asked;
};

struct rig {
	struct ev_loop *loop;
	struct host hosts[HOSTS];
	ev_timer guard;
	bool over;
	bool keeps; /* the connection: */
	int kept_fd;
	struct err err;
};

static void answer(struct host *h)
{
	const struct slurm_rpc rpc = {
		.version = SLURM_24_11, .type = SLURM_RESPONSE_RC, .reader = (uid_t)-1};
	_cleanup_pack_ struct pack message = {0}, body = {0};
	struct err err = ERR_INIT;

	assert_true(h->asked < ANSWERS);
	pack_u32(&body, h->answers[h->asked++]);
	assert_int_equal(slurm_rpc_encode(NULL, &rpc, &body, &message, &err), 0);
	if (h->behind)
		assert_int_equal(buffer_add(&message.bytes, h->behind, strlen(h->behind)), 0);
	assert_int_equal(
		write(h->connection, buffer_bytes(&message.bytes), buffer_size(&message.bytes)),
		(ssize_t)buffer_size(&message.bytes));
}

static void host_hang_up(struct host *h)
{
	ev_io_stop(h->loop, &h->reader);
	h->connection = close_fd(h->connection);
	buffer_clear(&h->in);
}

static void on_readable(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct host *h = io->data;
	char piece[4096];
	ssize_t n = read(h->connection, piece, sizeof(piece)), size;

	if (n <= 0) {
		host_hang_up(h);
		return;
	}
	assert_int_equal(buffer_add(&h->in, piece, (size_t)n), 0);
	size = slurm_rpc_size(buffer_bytes(&h->in), buffer_size(&h->in));
	if (size > 0 && buffer_size(&h->in) >= (size_t)size) {
		answer(h);
		if (!h->behind)
			host_hang_up(h);
	}
}

static void on_connection(_unused_ struct ev_loop *loop, ev_io *io, _unused_ int revents)
{
	struct host *h = io->data;

	assert_int_equal(h->connection, -1);
	h->connection = accept(h->fd, NULL, NULL);
	assert_true(h->connection >= 0);
	ev_io_set(&h->reader, h->connection, EV_READ);
	ev_io_start(h->loop, &h->reader);
}

static void host_open(struct host *h, struct ev_loop *loop)
{
	socklen_t size = sizeof(h->address);

	*h = (struct host){.loop = loop,
		.connection = -1,
		.address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(h->fd, (struct sockaddr *)&h->address, size), 0);
	assert_int_equal(listen(h->fd, 0), 0);
	assert_int_equal(getsockname(h->fd, (struct sockaddr *)&h->address, &size), 0);
	ev_io_init(&h->listener, on_connection, h->fd, EV_READ);
	ev_init(&h->reader, on_readable);
	h->listener.data = h->reader.data = h;
	ev_io_start(loop, &h->listener);
}

/* Nobody listens there. */
static void host_leave(struct host *h)
{
	ev_io_stop(h->loop, &h->listener);
	h->fd = close_fd(h->fd);
}

static void on_guard(struct ev_loop *loop, _unused_ ev_timer *timer, _unused_ int revents)
{
	ev_break(loop, EVBREAK_ALL);
}

static int set_up(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	int i;

	assert_non_null(r);
	r->loop = ev_loop_new(0);
	for (i = 0; i < HOSTS; i++)
		host_open(&r->hosts[i], r->loop);
	ev_timer_init(&r->guard, on_guard, 120., 0.);
	ev_timer_start(r->loop, &r->guard);
	*state = r;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *r = *state;
	int i;

	for (i = 0; i < HOSTS; i++) {
		host_hang_up(&r->hosts[i]);
		host_leave(&r->hosts[i]);
	}
	ev_loop_destroy(r->loop);
	free(r);
	return 0;
}

static void on_done(const struct err *err, void *userdata)
{
	struct rig *r = userdata;

	r->over = true;
	r->err = *err;
	ev_break(r->loop, EVBREAK_ALL);
}

/* To so many of the hosts, until it is over. */
static void deliver(struct rig *r, unsigned n, const struct delivery_retry *retry)
{
	struct delivery_options to = {.loop = r->loop,
		.retry = retry,
		.hosts = {.n = n},
		.version = SLURM_24_11,
		.type = SLURM_REQUEST_STEP_COMPLETE,
		.reader = (uid_t)-1,
		.kept_fd = r->keeps ? &r->kept_fd : NULL,
		.done = on_done,
		.userdata = r};
	struct delivery *delivery;
	struct pack body = {0};
	struct err err = ERR_INIT;
	unsigned i;

	for (i = 0; i < n; i++)
		to.hosts.address[i] = r->hosts[i].address;
	pack_u32(&body, 42);
	assert_int_equal(delivery_begin_take(&to, &body, &delivery, &err), 0);
	(void)ev_run(r->loop, 0);
	assert_true(r->over);
}

static void assert_asked(const struct rig *r, unsigned first, unsigned second, unsigned third)
{
	assert_int_equal(r->hosts[0].asked, first);
	assert_int_equal(r->hosts[1].asked, second);
	assert_int_equal(r->hosts[2].asked, third);
}

static const struct delivery_retry until_done = {.first_s = 0.01, .longest_s = 0.01},
				   twice = {.tries = 2, .first_s = 0.01, .longest_s = 0.01},
				   with_success = {.tries = 2,
					   .first_s = 0.01,
					   .longest_s = 0.01,
					   .needs_success = true};

static void test_first(void **state)
{
	struct rig *r = *state;

	deliver(r, 3, &until_done);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 1, 0, 0);
}

/* A result of the message itself is not for another host. */
static void test_result(void **state)
{
	struct rig *r = *state;

	r->hosts[0].answers[0] = 2017;
	deliver(r, 3, &until_done);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 1, 0, 0);
}

static void test_needs_success(void **state)
{
	struct rig *r = *state;

	r->hosts[0].answers[0] = r->hosts[0].answers[1] = 2017;
	deliver(r, 3, &with_success);
	assert_int_equal(r->err.code, -EREMOTEIO);
	assert_asked(r, 2, 0, 0);
}

static void test_refused(void **state)
{
	struct rig *r = *state;

	host_leave(&r->hosts[0]);
	deliver(r, 3, &until_done);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 0, 1, 0);
}

static void test_standby(void **state)
{
	struct rig *r = *state;

	r->hosts[0].answers[0] = SLURM_ERROR_STANDBY;
	r->hosts[1].answers[0] = SLURM_ERROR_STANDBY_USE_BACKUP;
	deliver(r, 3, &until_done);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 1, 1, 1);
}

/* None of them serves yet: again from the first one on. */
static void test_none_serves(void **state)
{
	struct rig *r = *state;

	host_leave(&r->hosts[2]);
	r->hosts[0].answers[0] = r->hosts[0].answers[1] = SLURM_ERROR_STANDBY;
	r->hosts[1].answers[0] = SLURM_ERROR_STANDBY;
	deliver(r, 3, &until_done);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 2, 2, 0);
}

static void test_none_at_all(void **state)
{
	struct rig *r = *state;
	int i;

	for (i = 0; i < HOSTS; i++)
		host_leave(&r->hosts[i]);
	deliver(r, 3, &twice);
	assert_int_equal(r->err.code, -ECONNREFUSED);
	r->over = false;
	deliver(r, 1, &twice);
	assert_int_equal(r->err.code, -ECONNREFUSED);
}

static void test_alone_in_standby(void **state)
{
	struct rig *r = *state;

	r->hosts[0].answers[0] = r->hosts[0].answers[1] = SLURM_ERROR_STANDBY;
	deliver(r, 1, &twice);
	assert_int_equal(r->err.code, -EREMOTEIO);
	assert_string_equal(r->err.text, "it stands by");
	assert_asked(r, 2, 0, 0);
}

static void test_later(void **state)
{
	struct rig *r = *state;

	r->hosts[0].answers[0] = r->hosts[0].answers[1] = SLURM_ERROR_BACKOFF;
	deliver(r, 3, &until_done);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 3, 0, 0);
}

/* What comes behind a result is for the connection's owner. */
static void test_kept(void **state)
{
	struct rig *r = *state;
	char text[16] = "";

	r->keeps = true;
	r->kept_fd = -1;
	r->hosts[0].behind = "behind";
	deliver(r, 1, &with_success);
	assert_int_equal(r->err.code, 0);
	assert_true(r->kept_fd >= 0);
	assert_int_equal(read(r->kept_fd, text, sizeof(text)), 6);
	assert_string_equal(text, "behind");
	r->kept_fd = close_fd(r->kept_fd);
	host_hang_up(&r->hosts[0]);
	/* None is kept of those that have failed. */
	r->hosts[0].answers[1] = r->hosts[0].answers[2] = 1;
	r->hosts[0].behind = NULL;
	r->over = false;
	deliver(r, 1, &with_success);
	assert_int_equal(r->err.code, -EREMOTEIO);
	assert_int_equal(r->kept_fd, -1);
}

/* A machine that is down answers nothing, not even that nobody listens. */
static void test_silent(void **state)
{
	struct rig *r = *state;
	int fds[4];
	size_t i;

	ev_io_stop(r->loop, &r->hosts[0].listener);
	for (i = 0; i < ARRAY_SIZE(fds); i++) { /* its queue of connections is full */
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		assert_true(fds[i] >= 0);
		(void)!connect(fds[i], (struct sockaddr *)&r->hosts[0].address,
			sizeof(r->hosts[0].address));
	}
	deliver(r, 2, &twice);
	assert_int_equal(r->err.code, 0);
	assert_asked(r, 0, 1, 0);
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_result, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_needs_success, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_standby, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_none_serves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_none_at_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_alone_in_standby, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_silent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_kept, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
