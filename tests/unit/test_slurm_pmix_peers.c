/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who connects to a node's port for PMIx without being a node: none of them keeps others out.
 */
#include "contrib/slurm/pmix_peers.h"

#include <arpa/inet.h>
#include <ev.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "contrib/slurm/site_conf.h"
#include "tests/lib/scratch.h"

#define MORE 8u

struct scene {
	struct ev_loop *loop;
	char *dir;
	struct log log;
	struct site_conf site;
	struct slurm_init init;
	struct pmix_node nodes[2];
	struct pmix_peers *peers;
	struct sockaddr_in port;
	int callers[PMIX_PEERS_CALLERS_MAX + MORE];
};

static void on_message(_unused_ void *userdata, _unused_ uint32_t node,
	_unused_ const struct slurm_pmix_head *head, _unused_ struct slice body)
{
	fail();
}

static void on_failed(_unused_ void *userdata, _unused_ const char *why)
{
	fail();
}

static void on_drained(_unused_ void *userdata)
{
}

/* Where this process, which listens nowhere else, listens. */
static struct sockaddr_in find_port(void)
{
	struct sockaddr_in address;
	socklen_t size, flag_size;
	int fd, listens;

	for (fd = 0; fd < 1024; fd++) {
		size = sizeof(address);
		flag_size = sizeof(listens);
		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_size) == 0 &&
			listens && getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
			address.sin_family == AF_INET)
			return address;
	}
	fail();
	return address;
}

static int set_up(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	struct pmix_peers_options options;
	struct err err = ERR_INIT;
	size_t i;

	assert_non_null(s);
	s->loop = ev_loop_new(EVFLAG_NOENV);
	assert_non_null(s->loop);
	s->dir = scratch_make();
	s->log.fd = -1;
	s->site.slurm_user = geteuid();
	s->init.site = &s->site;
	s->init.conf.spool_dir = s->dir;
	s->init.launch.id = (struct slurm_step_id){.job = 7, .step = 3};
	s->init.launch.uid = geteuid();
	s->nodes[1].job_node = 1;
	options = (struct pmix_peers_options){.loop = s->loop,
		.log = &s->log,
		.label = "7.3",
		.init = &s->init,
		.nodes = s->nodes,
		.nnodes = 2,
		.direct = true,
		.message = on_message,
		.failed = on_failed,
		.drained = on_drained};
	assert_int_equal(pmix_peers_open(&options, &s->peers, &err), 0);
	s->port = find_port();
	s->port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (i = 0; i < ARRAY_SIZE(s->callers); i++)
		s->callers[i] = -1;
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(s->callers); i++)
		(void)close_fd(s->callers[i]);
	(void)pmix_peers_close(s->peers);
	ev_loop_destroy(s->loop);
	scratch_remove(s->dir);
	free(s->dir);
	free(s);
	return 0;
}

/* Accepted when this returns: the loop takes one at a time. */
static void call(struct scene *s, size_t i)
{
	s->callers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(s->callers[i] >= 0);
	assert_int_equal(connect(s->callers[i], (struct sockaddr *)&s->port, sizeof(s->port)), 0);
	ev_run(s->loop, EVRUN_ONCE);
}

static bool is_open(const struct scene *s, size_t i)
{
	char byte;

	return recv(s->callers[i], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void the_oldest_caller_gives_way(void **state)
{
	struct scene *s = *state;
	size_t i;

	for (i = 0; i < PMIX_PEERS_CALLERS_MAX; i++)
		call(s, i);
	for (i = 0; i < PMIX_PEERS_CALLERS_MAX; i++)
		assert_true(is_open(s, i));
	for (; i < ARRAY_SIZE(s->callers); i++)
		call(s, i);
	for (i = 0; i < ARRAY_SIZE(s->callers); i++)
		assert_int_equal(is_open(s, i), i >= MORE);
}

/* What it sends is no message: it is closed, and no other has to go for the next one. */
static void a_caller_that_is_closed_makes_no_other_go(void **state)
{
	static const char nonsense[SLURM_PMIX_HEAD_SIZE] = "GET / HTTP/1.0\r\n";
	struct scene *s = *state;
	size_t i;

	for (i = 0; i < PMIX_PEERS_CALLERS_MAX; i++)
		call(s, i);
	assert_int_equal(
		send(s->callers[9], nonsense, sizeof(nonsense), MSG_NOSIGNAL), sizeof(nonsense));
	ev_run(s->loop, EVRUN_ONCE);
	assert_false(is_open(s, 9));
	call(s, i);
	for (i = 0; i <= PMIX_PEERS_CALLERS_MAX; i++)
		assert_int_equal(is_open(s, i), i != 9);
	call(s, PMIX_PEERS_CALLERS_MAX + 1);
	assert_false(is_open(s, 0));
}

static void the_address_with_the_most_callers_gives_way(void **state)
{
	static const struct {
		const char *addresses[8];
		size_t chosen;
	} rows[] = {
		{{"10.0.0.1"}, 0},
		{{"10.0.0.1", "10.0.0.2"}, 0},
		{{"10.0.0.1", "10.0.0.2", "10.0.0.2"}, 1},
		{{"10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.1"}, 0},
		{{"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2", "10.0.0.2"}, 1},
		{{"10.0.0.1", "10.0.0.2", "127.0.0.1", "127.1.2.3"}, 2},
		{{"10.0.0.1", "10.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3"}, 2},
	};
	struct in_addr addresses[ARRAY_SIZE(rows[0].addresses)];
	size_t i, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		for (n = 0; rows[i].addresses[n]; n++)
			assert_int_equal(
				inet_pton(AF_INET, rows[i].addresses[n], &addresses[n]), 1);
		assert_int_equal(pmix_peers_choose_caller(addresses, n), rows[i].chosen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_oldest_caller_gives_way, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_caller_that_is_closed_makes_no_other_go, set_up, tear_down),
		cmocka_unit_test(the_address_with_the_most_callers_gives_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
