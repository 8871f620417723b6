/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract of <stepd/proctrack.h> by task: whose a member is, and signals to a part of the
 * container, with what a tracker by descent can't know left out by name.
 */
#include "tests/lib/contract.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "tests/lib/scratch.h"

#define TASKS CONTRACT_TASKS
#define N     CONTRACT_TASK_PROCESSES
#define ranks contract_ranks

const uint32_t contract_ranks[TASKS] = {4, 7, 900};

void contract_give_tasks(struct contract *c)
{
	static stepd_step_task_info_t tasks[TASKS]; /* of the one container at a time */
	uint32_t i;

	for (i = 0; i < TASKS; i++)
		tasks[i] = (stepd_step_task_info_t){.id = i, .gtid = ranks[i]};
	c->job.task = tasks;
	c->job.node_tasks = TASKS;
	c->job.ntasks = 1000;
}

void contract_start_tasks(struct contract *c, const char *mode, pid_t pids[TASKS][N])
{
	uint32_t i;

	contract_give_tasks(c);
	for (i = 0; i < TASKS; i++) {
		(void)contract_start_task(c, i, mode, "4", NULL);
		contract_read(c, pids[i], N);
	}
}

static int get_members(struct contract *c, stepd_member_t **ret_members, int *ret_n)
{
	return proctrack_get_members(
		c->pt, c->id, c->job.task, c->job.node_tasks, ret_members, ret_n);
}

static int find(struct contract *c, pid_t pid, uint32_t *ret_rank)
{
	return proctrack_find_member(c->pt, c->id, c->job.task, c->job.node_tasks, pid, ret_rank);
}

int contract_signal_task(struct contract *c, uint32_t rank, int signal)
{
	return proctrack_signal_task(c->pt, c->id, c->job.task, c->job.node_tasks, rank, signal);
}

uint32_t contract_rank_of(struct contract *c, pid_t pid)
{
	_cleanup_free_ stepd_member_t *members = NULL;
	uint32_t found = 12345;
	int n = 0, i;

	assert_int_equal(get_members(c, &members, &n), 0);
	assert_int_equal(find(c, pid, &found), 0);
	for (i = 0; i < n && members[i].pid != pid; i++)
		;
	assert_true(i < n);
	assert_int_equal(members[i].rank, found);
	return found;
}

void contract_expect_count(struct contract *c, int expected)
{
	_cleanup_free_ stepd_member_t *members = NULL;
	int n = -1;

	assert_int_equal(get_members(c, &members, &n), 0);
	assert_int_equal(n, expected);
}

void contract_expect_ended(const pid_t *pids, int n)
{
	int64_t deadline = contract_now_ms() + CONTRACT_PATIENCE_MS;
	int i;

	for (i = 0; i < n; i++) {
		while (kill(pids[i], 0) == 0) {
			(void)waitpid(pids[i], NULL, WNOHANG | __WALL);
			assert_true(contract_now_ms() < deadline);
			(void)poll(NULL, 0, 1);
		}
	}
}

void contract_expect_living(const pid_t *pids, int n)
{
	struct procstat st;
	int i;

	for (i = 0; i < n; i++) {
		assert_int_equal(procstat_read(pids[i], &st), 0);
		assert_true(procstat_is_living(&st));
	}
}

static void test_ranks(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N];
	uint32_t rank;
	int i, k;

	contract_expect_count(c, 0);
	contract_start_tasks(c, "rest", pids);
	contract_expect_count(c, TASKS * N);
	for (i = 0; i < TASKS; i++) {
		for (k = 0; k < N; k++)
			assert_int_equal(contract_rank_of(c, pids[i][k]), ranks[i]);
	}
	assert_int_equal(find(c, getpid(), &rank), -ESRCH);
	assert_int_equal(find(c, 1, &rank), -ESRCH);
	assert_int_equal(find(c, 0, &rank), -ESRCH);
	assert_int_equal(find(c, -1, &rank), -ESRCH);
	assert_int_equal(find(c, INT_MAX, &rank), -ESRCH);
	contract_kill(c, SIGKILL);
	contract_expect_count(c, 0);
	assert_int_equal(find(c, pids[0][0], &rank), -ESRCH);
}

static void test_zombies(void **state)
{
	struct contract *c = *state;
	siginfo_t info;
	uint32_t rank;
	pid_t pid;

	contract_give_tasks(c);
	pid = contract_start_task(c, 0, "live", "0", NULL);
	(void)contract_read_one(c);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	contract_expect_count(c, 0);
	assert_int_equal(find(c, pid, &rank), -ESRCH);
	assert_int_equal(contract_signal_task(c, ranks[0], 0), -ESRCH);
	assert_int_equal(contract_signal_task(c, ranks[0], SIGKILL), -ESRCH);
	assert_int_equal(proctrack_signal_member(c->pt, c->id, pid, 0, true, SIGKILL), -ESRCH);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* An added process is a member and no task's. */
static void test_added(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N], added;

	contract_start_tasks(c, "rest", pids);
	added = contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	assert_int_equal(contract_rank_of(c, added), STEPD_MEMBER_NO_RANK);
	assert_int_equal(contract_signal_task(c, STEPD_MEMBER_NO_RANK, SIGKILL), -ESRCH);
	contract_expect_count(c, TASKS * N + 1);
	contract_kill(c, SIGKILL);
}

/* A daemon is its task's for cgroup; by descent nobody's, and with pgid no member. */
static void test_daemon(void **state)
{
	struct contract *c = *state;
	pid_t pids[2], first;
	uint32_t rank;
	int i;

	contract_give_tasks(c);
	first = contract_start_task(c, 1, "daemon", NULL);
	contract_read(c, pids, 2);
	assert_int_equal(waitpid(first, NULL, 0), first);
	c->job.task[1].pid = 0;
	assert_true(waitpid(-1, NULL, 0) > 0); /* the second, orphaned */
	for (i = 0; i < 2; i++) {
		if (contract_is(c, "pgid"))
			assert_int_equal(find(c, pids[i], &rank), -ESRCH);
		else
			assert_int_equal(contract_rank_of(c, pids[i]),
				contract_is(c, "cgroup") ? ranks[1] : STEPD_MEMBER_NO_RANK);
	}
	if (contract_is(c, "cgroup")) {
		assert_int_equal(contract_signal_task(c, ranks[1], SIGTERM), 0);
		contract_expect_ended(pids, 2);
	} else {
		assert_int_equal(contract_signal_task(c, ranks[1], SIGTERM), -ESRCH);
	}
}

static void test_signal_task(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N];

	contract_start_tasks(c, "rest", pids);
	assert_int_equal(contract_signal_task(c, 5, SIGKILL), -ESRCH);
	assert_int_equal(contract_signal_task(c, ranks[1], -1), -EINVAL);
	assert_int_equal(contract_signal_task(c, ranks[1], SIGRTMAX + 1), -EINVAL);
	assert_int_equal(contract_signal_task(c, ranks[1], 0), 0);
	assert_int_equal(contract_signal_task(c, ranks[1], SIGTERM), 0);
	contract_expect_ended(pids[1], N);
	contract_expect_count(c, (TASKS - 1) * N);
	assert_int_equal(contract_signal_task(c, ranks[1], 0), -ESRCH);
	assert_int_equal(contract_signal_task(c, ranks[0], SIGKILL), 0);
	contract_expect_ended(pids[0], N);
	contract_expect_living(pids[2], N);
	contract_expect_count(c, N);
	contract_kill(c, SIGKILL);
}

static void test_signal_task_once(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N], got[N];
	int i;

	contract_start_tasks(c, "count", pids);
	for (i = 0; i < TASKS; i++) {
		assert_int_equal(contract_signal_task(c, ranks[i], SIGRTMIN), 0);
		contract_read(c, got, N);
		assert_true(contract_is_silent(c, 50));
	}
	contract_kill(c, SIGKILL);
}

/* The others' groups are not poisoned by the end of one: what is born there lives. */
static void test_birth_beside_a_killed_task(void **state)
{
	struct contract *c = *state;
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	_cleanup_close_ int fd = -1;
	pid_t pids[TASKS][N], pid;

	contract_start_tasks(c, "rest", pids);
	assert_int_equal(contract_signal_task(c, ranks[1], SIGKILL), 0);
	contract_expect_ended(pids[1], N);
	fd = proctrack_clone_fd(c->pt, &c->job, 2);
	if (fd < 0) {
		assert_int_equal(fd, -EOPNOTSUPP);
		return;
	}
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	while (pid == 0)
		pause();
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(contract_rank_of(c, pid), ranks[2]);
	contract_kill(c, SIGKILL);
}

static uint64_t start_of(pid_t pid)
{
	struct procstat st;

	assert_int_equal(procstat_read(pid, &st), 0);
	return st.start_ticks;
}

static void test_signal_member(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N], leader;
	uint64_t start;

	contract_start_tasks(c, "rest", pids);
	leader = c->job.task[0].pid;
	start = start_of(leader);
	assert_int_equal(
		proctrack_signal_member(c->pt, c->id, leader, start + 1, false, SIGKILL), -ESRCH);
	assert_int_equal(
		proctrack_signal_member(c->pt, c->id, leader, start + 1, true, SIGKILL), -ESRCH);
	assert_int_equal(
		proctrack_signal_member(c->pt, c->id, getppid(), 0, true, SIGKILL), -ESRCH);
	assert_int_equal(
		proctrack_signal_member(c->pt, c->id, getpid(), 0, false, SIGKILL), -ESRCH);
	assert_int_equal(proctrack_signal_member(c->pt, c->id, leader, start, true, SIGKILL), 0);
	contract_expect_ended(pids[0], N);
	contract_expect_count(c, (TASKS - 1) * N);
	leader = c->job.task[1].pid;
	assert_int_equal(proctrack_signal_member(c->pt, c->id, leader, 0, false, SIGTERM), 0);
	contract_expect_ended(&leader, 1);
	contract_expect_count(c, (TASKS - 1) * N - 1);
	contract_expect_living(pids[2], N);
	contract_kill(c, SIGKILL);
}

/* A tree is what descends from one, not its siblings; each of it is met once. */
static void test_signal_tree_once(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N], got[N], leader;
	int k;

	contract_start_tasks(c, "count", pids);
	leader = c->job.task[2].pid;
	assert_int_equal(proctrack_signal_member(c->pt, c->id, leader, 0, true, SIGRTMIN), 0);
	contract_read(c, got, N);
	assert_true(contract_is_silent(c, 50));
	k = pids[2][0] == leader;
	assert_int_equal(proctrack_signal_member(c->pt, c->id, pids[2][k], 0, true, SIGRTMIN), 0);
	assert_int_equal(contract_read_one(c), pids[2][k]);
	assert_true(contract_is_silent(c, 50));
	contract_kill(c, SIGKILL);
}

/* A signal to a task of a suspended step arrives when it is resumed, and not before. SIGKILL ends
 * that task alone. */
static void test_suspended(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N], got[N];

	contract_start_tasks(c, "count", pids);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	assert_int_equal(contract_signal_task(c, ranks[0], SIGRTMIN), 0);
	assert_int_equal(contract_signal_task(c, ranks[1], SIGKILL), 0);
	contract_expect_ended(pids[1], N);
	assert_true(contract_is_silent(c, 100));
	assert_int_equal(proctrack_signal_member(c->pt, c->id, pids[2][0], 0, false, SIGRTMIN), 0);
	assert_true(contract_is_silent(c, 100));
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	contract_read(c, got, N);
	(void)contract_read_one(c);
	assert_true(contract_is_silent(c, 50));
	contract_kill(c, SIGKILL);
}

/* Until nobody but one is left. Reaps what has ended, as an agent does. */
static void expect_only(struct contract *c, pid_t bystander)
{
	int64_t deadline = contract_now_ms() + CONTRACT_PATIENCE_MS;
	int n = 0;

	do {
		_cleanup_free_ pid_t *pids = NULL;

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		assert_int_equal(proctrack_get_pids(c->pt, c->id, &pids, &n), 0);
		assert_true(n > 0 && contract_now_ms() < deadline);
	} while (n > 1);
	while (!contract_is_silent(c, 0))
		assert_true(contract_read_one(c) > 0); /* none came to its natural end */
	contract_expect_members(c, &bystander, 1);
	assert_int_equal(contract_rank_of(c, bystander), ranks[0]);
}

static void test_bomb(void **state)
{
	struct contract *c = *state;
	pid_t bystander, pids[40];
	int i;

	if (!contract_is(c, "cgroup")) {
		contract_skip(c, "a child's line breaks with its parent, as documented");
		return;
	}
	contract_give_tasks(c);
	bystander = contract_start_task(c, 0, "rest", NULL);
	(void)contract_read_one(c);
	for (i = 0; i < 4; i++) {
		(void)contract_start_task(c, 1, "bomb", "300", NULL);
		contract_read(c, pids, 20 + i * 4);
		assert_int_equal(contract_signal_task(c, ranks[1], SIGKILL), 0);
		expect_only(c, bystander);
	}
	contract_kill(c, SIGKILL);
}

static void test_chains(void **state)
{
	struct contract *c = *state;
	pid_t bystander;
	int i;

	if (!contract_is(c, "cgroup")) {
		contract_skip(c, "a chain outruns the line of parents, as documented");
		return;
	}
	contract_give_tasks(c);
	bystander = contract_start_task(c, 0, "rest", NULL);
	(void)contract_read_one(c);
	for (i = 0; i < 10; i++) {
		(void)contract_start_task(c, 1, "chains", "16", NULL);
		(void)contract_read_one(c);
		assert_int_equal(contract_signal_task(c, ranks[1], i % 2 ? SIGKILL : SIGTERM), 0);
		expect_only(c, bystander);
	}
	contract_kill(c, SIGKILL);
}

const struct contract_test contract_member_tests[] = {
	{"each member is listed with its task", test_ranks},
	{"a zombie is no member of its task", test_zombies},
	{"an added process belongs to no task", test_added},
	{"daemons have their task, as far as the tracker knows it", test_daemon},
	{"a task's signal reaches that task alone, and fails with ESRCH without one",
		test_signal_task},
	{"a task's signal reaches each process once", test_signal_task_once},
	{"a task can be born while another one is killed", test_birth_beside_a_killed_task},
	{"a member's signal reaches it, or its tree, by its start time", test_signal_member},
	{"a tree's signal reaches each process once", test_signal_tree_once},
	{"a signal to a suspended task is held, except SIGKILL", test_suspended},
	{"a task's fork bomb is killed", test_bomb},
	{"a task's chains that fork and exit are ended", test_chains},
	{NULL, NULL},
};
