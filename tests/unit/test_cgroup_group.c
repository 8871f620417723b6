/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What proctrack/cgroup does to one cgroup and all below it: real groups, real processes.
 */
#include "proctrack/cgroup/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <time.h>

#include "proctrack/cgroup/probe.h"
#include "tests/lib/cgroup_rig.h"

static struct rig rig;

static int set_up(_unused_ void **state)
{
	rig.fd = -1;
	return rig_open(&rig) ? 0 : (rig.fd = -1, 0);
}

static int tear_down(_unused_ void **state)
{
	return rig_tear_down(&rig);
}

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool is_signalled(pid_t pid, int signal)
{
	int status = rig_status(pid);

	return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

/* Memory that parent and children see. */
static volatile int *shared_ints(size_t n)
{
	void *p = mmap(
		NULL, n * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(99, "mmap");
	return p;
}

/* ---- lists -------------------------------------------------------------------------------- */

static void test_pid_zero_is_never_listed(_unused_ void **state)
{
	_cleanup_pidset_ struct pidset set = {0};

	assert_int_equal(pidset_add_text(&set, "0\n7\n0\n3\n7\n-4\nx\n5 6\n99999999999\n\n9"), 0);
	assert_int_equal(set.n, 3);
	assert_int_equal(set.v[0], 3);
	assert_int_equal(set.v[1], 7);
	assert_int_equal(set.v[2], 9);
	assert_true(pidset_has(&set, 7));
	assert_false(pidset_has(&set, 0));
	assert_false(pidset_has(&set, 8));
}

static void test_list_holds_nested_groups_of_any_name(_unused_ void **state)
{
	static const char *const names[] = {
		"a b", "x) R 1", "\x01\xff\\040", " (deleted)", "-", "...", "step_0"};
	_cleanup_pidset_ struct pidset set = {0};
	pid_t pid[ARRAY_SIZE(names)];
	size_t i;

	need_rig(&rig);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_close_ int outer = rig_group(rig.fd, names[i]);
		_cleanup_close_ int inner = rig_group(outer, names[i]);

		pid[i] = rig_sleeper(inner);
	}
	assert_int_equal(group_list(rig.fd, &set), 0);
	assert_int_equal(set.n, ARRAY_SIZE(names));
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(pidset_has(&set, pid[i]));
	assert_int_equal(tree_remove_below(rig.fd), -EBUSY);
	assert_int_equal(group_signal(rig.fd, SIGTERM), 0);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_true(is_signalled(pid[i], SIGTERM));
	assert_int_equal(tree_remove_below(rig.fd), 0);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(faccessat(rig.fd, names[i], F_OK, 0), -1);
}

static void test_zombies_are_not_listed(_unused_ void **state)
{
	_cleanup_pidset_ struct pidset set = {0};
	struct group_events events;
	siginfo_t info;
	pid_t pid;

	need_rig(&rig);
	pid = rig_fork(rig.fd);
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(group_wait_empty(rig.fd, RIG_WAIT_MS), 0);
	assert_int_equal(group_list(rig.fd, &set), 0);
	assert_int_equal(set.n, 0);
	assert_int_equal(group_get_events(rig.fd, &events), 0);
	assert_false(events.populated);
	assert_int_equal(group_signal(rig.fd, SIGTERM), -ESRCH);
	(void)rig_status(pid);
}

/* ---- walks -------------------------------------------------------------------------------- */

#define DEPTH 1500

static void test_any_depth_with_few_descriptors(_unused_ void **state)
{
	struct rlimit old, few = {.rlim_cur = 24};
	_cleanup_pidset_ struct pidset set = {0};
	int fd, i, r_list, r_signal, r_remove;
	pid_t pid;

	need_rig(&rig);
	fd = rig_group(rig.fd, "d");
	for (i = 0; i < DEPTH; i++) {
		int child = rig_group(fd, "d");

		(void)close_fd(fd);
		fd = child;
	}
	pid = rig_sleeper(fd);
	(void)close_fd(fd);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r_list = group_list(rig.fd, &set);
	r_signal = group_signal(rig.fd, SIGTERM);
	assert_true(is_signalled(pid, SIGTERM));
	r_remove = tree_remove_below(rig.fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r_list, 0);
	assert_int_equal(set.n, 1);
	assert_int_equal(set.v[0], pid);
	assert_int_equal(r_signal, 0);
	assert_int_equal(r_remove, 0);
	assert_int_equal(faccessat(rig.fd, "d", F_OK, 0), -1);
}

static void test_thousands_of_groups(_unused_ void **state)
{
	char name[16];
	int i, outer = -1, made = 0;
	struct stat st;

	need_rig(&rig);
	for (i = 0; i < 3000; i++) {
		if (i % 100 == 0) {
			(void)close_fd(outer);
			(void)snprintf(name, sizeof(name), "o%d", i);
			outer = rig_group(rig.fd, name);
		}
		(void)snprintf(name, sizeof(name), "%d", i);
		made += mkdirat(outer, name, 0755) == 0;
	}
	(void)close_fd(outer);
	assert_int_equal(made, 3000);
	assert_int_equal(tree_remove_below(rig.fd), 0);
	assert_int_equal(fstat(rig.fd, &st), 0);
	assert_int_equal(st.st_nlink, 2);
}

/* Removes, while the walk stands in it, the group "b" with what is below, and "a" above it. */
static int pull_away(_unused_ int fd, void *userdata)
{
	int *calls = userdata;

	if (++*calls != 3) /* the first is the rig's, then a, then b */
		return 0;
	if (unlinkat(rig.fd, "a/b/c", AT_REMOVEDIR) < 0 ||
		unlinkat(rig.fd, "a/b", AT_REMOVEDIR) < 0 ||
		unlinkat(rig.fd, "a", AT_REMOVEDIR) < 0)
		return -errno;
	return 0;
}

static void test_groups_may_vanish_under_the_walk(_unused_ void **state)
{
	static const struct tree_ops ops = {.enter = pull_away};
	int a, b, calls = 0;

	need_rig(&rig);
	a = rig_group(rig.fd, "a");
	b = rig_group(a, "b");
	(void)close_fd(rig_group(b, "c"));
	(void)close_fd(a);
	(void)close_fd(b);
	(void)close_fd(rig_group(rig.fd, "z"));
	assert_int_equal(tree_walk(rig.fd, &ops, &calls), 0);
	assert_int_equal(calls, 4); /* z was still visited */
}

static void test_a_group_that_is_gone(_unused_ void **state)
{
	_cleanup_pidset_ struct pidset set = {0};
	_cleanup_close_ int fd = -1;
	stepd_usage_t usage;
	struct group_events events;

	need_rig(&rig);
	fd = rig_group(rig.fd, "gone");
	assert_int_equal(unlinkat(rig.fd, "gone", AT_REMOVEDIR), 0);
	assert_int_equal(group_get_events(fd, &events), -ESRCH);
	assert_int_equal(group_signal(fd, 0), -ESRCH);
	assert_int_equal(group_signal(fd, SIGTERM), -ESRCH);
	assert_int_equal(group_kill(fd), -ESRCH);
	assert_int_equal(group_suspend(fd), -ESRCH);
	assert_int_equal(group_resume(fd), -ESRCH);
	assert_int_equal(group_wait_empty(fd, 0), -ESRCH);
	assert_int_equal(group_read_usage(fd, fd, &usage), -ESRCH);
	assert_int_equal(group_list(fd, &set), 0);
	assert_int_equal(set.n, 0);
}

/* ---- signals ------------------------------------------------------------------------------ */

static void test_signal_asks_and_refuses(_unused_ void **state)
{
	pid_t pid;

	need_rig(&rig);
	assert_int_equal(group_signal(rig.fd, 0), -ESRCH);
	assert_int_equal(group_signal(rig.fd, SIGTERM), -ESRCH);
	assert_int_equal(group_kill(rig.fd), -ESRCH);
	pid = rig_sleeper(rig.fd);
	assert_int_equal(group_signal(rig.fd, 0), 0);
	assert_int_equal(group_signal(rig.fd, -1), -EINVAL);
	assert_int_equal(group_signal(rig.fd, _NSIG), -EINVAL);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(group_signal(rig.fd, SIGRTMAX), 0);
	assert_true(is_signalled(pid, SIGRTMAX));
}

static volatile int *hits; /* one for each child */
static volatile int *own_hits;

static void count_hit(_unused_ int signal)
{
	(*own_hits)++;
}

/* One that counts SIGUSR1 in *count and has set that up when this returns. */
static pid_t counter(int fd, volatile int *count, volatile int *ready)
{
	struct sigaction sa = {.sa_handler = count_hit};
	pid_t pid = rig_fork(fd);

	if (pid == 0) {
		own_hits = count;
		(void)sigaction(SIGUSR1, &sa, NULL);
		*ready = 1;
		for (;;)
			(void)pause();
	}
	return pid;
}

#define CROWD 600 /* more than one batch */

/* With few descriptors left a batch ends early; nobody is missed or hit twice all the same. */
static void test_each_is_hit_exactly_once(_unused_ void **state)
{
	struct rlimit old, few = {.rlim_cur = 64};
	volatile int *ready = shared_ints(CROWD);
	double limit_ms;
	int i, r;

	need_rig(&rig);
	hits = shared_ints(CROWD);
	for (i = 0; i < CROWD; i++)
		(void)counter(rig.fd, &hits[i], &ready[i]);
	for (i = 0; i < CROWD; i++) {
		while (!ready[i])
			(void)sched_yield();
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = group_signal(rig.fd, SIGUSR1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(r, 0);
	limit_ms = now_ms() + RIG_WAIT_MS;
	for (i = 0; i < CROWD; i++) {
		while (!hits[i] && now_ms() < limit_ms)
			(void)sched_yield();
		assert_int_equal(hits[i], 1);
	}
	assert_int_equal(group_signal(rig.fd, SIGUSR1), 0);
	for (i = 0; i < CROWD; i++) {
		while (hits[i] < 2 && now_ms() < limit_ms)
			(void)sched_yield();
		assert_int_equal(hits[i], 2);
	}
	(void)munmap((void *)hits, CROWD * sizeof(int));
	(void)munmap((void *)ready, CROWD * sizeof(int));
}

/* For two minutes, should nobody end it: the last one of many begins late on a busy machine. */
static _noreturn_ void run_chain(time_t until)
{
	struct timespec now;

	do {
		if (fork() > 0)
			_exit(0);
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < until);
	_exit(0);
}

static void test_chains_end_by_one_sigterm(_unused_ void **state)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN}, dfl = {.sa_handler = SIG_DFL};
	struct timespec now;
	int round, i;

	need_rig(&rig);
	/* The kernel reaps their links for us: init may take its time, until no pid is left. */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	assert_int_equal(sigaction(SIGCHLD, &ignore, NULL), 0);
	for (round = 0; round < 30; round++) {
		_cleanup_close_ int fd = rig_group(rig.fd, "chains");
		struct timespec t = {.tv_nsec = 1000000 + round * 100000};

		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		for (i = 0; i < 32; i++) {
			if (rig_fork(fd) == 0)
				run_chain(now.tv_sec + 120);
		}
		(void)nanosleep(&t, NULL);
		assert_int_equal(group_signal(fd, SIGTERM), 0);
		assert_int_equal(group_wait_empty(fd, RIG_WAIT_MS), 0);
	}
	assert_int_equal(sigaction(SIGCHLD, &dfl, NULL), 0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0), 0);
}

static void test_a_suspended_group_stays_suspended(_unused_ void **state)
{
	volatile int *shared = shared_ints(2);
	struct timespec t = {.tv_nsec = 20000000};
	struct group_events events;

	need_rig(&rig);
	(void)counter(rig.fd, &shared[0], &shared[1]);
	while (!shared[1])
		(void)sched_yield();
	assert_int_equal(group_suspend(rig.fd), 0);
	assert_int_equal(group_suspend(rig.fd), 0);
	assert_int_equal(group_signal(rig.fd, SIGUSR1), 0);
	(void)nanosleep(&t, NULL);
	assert_int_equal(group_get_events(rig.fd, &events), 0);
	assert_true(events.frozen);
	assert_true(events.populated);
	assert_int_equal(shared[0], 0);
	assert_int_equal(group_resume(rig.fd), 0);
	while (!shared[0])
		(void)sched_yield();
	assert_int_equal(shared[0], 1);
	(void)munmap((void *)shared, 2 * sizeof(int));
}

static void test_a_suspended_group_does_nothing(_unused_ void **state)
{
	volatile int *count = shared_ints(1);
	struct timespec t = {.tv_nsec = 20000000};
	int before;

	need_rig(&rig);
	if (rig_fork(rig.fd) == 0) {
		for (;;)
			(*count)++;
	}
	while (!*count)
		(void)sched_yield();
	assert_int_equal(group_suspend(rig.fd), 0);
	before = *count;
	(void)nanosleep(&t, NULL);
	assert_int_equal(*count, before);
	assert_int_equal(group_resume(rig.fd), 0);
	while (*count == before)
		(void)sched_yield();
	(void)munmap((void *)count, sizeof(int));
}

/* ---- the sure kill ------------------------------------------------------------------------ */

static void test_kill_ends_what_stands_still(_unused_ void **state)
{
	_cleanup_close_ int nested = -1;
	pid_t frozen, stopped, traced, tracee;
	int status, ends[2];

	need_rig(&rig);
	nested = rig_group(rig.fd, "nested");
	frozen = rig_sleeper(nested);
	assert_int_equal(group_suspend(nested), 0);
	stopped = rig_sleeper(rig.fd);
	assert_int_equal(kill(stopped, SIGSTOP), 0);
	assert_int_equal(waitpid(stopped, &status, WUNTRACED), stopped);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	traced = rig_fork(rig.fd);
	if (traced == 0) { /* traces a child that it never continues */
		tracee = rig_fork(rig.fd);
		if (tracee == 0) {
			(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			(void)raise(SIGSTOP);
			_exit(0);
		}
		(void)waitpid(tracee, &status, 0);
		(void)!write(ends[1], "", 1);
		for (;;)
			(void)pause();
	}
	assert_int_equal(read(ends[0], &status, 1), 1);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(group_kill(rig.fd), 0);
	assert_int_equal(group_wait_empty(rig.fd, RIG_WAIT_MS), 0);
	assert_true(is_signalled(frozen, SIGKILL));
	assert_true(is_signalled(stopped, SIGKILL));
	assert_true(is_signalled(traced, SIGKILL));
}

/* A task that is root can make its group threaded: that has no list of processes and refuses
 * cgroup.kill. */
static void test_threaded_groups_are_listed_and_killed(_unused_ void **state)
{
	_cleanup_pidset_ struct pidset set = {0}, inner = {0};
	_cleanup_close_ int domain = -1, threaded = -1;
	pid_t pid, other;
	char text[16];

	need_rig(&rig);
	domain = rig_group(rig.fd, "domain");
	threaded = rig_group(domain, "threaded");
	pid = rig_sleeper(domain);
	other = rig_sleeper(domain);
	rig_write(threaded, "cgroup.type", "threaded");
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	rig_write(threaded, "cgroup.threads", text);

	assert_int_equal(group_list(rig.fd, &set), 0);
	assert_int_equal(set.n, 2);
	assert_int_equal(group_list(threaded, &inner), 0);
	assert_int_equal(inner.n, 1);
	assert_int_equal(inner.v[0], pid);
	assert_int_equal(fs_write(threaded, "cgroup.kill", "1"), -EOPNOTSUPP);
	assert_int_equal(group_kill(threaded), 0);
	assert_true(is_signalled(pid, SIGKILL));
	assert_int_equal(waitpid(other, NULL, WNOHANG), 0);
	assert_int_equal(group_kill(rig.fd), 0);
	assert_true(is_signalled(other, SIGKILL));
}

/* Writes from memory whose page never comes: in the kernel it looks for fatal signals only, and so
 * can't be frozen. Returns only where there is no userfaultfd. */
static void hang_in_kernel(volatile int *ready)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), ends[2];
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	reg.range.start = (uintptr_t)page;
	reg.range.len = 4096;
	if (fd < 0 || page == MAP_FAILED || pipe(ends) < 0 || ioctl(fd, UFFDIO_API, &api) < 0 ||
		ioctl(fd, UFFDIO_REGISTER, &reg) < 0)
		return;
	*ready = 1;
	(void)!write(ends[1], page, 4096);
}

static void test_what_cannot_be_frozen(_unused_ void **state)
{
	volatile int *ready = shared_ints(1);
	struct group_events events;
	double start_ms, took_ms;
	pid_t pid, other;
	int status, r;

	need_rig(&rig);
	pid = rig_fork(rig.fd);
	if (pid == 0) {
		hang_in_kernel(ready);
		*ready = -1;
		_exit(0);
	}
	while (!*ready)
		(void)sched_yield();
	if (*ready < 0) {
		(void)rig_status(pid);
		skip();
	}
	other = rig_sleeper(rig.fd);
	/* Nothing shows that it is in write(2). Where it is not yet, the group is suspended. */
	do {
		assert_int_equal(group_resume(rig.fd), 0);
		(void)poll(NULL, 0, 20);
		start_ms = now_ms();
		r = group_suspend(rig.fd);
		took_ms = now_ms() - start_ms;
	} while (r == 0 && *ready > 0);
	assert_int_equal(r, -ETIMEDOUT);
	assert_true(took_ms > GROUP_SUSPEND_FREEZE_MS - 1); /* it is counted in whole ms */
	assert_int_equal(group_resume(rig.fd), 0); /* what was stopped stays so until then */
	assert_int_equal(group_get_events(rig.fd, &events), 0);
	assert_false(events.frozen);
	/* A signal goes out all the same, and the others have it. (The second wait is over at once
	 * if it was the end of the one that hung.) */
	start_ms = now_ms();
	assert_int_equal(group_signal(rig.fd, SIGTERM), 0);
	took_ms = now_ms() - start_ms;
	assert_true(took_ms > GROUP_SIGNAL_FREEZE_MS - 1);
	assert_true(is_signalled(other, SIGTERM));
	/* It may have died of that already, by the moment at which it was hit. */
	assert_true(group_signal(rig.fd, 0) == -ESRCH || group_kill(rig.fd) == 0);
	status = rig_status(pid);
	assert_true(WIFSIGNALED(status));
	(void)munmap((void *)ready, sizeof(int));
}

/* ---- waiting and measuring ---------------------------------------------------------------- */

static void test_wait_ends_in_time(_unused_ void **state)
{
	double start_ms;
	int ends[2];
	pid_t pid, holder;
	char byte;

	need_rig(&rig);
	assert_int_equal(group_wait_empty(rig.fd, 0), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = rig_fork(rig.fd);
	if (pid == 0) {
		(void)close(ends[1]);
		_exit(read(ends[0], &byte, 1) != 0);
	}
	assert_int_equal(group_wait_empty(rig.fd, 0), -ETIMEDOUT);
	start_ms = now_ms();
	assert_int_equal(group_wait_empty(rig.fd, 30), -ETIMEDOUT);
	assert_true(now_ms() - start_ms >= 29);
	/* It ends while it is waited for. */
	holder = fork();
	if (holder == 0) {
		(void)poll(NULL, 0, 50);
		_exit(0);
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(group_wait_empty(rig.fd, -1), 0);
	assert_int_equal(rig_status(pid), 0);
	assert_int_equal(rig_status(holder), 0);
}

static void test_usage_is_true(_unused_ void **state)
{
	stepd_usage_t usage;
	uint64_t before;
	pid_t pid;

	need_rig(&rig);
	assert_int_equal(group_read_usage(rig.fd, rig.fd, &usage), 0);
	assert_true(usage.source[STEPD_USAGE_CPU_USER_USEC]);
	assert_true(usage.source[STEPD_USAGE_PROCESSES]);
	assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 0);
	assert_int_equal(!!(usage.source[STEPD_USAGE_MEMORY_BYTES]),
		faccessat(rig.fd, "memory.current", F_OK, 0) == 0);
	assert_int_equal(!!(usage.source[STEPD_USAGE_MEMORY_PEAK_BYTES]),
		faccessat(rig.fd, "memory.peak", F_OK, 0) == 0);
	before = usage.value[STEPD_USAGE_CPU_USER_USEC] + usage.value[STEPD_USAGE_CPU_SYSTEM_USEC];
	pid = rig_fork(rig.fd);
	if (pid == 0) {
		while (clock() < CLOCKS_PER_SEC / 100) /* of this process's time: 10 ms */
			;
		(void)raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_equal(group_read_usage(rig.fd, rig.fd, &usage), 0);
	assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 1);
	assert_int_equal(kill(pid, SIGCONT), 0);
	(void)rig_status(pid);
	assert_int_equal(group_read_usage(rig.fd, rig.fd, &usage), 0);
	assert_true(
		usage.value[STEPD_USAGE_CPU_USER_USEC] + usage.value[STEPD_USAGE_CPU_SYSTEM_USEC] >=
		before + 5000);
}

/* ---- birth in the group ------------------------------------------------------------------- */

static void test_clone_try_leaves_nothing(_unused_ void **state)
{
	struct group_events events;

	need_rig(&rig);
	assert_int_equal(clone_try(rig.fd), 0);
	assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(group_get_events(rig.fd, &events), 0);
	assert_false(events.populated);
}

/* Linux 6.18: what was killed once kills what is cloned below it, in groups that stood then and
 * in those made since. Whatever the kernel does: clone_try() must say what a clone would meet. */
static void test_clone_try_finds_a_killed_ancestor(_unused_ void **state)
{
	_cleanup_close_ int above = -1, below = -1;
	int status, r;
	pid_t pid;

	need_rig(&rig);
	above = rig_group(rig.fd, "above");
	below = rig_group(above, "below");
	assert_int_equal(clone_try(below), 0);
	(void)rig_sleeper(above);
	assert_int_equal(group_kill(above), 0);
	assert_int_equal(group_wait_empty(above, RIG_WAIT_MS), 0);
	r = clone_try(below);
	pid = rig_fork(below);
	if (pid == 0)
		_exit(0);
	status = rig_status(pid);
	assert_int_equal(r, WIFSIGNALED(status) ? -EOPNOTSUPP : 0);
	print_message("a killed group %s what is cloned below it\n", r < 0 ? "kills" : "takes");
}

static void test_clone_try_in_a_frozen_group(_unused_ void **state)
{
	_cleanup_close_ int frozen = -1, below = -1;

	need_rig(&rig);
	frozen = rig_group(rig.fd, "frozen");
	below = rig_group(frozen, "below");
	assert_int_equal(group_suspend(frozen), 0);
	assert_int_equal(clone_try(below), 0);
	assert_int_equal(group_wait_empty(frozen, 1000), 0);
	assert_int_equal(group_resume(frozen), 0);
	assert_int_equal(clone_try(below), 0);
}

static void test_clone_try_says_no(_unused_ void **state)
{
	_cleanup_close_ int dir = -1, threaded = -1, invalid = -1;

	need_rig(&rig);
	dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(clone_try(dir), -EOPNOTSUPP);
	assert_int_equal(clone_try(-1), -EOPNOTSUPP);
	threaded = rig_group(rig.fd, "threaded");
	rig_write(threaded, "cgroup.type", "threaded");
	invalid = rig_group(rig.fd, "invalid"); /* beside a threaded one: takes no process */
	assert_int_equal(clone_try(invalid), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pid_zero_is_never_listed),
#define rig_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		rig_test(test_list_holds_nested_groups_of_any_name),
		rig_test(test_zombies_are_not_listed),
		rig_test(test_any_depth_with_few_descriptors),
		rig_test(test_thousands_of_groups),
		rig_test(test_groups_may_vanish_under_the_walk),
		rig_test(test_a_group_that_is_gone),
		rig_test(test_signal_asks_and_refuses),
		rig_test(test_each_is_hit_exactly_once),
		rig_test(test_chains_end_by_one_sigterm),
		rig_test(test_a_suspended_group_stays_suspended),
		rig_test(test_a_suspended_group_does_nothing),
		rig_test(test_kill_ends_what_stands_still),
		rig_test(test_threaded_groups_are_listed_and_killed),
		rig_test(test_what_cannot_be_frozen),
		rig_test(test_wait_ends_in_time),
		rig_test(test_usage_is_true),
		rig_test(test_clone_try_leaves_nothing),
		rig_test(test_clone_try_finds_a_killed_ancestor),
		rig_test(test_clone_try_in_a_frozen_group),
		rig_test(test_clone_try_says_no),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
