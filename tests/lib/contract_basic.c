/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The contract of <stepd/proctrack.h>, sentence by sentence, with well-behaved processes.
 */
#include "tests/lib/contract.h"
#include "tests/lib/child.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "stepd/base/proc.h"
#include "tests/lib/scratch.h"

static void test_create(void **state)
{
	struct contract *c = *state;
	stepd_step_rec_t again = c->job;

	contract_expect_members(c, NULL, 0);
	(void)contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	again.cont_id = 0;
	assert_int_equal(proctrack_create(c->pt, &again), -EEXIST);
	contract_kill(c, SIGKILL);
}

static void test_members(void **state)
{
	struct contract *c = *state;
	pid_t pids[12], stranger = child_start(0);
	int i;

	assert_true(stranger > 0);
	for (i = 0; i < 3; i++)
		(void)contract_start(c, "rest", "4", NULL);
	contract_read(c, pids, 12);
	if (contract_is(c, "linuxproc"))
		contract_end_child(stranger); /* a child of the agent is a member by birth */
	contract_expect_members(c, pids, 12);
	for (i = 0; i < 12; i++) {
		assert_true(proctrack_find(c->pt, pids[i]) == c->id);
		assert_true(proctrack_has_pid(c->pt, c->id, pids[i]));
	}
	if (!contract_is(c, "linuxproc")) {
		assert_true(proctrack_find(c->pt, stranger) == 0);
		assert_false(proctrack_has_pid(c->pt, c->id, stranger));
		contract_end_child(stranger);
	}
	contract_kill(c, SIGKILL);
}

static void test_others_are_no_members(void **state)
{
	struct contract *c = *state;
	const pid_t others[] = {getpid(), getppid(), 1, 0, -1, INT_MAX};
	size_t i;

	(void)contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		assert_true(proctrack_find(c->pt, others[i]) == 0);
		assert_false(proctrack_has_pid(c->pt, c->id, others[i]));
	}
	contract_kill(c, SIGKILL);
}

static void test_service_is_no_member(void **state)
{
	struct contract *c = *state;
	pid_t task = contract_start(c, "rest", NULL);

	c->job.service_pid = child_start(0);
	assert_true(c->job.service_pid > 0);
	(void)contract_read_one(c);
	contract_expect_members(c, &task, 1);
	assert_true(proctrack_find(c->pt, c->job.service_pid) == 0);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGKILL), 0);
	assert_int_equal(proctrack_wait(c->pt, c->id, 2000), 0);
	assert_int_equal(kill(c->job.service_pid, 0), 0);
	contract_end_child(c->job.service_pid);
	c->job.service_pid = 0;
}

static void test_add(void **state)
{
	struct contract *c = *state;
	pid_t pid = contract_start(c, "rest", NULL);

	(void)contract_read_one(c);
	assert_int_equal(proctrack_add(c->pt, &c->job, pid), 0);
	contract_expect_members(c, &pid, 1);
	contract_kill(c, SIGKILL);
	assert_int_equal(proctrack_add(c->pt, &c->job, pid), -ESRCH);
	assert_int_equal(proctrack_add(c->pt, &c->job, INT_MAX), -ESRCH);
	/* the caller, and every process, where these get as far as the kernel */
	assert_true(proctrack_add(c->pt, &c->job, 0) < 0);
	assert_true(proctrack_add(c->pt, &c->job, -1) < 0);
	contract_expect_members(c, NULL, 0);
	if (contract_is(c, "linuxproc")) { /* by descent these would be much more than a step */
		assert_int_equal(proctrack_add(c->pt, &c->job, getpid()), -EINVAL);
		assert_int_equal(proctrack_add(c->pt, &c->job, getppid()), -EINVAL);
		assert_int_equal(proctrack_add(c->pt, &c->job, 1), -EINVAL);
		contract_expect_members(c, NULL, 0);
	}
}

/* A SIGKILL to all ends the members, not the container. */
static void test_add_after_kill(void **state)
{
	struct contract *c = *state;
	pid_t pid;
	int i;

	for (i = 0; i < 3; i++) {
		pid = contract_start(c, "rest", NULL);
		assert_int_equal(contract_read_one(c), pid);
		contract_expect_members(c, &pid, 1);
		assert_true(proctrack_find(c->pt, pid) == c->id);
		contract_kill(c, SIGKILL);
	}
}

static void test_zombies_are_no_members(void **state)
{
	struct contract *c = *state;
	pid_t pid = contract_start(c, "live", "0", NULL);
	siginfo_t info;

	(void)contract_read_one(c);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	contract_expect_members(c, NULL, 0);
	assert_int_equal(proctrack_signal(c->pt, c->id, 0), -ESRCH);
	assert_int_equal(proctrack_wait(c->pt, c->id, 0), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_signal_numbers(void **state)
{
	struct contract *c = *state;
	static const int signals[] = {0, SIGCONT, SIGTERM, SIGKILL};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(signals); i++)
		assert_int_equal(proctrack_signal(c->pt, c->id, signals[i]), -ESRCH);
	(void)contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	assert_int_equal(proctrack_signal(c->pt, c->id, 0), 0);
	assert_true(proctrack_is_populated(c->pt, c->id));
	assert_int_equal(proctrack_signal(c->pt, c->id, -1), -EINVAL);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGRTMAX + 1), -EINVAL);
	assert_int_equal(proctrack_signal(c->pt, c->id, 0), 0);
	contract_kill(c, SIGTERM);
	assert_false(proctrack_is_populated(c->pt, c->id));
}

/* A queued signal is seen as often as it is sent. */
static void test_signal_is_sent_once(void **state)
{
	struct contract *c = *state;
	pid_t pids[20], got[20];

	(void)contract_start(c, "count", "20", NULL);
	contract_read(c, pids, 20);
	contract_expect_members(c, pids, 20);
	assert_int_equal(proctrack_signal(c->pt, c->id, SIGRTMIN), 0);
	contract_read(c, got, 20);
	contract_expect_members(c, got, 20); /* each has answered */
	assert_true(contract_is_silent(c, 50));
	contract_kill(c, SIGKILL);
}

static void expect_unknown(struct contract *c, uint64_t id)
{
	pid_t *pids = NULL;
	int n = 0;

	assert_int_equal(proctrack_get_pids(c->pt, id, &pids, &n), -ESRCH);
	assert_int_equal(proctrack_signal(c->pt, id, 0), -ESRCH);
	assert_int_equal(proctrack_signal(c->pt, id, SIGKILL), -ESRCH);
	assert_int_equal(proctrack_destroy(c->pt, id), -ESRCH);
	assert_false(proctrack_has_pid(c->pt, id, getpid()));
	assert_null(pids);
}

static void test_unknown_ids(void **state)
{
	struct contract *c = *state;
	uint64_t id = c->id;

	expect_unknown(c, 0);
	expect_unknown(c, INT_MAX);
	expect_unknown(c, UINT64_MAX);
	expect_unknown(c, UINT64_MAX - 12345);
	assert_int_equal(proctrack_destroy(c->pt, c->id), 0);
	c->id = 0;
	expect_unknown(c, id);
}

static void test_destroy(void **state)
{
	struct contract *c = *state;
	pid_t pid = contract_start(c, "rest", NULL);
	int r;

	(void)contract_read_one(c);
	r = proctrack_destroy(c->pt, c->id);
	assert_int_equal(kill(pid, 0), 0); /* members are left alone */
	if (contract_is(c, "cgroup")) {
		assert_int_equal(r, -EBUSY);
		contract_expect_members(c, &pid, 1);
		contract_kill(c, SIGKILL);
		r = proctrack_destroy(c->pt, c->id);
	} else {
		contract_end_child(pid);
	}
	assert_int_equal(r, 0);
	c->id = 0;
	/* and the step can be had once more */
	assert_int_equal(proctrack_create(c->pt, &c->job), 0);
	c->id = c->job.cont_id;
	pid = contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	contract_expect_members(c, &pid, 1);
}

static void test_wait(void **state)
{
	struct contract *c = *state;
	int64_t start;

	assert_int_equal(proctrack_wait(c->pt, c->id, 0), 0);
	assert_int_equal(proctrack_wait(c->pt, c->id, -1), 0);
	(void)contract_start(c, "rest", NULL);
	(void)contract_read_one(c);
	assert_int_equal(proctrack_wait(c->pt, c->id, 0), -ETIMEDOUT);
	start = contract_now_ms();
	assert_int_equal(proctrack_wait(c->pt, c->id, 100), -ETIMEDOUT);
	assert_true(contract_now_ms() - start >= 100);
	contract_kill(c, SIGKILL);
	(void)contract_start(c, "live", "400", NULL);
	(void)contract_read_one(c);
	assert_int_equal(proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS), 0);
	contract_expect_no_child(0);
	(void)contract_start(c, "live", "50", NULL);
	assert_int_equal(proctrack_wait(c->pt, c->id, -1), 0);
}

/* Fewer descriptors than members. */
static void test_wait_with_few_descriptors(void **state)
{
	struct contract *c = *state;
	struct rlimit saved, few;
	pid_t pids[60];
	int r, i;

	(void)contract_start(c, "rest", "60", NULL);
	contract_read(c, pids, 60);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	few = saved;
	few.rlim_cur = (rlim_t)scratch_count_fds() + 12;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = proctrack_wait(c->pt, c->id, 50);
	for (i = 0; i < 60; i++)
		(void)kill(pids[i], SIGTERM);
	if (r == -ETIMEDOUT)
		r = proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(r, 0);
	contract_expect_no_child(2000);
}

static uint64_t cpu_ticks(const pid_t *pids, int n)
{
	struct procstat st;
	uint64_t sum = 0;
	int i;

	for (i = 0; i < n; i++) {
		assert_int_equal(procstat_read(pids[i], &st), 0);
		sum += st.utime_ticks + st.stime_ticks;
	}
	return sum;
}

/* Waits until the processes have used CPU time beyond ticks. */
static void expect_progress(const pid_t *pids, int n, uint64_t ticks)
{
	int64_t deadline = contract_now_ms() + CONTRACT_PATIENCE_MS;

	while (cpu_ticks(pids, n) <= ticks) {
		assert_true(contract_now_ms() < deadline);
		(void)poll(NULL, 0, 5);
	}
}

static void test_suspend(void **state)
{
	struct contract *c = *state;
	struct procstat st;
	uint64_t ticks;
	pid_t pids[3];
	int i, r;

	/* an empty container may be frozen before its first process, or say that it has none */
	r = proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL);
	assert_true(r == 0 || r == -ESRCH);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), r);
	for (i = 0; i < 3; i++)
		(void)contract_start(c, "spin", NULL);
	contract_read(c, pids, 3);
	expect_progress(pids, 3, 0);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	ticks = cpu_ticks(pids, 3);
	for (i = 0; i < 3 && !contract_is(c, "cgroup"); i++) {
		assert_int_equal(procstat_read(pids[i], &st), 0);
		assert_int_equal(st.state, 'T');
	}
	(void)poll(NULL, 0, 150);
	assert_int_equal(cpu_ticks(pids, 3), ticks);
	contract_expect_members(c, pids, 3);
	assert_int_equal(proctrack_resume(c->pt, c->id, NULL), 0);
	expect_progress(pids, 3, ticks);
	assert_int_equal(proctrack_suspend(c->pt, c->id, CONTRACT_PATIENCE_MS, NULL), 0);
	contract_kill(c, SIGKILL);
}

static void test_usage(void **state)
{
	struct contract *c = *state;
	stepd_usage_t usage = {0};
	pid_t pids[2];
	int i;

	for (i = 0; i < 2; i++)
		(void)contract_start(c, "spin", NULL);
	contract_read(c, pids, 2);
	expect_progress(pids, 2, 10);
	assert_int_equal(proctrack_usage(c->pt, c->id, NULL, &usage), 0);
	assert_true(usage.source[STEPD_USAGE_CPU_USER_USEC]);
	/* ten ticks of 10 ms, and not more than two CPUs could give a test of a minute */
	assert_in_range(
		usage.value[STEPD_USAGE_CPU_USER_USEC] + usage.value[STEPD_USAGE_CPU_SYSTEM_USEC],
		50000, 120000000);
	if (usage.source[STEPD_USAGE_PROCESSES])
		assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 2);
	if (usage.source[STEPD_USAGE_MEMORY_BYTES])
		assert_in_range(usage.value[STEPD_USAGE_MEMORY_BYTES], 4096, 1u << 30);
	contract_kill(c, SIGKILL);
	assert_int_equal(proctrack_usage(c->pt, c->id, NULL, &usage), 0);
	if (usage.source[STEPD_USAGE_PROCESSES])
		assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 0);
}

static void test_birth(void **state)
{
	struct contract *c = *state;
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	stepd_step_task_info_t task = {0};
	pid_t pid;
	int fd;

	c->job.node_tasks = 1;
	c->job.ntasks = 1;
	c->job.task = &task;
	fd = proctrack_clone_fd(c->pt, &c->job, 0);
	if (fd < 0) {
		assert_int_equal(fd, -EOPNOTSUPP);
		return;
	}
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		for (;;)
			pause();
	}
	(void)close_fd(fd);
	assert_true(pid > 0);
	assert_true(proctrack_find(c->pt, pid) == c->id);
	contract_expect_members(c, &pid, 1);
	contract_kill(c, SIGKILL);
}

static bool read_events(int fd)
{
	char text[512];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	assert_true(n > 0);
	text[n] = '\0';
	return strstr(text, "populated 1");
}

static void test_event(void **state)
{
	struct contract *c = *state;
	_cleanup_close_ int fd = proctrack_event_fd(c->pt, c->id);
	struct pollfd p = {.fd = fd, .events = POLLPRI};
	int64_t deadline = contract_now_ms() + CONTRACT_PATIENCE_MS;

	if (fd < 0) {
		assert_int_equal(fd, -EOPNOTSUPP);
		return;
	}
	(void)contract_start(c, "live", "200", NULL);
	(void)contract_read_one(c);
	assert_true(read_events(fd));
	do
		assert_int_equal(poll(&p, 1, CONTRACT_PATIENCE_MS), 1);
	while (read_events(fd) && contract_now_ms() < deadline);
	assert_int_equal(proctrack_signal(c->pt, c->id, 0), -ESRCH);
}

/* Below the host, which has a convention of its own: SLURM_ERROR and errno, never an errno. */
static void test_errno_is_not_returned(void **state)
{
	struct contract *c = *state;
	char path[PATH_MAX];
	int (*add)(stepd_step_rec_t *, pid_t), (*sig)(uint64_t, int), (*destroy)(uint64_t), n = 0;
	uint32_t (*get_pids)(uint64_t, pid_t **, int *);
	pid_t *pids = NULL;
	void *so;

	(void)snprintf(path, sizeof(path), "%s/proctrack_%s.so", c->plugin_dir, c->backend);
	so = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(so);
	add = (int (*)(stepd_step_rec_t *, pid_t))dlsym(so, "proctrack_p_add");
	sig = (int (*)(uint64_t, int))dlsym(so, "proctrack_p_signal");
	destroy = (int (*)(uint64_t))dlsym(so, "proctrack_p_destroy");
	get_pids = (uint32_t(*)(uint64_t, pid_t **, int *))dlsym(so, "proctrack_p_get_pids");
	errno = 0;
	assert_int_equal(add(&c->job, INT_MAX), SLURM_ERROR);
	assert_int_equal(errno, ESRCH);
	errno = 0;
	assert_int_equal(sig(c->id, 0), SLURM_ERROR);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(sig(c->id, -1), SLURM_ERROR);
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_int_equal(destroy(INT_MAX), SLURM_ERROR);
	assert_int_equal(errno, ESRCH);
	errno = 0;
	assert_int_equal((int)get_pids(INT_MAX, &pids, &n), SLURM_ERROR);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(dlclose(so), 0);
}

/* The view of another process that has the id only. Its exit status is the line of a failure. */
#define FOREIGN_EXPECT(condition)                                                                  \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__ % 200 + 1;                                                 \
	} while (0)

static int act_foreign(struct contract *c, pid_t member)
{
	_cleanup_proctrack_ struct proctrack *pt = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i, met = 0;

	c->pt = proctrack_close(c->pt); /* the copy, with what it knows */
	FOREIGN_EXPECT(proctrack_open(c->plugin_dir, c->backend, &pt, NULL) == 0);
	FOREIGN_EXPECT(proctrack_get_pids(pt, c->id, &pids, &n) == 0);
	for (i = 0; i < n; i++)
		met += pids[i] == member;
	FOREIGN_EXPECT(met == 1);
	FOREIGN_EXPECT(n == 1 || (contract_is(c, "linuxproc") && n == 2)); /* this child */
	FOREIGN_EXPECT(proctrack_has_pid(pt, c->id, member));
	if (!contract_is(c, "linuxproc"))
		FOREIGN_EXPECT(proctrack_find(pt, member) == c->id);
	(void)signal(SIGTERM, SIG_IGN);
	FOREIGN_EXPECT(proctrack_signal(pt, c->id, 0) == 0);
	FOREIGN_EXPECT(proctrack_signal(pt, c->id, SIGTERM) == 0);
	return 0;
}

static void test_from_another_process(void **state)
{
	struct contract *c = *state;
	pid_t member = contract_start(c, "rest", NULL), other;
	int status = -1;

	(void)contract_read_one(c);
	other = fork();
	assert_true(other >= 0);
	if (other == 0)
		_exit(act_foreign(c, member));
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(status, 0);
	assert_int_equal(waitpid(member, &status, 0), member);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

const struct contract_test contract_basic_tests[] = {
	{"a step has one container, and EEXIST while it lives", test_create},
	{"each member is listed once and found, and no other process", test_members},
	{"the agent and its ancestors are no members", test_others_are_no_members},
	{"the MPI service process is no member", test_service_is_no_member},
	{"add may be repeated, and fails with ESRCH without a process", test_add},
	{"a container takes processes after a SIGKILL", test_add_after_kill},
	{"a zombie is no member", test_zombies_are_no_members},
	{"signal 0 tests, and an empty container fails with ESRCH", test_signal_numbers},
	{"a signal reaches each process once", test_signal_is_sent_once},
	{"unknown ids fail with ESRCH", test_unknown_ids},
	{"destroy fails with EBUSY, or the container can be made again", test_destroy},
	{"wait returns timeouts and the end", test_wait},
	{"wait needs fewer descriptors than members", test_wait_with_few_descriptors},
	{"suspended processes stand still, go on, and can be killed", test_suspend},
	{"usage is plausible", test_usage},
	{"a process cloned into the container is a member", test_birth},
	{"the event descriptor reports the end of the last member", test_event},
	{"a failure sets errno and returns SLURM_ERROR", test_errno_is_not_returned},
	{"another process reaches the container by its id", test_from_another_process},
	{NULL, NULL},
};
