/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A listening socket whose process may open nothing more: its loop sleeps, and whoever has
 * connected is accepted later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "mpi/wire/listener.h"
#include "stepd/base/cleanup.h"

struct rig {
	struct ev_loop *loop;
	struct wire_listener listener;
	int fd, client_fd, accepted_fd;
	int shortage; /* the last one that was reported */
	unsigned shortages;
};

static void on_accepted(int fd, void *userdata)
{
	struct rig *rig = userdata;

	if (fd < 0) {
		rig->shortage = fd;
		rig->shortages++;
	} else {
		rig->accepted_fd = fd;
	}
	ev_break(rig->loop, EVBREAK_ALL);
}

static int set_up(void **state)
{
	static struct rig rig;
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);

	rig = (struct rig){.loop = ev_loop_new(EVFLAG_NOENV), .accepted_fd = -1};
	rig.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	rig.client_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(rig.fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(rig.fd, 8), 0);
	assert_int_equal(getsockname(rig.fd, (struct sockaddr *)&address, &size), 0);
	wire_listener_init(&rig.listener, rig.loop, on_accepted, &rig);
	wire_listener_start(&rig.listener, rig.fd);
	ev_run(rig.loop, EVRUN_NOWAIT); /* what the loop opens is open */
	assert_int_equal(connect(rig.client_fd, (struct sockaddr *)&address, size), 0);
	*state = &rig;
	return 0;
}

static int tear_down(void **state)
{
	struct rig *rig = *state;

	wire_listener_stop(&rig->listener);
	ev_loop_destroy(rig->loop);
	(void)close_fd(rig->fd);
	(void)close_fd(rig->client_fd);
	(void)close_fd(rig->accepted_fd);
	return 0;
}

/* Returns the limit that was. */
static struct rlimit allow_no_more(void)
{
	struct rlimit old, none;
	int next = fcntl(0, F_DUPFD_CLOEXEC, 0);

	assert_true(next >= 0);
	(void)close_fd(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return old;
}

static void connections_are_accepted(void **state)
{
	struct rig *rig = *state;

	ev_run(rig->loop, 0);
	assert_true(rig->accepted_fd >= 0);
	assert_int_equal(fcntl(rig->accepted_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(fcntl(rig->accepted_fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(rig->shortages, 0);
}

static void a_listener_pauses_when_descriptors_are_short(void **state)
{
	struct rig *rig = *state;
	struct rlimit old = allow_no_more();
	unsigned iterations;

	ev_run(rig->loop, 0);
	assert_int_equal(rig->shortage, -EMFILE);
	iterations = ev_iteration(rig->loop);
	ev_run(rig->loop, 0); /* until the next attempt */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(rig->shortages, 2);
	assert_in_range(ev_iteration(rig->loop) - iterations, 1, 4);
	assert_int_equal(rig->accepted_fd, -1);
	ev_run(rig->loop, 0);
	assert_true(rig->accepted_fd >= 0);
	assert_int_equal(rig->shortages, 2);
}

static void a_listener_can_be_stopped_in_a_pause(void **state)
{
	struct rig *rig = *state;
	struct rlimit old = allow_no_more();

	ev_run(rig->loop, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	wire_listener_stop(&rig->listener);
	ev_run(rig->loop, 0); /* nothing is left in it */
	assert_int_equal(rig->accepted_fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(connections_are_accepted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_listener_pauses_when_descriptors_are_short, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_listener_can_be_stopped_in_a_pause, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
