/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whose a TCP connection is: what the kernel says of the other end, and of ends that are gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stepd/base/peer.h"
#include "tests/lib/scratch.h"

#define STRANGER 54321

struct pair {
	int listen_fd, client_fd, fd;
	struct sockaddr_storage address;
	socklen_t size;
	struct peer peer;
};

static int open_diag(void)
{
	struct err err = ERR_INIT;
	int fd = -1;

	if (peer_open(&fd, &err) < 0)
		fail_msg("%s", err.text);
	return fd;
}

static void set_loopback(struct sockaddr_storage *address, socklen_t *size, int family)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	memset(address, 0, sizeof(*address));
	if (family == AF_INET) {
		*v4 = (struct sockaddr_in){.sin_family = AF_INET};
		v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		*size = sizeof(*v4);
	} else {
		*v6 = (struct sockaddr_in6){
			.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
		*size = sizeof(*v6);
	}
}

/* Skips where the machine has no such addresses. */
static struct pair open_listener(int family)
{
	struct pair p = {.client_fd = -1, .fd = -1};

	set_loopback(&p.address, &p.size, family);
	p.listen_fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p.listen_fd < 0 || bind(p.listen_fd, (struct sockaddr *)&p.address, p.size) < 0) {
		(void)close_fd(p.listen_fd);
		skip();
	}
	assert_int_equal(listen(p.listen_fd, 8), 0);
	assert_int_equal(getsockname(p.listen_fd, (struct sockaddr *)&p.address, &p.size), 0);
	return p;
}

static struct pair open_pair(int family)
{
	struct pair p = open_listener(family);

	p.client_fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(p.client_fd >= 0);
	assert_int_equal(connect(p.client_fd, (struct sockaddr *)&p.address, p.size), 0);
	p.fd = accept(p.listen_fd, NULL, NULL);
	assert_true(p.fd >= 0);
	return p;
}

static void close_pair(struct pair *p)
{
	(void)close_fd(p->fd);
	(void)close_fd(p->client_fd);
	(void)close_fd(p->listen_fd);
}

static void assert_owner(int diag_fd, int fd, uid_t wanted)
{
	struct err err = ERR_INIT;
	struct peer peer = {.uid = (uid_t)-1};

	if (peer_find(diag_fd, fd, &peer, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(peer.uid, wanted);
}

static void assert_refused(int diag_fd, int fd, int code)
{
	struct err err = ERR_INIT;
	struct peer peer = {.uid = 77};

	assert_int_equal(peer_find(diag_fd, fd, &peer, &err), code);
	assert_int_equal(err.code, code);
	assert_int_equal(peer.uid, 77);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

/* ---- owners ---- */

static void owner_of_family(int family)
{
	struct pair p = open_pair(family);
	_cleanup_close_ int diag_fd = open_diag();
	int before = scratch_count_fds();

	for (int i = 0; i < 100; i++)
		assert_owner(diag_fd, p.fd, geteuid());
	assert_int_equal(scratch_count_fds(), before);
	close_pair(&p);
}

static void an_ipv4_connection_has_its_owner(void **state)
{
	(void)state;
	owner_of_family(AF_INET);
}

static void an_ipv6_connection_has_its_owner(void **state)
{
	(void)state;
	owner_of_family(AF_INET6);
}

/* The kernel's table has the socket as one of IPv6 then. */
static void an_ipv6_socket_that_connects_by_ipv4_has_its_owner(void **state)
{
	_cleanup_close_ int diag_fd = open_diag();
	struct pair p = open_listener(AF_INET);
	struct sockaddr_in6 mapped = {.sin6_family = AF_INET6,
		.sin6_addr = {.s6_addr = {[10] = 0xff, 0xff, 127, 0, 0, 1}},
		.sin6_port = ((struct sockaddr_in *)&p.address)->sin_port};

	(void)state;
	p.client_fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p.client_fd < 0)
		skip();
	assert_int_equal(connect(p.client_fd, (struct sockaddr *)&mapped, sizeof(mapped)), 0);
	p.fd = accept(p.listen_fd, NULL, NULL);
	assert_true(p.fd >= 0);
	assert_owner(diag_fd, p.fd, geteuid());
	close_pair(&p);
}

/* Connects as the stranger and holds the connection until the other end closes. */
static pid_t fork_stranger(const struct pair *p)
{
	pid_t pid = fork();
	char byte;
	int fd;

	if (pid != 0)
		return pid;
	if (setresuid(STRANGER, STRANGER, STRANGER) < 0)
		_exit(1);
	fd = socket(p->address.ss_family, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&p->address, p->size) < 0)
		_exit(1);
	(void)close(p->listen_fd);
	_exit(read(fd, &byte, 1) == 0 ? 0 : 1);
}

static void another_users_connection_has_that_user_as_owner(void **state)
{
	_cleanup_close_ int diag_fd = open_diag();
	struct pair p;
	int status = -1;
	pid_t pid;

	(void)state;
	need_root();
	p = open_listener(AF_INET);
	pid = fork_stranger(&p);
	assert_true(pid > 0);
	p.fd = accept(p.listen_fd, NULL, NULL);
	assert_true(p.fd >= 0);
	assert_owner(diag_fd, p.fd, STRANGER);
	close_pair(&p);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- connections and processes ---- */

static struct peer find_peer(int diag_fd, int fd)
{
	struct err err = ERR_INIT;
	struct peer peer;

	if (peer_find(diag_fd, fd, &peer, &err) < 0)
		fail_msg("%s", err.text);
	return peer;
}

static void a_connection_is_there_until_its_other_end_closes(void **state)
{
	struct pair p = open_pair(AF_INET);
	_cleanup_close_ int diag_fd = open_diag();
	struct peer peer = find_peer(diag_fd, p.fd);

	(void)state;
	assert_true(peer_is_connected(diag_fd, &peer));
	p.client_fd = close_fd(p.client_fd);
	assert_false(peer_is_connected(diag_fd, &peer));
	close_pair(&p);
}

static void a_process_is_told_from_another_by_what_it_has_open(void **state)
{
	_cleanup_close_ int diag_fd = open_diag();
	struct pair one, two, three;
	int status = -1;
	pid_t pid;

	(void)state;
	need_root();
	three = open_listener(AF_INET);
	pid = fork_stranger(&three);
	assert_true(pid > 0);
	three.fd = accept(three.listen_fd, NULL, NULL);
	assert_true(three.fd >= 0);
	one = open_pair(AF_INET);
	two = open_pair(AF_INET);
	one.peer = find_peer(diag_fd, one.fd);
	two.peer = find_peer(diag_fd, two.fd);
	three.peer = find_peer(diag_fd, three.fd);
	assert_true(peer_share_process(&one.peer, &two.peer));
	assert_false(peer_share_process(&one.peer, &three.peer));
	close_pair(&three);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close_pair(&one);
	close_pair(&two);
}

/* ---- ends that are gone ---- */

/* In the table it is one of root, with no inode. */
static void who_sends_and_closes_is_nobody(void **state)
{
	struct pair p = open_pair(AF_INET);
	_cleanup_close_ int diag_fd = open_diag();

	(void)state;
	assert_int_equal(send(p.client_fd, "hello", 5, 0), 5);
	p.client_fd = close_fd(p.client_fd);
	assert_refused(diag_fd, p.fd, -EPERM);
	close_pair(&p);
}

static void who_resets_the_connection_is_nobody(void **state)
{
	struct linger reset = {.l_onoff = 1};
	struct pair p = open_pair(AF_INET);
	_cleanup_close_ int diag_fd = open_diag();
	struct err err = ERR_INIT;
	struct peer peer;

	(void)state;
	assert_int_equal(setsockopt(p.client_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
	p.client_fd = close_fd(p.client_fd);
	assert_true(peer_find(diag_fd, p.fd, &peer, &err) < 0);
	close_pair(&p);
}

static void who_has_shut_its_end_is_nobody(void **state)
{
	struct pair p = open_pair(AF_INET);
	_cleanup_close_ int diag_fd = open_diag();

	(void)state;
	assert_int_equal(shutdown(p.client_fd, SHUT_WR), 0);
	assert_refused(diag_fd, p.fd, -EPERM);
	close_pair(&p);
}

/* Between the addresses and the question the other end goes and another one, of another user
 * perhaps, takes its port. */
static struct pair *replaced;

ssize_t __real_sendto(
	int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t size);
ssize_t __wrap_sendto(
	int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t size);

ssize_t __wrap_sendto(
	int fd, const void *buf, size_t n, int flags, const struct sockaddr *to, socklen_t size)
{
	struct linger reset = {.l_onoff = 1};
	struct sockaddr_in port = {.sin_port = 0};
	socklen_t port_size = sizeof(port);
	struct pair *p = replaced;

	if (p) {
		assert_int_equal(
			getsockname(p->client_fd, (struct sockaddr *)&port, &port_size), 0);
		assert_int_equal(
			setsockopt(p->client_fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
		(void)close_fd(p->client_fd);
		p->client_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(p->client_fd, (struct sockaddr *)&port, port_size), 0);
		assert_int_equal(connect(p->client_fd, (struct sockaddr *)&p->address, p->size), 0);
	}
	return __real_sendto(fd, buf, n, flags, to, size);
}

static void who_takes_the_port_of_one_that_is_gone_does_not_speak_for_it(void **state)
{
	struct pair p = open_pair(AF_INET);
	_cleanup_close_ int diag_fd = open_diag();

	(void)state;
	replaced = &p;
	assert_refused(diag_fd, p.fd, -EPERM);
	replaced = NULL;
	(void)close_fd(p.fd);
	p.fd = accept(p.listen_fd, NULL, NULL);
	assert_owner(diag_fd, p.fd, geteuid());
	close_pair(&p);
}

/* ---- what is no connection of this machine ---- */

/* Asks the kernel in a namespace of its own: 0 if it is told of no owner, 2 if there can be none.
 */
static int check_from_elsewhere(const struct pair *p, bool listening)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct err err = ERR_INIT;
	socklen_t size = sizeof(any);
	int diag_fd = -1, fd;
	struct peer peer;

	if (getsockname(p->client_fd, (struct sockaddr *)&any, &size) < 0)
		return 1;
	if (unshare(CLONE_NEWNET) < 0)
		return 2;
	any.sin_addr.s_addr = 0;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (listening && (bind(fd, (struct sockaddr *)&any, size) < 0 || listen(fd, 1) < 0))
		return 1;
	if (peer_open(&diag_fd, &err) < 0)
		return 1;
	return peer_find(diag_fd, p->fd, &peer, &err) == -EPERM ? 0 : 1;
}

static void connection_elsewhere(bool listening)
{
	struct pair p;
	int status = -1;
	pid_t pid;

	need_root();
	p = open_pair(AF_INET);
	pid = fork();
	if (pid == 0)
		_exit(check_from_elsewhere(&p, listening));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close_pair(&p);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip();
	assert_int_equal(status, 0);
}

static void another_namespaces_table_has_no_owner(void **state)
{
	(void)state;
	connection_elsewhere(false);
}

/* Which is what the kernel answers with where it finds no connection. */
static void a_listener_at_the_port_of_the_other_end_is_no_owner(void **state)
{
	(void)state;
	connection_elsewhere(true);
}

static void other_sockets_are_refused(void **state)
{
	_cleanup_close_ int diag_fd = open_diag();
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	assert_refused(diag_fd, fd[0], -EAFNOSUPPORT);
	(void)close(fd[0]);
	(void)close(fd[1]);
	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_refused(diag_fd, fd[0], -ENOTCONN);
	(void)close(fd[0]);
	assert_refused(diag_fd, fd[0], -EBADF);
}

/* A port that is let go is nobody else's to take there. Without root it is the machine's own. */
static void enter_own_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	_cleanup_close_ int fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0) {
		perror("bring up the loopback device of a network namespace");
		exit(1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ipv4_connection_has_its_owner),
		cmocka_unit_test(an_ipv6_connection_has_its_owner),
		cmocka_unit_test(an_ipv6_socket_that_connects_by_ipv4_has_its_owner),
		cmocka_unit_test(another_users_connection_has_that_user_as_owner),
		cmocka_unit_test(a_connection_is_there_until_its_other_end_closes),
		cmocka_unit_test(a_process_is_told_from_another_by_what_it_has_open),
		cmocka_unit_test(who_sends_and_closes_is_nobody),
		cmocka_unit_test(who_resets_the_connection_is_nobody),
		cmocka_unit_test(who_has_shut_its_end_is_nobody),
		cmocka_unit_test(who_takes_the_port_of_one_that_is_gone_does_not_speak_for_it),
		cmocka_unit_test(another_namespaces_table_has_no_owner),
		cmocka_unit_test(a_listener_at_the_port_of_the_other_end_is_no_owner),
		cmocka_unit_test(other_sockets_are_refused),
	};

	enter_own_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
