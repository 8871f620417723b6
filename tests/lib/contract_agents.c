/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract of <stepd/proctrack.h> where the container is not as this agent made it: groups and
 * moves of others, and what a dead agent has left.
 */
#include "tests/lib/contract.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "stepd/base/fs.h"
#include "stepd/base/proc.h"
#include "tests/lib/scratch.h"

#define TASKS CONTRACT_TASKS
#define N     CONTRACT_TASK_PROCESSES
#define ranks contract_ranks

/* ---- groups of cgroup that are not as the agent made them ---------------------------------- */

static char *step_path(struct contract *c)
{
	char root[PATH_MAX], *path = NULL;

	assert_int_equal(proctrack_get_root(c->pt, root, sizeof(root)), 0);
	assert_true(asprintf(&path, "%s/stepd/job_%u/step_%s", root, (unsigned)c->job.job_id,
			    c->job.step_name) > 0);
	return path;
}

static void move_to(struct contract *c, const char *name, pid_t pid)
{
	_cleanup_free_ char *step = step_path(c), *path = scratch_path(step, name);
	_cleanup_free_ char *procs = scratch_path(path, "cgroup.procs");
	char text[16];

	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	assert_int_equal(fs_write(AT_FDCWD, procs, text), 0);
}

static pid_t a_child_of(struct contract *c, uint32_t local_id, const pid_t pids[N])
{
	return pids[pids[0] == c->job.task[local_id].pid];
}

/* A group may be called after a task that the step has not, or nearly so; one below a task's is
 * the task's. */
static void test_names_of_groups(void **state)
{
	static const char *const no_tasks[] = {"task_901", "task_007", "task_", "task_4294967295",
		"task_-4", "tasks", "task_4x", "task_99999999999"};
	struct contract *c = *state;
	pid_t pids[TASKS][N], added;
	size_t i;

	if (!contract_is(c, "cgroup"))
		return;
	contract_start_tasks(c, "rest", pids);
	added = contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	for (i = 0; i < ARRAY_SIZE(no_tasks); i++) {
		move_to(c, no_tasks[i], added);
		assert_int_equal(contract_rank_of(c, added), STEPD_MEMBER_NO_RANK);
	}
	move_to(c, "task_7/task_4", added);
	assert_int_equal(contract_rank_of(c, added), ranks[1]);
	move_to(c, "below", added);
	move_to(c, "below/task_7", added);
	assert_int_equal(contract_rank_of(c, added), STEPD_MEMBER_NO_RANK);
	assert_int_equal(contract_signal_task(c, ranks[1], SIGKILL), 0);
	contract_expect_ended(pids[1], N);
	contract_expect_living(&added, 1);
	contract_kill(c, SIGKILL);
}

/* Processes that a task has put elsewhere in the step are the task's by their parents, and get its
 * signals. */
static void test_wandering(void **state)
{
	struct contract *c = *state;
	pid_t pids[TASKS][N], wanderer;
	int i;

	if (!contract_is(c, "cgroup"))
		return;
	contract_start_tasks(c, "rest", pids);
	for (i = 0; i < 2; i++) {
		wanderer = a_child_of(c, (uint32_t)i, pids[i]);
		move_to(c, i ? "elsewhere" : "added", wanderer);
		assert_int_equal(contract_rank_of(c, wanderer), ranks[i]);
		assert_int_equal(contract_signal_task(c, ranks[i], i ? SIGTERM : SIGKILL), 0);
		contract_expect_ended(pids[i], N);
	}
	contract_expect_count(c, N);
	contract_kill(c, SIGKILL);
}

/* ---- another agent ------------------------------------------------------------------------ */

/* In the other agent: a container, and a task of three processes in it. */
_noreturn_ static void be_first_agent(struct contract *c, stepd_step_rec_t *shared)
{
	contract_give_tasks(c);
	if (proctrack_create(c->pt, &c->job) < 0)
		_exit(1);
	shared->cont_id = c->job.cont_id;
	shared->jmgr_pid = contract_start_task(c, 1, "count", "3", NULL);
	for (;;)
		pause();
}

/* The step that a killed agent has left: its container's id is in c->job, its task's processes in
 * pids. */
static void leave_container(struct contract *c, pid_t pids[3])
{
	stepd_step_rec_t *shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t agent;

	assert_true(shared != MAP_FAILED);
	assert_int_equal(proctrack_destroy(c->pt, c->id), 0);
	c->id = 0;
	agent = fork();
	assert_true(agent >= 0);
	if (agent == 0)
		be_first_agent(c, shared);
	contract_read(c, pids, 3);
	contract_end_child(agent);
	if (contract_is(c, "pgid")) /* its placeholder came to us; on a node init reaps it */
		assert_true(waitpid((pid_t)shared->cont_id, NULL, __WALL) > 0);
	contract_give_tasks(c);
	c->job.task[1].pid = shared->jmgr_pid;
	c->job.cont_id = shared->cont_id;
	(void)munmap(shared, sizeof(*shared));
}

static void test_adopt(void **state)
{
	struct contract *c = *state;
	pid_t pids[3];
	int i;

	leave_container(c, pids);
	assert_int_equal(proctrack_adopt(c->pt, &c->job, pids, 3), 0);
	c->id = c->job.cont_id;
	if (contract_is(c, "linuxproc"))
		assert_true(c->id == (uint64_t)getpid());
	contract_expect_members(c, pids, 3);
	for (i = 0; i < 3; i++) {
		assert_true(proctrack_find(c->pt, pids[i]) == c->id);
		assert_int_equal(contract_rank_of(c, pids[i]), ranks[1]);
	}
	assert_true(proctrack_is_populated(c->pt, c->id));
	assert_int_equal(proctrack_wait(c->pt, c->id, 0), -ETIMEDOUT);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	assert_int_equal(contract_signal_task(c, ranks[0], SIGTERM), -ESRCH);
	assert_int_equal(contract_signal_task(c, ranks[1], SIGTERM), 0);
	assert_int_equal(proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS), 0);
	assert_false(proctrack_is_populated(c->pt, c->id));
	contract_expect_no_child(CONTRACT_PATIENCE_MS);
	assert_int_equal(proctrack_destroy(c->pt, c->id), 0);
	c->id = 0;
}

/* A step that an agent had suspended when it died goes on when its successor resumes it. */
static void test_adopt_suspended(void **state)
{
	struct contract *c = *state;
	pid_t pids[3];
	int i;

	leave_container(c, pids);
	for (i = 0; i < 3 && !contract_is(c, "cgroup"); i++)
		assert_int_equal(kill(pids[i], SIGSTOP), 0);
	assert_int_equal(proctrack_adopt(c->pt, &c->job, pids, 3), 0);
	c->id = c->job.cont_id;
	if (contract_is(c, "cgroup"))
		assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGRTMIN), 0);
	assert_true(contract_is_silent(c, 50));
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	contract_read(c, pids, 3);
	contract_kill(c, SIGTERM);
}

static void expect_suspended(struct contract *c, bool expected)
{
	char text[256];
	bool found = !expected;

	assert_int_equal(proctrack_is_suspended(c->pt, c->id, &found, text, sizeof(text)), 0);
	assert_int_equal(found, expected);
	assert_string_equal(text, "");
}

/* The cgroup.freeze of the step's group, or with "/.." of the job's above. */
static void freeze_by_hand(struct contract *c, const char *where, const char *value)
{
	_cleanup_free_ char *step = step_path(c), *file = NULL;

	assert_true(asprintf(&file, "%s%s/cgroup.freeze", step, where) > 0);
	assert_int_equal(fs_write(AT_FDCWD, file, value), 0);
}

/* A process that is sent SIGSTOP stops when it next runs. */
static void wait_until_stopped(pid_t pid)
{
	struct procstat st;

	do {
		(void)poll(NULL, 0, 1);
		assert_int_equal(procstat_read(pid, &st), 0);
	} while (st.state != 'T' && st.state != 't');
}

/* By the trackers that freeze, and by the others, whose word is only that of the processes. */
static void suspend_by_hand(struct contract *c, const pid_t *pids)
{
	char text[256];
	bool found;
	int i;

	if (contract_is(c, "cgroup")) {
		freeze_by_hand(c, "", "1");
		expect_suspended(c, true);
		freeze_by_hand(c, "", "0");
		expect_suspended(c, false);
		return;
	}
	for (i = 0; i < 3; i++) {
		assert_int_equal(kill(pids[i], SIGSTOP), 0);
		wait_until_stopped(pids[i]);
		assert_int_equal(
			proctrack_is_suspended(c->pt, c->id, &found, text, sizeof(text)), -EAGAIN);
	}
	for (i = 0; i < 3; i++)
		assert_int_equal(kill(pids[i], SIGCONT), 0);
	expect_suspended(c, false);
}

static void test_is_suspended(void **state)
{
	struct contract *c = *state;
	pid_t pids[3];
	int i;

	for (i = 0; i < 3; i++)
		(void)contract_start(c, "rest", NULL);
	contract_read(c, pids, 3);
	expect_suspended(c, false);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	expect_suspended(c, true);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGURG), 0);
	expect_suspended(c, true);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	expect_suspended(c, false);
	suspend_by_hand(c, pids);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	for (i = 0; i < 3 && !contract_is(c, "cgroup"); i++)
		assert_int_equal(kill(pids[i], SIGCONT), 0);
	if (contract_is(c, "cgroup"))
		freeze_by_hand(c, "", "0");
	expect_suspended(c, false);
	contract_kill(c, SIGKILL);
}

/* The group above that is frozen is named, and a resumption fails and changes nothing. */
static void test_frozen_above(void **state)
{
	struct contract *c = *state;
	struct err err = ERR_INIT;
	char text[PATH_MAX + 64];
	bool found = false;

	if (!contract_is(c, "cgroup")) {
		contract_skip(c, "nothing is above its containers");
		return;
	}
	(void)contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	freeze_by_hand(c, "/..", "1");
	assert_int_equal(proctrack_is_suspended(c->pt, c->id, &found, text, sizeof(text)), 0);
	assert_true(found);
	assert_non_null(strstr(text, "' is frozen; write 0 to its cgroup.freeze"));
	assert_int_equal(proctrack_resume(c->pt, c->id, &err), -EBUSY);
	assert_string_equal(err.text, text);
	freeze_by_hand(c, "/..", "0");
	expect_suspended(c, true);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	expect_suspended(c, false);
	contract_kill(c, SIGKILL);
}

/* A container that is gone, or another's. Afterwards the right one can be had all the same. */
static void test_adopt_nothing(void **state)
{
	struct contract *c = *state;
	stepd_step_rec_t other;
	pid_t pids[3];

	leave_container(c, pids);
	other = c->job;
	if (contract_is(c, "cgroup")) {
		other.step_name = "another";
		assert_int_equal(proctrack_adopt(c->pt, &other, pids, 3), -ESRCH);
		other = c->job;
		other.cont_id += 1000000;
		assert_int_equal(proctrack_adopt(c->pt, &other, pids, 3), -ESRCH);
	} else if (contract_is(c, "pgid")) {
		assert_int_equal(proctrack_adopt(c->pt, &other, pids, 0), -ESRCH);
		other.cont_id = (uint64_t)getpgrp();
		assert_int_equal(proctrack_adopt(c->pt, &other, pids, 3), -ESRCH);
	}
	assert_int_equal(proctrack_adopt(c->pt, &c->job, pids, 3), 0);
	c->id = c->job.cont_id;
	contract_expect_members(c, pids, 3);
	contract_kill(c, SIGKILL);
}

const struct contract_test contract_agent_tests[] = {
	{"names of groups make no process a task's", test_names_of_groups},
	{"a process that left its task's group is a member", test_wandering},
	{"adopt takes over all of a dead agent's container", test_adopt},
	{"an adopted container stays suspended", test_adopt_suspended},
	{"a suspension by us and one by hand are told apart", test_is_suspended},
	{"a suspension from above is reported as such", test_frozen_above},
	{"adopt of a missing container, or another's, fails with ESRCH", test_adopt_nothing},
	{NULL, NULL},
};
