/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who may connect to libpmix, where this program stands for libpmix: a listener that accepts as
 * libpmix does is checked, and one that accepts in a way that can't be checked is not taken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <ev.h>
#include <poll.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi/pmix/admit.h"
#include "mpi/pmix/claim.h"
#include "mpi/pmix/interpose.h"

/* By its address the "library" is found: this program. */
pmix_status_t PMIx_server_init(pmix_server_module_t *module, pmix_info_t info[], size_t ninfo)
{
	(void)module;
	(void)info;
	(void)ninfo;
	return PMIX_SUCCESS;
}

static char log_text[1024];

void serve_log(struct serve *s, enum log_level level, const char *fmt, ...)
{
	va_list args;

	(void)s;
	(void)level;
	va_start(args, fmt);
	(void)vsnprintf(log_text, sizeof(log_text), fmt, args);
	va_end(args);
}

/* ---- the listener ---- */

struct listener {
	int fd, stop_fd[2];
	pthread_t thread;
	bool is_hidden; /* accepts by the system call itself */
	struct sockaddr_in address;
};

static int accept_one(const struct listener *l)
{
	return l->is_hidden ? (int)syscall(SYS_accept4, l->fd, NULL, NULL, 0)
			    : accept(l->fd, NULL, NULL);
}

/* Who gets in reads "0"; then it is hung up on, as by libpmix after nonsense. */
static void *serve_all(void *userdata)
{
	struct listener *l = userdata;
	struct pollfd fds[2] = {
		{.fd = l->fd, .events = POLLIN}, {.fd = l->stop_fd[0], .events = POLLIN}};

	while (poll(fds, 2, -1) > 0 && !fds[1].revents) {
		int fd = accept_one(l);

		if (fd < 0)
			continue;
		(void)send(fd, "0", 1, MSG_NOSIGNAL);
		(void)close(fd);
	}
	return NULL;
}

static void open_listener(struct listener *l, bool is_hidden)
{
	socklen_t size = sizeof(l->address);
	char uri[96];

	*l = (struct listener){.is_hidden = is_hidden};
	l->address.sin_family = AF_INET;
	l->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(l->fd, (struct sockaddr *)&l->address, size), 0);
	assert_int_equal(listen(l->fd, 8), 0);
	assert_int_equal(getsockname(l->fd, (struct sockaddr *)&l->address, &size), 0);
	assert_int_equal(pipe(l->stop_fd), 0);
	assert_int_equal(pthread_create(&l->thread, NULL, serve_all, l), 0);
	(void)snprintf(uri, sizeof(uri), "PMIX_SERVER_URI41=stepd.7.0.server.0;tcp4://127.0.0.1:%u",
		ntohs(l->address.sin_port));
	admit_learn_uri(uri);
}

static void close_listener(struct listener *l)
{
	assert_int_equal(write(l->stop_fd[1], "x", 1), 1);
	assert_int_equal(pthread_join(l->thread, NULL), 0);
	(void)close(l->stop_fd[0]);
	(void)close(l->stop_fd[1]);
	(void)close(l->fd);
}

/* How many bytes one who claims this reads; *ret_fd is left open if it is not NULL. */
static ssize_t claim(const struct listener *l, const char *claim, size_t size, int *ret_fd)
{
	uint32_t header[CLAIM_HEADER_SIZE / sizeof(uint32_t)] = {[2] = (uint32_t)size};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char byte;
	ssize_t n;

	assert_int_equal(connect(fd, (const struct sockaddr *)&l->address, sizeof(l->address)), 0);
	(void)send(fd, header, sizeof(header), MSG_NOSIGNAL);
	(void)send(fd, claim, size, MSG_NOSIGNAL);
	n = recv(fd, &byte, 1, 0);
	if (ret_fd)
		*ret_fd = fd;
	else
		(void)close(fd);
	return n < 0 ? 0 : n; /* reset, as not all was read */
}

/* ---- tests: each opens anew, over what the one before has left ---- */

static void one_that_accepts_as_libpmix_does_is_checked(void **state)
{
	static const char rank[] = "native\0\0\0\0\0\0stepd.7.0\0\0\0\0\3",
			  nonsense[] = "native\0\0\0\0\0\77";
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct err err = ERR_INIT;
	struct listener l;

	(void)state;
	if (admit_open(loop, NULL, &err) < 0)
		fail_msg("%s", err.text);
	open_listener(&l, false);
	if (admit_prove(&err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(claim(&l, rank, sizeof(rank), NULL), 1);
	assert_int_equal(claim(&l, nonsense, sizeof(nonsense), NULL), 0);
	(void)ev_run(loop, EVRUN_NOWAIT);
	assert_non_null(strstr(log_text, "is refused: its first message can't be parsed"));
	close_listener(&l);
	admit_close();
	ev_loop_destroy(loop);
}

static void one_that_accepts_in_another_way_is_not_taken(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct err err = ERR_INIT;
	struct listener l;

	(void)state;
	if (admit_open(loop, NULL, &err) < 0)
		fail_msg("%s", err.text);
	open_listener(&l, true);
	assert_int_equal(admit_prove(&err), -EPERM);
	assert_non_null(strstr(err.text, "can't be checked for their user"));
	close_listener(&l);
	admit_close();
	ev_loop_destroy(loop);
}

static void one_that_listens_for_other_machines_is_not_taken(void **state)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(admit_open(loop, NULL, &err), 0);
	assert_int_equal(admit_prove(&err), -EIO); /* not known where */
	admit_learn_uri("PMIX_RANK=0;tcp4://127.0.0.1:80");
	assert_int_equal(admit_prove(&err), -EIO);
	admit_learn_uri("PMIX_SERVER_URI41=a.0;tcp4://192.0.2.1:80");
	assert_int_equal(admit_prove(&err), -EPERM);
	assert_non_null(strstr(err.text, "loopback"));
	admit_close();
	ev_loop_destroy(loop);
}

static void a_library_that_does_not_call_it_is_named(void **state)
{
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(interpose((const void *)(uintptr_t)PMIx_server_init, "no_such_function",
				 (void *)(uintptr_t)close, &err),
		-ENOENT);
	assert_string_equal(err.text, "the library does not call 'no_such_function'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_accepts_as_libpmix_does_is_checked),
		cmocka_unit_test(one_that_accepts_in_another_way_is_not_taken),
		cmocka_unit_test(one_that_listens_for_other_machines_is_not_taken),
		cmocka_unit_test(a_library_that_does_not_call_it_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
