/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who may call what, and how many of whom: by processes of other users, so only root can try.
 */
#include "stepd/control/control.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/lib/control_rig.h"

#define OWNER    4001
#define STRANGER 4200
#define GROUP    4100

#define CALL(method) "{\"method\":\"org.example.Trial." method "\"}"

#define CHECK_ROOT()                                                                               \
	do {                                                                                       \
		if (geteuid() != 0)                                                                \
			skip();                                                                    \
	} while (0)

/* Which of a method of each kind this user may call: 1 ask, 2 owner's, 4 the agent's, 8 those of
 * every service. The others are refused by their names. */
static int try_all(struct rig *rig, int argument)
{
	static const struct {
		const char *call, *denied;
	} tries[] = {
		{CALL("Echo"),
			"\"method\":\"org.example.Trial.Echo\",\"needs\":\"ask\",\"message\":\""},
		{"{\"method\":\"org.example.Trial.Change\",\"parameters\":{\"text\":\"a\"}}",
			"\"method\":\"org.example.Trial.Change\",\"needs\":\"owner\",\"message\":"},
		{CALL("Rule"),
			"\"method\":\"org.example.Trial.Rule\",\"needs\":\"agent\",\"message\":\""},
		{"{\"method\":\"org.varlink.service.GetInfo\"}", ""},
	};
	int may = 0, fd = rig_child_connect(rig);
	size_t i;

	(void)argument;
	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		_cleanup_free_ char *answer = rig_child_call(fd, tries[i].call);

		if (!answer)
			return 90;
		if (!strstr(answer, "\"error\""))
			may |= 1 << i;
		else if (!strstr(answer, "{\"error\":\"org.example.Trial.PermissionDenied\",") ||
			!strstr(answer, tries[i].denied))
			return 91;
	}
	return may;
}

static int may(struct rig *rig, uid_t uid, gid_t gid, gid_t group)
{
	return rig_wait(rig, rig_fork(rig, uid, gid, group, try_all, 0));
}

static void test_who_may(void **state)
{
	struct rig *rig = *state;

	CHECK_ROOT();
	assert_int_equal(may(rig, 0, 0, -1), 15);
	assert_int_equal(may(rig, OWNER, OWNER, -1), 11);
	assert_int_equal(may(rig, STRANGER, GROUP, -1), 9);
	assert_int_equal(may(rig, STRANGER, STRANGER, GROUP), 9); /* a supplementary one */
	assert_int_equal(may(rig, STRANGER, STRANGER, GROUP + 1), 8);
	assert_int_equal(may(rig, STRANGER, 0, 0), 8); /* root's group is nobody */
	assert_int_equal(may(rig, STRANGER, OWNER, -1), 8);
	rig->options.operator_gid = (gid_t)-1;
	rig_open(rig);
	control_set_ready(rig->control);
	assert_int_equal(may(rig, STRANGER, STRANGER, GROUP), 8);
	assert_int_equal(may(rig, STRANGER, (gid_t)-2, -1), 8);
}

/* The same while the agent runs as agent_uid. */
static int may_of_agent(struct rig *rig, uid_t agent_uid, uid_t uid)
{
	pid_t pid = rig_fork(rig, uid, uid, -1, try_all, 0);
	int status;

	assert_int_equal(seteuid(agent_uid), 0);
	status = rig_wait(rig, pid);
	assert_int_equal(seteuid(0), 0);
	return status;
}

/* An agent that is not root: its own user may all, as root may. */
static void test_the_agents_user(void **state)
{
	struct rig *rig = *state;

	CHECK_ROOT();
	assert_int_equal(may_of_agent(rig, STRANGER, 0), 15);
	assert_int_equal(may_of_agent(rig, STRANGER, STRANGER), 15);
	assert_int_equal(may_of_agent(rig, STRANGER, OWNER), 11);
	assert_int_equal(may_of_agent(rig, STRANGER, STRANGER + 1), 8);
}

static void test_peer(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);
	const struct control_peer *peer;

	rig_send(rig, fd, CALL("Keep"));
	while (rig->held_count == 0)
		rig_once(rig);
	peer = control_call_peer(rig->held[0]);
	assert_int_equal(peer->pid, getpid());
	assert_int_equal(peer->uid, geteuid());
	assert_int_equal(peer->gid, getegid());
	control_reply_take(rig->held[0], NULL, true);
	(void)close(fd);
}

/* ---- how many ------------------------------------------------------------------------------ */

/* Makes so many connections, says how many of them it may keep by one byte each on the pipe, and
 * holds them until it is closed. */
struct holder {
	pid_t pid;
	int told, hold;
};

static int holder_fds[4];

static int hold(struct rig *rig, int count)
{
	static const char turned_away[] =
		"{\"error\":\"org.example.Trial.TooManyConnections\",\"parameters\":{\"limit\":";
	_cleanup_free_ int *fds = calloc((size_t)count, sizeof(*fds));
	char byte;
	int i;

	/* What the service has must not live on here. */
	if (dup2(holder_fds[1], 3) < 0 || dup2(holder_fds[2], 4) < 0 || close_range(5, ~0u, 0) < 0)
		return 96;
	for (i = 0; i < count; i++) {
		_cleanup_free_ char *answer = NULL;

		fds[i] = rig_child_connect(rig);
		answer = rig_child_call(fds[i], "{\"method\":\"org.varlink.service.GetInfo\"}");
		if (!answer)
			return 92;
		byte = strncmp(answer, turned_away, strlen(turned_away)) == 0 ? '-' : '+';
		if (byte == '-' && recv(fds[i], &byte, 1, 0) > 0)
			return 93; /* it was told to go, and is still there */
		if (write(3, byte == '+' ? "+" : "-", 1) != 1)
			return 94;
	}
	(void)close(3);
	return read(4, &byte, 1) == 0 ? 0 : 95;
}

static struct holder begin_holding(struct rig *rig, uid_t uid, int count)
{
	struct holder h;

	assert_int_equal(pipe2(holder_fds, O_CLOEXEC), 0);
	assert_int_equal(pipe2(holder_fds + 2, O_CLOEXEC), 0);
	assert_true(holder_fds[0] > 4); /* 3 and 4 are the service's */
	h.pid = rig_fork(rig, uid, uid, -1, hold, count);
	h.told = holder_fds[0];
	h.hold = holder_fds[3];
	(void)close(holder_fds[1]);
	(void)close(holder_fds[2]);
	assert_int_equal(fcntl(h.told, F_SETFL, O_NONBLOCK), 0);
	return h;
}

/* Waits until it has made them all; how many it has. */
static int count_held(struct rig *rig, struct holder *h)
{
	char byte;
	int n = 0;
	ssize_t got;

	while ((got = read(h->told, &byte, 1)) != 0) {
		if (got < 0) {
			assert_int_equal(errno, EAGAIN);
			(void)ev_run(rig->loop, EVRUN_NOWAIT);
			continue;
		}
		n += byte == '+';
	}
	(void)close(h->told);
	return n;
}

static void end_holding(struct rig *rig, const struct holder *h)
{
	(void)close(h->hold);
	assert_int_equal(rig_wait(rig, h->pid), 0);
}

static void expect_good(struct rig *rig)
{
	rig_try(rig, CALL("Echo"), "{\"parameters\":{}}");
}

static void test_strangers(void **state)
{
	struct holder strangers[10], owner;
	struct rig *rig = *state;
	int i, held = 0;

	CHECK_ROOT();
	for (i = 0; i < 10; i++)
		strangers[i] = begin_holding(rig, (uid_t)(STRANGER + i), i == 0 ? 12 : 8);
	for (i = 0; i < 10; i++)
		held += count_held(rig, &strangers[i]);
	assert_int_equal(held, 64); /* of 84, by ten users of which each may have 8 */
	assert_int_equal(rig->control->counts[CONTROL_EVERYBODY], 64);
	expect_good(rig);
	owner = begin_holding(rig, OWNER, 100);
	assert_int_equal(count_held(rig, &owner), 100);
	end_holding(rig, &owner);
	for (i = 0; i < 10; i++)
		end_holding(rig, &strangers[i]);
	rig_settle(rig);
	assert_int_equal(quota_count_all(rig->control), 0);
}

static void test_the_owners_share(void **state)
{
	struct rig *rig = *state;
	struct holder owner, stranger;

	CHECK_ROOT();
	owner = begin_holding(rig, OWNER, 1030);
	assert_int_equal(count_held(rig, &owner), 1024);
	stranger = begin_holding(rig, STRANGER, 9);
	assert_int_equal(count_held(rig, &stranger), 8);
	expect_good(rig);
	end_holding(rig, &owner);
	end_holding(rig, &stranger);
}

/* Root has used up even what is its alone: who is silent for longest makes room, not who works. */
static void test_root_always_gets_in(void **state)
{
	struct rig *rig = *state;
	int fds[CONTROL_CONNECTIONS_MAX + 1], i;
	char byte;

	for (i = 0; i < CONTROL_CONNECTIONS_MAX; i++) {
		fds[i] = rig_connect(rig);
		if (i % 16 == 0)
			rig_settle(rig);
	}
	rig_settle(rig);
	assert_int_equal(quota_count_all(rig->control), CONTROL_CONNECTIONS_MAX);
	rig_send(rig, fds[0], CALL("Keep"));
	rig_settle(rig);
	fds[i] = rig_connect(rig);
	rig_send(rig, fds[i], CALL("Echo"));
	rig_expect(rig, fds[i], "{\"parameters\":{}}");
	assert_int_equal(recv(fds[1], &byte, 1, MSG_DONTWAIT), 0);
	assert_int_equal(recv(fds[0], &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(quota_count_all(rig->control), CONTROL_CONNECTIONS_MAX);
	for (i = 0; i <= CONTROL_CONNECTIONS_MAX; i++)
		(void)close(fds[i]);
	rig_settle(rig);
	assert_int_equal(rig->gone_count, 1);
}

/* With few descriptors, half of them are the step's. */
static void test_few_descriptors(void **state)
{
	struct rig *rig = *state;
	struct rlimit saved, few;
	struct holder stranger;

	CHECK_ROOT();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	few = (struct rlimit){.rlim_cur = 256, .rlim_max = saved.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	rig_open(rig);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(rig->control->connections_max, 128);
	stranger = begin_holding(rig, STRANGER, 3);
	assert_int_equal(count_held(rig, &stranger), 1);
	expect_good(rig);
	end_holding(rig, &stranger);
}

/* ---- how large, and how long --------------------------------------------------------------- */

static bool is_answered(struct rig *rig, const char *call)
{
	const int fd = rig_child_connect(rig);
	_cleanup_free_ char *answer = rig_child_call(fd, call);

	(void)close(fd);
	return answer != NULL;
}

/* Which frames are answered: 1 for one as long as a stranger's may be, 2 for one a byte longer; 4
 * for one with as many values, 8 for one value more. */
static int try_sizes(struct rig *rig, int argument)
{
	static const char head[] = "{\"method\":\"org.varlink.service.GetInfo\"}";
	char call[CONTROL_SMALL_FRAME_MAX + 2], values[4 * CONTROL_SMALL_VALUES];
	size_t i, at;
	int r;

	(void)argument;
	memset(call, ' ', sizeof(call));
	memcpy(call, head, strlen(head));
	call[CONTROL_SMALL_FRAME_MAX + 1] = '\0';
	r = is_answered(rig, call) ? 2 : 0;
	call[CONTROL_SMALL_FRAME_MAX] = '\0';
	r |= is_answered(rig, call) ? 1 : 0;
	at = (size_t)snprintf(
		values, sizeof(values), "{\"method\":\"a.b\",\"parameters\":{\"a\":[0");
	for (i = 5; i < CONTROL_SMALL_VALUES; i++) /* the frame itself counts for five */
		at += (size_t)snprintf(values + at, sizeof(values) - at, ",1");
	(void)snprintf(values + at, sizeof(values) - at, "]}}");
	r |= is_answered(rig, values) ? 4 : 0;
	(void)snprintf(values + at, sizeof(values) - at, ",1]}}");
	return r | (is_answered(rig, values) ? 8 : 0);
}

static void test_a_strangers_frames_are_small(void **state)
{
	struct rig *rig = *state;

	CHECK_ROOT();
	assert_int_equal(rig_wait(rig, rig_fork(rig, STRANGER, STRANGER, -1, try_sizes, 0)), 5);
	assert_int_equal(rig_wait(rig, rig_fork(rig, OWNER, OWNER, -1, try_sizes, 0)), 15);
}

/* ---- a service for everybody ----------------------------------------------------------------- */

static int send_large(struct rig *rig, int size)
{
	static const char head[] = "{\"method\":\"org.example.Trial.Echo\"}";
	_cleanup_free_ char *call = malloc((size_t)size + 1);

	if (!call)
		return 90;
	memset(call, ' ', (size_t)size);
	memcpy(call, head, strlen(head));
	call[size] = '\0';
	return is_answered(rig, call);
}

/* The bounds are the service's own, for root's frames as for a stranger's. */
static void test_a_service_for_everybody(void **state)
{
	static const struct control_bounds bounds = {.frame_max = 1u << 20,
		.values_max = 100,
		.user_connections_max = 20,
		.shared_connections_max = 30,
		.turn_ms = 5};
	struct holder strangers[2];
	struct rig *rig = *state;
	int i;

	CHECK_ROOT();
	rig->options.bounds = &bounds;
	rig_open(rig);
	control_set_ready(rig->control);
	for (i = 0; i < 2; i++) {
		strangers[i] = begin_holding(rig, (uid_t)(STRANGER + i), 25);
		assert_int_equal(count_held(rig, &strangers[i]), i ? 10 : 20);
	}
	for (i = 0; i < 2; i++)
		end_holding(rig, &strangers[i]);
	rig_settle(rig);
	for (i = 0; i < 2; i++) {
		const uid_t uid = i ? 0 : STRANGER;

		assert_int_equal(
			rig_wait(rig, rig_fork(rig, uid, uid, -1, send_large, 1 << 20)), 1);
		assert_int_equal(
			rig_wait(rig, rig_fork(rig, uid, uid, -1, send_large, (1 << 20) + 1)), 0);
	}
}

#define TOILERS 20
#define EACH    8

/* Calls that take their time, so many on each of the connections, all sent before one is answered.
 */
static int toil(struct rig *rig, int drudge)
{
	static const char *const calls[] = {CALL("Toil"), CALL("Drudge")};
	int fds[TOILERS], i, k;
	char answer[64];

	for (i = 0; i < TOILERS; i++) {
		fds[i] = rig_child_connect(rig);
		for (k = 0; k < EACH; k++) {
			if (send(fds[i], calls[drudge], strlen(calls[drudge]) + 1, MSG_NOSIGNAL) <
				0)
				return 91;
		}
	}
	for (i = 0; i < TOILERS; i++) {
		if (recv(fds[i], answer, 1, 0) != 1)
			return 92;
	}
	return 0;
}

/* More calls than this a turn has no time for: one that begins in time may end beyond it. */
static unsigned most_of_a_turn(void)
{
	return 5000000 / RIG_TOIL_NS + 1; /* the owner's share */
}

/* Lets the loop run until so many of the owner's calls have run, and checks each turn. */
static void run_turns(struct rig *rig, unsigned toils)
{
	unsigned before;

	while (rig->toils < toils) {
		before = rig->toils;
		rig_once(rig);
		assert_in_range(rig->toils - before, 0, most_of_a_turn());
	}
}

/* The owner's calls take their share of each turn and no more: root waits for some, not for all. */
static void test_turns_have_an_end(void **state)
{
	struct rig *rig = *state;
	int fd = rig_connect(rig);
	unsigned before;
	pid_t pid;

	CHECK_ROOT();
	pid = rig_fork(rig, OWNER, OWNER, -1, toil, 0);
	run_turns(rig, TOILERS);
	before = rig->toils;
	rig_send(rig, fd, CALL("Echo"));
	rig_expect(rig, fd, "{\"parameters\":{}}");
	assert_in_range(rig->toils - before, 0, 2 * most_of_a_turn());
	run_turns(rig, 2 * TOILERS);
	assert_int_equal(rig_wait(rig, pid), 0);
	(void)close(fd);
}

/* Nor does the moment when all waiting calls may run at once. */
static void test_waiting_calls_take_turns(void **state)
{
	struct rig *rig = *state;
	pid_t pid;
	int i;

	CHECK_ROOT();
	rig_open(rig); /* not ready */
	pid = rig_fork(rig, OWNER, OWNER, -1, toil, 1);
	while (rig->control->counts[CONTROL_OWNER] < TOILERS)
		rig_once(rig);
	rig_settle(rig);
	assert_int_equal(rig->toils, 0);
	control_set_ready(rig->control);
	for (i = 0; i < 3; i++) {
		rig->toils = 0;
		rig_once(rig);
		assert_in_range(rig->toils, i > 0, most_of_a_turn());
	}
	assert_int_equal(rig_wait(rig, pid), 0);
}

static int more_descriptors(void **state)
{
	struct rlimit limit;

	(void)state;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max < 5000)
		return -1;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_who_may, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_the_agents_user, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_peer, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_strangers, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_the_owners_share, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_root_always_gets_in, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_few_descriptors, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_strangers_frames_are_small, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_service_for_everybody, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_turns_have_an_end, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(
			test_waiting_calls_take_turns, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, more_descriptors, NULL);
}
