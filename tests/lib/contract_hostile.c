/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract of <stepd/proctrack.h> with processes that a naive tracker loses, lists wrongly,
 * or takes for others.
 */
#include "tests/lib/contract.h"
#include "tests/lib/child.h"
#include "tests/lib/rounds.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "proctrack/generic.h"
#include "stepd/base/proc.h"

/* Tasks that name themselves after what a parser of /proc/PID/stat may stumble on. */
static void test_names(void **state)
{
	static const char *const names[] = {"a b", "x) R 1", "tmux: server", "stepd", "a\nb",
		") Z 0 0 0 0 0", "((((", "))))", "", "1 (x) S 0 0"};
	struct contract *c = *state;
	pid_t pids[2 * ARRAY_SIZE(names)];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		(void)contract_start(c, "name", names[i], NULL);
	contract_read(c, pids, ARRAY_SIZE(pids));
	contract_expect_members(c, pids, ARRAY_SIZE(pids));
	for (i = 0; i < ARRAY_SIZE(pids); i++)
		assert_true(proctrack_find(c->pt, pids[i]) == c->id);
	contract_kill(c, SIGTERM);
}

/* pgid loses processes that change their group, as its manual has it. They end with the test. */
static void expect_escaped(struct contract *c, const pid_t *pids, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		assert_true(proctrack_find(c->pt, pids[i]) == 0);
		assert_false(proctrack_has_pid(c->pt, c->id, pids[i]));
		assert_int_equal(kill(pids[i], 0), 0);
	}
}

static void test_daemon(void **state)
{
	struct contract *c = *state;
	pid_t pids[2], first = contract_start(c, "daemon", NULL);

	contract_read(c, pids, 2);
	assert_int_equal(waitpid(first, NULL, 0), first);
	assert_true(waitpid(-1, NULL, 0) > 0); /* the second, orphaned */
	if (contract_is(c, "pgid")) {
		assert_int_equal(proctrack_signal(c->pt, c->id, SIGKILL), -ESRCH);
		expect_escaped(c, pids, 2);
		return;
	}
	contract_expect_members(c, pids, 2);
	assert_true(proctrack_find(c->pt, pids[0]) == c->id);
	assert_true(proctrack_find(c->pt, pids[1]) == c->id);
	contract_kill(c, SIGTERM);
}

static void test_change_of_group(void **state)
{
	struct contract *c = *state;
	pid_t pids[2], parent = contract_start(c, "group", NULL), child;

	contract_read(c, pids, 2);
	child = pids[0] == parent ? pids[1] : pids[0];
	if (contract_is(c, "pgid")) {
		contract_expect_members(c, &parent, 1);
		assert_int_equal(proctrack_signal(c->pt, c->id, SIGKILL), 0);
		assert_int_equal(waitpid(parent, NULL, 0), parent);
		expect_escaped(c, &child, 1);
		return;
	}
	contract_expect_members(c, pids, 2);
	contract_kill(c, SIGTERM);
}

/* Bytes left in the pipe must not claim that a process came to its natural end. */
static void expect_none_survived(struct contract *c)
{
	while (!contract_is_silent(c, 0))
		assert_true(contract_read_one(c) > 0);
}

/* Reads n reports while chains run, and reaps, as an agent does, the thousands that end. */
static void read_and_reap(struct contract *c, int n)
{
	while (n > 0) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (!contract_is_silent(c, 1)) {
			(void)contract_read_one(c);
			n--;
		}
	}
}

static void test_chains(void **state)
{
	uint32_t i, rounds = rounds_choose("CONTRACT_ROUNDS", 20, 50);
	struct contract *c = *state;
	int r;

	if (contract_is(c, "linuxproc")) {
		contract_skip(c, "a chain outruns the passes over /proc, as documented");
		return;
	}
	if (contract_is(c, "cray_aries")) {
		contract_skip(c, "a chain outruns the library's lists, as documented");
		return;
	}
	for (i = 0; i < rounds; i++) {
		(void)contract_start(c, "chains", "32", NULL);
		read_and_reap(c, 32);
		r = proctrack_signal(c->pt, c->id, SIGTERM);
		/* pgid's list, as documented, can miss them; its signal does not */
		assert_true(r == 0 || (r == -ESRCH && contract_is(c, "pgid")));
		assert_int_equal(proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS), 0);
		contract_expect_no_child(CONTRACT_PATIENCE_MS);
		expect_none_survived(c);
	}
}

static void test_bomb(void **state)
{
	struct contract *c = *state;
	pid_t pids[50];
	int i;

	for (i = 0; i < 8; i++) { /* for the kill to fall into as many phases of it */
		(void)contract_start(c, "bomb", "500", NULL);
		contract_read(c, pids, 20 + i * 4);
		contract_kill(c, SIGKILL);
		expect_none_survived(c);
	}
}

static void test_stopped(void **state)
{
	struct contract *c = *state;
	pid_t pid;
	int i;

	for (i = 0; i < 2; i++) {
		pid = contract_start(c, "stopped", NULL);
		(void)contract_read_one(c);
		assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
		contract_expect_members(c, &pid, 1);
		assert_int_equal(proctrack_signal(c->pt, c->id, SIGTERM), 0);
		assert_int_equal(proctrack_wait(c->pt, c->id, 20), -ETIMEDOUT);
		/* the stop stays, and what was sent comes when it goes */
		contract_kill(c, i == 0 ? SIGCONT : SIGKILL);
	}
}

static void test_suspended(void **state)
{
	struct contract *c = *state;
	pid_t pids[8];

	(void)contract_start(c, "rest", "8", NULL);
	contract_read(c, pids, 8);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	contract_expect_members(c, pids, 8);
	contract_kill(c, SIGKILL);
}

static void test_traced(void **state)
{
	struct contract *c = *state;
	pid_t pids[3];

	(void)contract_start(c, "traced", NULL);
	contract_read(c, pids, 2);
	pids[2] = contract_start(c, "traceme", NULL);
	assert_int_equal(contract_read_one(c), pids[2]);
	assert_int_equal(waitpid(pids[2], NULL, __WALL), pids[2]);
	contract_expect_members(c, pids, 3);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGCONT), 0);
	contract_kill(c, SIGKILL);
}

/* The parent in vfork(2) can't stop before its child goes on; it stands still all the same. */
static void test_vfork(void **state)
{
	struct contract *c = *state;
	pid_t pids[2];

	(void)contract_start(c, "vfork", NULL);
	contract_read(c, pids, 2);
	contract_expect_members(c, pids, 2);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	contract_kill(c, SIGKILL);
}

/* A process whose first thread has ended: /proc calls it a zombie, and a signal that goes to first
 * threads misses it. */
static void test_leaderless(void **state)
{
	static const int signals[] = {SIGTERM, SIGKILL};
	struct contract *c = *state;
	size_t i;
	pid_t pid;

	for (i = 0; i < ARRAY_SIZE(signals); i++) {
		pid = contract_start(c, "leaderless", NULL);
		assert_int_equal(contract_read_one(c), pid);
		contract_expect_members(c, &pid, 1);
		assert_int_equal(proctrack_signal(c->pt, c->id, 0), 0);
		assert_int_equal(proctrack_wait(c->pt, c->id, 50), -ETIMEDOUT);
		assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
		assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
		contract_kill(c, signals[i]);
	}
}

static bool is_thread_stopped(pid_t pid)
{
	return generic_find_moving(pid, "TZX") == 0;
}

/* It had been stopped before the suspension, and is so after it. */
static void test_leaderless_stopped(void **state)
{
	struct contract *c = *state;
	pid_t pid = contract_start(c, "leaderless", NULL);
	int64_t deadline = contract_now_ms() + CONTRACT_PATIENCE_MS;

	assert_int_equal(contract_read_one(c), pid);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	while (!is_thread_stopped(pid))
		assert_true(contract_now_ms() < deadline);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	(void)poll(NULL, 0, 20);
	assert_true(is_thread_stopped(pid));
	contract_kill(c, SIGKILL);
}

static void test_many(void **state)
{
	enum {
		MANY = 2000
	};
	struct contract *c = *state;
	_cleanup_free_ pid_t *pids = calloc(MANY, sizeof(*pids));

	assert_non_null(pids);
	(void)contract_start(c, "rest", "2000", NULL);
	contract_read(c, pids, MANY);
	contract_expect_members(c, pids, MANY);
	contract_kill(c, SIGKILL);
}

/* ---- a pid that is given to another process ------------------------------------------------ */

/* Makes a stranger of that pid; false, and the test is skipped, where the kernel does not let us
 * choose. */
static bool take_pid(struct contract *c, pid_t pid)
{
	pid_t got = child_start(pid);

	if (got == -EPERM || got == -ENOSYS) {
		contract_skip(c, "a process can't be given a pid here");
		return false;
	}
	assert_int_equal(got, pid);
	return true;
}

static void expect_stranger_is_safe(struct contract *c, pid_t pid)
{
	struct procstat st;

	contract_expect_members(c, NULL, 0);
	assert_true(proctrack_find(c->pt, pid) == 0);
	assert_false(proctrack_has_pid(c->pt, c->id, pid));
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGKILL), -ESRCH);
	assert_int_equal(procstat_read(pid, &st), 0);
	assert_true(procstat_is_living(&st));
}

/* For linuxproc a child of ours is a member; a stranger's parent is the service process. It makes
 * one process after another, and each ends on a byte in the pipe. */
static void serve_strangers(int request, int reply)
{
	pid_t pid = 0;

	while (read(request, &pid, sizeof(pid)) == sizeof(pid)) {
		pid = child_start(pid);
		if (write(reply, &pid, sizeof(pid)) != sizeof(pid) || pid < 0)
			break;
		if (waitpid(pid, NULL, 0) < 0)
			break;
		if (write(reply, &pid, sizeof(pid)) != sizeof(pid))
			break;
	}
	_exit(0);
}

static pid_t exchange_pid(int request, int reply, pid_t pid)
{
	if (request >= 0)
		assert_int_equal(write(request, &pid, sizeof(pid)), sizeof(pid));
	assert_int_equal(read(reply, &pid, sizeof(pid)), sizeof(pid));
	return pid;
}

static void test_reuse_of_added(struct contract *c)
{
	_cleanup_close_ int request_read = -1, request = -1, reply = -1, reply_write = -1;
	int a[2], b[2];
	pid_t pid;

	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	request_read = a[0];
	request = a[1];
	assert_int_equal(pipe2(b, O_CLOEXEC), 0);
	reply = b[0];
	reply_write = b[1];
	c->job.service_pid = fork();
	if (c->job.service_pid == 0)
		serve_strangers(request_read, reply_write);
	assert_true(c->job.service_pid > 0);
	pid = exchange_pid(request, reply, 0);
	contract_expect_members(c, NULL, 0);
	assert_int_equal(proctrack_add(c->pt, &c->job, pid), 0);
	contract_expect_members(c, &pid, 1);
	assert_true(proctrack_find(c->pt, pid) == c->id);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGTERM), 0);
	assert_int_equal(proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS), 0);
	assert_int_equal(exchange_pid(-1, reply, 0), pid); /* reaped */
	(void)poll(NULL, 0, 30); /* a start time is counted in ticks of 10 ms */
	if (exchange_pid(request, reply, pid) == pid)
		expect_stranger_is_safe(c, pid);
	else
		contract_skip(c, "a process can't be given a pid here");
}

static void test_reuse(void **state)
{
	struct contract *c = *state;
	pid_t pid;

	if (contract_is(c, "linuxproc")) {
		test_reuse_of_added(c);
		return;
	}
	pid = contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	contract_expect_members(c, &pid, 1);
	contract_kill(c, SIGTERM);
	if (take_pid(c, pid))
		expect_stranger_is_safe(c, pid);
}

/* The number of a process group is taken as long as the container stands. */
static void test_reserved(void **state)
{
	struct contract *c = *state;
	pid_t id = (pid_t)c->id, got;

	if (!contract_is(c, "pgid"))
		return;
	got = child_start(id);
	if (got == -EPERM || got == -ENOSYS) {
		contract_skip(c, "a process can't be given a pid here");
		return;
	}
	assert_int_equal(got, -EEXIST);
	(void)contract_start(c, "live", "0", NULL);
	assert_int_equal(child_start(id), -EEXIST);
	assert_int_equal(proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS), 0);
	contract_expect_no_child(CONTRACT_PATIENCE_MS);
	assert_int_equal(child_start(id), -EEXIST);
	assert_int_equal(proctrack_destroy(c->pt, c->id), 0);
	c->id = 0;
	assert_true(take_pid(c, id));
	assert_int_equal(proctrack_signal(c->pt, (uint64_t)id, SIGKILL), -ESRCH);
	assert_int_equal(waitpid(id, NULL, WNOHANG), 0);
}

const struct contract_test contract_hostile_tests[] = {
	{"hostile process names do not hide members", test_names},
	{"daemons can't escape, as far as the tracker promises", test_daemon},
	{"a change of process group is handled as promised", test_change_of_group},
	{"one SIGTERM ends chains that fork and exit", test_chains},
	{"a fork bomb is killed", test_bomb},
	{"stopped processes are killed", test_stopped},
	{"suspended processes are killed", test_suspended},
	{"traced processes are killed", test_traced},
	{"a process in vfork is killed", test_vfork},
	{"a process whose first thread has ended is a member", test_leaderless},
	{"a process whose first thread has ended can be stopped", test_leaderless_stopped},
	{"2,000 processes are killed", test_many},
	{"a process with a reused pid is not signalled", test_reuse},
	{"a container's id is not used again", test_reserved},
	{NULL, NULL},
};
