/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a process that Slurm takes for a step: clients that have connected get their answers,
 * later ones find nothing, and one that stays does not hold it.
 */
#include "contrib/slurm/server.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <ev.h>

#include "tests/lib/scratch.h"

#define STEP_STATE 1234

struct fixture {
	char *dir;
	struct ev_loop *loop;
	struct spool *spool;
	struct server server;
	struct listener *listener;
	struct log log;
};

/* All wait, as for something that the process has to find out first. */
static enum server_local wait_always(_unused_ const struct wire_request *request,
	_unused_ uint16_t version, _unused_ struct wire_answer *answer, _unused_ void *userdata)
{
	return SERVER_LATER;
}

static enum server_local answer_late(_unused_ const struct wire_request *request,
	_unused_ uint16_t version, struct wire_answer *answer, _unused_ void *userdata)
{
	wire_put_u32(answer, STEP_STATE);
	return SERVER_ANSWERED;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err err = ERR_INIT;
	const struct listener_step step = {
		.step = "7.0", .node = "n1", .directory = "/nonexistent", .owner = getuid()};

	assert_non_null(f);
	f->dir = scratch_make();
	f->log.fd = -1;
	f->loop = ev_loop_new(0);
	assert_int_equal(spool_open_slurmds(f->dir, &f->spool, &err), 0);
	assert_int_equal(server_open(&f->server, f->loop, &f->log, f->spool, false, &err), 0);
	f->server.local = wait_always;
	assert_int_equal(listener_open(&f->server, &step, &f->listener, &err), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	server_close(&f->server);
	f->spool = spool_close(f->spool);
	ev_loop_destroy(f->loop);
	scratch_remove(f->dir);
	free(f->dir);
	free(f);
	return 0;
}

static int connect_to(const struct fixture *f)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/n1_7.0", f->dir);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	(void)close(fd);
	return -errno;
}

/* One of slurmd's threads: true if it has its answer. */
static bool ask(int fd)
{
	const int32_t hello = WIRE_22_05, kind = WIRE_STATE;
	uint32_t answer = 0;

	return write(fd, &hello, sizeof(hello)) == sizeof(hello) &&
		read(fd, &answer, sizeof(answer)) == sizeof(answer) && answer == WIRE_22_05 &&
		write(fd, &kind, sizeof(kind)) == sizeof(kind) &&
		read(fd, &answer, sizeof(answer)) == sizeof(answer) && answer == STEP_STATE;
}

static pid_t begin_client(int fd)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(ask(fd) ? 0 : 1);
	(void)close(fd);
	return pid;
}

static void check_client(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* More than are accepted at once. */
static void test_connected_before(void **state)
{
	struct fixture *f = *state;
	pid_t pids[100];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(pids); i++)
		pids[i] = begin_client(connect_to(f));
	server_drain(&f->server, answer_late);
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		check_client(pids[i]);
	assert_int_equal(f->server.conns_count, 0);
	assert_int_equal(connect_to(f), -ENOENT);
}

static void test_waiting_request(void **state)
{
	struct fixture *f = *state;
	pid_t pid = begin_client(connect_to(f));
	struct conn_list *conns = &f->server.conns;
	size_t rounds;

	for (rounds = 0; rounds < 3 || LIST_EMPTY(conns); rounds++) /* accept, hello, request */
		ev_run(f->loop, EVRUN_ONCE);
	server_drain(&f->server, answer_late);
	check_client(pid);
}

/* It may be stopped, or another user's. */
static void test_client_that_stays(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	int fd = connect_to(f);
	char byte;

	assert_true(fd >= 0);
	server_drain(&f->server, answer_late);
	assert_int_equal(f->server.conns_count, 1);
	server_close(&f->server);
	assert_int_equal(read(fd, &byte, 1), 0);
	(void)close(fd);
	assert_int_equal(server_open(&f->server, f->loop, &f->log, f->spool, false, &err), 0);
}

static void test_nobody(void **state)
{
	struct fixture *f = *state;

	server_drain(&f->server, answer_late);
	assert_int_equal(connect_to(f), -ENOENT);
}

/* Other steps of a job: those whose process is there. */
static void test_others(void **state)
{
	const struct fixture *f = *state;
	_cleanup_free_ char *path = scratch_path(f->dir, "n1_7.5");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(spool_has_listener(f->spool, "n1_7.", "n1_7.4294967292"));
	assert_false(spool_has_listener(f->spool, "n1_7.", "n1_7.0"));
	assert_false(spool_has_listener(f->spool, "n1_70.", "n1_70.4294967292"));
	assert_true(strlen(path) < sizeof(address.sun_path));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	(void)close(fd); /* as that of a killed one */
	scratch_write(f->dir, "n1_7.6", "", 0, 0644);
	assert_false(spool_has_listener(f->spool, "n1_7.", "n1_7.0"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_others, setup, teardown),
		cmocka_unit_test_setup_teardown(test_connected_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_waiting_request, setup, teardown),
		cmocka_unit_test_setup_teardown(test_client_that_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
