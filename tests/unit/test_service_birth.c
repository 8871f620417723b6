/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The birth of an MPI service process in its cgroup: by one fork, after which the C library knows
 * its thread id, and by two where the kernel doesn't say where that is kept.
 */
#include <err.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <jansson.h>

#include "mpi/service.h"
#include "proctrack/cgroup/probe.h"
#include "tests/lib/cgroup_rig.h"
#include "tests/lib/service_rig.h"

static struct rig rig = {.fd = -1};
static bool hides_tid;

int __real_prctl(int option, ...);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	if (option == PR_GET_TID_ADDRESS && hides_tid) {
		errno = EINVAL;
		return -1;
	}
	return __real_prctl(option, a, b, c, d);
}

static int stay_oneself(void *userdata)
{
	(void)userdata;
	return 0;
}

static void *give_back(void *arg)
{
	return arg;
}

/* The clock of a thread is found by the id that the C library keeps, and is no other process's. */
static const char *find_fault(void)
{
	struct timespec now;
	pthread_t thread;
	clockid_t clock;
	void *got = NULL;

	if (pthread_getcpuclockid(pthread_self(), &clock) != 0 || clock_gettime(clock, &now) < 0)
		return "the C library has another thread id";
	if (pthread_create(&thread, NULL, give_back, &rig) != 0 ||
		pthread_join(thread, &got) != 0 || got != &rig)
		return "it can make no thread";
	return NULL;
}

static int serve(const stepd_mpi_service_t *service)
{
	const char *fault = find_fault();
	char end;

	(void)!link_send_take(service->link_fd,
		fault ? json_pack("{s:s, s:s}", "do", "failed", "why", fault)
		      : json_pack("{s:s}", "do", "ready"),
		NULL, 0);
	while (recv(service->link_fd, &end, 1, 0) < 0) {
		struct pollfd p = {.fd = service->link_fd, .events = POLLIN};

		(void)poll(&p, 1, -1);
	}
	return 0;
}

static pid_t start_and_end(bool is_born)
{
	const struct mpi_service_options options = {
		.become = stay_oneself,
		.meanwhile = service_wait_for,
		.message = service_no_message,
		.start_timeout_ms = RIG_WAIT_MS,
		.cgroup_fd = rig.fd,
		.cgroup_may_clone = true,
		.unfiltered = false,
	};
	stepd_step_rec_t job = {.node_tasks = 0};
	struct mpi_service *s = NULL;
	struct err e = ERR_INIT;
	char procs[64] = "";
	_cleanup_close_ int fd = -1;
	pid_t pid;

	if (mpi_service_start(&job, serve, NULL, false, &options, &s, &e) < 0 ||
		mpi_service_wait(s, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(mpi_service_has_failed_birth(s), !is_born);
	pid = mpi_service_get_pid(s);
	fd = openat(rig.fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && read(fd, procs, sizeof(procs) - 1) > 0);
	assert_int_equal(atoi(procs), pid); /* there, and alone */
	mpi_service_close_link(s);
	assert_int_equal(rig_status(pid), 0); /* ours to reap, in both ways */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_null(mpi_service_free(s));
	return pid;
}

static int set_up(_unused_ void **state)
{
	(void)rig_open(&rig);
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int tear_down(_unused_ void **state)
{
	return rig_tear_down(&rig);
}

/* Pids follow each other, unless others start processes at the same time: then once more. */
static void a_service_takes_one_fork(_unused_ void **state)
{
	unsigned long address = 0;
	int children, rounds;

	if (rig.fd < 0 || __real_prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0) < 0)
		skip();
	hides_tid = false;
	for (children = 2, rounds = 0; children != 1 && rounds < 50; rounds++) {
		pid_t before = fork(), service;

		if (before == 0)
			_exit(0);
		(void)rig_status(before);
		service = start_and_end(true);
		children = service - before;
	}
	assert_int_equal(children, 1);
}

static void a_service_is_born_where_its_tid_address_is_hidden(_unused_ void **state)
{
	if (rig.fd < 0)
		skip();
	hides_tid = true;
	(void)start_and_end(true);
	hides_tid = false;
}

/* A group that was once killed kills at birth (Linux 6.18): then it moves there. */
static void a_service_moves_into_a_group_that_kills_at_birth(_unused_ void **state)
{
	bool is_born;

	if (rig.fd < 0)
		skip();
	rig_write(rig.fd, "cgroup.kill", "1");
	is_born = clone_try(rig.fd) == 0;
	print_message("a killed group %s what is cloned into it\n", is_born ? "takes" : "kills");
	(void)start_and_end(is_born);
	hides_tid = true;
	(void)start_and_end(is_born);
	hides_tid = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_service_takes_one_fork, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_service_is_born_where_its_tid_address_is_hidden, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_service_moves_into_a_group_that_kills_at_birth, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
