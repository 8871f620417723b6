/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits and usage as a host has them of proctrack/cgroup, against real offenders: needs root and a
 * cgroup v2 with controllers, and is skipped elsewhere. tests/testbed/guest-vm.sh runs it where all
 * of them are. No timing is asserted but what a limit promises.
 */
#include "proctrack/proctrack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "proctrack/cgroup/controllers.h"
#include "tests/lib/cgroup_rig.h"

#define MIB   (UINT64_C(1) << 20)
#define TASKS 2

static const uint32_t ranks[TASKS] = {4, 9}; /* as of a step on several nodes */

static struct step {
	struct proctrack *pt;
	stepd_step_rec_t job;
	stepd_step_task_info_t task[TASKS];
} step;

/* ---- ground ------------------------------------------------------------------------------- */

/* What the top of the hierarchy offers. */
static unsigned offered(void)
{
	_cleanup_cgroup_root_ struct cgroup_root *root = NULL;
	_cleanup_free_ char *text = NULL;

	if (geteuid() != 0 || root_open(NULL, &root, NULL) < 0 ||
		fs_read(root->fd, "cgroup.controllers", 4096, &text, NULL) < 0)
		return 0;
	return controllers_parse(text);
}

#define need(set)                                                                                  \
	do {                                                                                       \
		if ((offered() & (set)) != (set))                                                  \
			skip();                                                                    \
	} while (0)

static void create(void)
{
	static char name[16];
	static unsigned number;
	size_t i;

	(void)snprintf(name, sizeof(name), "%u", number++);
	for (i = 0; i < TASKS; i++)
		step.task[i] = (stepd_step_task_info_t){.id = (uint32_t)i, .gtid = ranks[i]};
	step.job = (stepd_step_rec_t){.api_version = STEPD_API_VERSION,
		.job_id = (uint32_t)getpid(),
		.step_name = name,
		.node_tasks = TASKS,
		.ntasks = 12,
		.task = step.task,
		.jmgr_pid = getpid()};
	assert_int_equal(proctrack_create(step.pt, &step.job), 0);
}

static void destroy(void)
{
	int r = proctrack_signal(step.pt, step.job.cont_id, SIGKILL);

	if (r < 0 && r != -ESRCH)
		fail_msg("kill the step: %s", strerror(-r));
	assert_int_equal(proctrack_wait(step.pt, step.job.cont_id, RIG_WAIT_MS), 0);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	assert_int_equal(proctrack_destroy(step.pt, step.job.cont_id), 0);
	step.job.cont_id = 0;
}

static void open_tracker(void)
{
	const char *top = getenv("top_builddir");
	_cleanup_free_ char *plugins = scratch_path(top ? top : ".", "stepd/cli/plugins");
	struct err err = ERR_INIT;

	if (proctrack_open(plugins, "cgroup", &step.pt, &err) < 0)
		fail_msg("%s", err.text);
}

static int set_up(_unused_ void **state)
{
	if (!offered())
		return 0;
	(void)unsetenv("STEPD_CGROUP_ROOT");
	open_tracker();
	create();
	return 0;
}

static int tear_down(_unused_ void **state)
{
	char name[32];
	bool left;

	if (!step.pt)
		return 0;
	if (step.job.cont_id)
		destroy();
	step.pt = proctrack_close(step.pt);
	(void)unsetenv("STEPD_CGROUP_ROOT");
	(void)snprintf(name, sizeof(name), "stepd/job_%d", (int)getpid());
	{
		_cleanup_cgroup_root_ struct cgroup_root *root = NULL;

		left = root_open(NULL, &root, NULL) < 0 || faccessat(root->fd, name, F_OK, 0) == 0;
	}
	if (left)
		warnx("%s was left behind", name);
	return left ? -1 : 0;
}

/* A process of a task: 0 in it, and then it must _exit(). */
static pid_t born(uint32_t local_id)
{
	int fd = proctrack_clone_fd(step.pt, &step.job, local_id);
	pid_t pid;

	if (fd < 0)
		fail_msg("no descriptor of task %u: %s", (unsigned)local_id, strerror(-fd));
	pid = rig_fork(fd);
	(void)close(fd);
	return pid;
}

static void limit(const uint32_t *rank, const stepd_limits_t *limits)
{
	struct err err = ERR_INIT;

	if (proctrack_set_limits(step.pt, step.job.cont_id, rank, limits, &err) < 0)
		fail_msg("%s", err.text);
}

static void limit_number(const uint32_t *rank, enum stepd_limit which, uint64_t n)
{
	stepd_limits_t limits = {.set = 1u << which};

	limits.number[which] = n;
	limit(rank, &limits);
}

/* Must fail with this code, and a sentence that holds both parts. */
static void refuse(
	const stepd_limits_t *limits, const uint32_t *rank, int code, const char *a, const char *b)
{
	struct err err = ERR_INIT;
	int r = proctrack_set_limits(step.pt, step.job.cont_id, rank, limits, &err);

	print_message("# %s\n", err.text);
	assert_int_equal(r, code);
	if (!strstr(err.text, a) || !strstr(err.text, b))
		fail_msg("'%s' has no '%s' or no '%s'", err.text, a, b);
}

/* A value that must have been counted by the cgroup. */
static uint64_t used(const uint32_t *rank, enum stepd_usage_value which)
{
	stepd_usage_t usage;

	assert_int_equal(proctrack_usage(step.pt, step.job.cont_id, rank, &usage), 0);
	if (usage.source[which] != STEPD_USAGE_CGROUP)
		fail_msg("value %d has source %d", (int)which, (int)usage.source[which]);
	return usage.value[which];
}

static void touch(uint64_t bytes)
{
	uint64_t i;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (i = 0; p != MAP_FAILED && i < bytes; i += 4096)
		p[i] = 1;
	if (p == MAP_FAILED)
		_exit(9);
}

static bool was_killed(pid_t pid)
{
	int status = rig_status(pid);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- memory ------------------------------------------------------------------------------- */

static void limit_memory(const uint32_t *rank, uint64_t max_bytes)
{
	stepd_limits_t limits = {.set = 1u << STEPD_LIMIT_MEMORY_MAX,
		.number = {[STEPD_LIMIT_MEMORY_MAX] = max_bytes}};
	_cleanup_free_ char *swaps = NULL;

	limit(rank, &limits);
	/* Else the offender swaps, where there is swap. */
	if (fs_read(AT_FDCWD, "/proc/swaps", 4096, &swaps, NULL) == 0 && strchr(swaps, '/'))
		limit_number(rank, STEPD_LIMIT_MEMORY_SWAP_MAX, 0);
}

static void test_oom_is_counted_and_told(_unused_ void **state)
{
	struct pollfd oom = {.fd = -1, .events = POLLPRI};
	char text[512];
	pid_t pid;

	need(CONTROLLER_MEMORY);
	limit_memory(NULL, 16 * MIB);
	oom.fd = proctrack_oom_fd(step.pt, step.job.cont_id);
	assert_true(oom.fd >= 0);
	assert_true(read(oom.fd, text, sizeof(text)) > 0);
	assert_int_equal(poll(&oom, 1, 0), 0);
	pid = born(1);
	if (pid == 0) {
		touch(64 * MIB);
		_exit(0);
	}
	assert_true(was_killed(pid));
	assert_int_equal(poll(&oom, 1, RIG_WAIT_MS), 1);
	assert_true(oom.revents & POLLPRI);
	(void)close(oom.fd);
	assert_true(used(NULL, STEPD_USAGE_OOM_KILLS) >= 1);
	assert_true(used(NULL, STEPD_USAGE_OOM_EVENTS) >= 1);
	assert_true(used(&ranks[1], STEPD_USAGE_OOM_KILLS) >= 1);
	assert_true(used(NULL, STEPD_USAGE_MEMORY_PEAK_BYTES) <= 16 * MIB);
	assert_true(used(NULL, STEPD_USAGE_MEMORY_PEAK_BYTES) >= 12 * MIB);
}

/* The leader has a child that runs out of memory, and ends well itself. */
static pid_t start_family(uint32_t local_id)
{
	pid_t pid = born(local_id), child;

	if (pid == 0) {
		child = fork();
		if (child == 0)
			touch(64 * MIB);
		if (child <= 0)
			_exit(1);
		_exit(was_killed(child) ? 0 : 2);
	}
	return pid;
}

static void test_oom_group_takes_the_leader_too(_unused_ void **state)
{
	need(CONTROLLER_MEMORY);
	limit_memory(&ranks[0], 16 * MIB);
	assert_int_equal(rig_status(start_family(0)), 0);
	assert_int_equal(used(&ranks[0], STEPD_USAGE_OOM_KILLS) >= 1, 1);
	limit_memory(&ranks[1], 16 * MIB);
	limit_number(&ranks[1], STEPD_LIMIT_MEMORY_OOM_GROUP, 1);
	assert_true(was_killed(start_family(1)));
	limit_number(&ranks[1], STEPD_LIMIT_MEMORY_OOM_GROUP, STEPD_LIMIT_NONE);
	assert_int_equal(rig_status(start_family(1)), 0);
}

static void test_one_tasks_memory_is_its_own(_unused_ void **state)
{
	pid_t small, large;

	need(CONTROLLER_MEMORY);
	limit_memory(NULL, 64 * MIB);
	limit_memory(&ranks[0], 8 * MIB);
	small = born(0);
	if (small == 0) {
		touch(24 * MIB);
		_exit(0);
	}
	large = born(1);
	if (large == 0) {
		touch(24 * MIB);
		_exit(0);
	}
	assert_true(was_killed(small));
	assert_int_equal(rig_status(large), 0);
	assert_true(used(&ranks[0], STEPD_USAGE_OOM_KILLS) >= 1);
	assert_int_equal(used(&ranks[1], STEPD_USAGE_OOM_KILLS), 0);
	assert_true(used(&ranks[1], STEPD_USAGE_MEMORY_PEAK_BYTES) >= 24 * MIB);
	/* A task may ask for more than the step has, and gets no more. */
	limit_memory(&ranks[1], 512 * MIB);
	large = born(1);
	if (large == 0) {
		touch(128 * MIB);
		_exit(0);
	}
	assert_true(was_killed(large));
}

/* Below what is in use: the kernel reclaims, and kills where that is not enough. */
static void test_memory_limit_below_what_is_in_use(_unused_ void **state)
{
	double begin;
	int ready[2];
	pid_t pid;
	char c;

	need(CONTROLLER_MEMORY);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = born(0);
	if (pid == 0) {
		touch(32 * MIB);
		if (write(ready[1], "r", 1) != 1)
			_exit(8);
		for (;;)
			touch(4096); /* asks for more all the time: Linux 6.16 kills then */
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_true(used(NULL, STEPD_USAGE_MEMORY_BYTES) >= 32 * MIB);
	begin = now_s();
	limit_memory(NULL, 16 * MIB);
	print_message("# lowered below what is in use in %.1f ms\n", (now_s() - begin) * 1e3);
	assert_true(was_killed(pid));
	assert_true(used(NULL, STEPD_USAGE_OOM_KILLS) >= 1);
	limit_memory(NULL, STEPD_LIMIT_NONE);
	pid = born(0);
	if (pid == 0) {
		touch(32 * MIB);
		_exit(0);
	}
	assert_int_equal(rig_status(pid), 0);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

/* One that did not make the step, as an agent that took it over. */
static void test_another_process_limits_it(_unused_ void **state)
{
	pid_t pid;

	need(CONTROLLER_MEMORY);
	pid = fork();
	if (pid == 0) {
		step.pt = proctrack_close(step.pt); /* which forgets the step */
		open_tracker();
		limit_memory(&ranks[1], 8 * MIB);
		_exit(used(&ranks[1], STEPD_USAGE_OOM_KILLS) == 0 ? 0 : 1);
	}
	assert_int_equal(rig_status(pid), 0);
	pid = born(1);
	if (pid == 0) {
		touch(32 * MIB);
		_exit(0);
	}
	assert_true(was_killed(pid));
}

/* ---- pids --------------------------------------------------------------------------------- */

/* Forks until it is refused; the children stay until the step is killed. */
static int bomb(void)
{
	int i;

	for (i = 0; i < 1000; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return errno == EAGAIN ? i : 255;
		while (pid == 0)
			(void)pause();
	}
	return 254;
}

static void test_fork_bomb_meets_pids_max(_unused_ void **state)
{
	stepd_usage_t usage;
	pid_t pid;

	need(CONTROLLER_PIDS);
	limit_number(NULL, STEPD_LIMIT_PIDS_MAX, 20);
	pid = born(0);
	if (pid == 0)
		_exit(bomb());
	assert_int_equal(WEXITSTATUS(rig_status(pid)), 19);
	assert_int_equal(used(NULL, STEPD_USAGE_PROCESSES), 19);
	assert_true(used(NULL, STEPD_USAGE_PIDS_MAX_EVENTS) >= 1);
	assert_int_equal(proctrack_signal(step.pt, step.job.cont_id, SIGKILL), 0);
	assert_int_equal(proctrack_wait(step.pt, step.job.cont_id, RIG_WAIT_MS), 0);
	/* Before Linux 6.11 the task's group alone has counted it, and that goes now. */
	proctrack_task_ended(step.pt, &step.job, 0);
	assert_int_equal(proctrack_usage(step.pt, step.job.cont_id, &ranks[0], &usage), -ESRCH);
	assert_true(used(NULL, STEPD_USAGE_PIDS_MAX_EVENTS) >= 1);
}

static void test_pids_max_of_a_task_while_it_runs(_unused_ void **state)
{
	int go[2], status;
	pid_t pid;
	char c;

	need(CONTROLLER_PIDS);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid = born(0);
	if (pid == 0)
		_exit(read(go[0], &c, 1) == 1 ? bomb() : 253);
	limit_number(&ranks[0], STEPD_LIMIT_PIDS_MAX, 5);
	assert_int_equal(write(go[1], "g", 1), 1);
	status = rig_status(pid);
	assert_int_equal(WEXITSTATUS(status), 4);
	(void)close(go[0]);
	(void)close(go[1]);
}

/* ---- CPU ---------------------------------------------------------------------------------- */

/* CPU seconds per second of the step over some seconds. */
static double cpu_rate(double seconds)
{
	double begin = now_s(), used_s;

	used_s = (double)(used(NULL, STEPD_USAGE_CPU_USER_USEC) +
		used(NULL, STEPD_USAGE_CPU_SYSTEM_USEC));
	(void)poll(NULL, 0, (int)(seconds * 1000));
	used_s = (double)(used(NULL, STEPD_USAGE_CPU_USER_USEC) +
			 used(NULL, STEPD_USAGE_CPU_SYSTEM_USEC)) -
		used_s;
	return used_s / 1e6 / (now_s() - begin);
}

static void test_spinner_under_cpu_max(_unused_ void **state)
{
	double slow, slower, fast;
	pid_t pid;

	need(CONTROLLER_CPU);
	limit_number(NULL, STEPD_LIMIT_CPU_MAX, 200);
	pid = born(0);
	if (pid == 0) {
		for (;;)
			;
	}
	slow = cpu_rate(3);
	limit_number(NULL, STEPD_LIMIT_CPU_MAX, 5); /* below a quota of 1 ms in the usual period */
	(void)poll(NULL, 0, 1100);
	slower = cpu_rate(3);
	assert_true(used(NULL, STEPD_USAGE_CPU_THROTTLED_USEC) > 0);
	limit_number(NULL, STEPD_LIMIT_CPU_MAX, STEPD_LIMIT_NONE);
	limit_number(&ranks[0], STEPD_LIMIT_CPU_WEIGHT, 10000);
	fast = cpu_rate(2);
	print_message(
		"# CPU a second: %.3f at 0.2, %.4f at 0.005, %.2f without\n", slow, slower, fast);
	assert_true(slow < 0.3);
	assert_true(slower < 0.05);
	assert_true(fast > 1.5 * slow);
}

static int affinity_of(pid_t pid)
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(pid, sizeof(set), &set), 0);
	return CPU_COUNT(&set) == 1 ? CPU_ISSET(0, &set) ? 0 : 1 : -1;
}

static void test_cpuset_is_the_affinity(_unused_ void **state)
{
	stepd_limits_t limits = {.set = 1u << STEPD_LIMIT_CPUSET_CPUS, .cpuset_cpus = "1"};
	pid_t pid;

	need(CONTROLLER_CPUSET);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	limit(NULL, &limits);
	pid = born(0);
	while (pid == 0)
		(void)pause();
	assert_int_equal(affinity_of(pid), 1);
	limits.cpuset_cpus = "0";
	refuse(&limits, &ranks[0], -ERANGE, "cpuset.cpus=0 of task 4", "names 0, but '1' of");
	limit(NULL, &limits); /* moved at once */
	assert_int_equal(affinity_of(pid), 0);
	limits.cpuset_cpus = "0-1";
	limit(NULL, &limits);
	limits.cpuset_cpus = "1";
	limit(&ranks[0], &limits);
	assert_int_equal(affinity_of(pid), 1);
	limits.cpuset_cpus = NULL;
	limit(&ranks[0], &limits);
	assert_int_equal(affinity_of(pid), -1);
	limits.cpuset_cpus = "0-4000";
	refuse(&limits, NULL, -ERANGE, "limit cpuset.cpus=0-4000 of the step", "is all there is");
	limits = (stepd_limits_t){.set = 1u << STEPD_LIMIT_CPUSET_MEMS, .cpuset_mems = "0"};
	limit(NULL, &limits);
	limits.cpuset_mems = "0,63";
	refuse(&limits, NULL, -ERANGE, "names 63, but '0' of", "cpuset.mems.effective");
}

/* ---- I/O ---------------------------------------------------------------------------------- */

static bool find_disk(stepd_io_limit_t *ret_io)
{
	char path[80];
	struct stat st;

	if (stat("/var/tmp", &st) < 0)
		return false;
	ret_io->major = major(st.st_dev);
	ret_io->minor = minor(st.st_dev);
	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue", (unsigned)ret_io->major,
		(unsigned)ret_io->minor);
	return access(path, F_OK) == 0;
}

static int write_direct(uint64_t bytes)
{
	char path[] = "/var/tmp/stepd-test.XXXXXX";
	int fd = mkostemp(path, O_DIRECT | O_CLOEXEC);
	void *block = NULL;

	if (fd < 0 || unlink(path) < 0 || posix_memalign(&block, 4096, 65536) != 0)
		return 1;
	memset(block, 1, 65536);
	for (; bytes > 0; bytes -= 65536) {
		if (write(fd, block, 65536) != 65536)
			return 2;
	}
	return 0;
}

static void test_io_max(_unused_ void **state)
{
	stepd_io_limit_t io[] = {{.read_bytes_per_sec = STEPD_LIMIT_NONE,
					 .write_bytes_per_sec = MIB,
					 .reads_per_sec = STEPD_LIMIT_NONE,
					 .writes_per_sec = 100000},
		{.major = 4095, .read_bytes_per_sec = MIB}};
	stepd_limits_t limits = {.set = 1u << STEPD_LIMIT_IO_MAX, .io = io, .io_count = 1};
	double begin = now_s();
	pid_t pid;

	need(CONTROLLER_IO);
	if (!find_disk(&io[0]))
		skip();
	limit(NULL, &limits);
	pid = born(0);
	if (pid == 0)
		_exit(write_direct(3 * MIB));
	assert_int_equal(rig_status(pid), 0);
	print_message("# 3 MiB took %.1f s at 1 MiB/s\n", now_s() - begin);
	assert_true(now_s() - begin > 1.8);
	assert_true(used(NULL, STEPD_USAGE_IO_WRITE_BYTES) >= 3 * MIB);
	assert_true(used(&ranks[0], STEPD_USAGE_IO_WRITE_BYTES) >= 3 * MIB);
	limits.io_count = 2;
	refuse(&limits, NULL, -ENODEV, "4095:0 rbps=1048576", "whole disk");
	limits.io_count = 0; /* the list is the whole: now there is none */
	limit(NULL, &limits);
	begin = now_s();
	pid = born(0);
	if (pid == 0)
		_exit(write_direct(3 * MIB));
	assert_int_equal(rig_status(pid), 0);
	assert_true(now_s() - begin < 1.8);
}

/* ---- usage -------------------------------------------------------------------------------- */

static void test_counted_by_default_and_after_the_tasks_end(_unused_ void **state)
{
	static const enum stepd_usage_value values[] = {STEPD_USAGE_CPU_USER_USEC,
		STEPD_USAGE_CPU_SYSTEM_USEC, STEPD_USAGE_MEMORY_PEAK_BYTES, STEPD_USAGE_PAGE_FAULTS,
		STEPD_USAGE_MAJOR_FAULTS, STEPD_USAGE_OOM_EVENTS, STEPD_USAGE_OOM_KILLS,
		STEPD_USAGE_PIDS_MAX_EVENTS, STEPD_USAGE_IO_READ_BYTES, STEPD_USAGE_IO_WRITE_BYTES};
	uint64_t of_task[ARRAY_SIZE(values)];
	size_t i;
	pid_t pid;

	need(CONTROLLERS_ACCOUNTING);
	pid = born(0);
	if (pid == 0) {
		touch(16 * MIB);
		_exit(write_direct(MIB));
	}
	assert_int_equal(rig_status(pid), 0);
	for (i = 0; i < ARRAY_SIZE(values); i++)
		of_task[i] = used(&ranks[0], values[i]);
	assert_true(of_task[2] >= 16 * MIB);
	assert_true(of_task[3] > 0);
	proctrack_task_ended(step.pt, &step.job, 0);
	for (i = 0; i < ARRAY_SIZE(values); i++)
		assert_true(used(NULL, values[i]) >= of_task[i]);
	if (access("/proc/pressure/cpu", F_OK) == 0) {
		(void)used(NULL, STEPD_USAGE_CPU_PRESSURE_USEC);
		(void)used(NULL, STEPD_USAGE_MEMORY_PRESSURE_USEC);
		(void)used(NULL, STEPD_USAGE_IO_PRESSURE_USEC);
	}
}

/* ---- the process rule --------------------------------------------------------------------- */

static void test_added_where_controllers_are_on(_unused_ void **state)
{
	_cleanup_free_ char *path = NULL, *text = NULL;
	_cleanup_free_ pid_t *pids = NULL;
	pid_t pid;
	int n;

	need(CONTROLLER_MEMORY | CONTROLLER_CPU);
	limit_number(NULL, STEPD_LIMIT_MEMORY_MAX, 64 * MIB);
	limit_number(&ranks[0], STEPD_LIMIT_CPU_WEIGHT, 50);
	pid = fork();
	while (pid == 0)
		(void)pause();
	assert_int_equal(proctrack_add(step.pt, &step.job, pid), 0);
	assert_int_equal(proctrack_add(step.pt, &step.job, pid), 0);
	assert_int_equal(proctrack_find(step.pt, pid), step.job.cont_id);
	assert_true(proctrack_has_pid(step.pt, step.job.cont_id, pid));
	assert_int_equal(proctrack_get_pids(step.pt, step.job.cont_id, &pids, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pids[0], pid);
	assert_true(asprintf(&path, "/proc/%d/cgroup", (int)pid) > 0);
	assert_int_equal(fs_read(AT_FDCWD, path, 4096, &text, NULL), 0);
	assert_non_null(strstr(text, "/added\n"));
	assert_int_equal(used(NULL, STEPD_USAGE_PROCESSES), 1);
	/* More is switched on with it in the step, and more is limited. */
	limit_number(&ranks[1], STEPD_LIMIT_PIDS_MAX, 3);
	assert_int_equal(proctrack_destroy(step.pt, step.job.cont_id), -EBUSY);
	assert_int_equal(proctrack_suspend(step.pt, step.job.cont_id, 10000, NULL), 0);
	assert_int_equal(proctrack_resume(step.pt, step.job.cont_id, NULL), 0);
	assert_int_equal(proctrack_signal(step.pt, step.job.cont_id, SIGTERM), 0);
	assert_int_equal(WTERMSIG(rig_status(pid)), SIGTERM);
}

/* As a container runtime does it below its own group. */
static void test_groups_of_tasks_with_controllers_go(_unused_ void **state)
{
	int fd, leaf, inner;
	pid_t pid;

	need(CONTROLLER_MEMORY | CONTROLLER_PIDS);
	fd = proctrack_clone_fd(step.pt, &step.job, 0);
	assert_true(fd >= 0);
	leaf = rig_group(fd, "runtime");
	inner = rig_group(fd, "container");
	rig_write(fd, "cgroup.subtree_control", "+memory +pids");
	rig_write(inner, "memory.max", "8388608");
	rig_write(inner, "cgroup.subtree_control", "+pids");
	(void)rig_sleeper(leaf);
	(void)close(inner);
	inner = rig_group(fd, "container/payload");
	pid = rig_fork(inner);
	if (pid == 0) {
		touch(32 * MIB);
		_exit(0);
	}
	assert_true(was_killed(pid));
	assert_true(used(&ranks[0], STEPD_USAGE_OOM_KILLS) >= 1);
	assert_true(used(NULL, STEPD_USAGE_OOM_KILLS) >= 1);
	assert_int_equal(used(NULL, STEPD_USAGE_PROCESSES), 1);
	(void)close(fd);
	(void)close(leaf);
	(void)close(inner);
}

/* The agent, or who started it, in the root itself. */
static void test_processes_in_the_root_are_named(_unused_ void **state)
{
	stepd_limits_t memory = {.set = 1u << STEPD_LIMIT_MEMORY_MAX,
		.number = {[STEPD_LIMIT_MEMORY_MAX] = 64 * MIB}};
	stepd_limits_t pids = {
		.set = 1u << STEPD_LIMIT_PIDS_MAX, .number = {[STEPD_LIMIT_PIDS_MAX] = 9}};
	_cleanup_free_ char *type = NULL;
	struct rig rig;
	pid_t pid;

	need(CONTROLLER_MEMORY | CONTROLLER_PIDS);
	assert_true(rig_open(&rig));
	pid = rig_sleeper(rig.fd);
	destroy();
	assert_int_equal(setenv("STEPD_CGROUP_ROOT", rig.path, 1), 0);
	create(); /* goes without */
	refuse(&memory, NULL, -EOPNOTSUPP, "limit memory.max=67108864 of the step: ",
		"because processes are in it itself (pid ");
	refuse(&pids, NULL, -EOPNOTSUPP, "pids", rig.path);
	/* The kernel would have made the root threaded for pids, and its children useless. */
	assert_int_equal(fs_read(rig.fd, "cgroup.type", 64, &type, NULL), 0);
	assert_string_equal(type, "domain\n");
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)rig_status(pid);
	limit(NULL, &memory);
	limit(&ranks[0], &pids);
	destroy();
	(void)unsetenv("STEPD_CGROUP_ROOT");
	(void)rig_close(&rig);
}

static void test_who_keeps_a_controller_is_named(_unused_ void **state)
{
	stepd_limits_t memory = {.set = 1u << STEPD_LIMIT_MEMORY_MAX,
		.number = {[STEPD_LIMIT_MEMORY_MAX] = 64 * MIB}};
	_cleanup_free_ char *path = NULL, *kept = NULL;
	struct rig rig;

	need(CONTROLLER_MEMORY | CONTROLLER_PIDS);
	assert_true(rig_open(&rig));
	(void)close(rig_group(rig.fd, "site"));
	path = scratch_path(rig.path, "site");
	kept = scratch_path(rig.path, "cgroup.subtree_control");
	destroy();
	assert_int_equal(setenv("STEPD_CGROUP_ROOT", path, 1), 0);
	create();
	refuse(&memory, NULL, -EOPNOTSUPP, "the memory controller is not switched on in", kept);
	destroy();
	(void)unsetenv("STEPD_CGROUP_ROOT");
	(void)rig_close(&rig);
}

static void test_a_threaded_root_is_named(_unused_ void **state)
{
	stepd_limits_t memory = {.set = 1u << STEPD_LIMIT_MEMORY_MAX,
		.number = {[STEPD_LIMIT_MEMORY_MAX] = 64 * MIB}};
	stepd_limits_t pids = {
		.set = 1u << STEPD_LIMIT_PIDS_MAX, .number = {[STEPD_LIMIT_PIDS_MAX] = 9}};
	_cleanup_free_ char *path = NULL;
	struct rig rig;
	int fd, threaded;

	need(CONTROLLER_MEMORY | CONTROLLER_PIDS);
	assert_true(rig_open(&rig));
	fd = rig_group(rig.fd, "domain");
	threaded = rig_group(fd, "threaded");
	rig_write(threaded, "cgroup.type", "threaded");
	rig_write(rig.fd, "cgroup.subtree_control", "+memory");
	path = scratch_path(rig.path, "domain/threaded");
	destroy();
	assert_int_equal(setenv("STEPD_CGROUP_ROOT", path, 1), 0);
	create();
	refuse(&memory, NULL, -EOPNOTSUPP, "the memory controller", "cgroup.subtree_control");
	rig_write(rig.fd, "cgroup.subtree_control", "+pids");
	rig_write(fd, "cgroup.subtree_control", "+pids");
	refuse(&pids, NULL, -EOPNOTSUPP, "threaded", path);
	destroy();
	(void)unsetenv("STEPD_CGROUP_ROOT");
	(void)close(fd);
	(void)close(threaded);
	(void)rig_close(&rig);
}

/* A user whose group was given to them without its controllers. In the child. */
static int try_as_user(void)
{
	const stepd_limits_t memory = {.set = 1u << STEPD_LIMIT_MEMORY_MAX,
		.number = {[STEPD_LIMIT_MEMORY_MAX] = 64 * MIB}};
	struct err err = ERR_INIT;

	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0 ||
		proctrack_create(step.pt, &step.job) < 0)
		return 1;
	if (proctrack_set_limits(step.pt, step.job.cont_id, NULL, &memory, &err) != -EOPNOTSUPP)
		return 2;
	print_message("# %s\n", err.text);
	if (!strstr(err.text, "Permission denied") || !strstr(err.text, "Delegate=yes"))
		return 3;
	return proctrack_destroy(step.pt, step.job.cont_id) < 0 ? 4 : 0;
}

static void test_a_group_given_without_its_controllers(_unused_ void **state)
{
	struct rig rig;
	pid_t pid;

	need(CONTROLLER_MEMORY);
	assert_true(rig_open(&rig));
	assert_int_equal(chown(rig.path, 65534, 65534), 0);
	destroy();
	assert_int_equal(setenv("STEPD_CGROUP_ROOT", rig.path, 1), 0);
	pid = fork();
	if (pid == 0)
		_exit(try_as_user());
	assert_int_equal(WEXITSTATUS(rig_status(pid)), 0);
	(void)unsetenv("STEPD_CGROUP_ROOT");
	(void)rig_close(&rig);
}

/* ---- many --------------------------------------------------------------------------------- */

static double time_steps(int n)
{
	double begin = now_s();
	int i;
	pid_t pid;

	for (i = 0; i < n; i++) {
		create();
		pid = born((uint32_t)i % TASKS);
		if (pid == 0)
			_exit(0);
		assert_int_equal(rig_status(pid), 0);
		proctrack_task_ended(step.pt, &step.job, (uint32_t)i % TASKS);
		assert_int_equal(proctrack_destroy(step.pt, step.job.cont_id), 0);
		step.job.cont_id = 0;
	}
	return now_s() - begin;
}

#define ROUNDS      10
#define ROUND_STEPS 20 /* of each kind */

static void test_hundreds_of_steps_leave_nothing(_unused_ void **state)
{
	_cleanup_free_ char *path = NULL;
	double with = 0, without = 0;
	struct rig rig;
	int i;

	need(CONTROLLERS_ACCOUNTING);
	destroy();
	assert_true(rig_open(&rig));
	(void)close(rig_group(rig.fd, "bare")); /* to which the rig's group hands nothing down */
	path = scratch_path(rig.path, "bare");
	for (i = 0; i < ROUNDS; i++) {
		(void)unsetenv("STEPD_CGROUP_ROOT");
		with += time_steps(ROUND_STEPS);
		assert_int_equal(setenv("STEPD_CGROUP_ROOT", path, 1), 0);
		without += time_steps(ROUND_STEPS);
	}
	(void)unsetenv("STEPD_CGROUP_ROOT");
	print_message("# a step of one task with memory, pids and io: %.2f ms, without: %.2f ms\n",
		with * 1e3 / (ROUNDS * ROUND_STEPS), without * 1e3 / (ROUNDS * ROUND_STEPS));
	(void)rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define limit_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		limit_test(test_oom_is_counted_and_told),
		limit_test(test_oom_group_takes_the_leader_too),
		limit_test(test_one_tasks_memory_is_its_own),
		limit_test(test_memory_limit_below_what_is_in_use),
		limit_test(test_another_process_limits_it),
		limit_test(test_fork_bomb_meets_pids_max),
		limit_test(test_pids_max_of_a_task_while_it_runs),
		limit_test(test_spinner_under_cpu_max),
		limit_test(test_cpuset_is_the_affinity),
		limit_test(test_io_max),
		limit_test(test_counted_by_default_and_after_the_tasks_end),
		limit_test(test_added_where_controllers_are_on),
		limit_test(test_groups_of_tasks_with_controllers_go),
		limit_test(test_processes_in_the_root_are_named),
		limit_test(test_who_keeps_a_controller_is_named),
		limit_test(test_a_threaded_root_is_named),
		limit_test(test_a_group_given_without_its_controllers),
		limit_test(test_hundreds_of_steps_leave_nothing),
	};

	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		err(99, "become a subreaper");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
