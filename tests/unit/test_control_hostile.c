/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clients that mean harm, or are merely broken: nothing of what they do reaches another client,
 * holds memory or descriptors, or ends the service.
 */
#include "stepd/control/control.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/control_rig.h"

#define CALL(method) "{\"method\":\"org.example.Trial." method "\"}"
#define BIG          "{\"method\":\"org.example.Trial.Big\",\"parameters\":{\"size\":1000000}}"
#define MANY         1000
#define STOPPED      200 /* readers of a BIG reply: several times what is kept for all */
#define HALF         500

static void expect_good(struct rig *rig)
{
	rig_try(rig, CALL("Echo"), "{\"parameters\":{}}");
}

/* The one connection that is there. */
static struct conn *only(struct rig *rig)
{
	struct conn *conn = TAILQ_FIRST(&rig->control->all);

	assert_non_null(conn);
	assert_null(TAILQ_NEXT(conn, all));
	return conn;
}

static void expect_nobody(struct rig *rig)
{
	rig_settle(rig);
	assert_int_equal(quota_count_all(rig->control), 0);
	assert_true(TAILQ_EMPTY(&rig->control->all));
	assert_int_equal(rig->control->memory, 0);
}

static void test_thousand_at_once(void **state)
{
	struct rig *rig = *state;
	int fds[MANY], i;

	for (i = 0; i < MANY; i++) {
		fds[i] = rig_connect(rig);
		rig_send(rig, fds[i], CALL("Echo"));
	}
	for (i = 0; i < MANY; i++)
		rig_expect(rig, fds[i], "{\"parameters\":{}}");
	assert_int_equal(quota_count_all(rig->control), MANY);
	assert_int_equal(rig->control->memory, 0);
	expect_good(rig);
	for (i = 0; i < MANY; i++)
		(void)close(fds[i]);
	expect_nobody(rig);
}

static void test_sizes(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *call = malloc(CONTROL_FRAME_MAX + 2);
	const size_t head = strlen(CALL("Echo"));
	int fd = rig_connect(rig);

	memset(call, ' ', CONTROL_FRAME_MAX + 1);
	memcpy(call, CALL("Echo"), head);
	call[CONTROL_FRAME_MAX] = '\0';
	rig_send(rig, fd, call);
	rig_expect(rig, fd, "{\"parameters\":{}}");
	call[CONTROL_FRAME_MAX] = ' ';
	call[CONTROL_FRAME_MAX + 1] = '\0';
	assert_int_equal(send(fd, call, 1000, MSG_NOSIGNAL), 1000);
	rig_settle(rig);
	(void)send(fd, call, CONTROL_FRAME_MAX, MSG_NOSIGNAL | MSG_DONTWAIT);
	rig_settle(rig);
	(void)send(fd, call, CONTROL_FRAME_MAX, MSG_NOSIGNAL | MSG_DONTWAIT);
	rig_expect_end(rig, fd);
	expect_nobody(rig);
}

static void test_deep_and_wide(void **state)
{
	struct rig *rig = *state;
	char deep[1000];
	_cleanup_free_ char *wide = malloc(CONTROL_FRAME_MAX);
	size_t i, at;
	int fd = rig_connect(rig);

	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	rig_send(rig, fd, deep);
	rig_expect_end(rig, fd);
	at = (size_t)snprintf(
		wide, CONTROL_FRAME_MAX, "{\"method\":\"a.b\",\"parameters\":{\"a\":[0");
	for (i = 0; i < CONTROL_VALUES_MAX; i++)
		at += (size_t)snprintf(wide + at, CONTROL_FRAME_MAX - at, ",1");
	(void)snprintf(wide + at, CONTROL_FRAME_MAX - at, "]}}");
	fd = rig_connect(rig);
	rig_send(rig, fd, wide);
	rig_expect_end(rig, fd);
	expect_nobody(rig);
}

static void test_random_bytes(void **state)
{
	struct rig *rig = *state;
	char bytes[3000];
	size_t i, size;
	int n, fd;

	srand(4711);
	for (n = 0; n < 2000; n++) {
		size = (size_t)rand() % sizeof(bytes);
		for (i = 0; i < size; i++)
			bytes[i] = (char)(rand() % (n % 2 ? 256 : 3));
		fd = rig_connect(rig);
		(void)send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n % 3 == 0)
			rig_settle(rig);
		(void)close(fd);
	}
	expect_nobody(rig);
	expect_good(rig);
}

/* A call has its time from its first byte on, however many more trickle in; who has not begun one
 * may stay. */
static void test_half_a_call(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);
	struct conn *conn;
	ev_tstamp left;

	rig_settle(rig);
	conn = only(rig);
	assert_false(ev_is_active(&conn->deadline));
	rig_send_bytes(rig, fd, CALL("Echo"), 10);
	rig_settle(rig);
	assert_true(ev_is_active(&conn->deadline));
	left = ev_timer_remaining(rig->loop, &conn->deadline);
	assert_true(left > 5. && left <= CONTROL_CALL_TIMEOUT_MS / 1e3 + 0.1);
	(void)poll(NULL, 0, 20);
	rig_send_bytes(rig, fd, &CALL("Echo")[10], 10);
	rig_settle(rig);
	assert_true(ev_timer_remaining(rig->loop, &conn->deadline) < left - 0.01);
	rig_send(rig, fd, &CALL("Echo")[20]);
	rig_expect(rig, fd, "{\"parameters\":{}}");
	assert_false(ev_is_active(&conn->deadline));
	rig_send_bytes(rig, fd, CALL("Echo"), 10);
	rig_settle(rig);
	ev_feed_event(rig->loop, &conn->deadline, EV_TIMER);
	rig_expect_end(rig, fd);
	expect_nobody(rig);
}

/* Nor does the time of a call run that waits behind one under way. */
static void test_half_a_call_behind_another(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);

	rig_send(rig, fd, CALL("Keep"));
	rig_send_bytes(rig, fd, CALL("Echo"), 10);
	rig_settle(rig);
	assert_false(ev_is_active(&only(rig)->deadline));
	control_reply_take(rig->held[0], NULL, true);
	assert_true(ev_is_active(&only(rig)->deadline));
	rig_expect(rig, fd, "{\"parameters\":{}}");
	(void)close(fd);
	expect_nobody(rig);
}

/* ---- who leaves ---------------------------------------------------------------------------- */

static void test_gone(void **state)
{
	struct rig *rig = *state;
	int fds[5], i;

	for (i = 0; i < 5; i++) {
		fds[i] = rig_connect(rig);
		rig_send(rig, fds[i], CALL("Keep"));
	}
	while (rig->held_count < 5)
		rig_once(rig);
	(void)close(fds[0]);
	assert_int_equal(shutdown(fds[1], SHUT_WR), 0); /* waits for its answer */
	assert_int_equal(shutdown(fds[2], SHUT_RDWR), 0);
	rig_send_bytes(rig, fds[3], CALL("Echo"), 10);
	(void)close(fds[3]); /* with bytes that nobody will read */
	rig_settle(rig);
	assert_int_equal(rig->gone_count, 3);
	(void)close(fds[1]);
	rig_settle(rig);
	assert_int_equal(rig->gone_count, 4);
	assert_int_equal(rig->held_count, 1);
	(void)close(fds[2]);
	rig->control = control_close(rig->control);
	assert_int_equal(rig->gone_count, 5);
	(void)close(fds[4]);
}

/* An answer to one who has just gone: no signal, no second end of the call. */
static void test_answers_to_nobody(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig), i;

	for (i = 0; i < 2; i++) {
		rig->gone_count = 0;
		rig_send(rig, fd, "{\"method\":\"org.example.Trial.Keep\",\"more\":true}");
		while (rig->held_count == 0)
			rig_once(rig);
		(void)close(fd);
		control_reply_take(rig->held[0], NULL, false); /* fails */
		control_reply_take(rig->held[0], NULL, false);
		if (i == 0)
			control_reply_take(rig->held[0], NULL, true);
		rig_settle(rig);
		assert_int_equal(rig->gone_count, i);
		rig->held_count = 0;
		fd = rig_connect(rig);
	}
	assert_int_equal(shutdown(fd, SHUT_RD), 0); /* wants no answers */
	rig_send(rig, fd, CALL("Echo"));
	rig_expect_end(rig, fd);
	expect_nobody(rig);
}

static void on_drained(struct control_call *call, void *userdata)
{
	struct rig *rig = userdata;

	assert_int_equal(buffer_size(&call->conn->out), 0);
	rig->drained_count++;
}

static void test_drained(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *text = calloc(1, 1000003);
	int fd = rig_connect(rig);

	text[0] = text[1000001] = '"';
	memset(text + 1, 'x', 1000000);
	rig_send(rig, fd, "{\"method\":\"org.example.Trial.Keep\",\"more\":true}");
	while (rig->held_count == 0)
		rig_once(rig);
	control_call_on_drained(rig->held[0], on_drained, rig);
	assert_int_equal(rig->drained_count, 0); /* from the loop */
	rig_settle(rig);
	assert_int_equal(rig->drained_count, 1);
	control_reply_text(rig->held[0], text, strlen(text), false);
	control_call_on_drained(rig->held[0], on_drained, rig);
	rig_settle(rig);
	assert_int_equal(rig->drained_count, 1); /* nobody reads */
	free(rig_receive(rig, fd));
	rig_settle(rig);
	assert_int_equal(rig->drained_count, 2);
	(void)close(fd);
	rig_settle(rig);
	assert_int_equal(rig->gone_count, 1);
}

/* ---- memory -------------------------------------------------------------------------------- */

static void expect_bound(struct rig *rig)
{
	if (rig->control->memory > CONTROL_MEMORY_MAX)
		fail_msg("%zu bytes of buffers", rig->control->memory);
}

/* Each wants a megabyte, and reads nothing: the service holds what it may, and who reads has all.
 */
static void test_stopped_readers(void **state)
{
	struct rig *rig = *state;
	int fds[STOPPED], i;
	_cleanup_free_ char *big = NULL;
	size_t most = 0;

	for (i = 0; i < STOPPED; i++) {
		fds[i] = rig_connect(rig);
		rig_send(rig, fds[i], BIG);
		rig_settle(rig);
		expect_bound(rig);
		most = rig->control->memory > most ? rig->control->memory : most;
	}
	assert_in_range(most, CONTROL_MEMORY_MAX / 2, CONTROL_MEMORY_MAX);
	expect_good(rig);
	big = rig_receive(rig, fds[STOPPED - 1]); /* the last is not the one that gives way */
	assert_non_null(big);
	assert_in_range(strlen(big), 1000000, 1000100);
	for (i = 0; i < STOPPED; i++)
		(void)close(fds[i]);
	expect_nobody(rig);
}

static void test_half_calls_of_many(void **state)
{
	struct rig *rig = *state;
	_cleanup_free_ char *half = malloc(CONTROL_FRAME_MAX);
	int fds[HALF], i;

	memset(half, ' ', CONTROL_FRAME_MAX);
	for (i = 0; i < HALF; i++) {
		fds[i] = rig_connect(rig);
		rig_send_bytes(rig, fds[i], half, CONTROL_FRAME_MAX);
		rig_settle(rig);
		expect_bound(rig);
	}
	expect_good(rig);
	for (i = 0; i < HALF; i++)
		(void)close(fds[i]);
	expect_nobody(rig);
}

/* ---- descriptors --------------------------------------------------------------------------- */

static ssize_t throw_fds(int fd, const char *text)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text) + 1};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
	const int fds[3] = {0, 1, 2};

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	return sendmsg(fd, &msg, MSG_NOSIGNAL);
}

/* Linux 6.16 refuses them at the socket; a pair stands for an older kernel's, which drops them. */
static void test_thrown_descriptors(void **state)
{
	struct rig *rig = *state;
	struct control_peer peer;
	struct conn *conn;
	int pair[2], fds, i, fd = rig_connect(rig);

	rig_settle(rig);
	fds = scratch_count_fds();
	if (throw_fds(fd, CALL("Echo")) < 0)
		assert_int_equal(errno, EPERM);
	else
		rig_expect(rig, fd, "{\"parameters\":{}}");
	assert_int_equal(scratch_count_fds(), fds);
	(void)close(fd);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(access_peer(pair[0], &peer), 0);
	assert_int_equal(conn_new_take(rig->control, pair[0], &peer, CONTROL_AGENT, &conn), 0);
	conn_settle(conn);
	fds = scratch_count_fds();
	for (i = 0; i < 100; i++) {
		assert_true(throw_fds(pair[1], CALL("Echo")) > 0);
		rig_expect(rig, pair[1], "{\"parameters\":{}}");
	}
	assert_in_range(scratch_count_fds(), 1, fds);
	(void)close(pair[1]);
	expect_nobody(rig);
}

/* The number that the next descriptor would get. */
static rlim_t next_fd(void)
{
	const int fd = dup(0);

	assert_true(fd > 0);
	(void)close(fd);
	return (rlim_t)fd;
}

static void limit_fds(rlim_t n)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* No descriptor is left: callers are turned away, the loop comes to rest, and it passes. */
static void test_no_descriptors(void **state)
{
	struct rig *rig = *state;
	struct rlimit saved;
	int fds[20], i;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	rig->log.most = LOG_LEVEL_ERROR;
	for (i = 0; i < 20; i++)
		fds[i] = rig_connect(rig);
	limit_fds(next_fd()); /* the sockets have them all */
	rig_settle(rig);
	assert_int_equal(quota_count_all(rig->control), 0);
	for (i = 0; i < 20; i++)
		rig_expect(rig, fds[i],
			"{\"error\":\"org.example.Trial.TooManyConnections\",\"parameters\":{"
			"\"limit\":0}}");
	limit_fds(saved.rlim_cur);
	for (i = 0; i < 20; i++)
		rig_expect_end(rig, fds[i]);
	expect_good(rig);
	expect_nobody(rig);
}

/* And where even the reserve is gone, it rests, then goes on. */
static void test_no_reserve(void **state)
{
	struct rig *rig = *state;
	struct rlimit saved;
	int fd = rig_connect(rig);
	unsigned before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	rig->log.most = LOG_LEVEL_ERROR;
	rig->control->spare_fd = close_fd(rig->control->spare_fd);
	limit_fds(3);
	rig_settle(rig);
	assert_false(ev_is_active(&rig->control->listeners[LISTENER_ALL].io));
	before = ev_iteration(rig->loop);
	(void)ev_run(rig->loop, EVRUN_ONCE); /* sleeps until it may try again */
	assert_in_range(ev_iteration(rig->loop) - before, 0, 2);
	limit_fds(saved.rlim_cur);
	rig_send(rig, fd, CALL("Echo"));
	rig_expect(rig, fd, "{\"parameters\":{}}");
	(void)close(fd);
	expect_good(rig);
	assert_true(rig->control->spare_fd >= 0);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void on_finished(void *userdata)
{
	struct rig *rig = userdata;

	rig->finished = true;
}

static void test_finish(void **state)
{
	struct rig *rig = *state;
	int reader = rig_connect(rig), stopped = rig_connect(rig), idle = rig_connect(rig);
	int holder = rig_connect(rig);
	_cleanup_free_ char *big = NULL;
	ev_tstamp begin;

	rig_send(rig, reader, BIG);
	rig_send(rig, reader, CALL("Echo")); /* too late */
	rig_send(rig, stopped, BIG);
	rig_send(rig, holder, CALL("Keep"));
	rig_settle(rig);
	control_finish(rig->control, 600000, on_finished, rig);
	assert_false(rig->finished);
	begin = ev_time();
	(void)usleep(150000); /* this process may be slow */
	big = rig_receive(rig, reader);
	assert_non_null(big);
	rig_expect_end(rig, reader);
	rig_expect_end(rig, idle);
	rig_expect_end(rig, holder);
	assert_int_equal(rig->gone_count, 1);
	while (!rig->finished)
		rig_once(rig);
	assert_true(ev_time() - begin < 600.); /* the one that reads nothing had less time */
	(void)close(stopped);
}

/* A method may begin the end: its own call is answered. */
static void test_finish_within_a_call(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);

	rig_send(rig, fd, CALL("End"));
	rig_send(rig, fd, CALL("Echo"));
	rig_expect(rig, fd, "{\"parameters\":{}}");
	rig_expect_end(rig, fd);
	rig_settle(rig);
	assert_true(rig->finished);
}

static void close_it(void *userdata)
{
	struct rig *rig = userdata;

	rig->control = control_close(rig->control);
}

/* done() may close the service; with nobody there it comes at once, and patience ends. */
static void test_finish_ends(void **state)
{
	struct rig *rig = *state;
	int fd;

	control_finish(rig->control, 5000, close_it, rig);
	assert_non_null(rig->control);
	rig_settle(rig);
	assert_null(rig->control);
	rig_open(rig);
	fd = rig_connect(rig);
	rig_send(rig, fd, BIG);
	rig_settle(rig);
	control_finish(rig->control, 0, close_it, rig);
	rig_settle(rig);
	assert_null(rig->control);
	(void)close(fd);
}

static int more_descriptors(void **state)
{
	struct rlimit limit;

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < 3000)
		return -1;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_thousand_at_once),
		TEST(test_sizes),
		TEST(test_deep_and_wide),
		TEST(test_random_bytes),
		TEST(test_half_a_call),
		TEST(test_half_a_call_behind_another),
		TEST(test_gone),
		TEST(test_answers_to_nobody),
		TEST(test_drained),
		TEST(test_stopped_readers),
		TEST(test_half_calls_of_many),
		TEST(test_thrown_descriptors),
		TEST(test_no_descriptors),
		TEST(test_no_reserve),
		TEST(test_finish),
		TEST(test_finish_within_a_call),
		TEST(test_finish_ends),
	};

	return cmocka_run_group_tests(tests, more_descriptors, NULL);
}
