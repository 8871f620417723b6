/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/contract.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "proctrack/procs.h"
#include "tests/lib/scratch.h"

int64_t contract_now_ms(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void contract_skip(struct contract *c, const char *why)
{
	char *name = c->its_case->name;
	size_t n = strlen(name);

	(void)snprintf(name + n, sizeof(c->its_case->name) - n, " # SKIP %s", why);
}

bool contract_is(const struct contract *c, const char *backend)
{
	return strcmp(c->backend, backend) == 0;
}

/* ---- set-up and the way back -------------------------------------------------------------- */

static void fill_job(stepd_step_rec_t *job)
{
	static uint32_t step_id;
	static char step_name[16]; /* of the one container at a time */

	(void)snprintf(step_name, sizeof(step_name), "%u", (unsigned)step_id);
	*job = (stepd_step_rec_t){
		.api_version = STEPD_API_VERSION,
		.kind = STEPD_STEP_NORMAL,
		.job_id = (uint32_t)getpid(),
		.step_id = step_id++,
		.step_name = step_name,
		.uid = getuid(),
		.gid = getgid(),
		.user_name = "contract",
		.node_name = "contract",
		.nnodes = 1,
		.jmgr_pid = getpid(),
	};
}

int contract_setup(void **state)
{
	struct contract *c = calloc(1, sizeof(*c));
	struct err err = ERR_INIT;
	int r;

	assert_non_null(c);
	c->its_case = *state;
	c->backend = c->its_case->backend;
	c->plugin_dir = c->its_case->plugin_dir;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe2(c->report, O_CLOEXEC), 0);
	c->fds_at_start = scratch_count_fds();
	r = proctrack_open(c->plugin_dir, c->backend, &c->pt, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	fill_job(&c->job);
	r = proctrack_create(c->pt, &c->job);
	if (r < 0)
		fail_msg("create: %s", strerror(-r));
	assert_true(c->job.cont_id != 0);
	c->id = c->job.cont_id;
	*state = c;
	return 0;
}

/* Kills our children until there are none: orphans come to us meanwhile. Not a part of what is
 * tested, and so done by other means than the backends'. */
static void end_all_children(void)
{
	int64_t deadline = contract_now_ms() + CONTRACT_PATIENCE_MS;
	size_t i;

	while (contract_now_ms() < deadline) {
		_cleanup_procs_ struct procs procs = {0};

		assert_int_equal(procs_read(&procs), 0);
		for (i = 0; i < procs.n; i++) {
			if (procs.v[i].ppid == getpid())
				(void)kill(procs.v[i].pid, SIGKILL);
		}
		while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG | __WALL) < 0 && errno == ECHILD)
			return;
		(void)poll(NULL, 0, 1);
	}
	fail_msg("children of the test can't be killed");
}

static int end_members(struct contract *c)
{
	int r;

	if (c->id == 0)
		return 0;
	/* for what a failed test may have left: ESRCH in the usual case */
	r = proctrack_resume(c->pt, c->id, NULL);
	r = proctrack_signal(c->pt, c->id, SIGKILL);
	r = proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS);
	return r < 0 ? r : proctrack_destroy(c->pt, c->id);
}

int contract_teardown(void **state)
{
	struct contract *c = *state;
	int r = end_members(c), more_fds;

	c->pt = proctrack_close(c->pt);
	end_all_children();
	more_fds = scratch_count_fds() - c->fds_at_start;
	(void)close_fd(c->report[0]);
	(void)close_fd(c->report[1]);
	free(c);
	*state = NULL;
	if (r < 0)
		print_error("the container can't be removed: %s\n", strerror(-r));
	if (more_fds)
		print_error("%d descriptors more than before\n", more_fds);
	return r < 0 || more_fds ? -1 : 0;
}

/* ---- processes ---------------------------------------------------------------------------- */

/* In the child: waits for its release, which the end of the pipe is not. */
_noreturn_ static void be_hostile(const struct contract *c, int gate, const char *const *argv)
{
	char path[PATH_MAX], byte;

	if (read(gate, &byte, 1) != 1)
		_exit(126);
	(void)snprintf(path, sizeof(path), "%s/tests/lib/hostile", getenv("top_builddir"));
	if (dup2(c->report[1], STDOUT_FILENO) < 0)
		_exit(126);
	(void)execv(path, (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* task: which is to be this process, before it is added; NULL: none. */
static pid_t start_argv(struct contract *c, stepd_step_task_info_t *task, const char *const *argv)
{
	_cleanup_close_ int gate_read = -1, gate_write = -1;
	int gate[2], r;
	pid_t pid;

	assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
	gate_read = gate[0];
	gate_write = gate[1];
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		be_hostile(c, gate_read, argv);
	if (task)
		task->pid = pid;
	r = proctrack_add(c->pt, &c->job, pid);
	if (r < 0)
		fail_msg("add: %s", strerror(-r));
	assert_int_equal(write(gate_write, "", 1), 1);
	return pid;
}

#define ARGV_MAX 8

static void collect_argv(const char *argv[ARGV_MAX], va_list ap)
{
	size_t n = 1;

	argv[0] = "hostile";
	while (n < ARGV_MAX - 1 && (argv[n] = va_arg(ap, const char *)))
		n++;
	argv[n] = NULL;
}

pid_t contract_start(struct contract *c, ...)
{
	const char *argv[ARGV_MAX];
	va_list ap;

	va_start(ap, c);
	collect_argv(argv, ap);
	va_end(ap);
	return start_argv(c, NULL, argv);
}

pid_t contract_start_task(struct contract *c, uint32_t local_id, ...)
{
	const char *argv[ARGV_MAX];
	va_list ap;

	assert_true(local_id < c->job.node_tasks);
	va_start(ap, local_id);
	collect_argv(argv, ap);
	va_end(ap);
	return start_argv(c, &c->job.task[local_id], argv);
}

void contract_end_child(pid_t pid)
{
	int r = kill(pid, SIGKILL);

	assert_int_equal(r, 0);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
}

/* ---- expectations ------------------------------------------------------------------------- */

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r = poll(&p, 1, timeout_ms);

	assert_true(r >= 0);
	return r == 1;
}

pid_t contract_read_one(struct contract *c)
{
	int32_t pid = 0;

	if (!is_readable(c->report[0], CONTRACT_PATIENCE_MS))
		fail_msg("a hostile program does not report");
	assert_int_equal(read(c->report[0], &pid, sizeof(pid)), sizeof(pid));
	return pid;
}

void contract_read(struct contract *c, pid_t *pids, int n)
{
	int i;

	for (i = 0; i < n; i++)
		pids[i] = contract_read_one(c);
}

bool contract_is_silent(struct contract *c, int ms)
{
	return !is_readable(c->report[0], ms);
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *pa = a, *pb = b;

	return (*pa > *pb) - (*pa < *pb);
}

void contract_expect_members(struct contract *c, pid_t *pids, int n)
{
	_cleanup_free_ pid_t *listed = NULL;
	int count = -1, i;

	assert_int_equal(proctrack_get_pids(c->pt, c->id, &listed, &count), 0);
	assert_int_equal(count, n);
	if (n == 0) {
		assert_null(listed);
		return;
	}
	qsort(pids, (size_t)n, sizeof(*pids), compare_pids);
	qsort(listed, (size_t)n, sizeof(*listed), compare_pids);
	for (i = 0; i < n; i++)
		assert_int_equal(listed[i], pids[i]);
}

void contract_expect_no_child(int timeout_ms)
{
	int64_t deadline = contract_now_ms() + timeout_ms;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0) {
			assert_int_equal(errno, ECHILD);
			return;
		}
		if (pid > 0)
			continue;
		if (contract_now_ms() > deadline)
			fail_msg("a process is left that should have ended");
		(void)poll(NULL, 0, 1);
	}
}

void contract_kill(struct contract *c, int signal)
{
	int r = proctrack_signal(c->pt, c->id, signal);

	if (r < 0)
		fail_msg("signal %d: %s", signal, strerror(-r));
	r = proctrack_wait(c->pt, c->id, CONTRACT_PATIENCE_MS);
	if (r < 0)
		fail_msg("wait after signal %d: %s", signal, strerror(-r));
	contract_expect_members(c, NULL, 0);
	contract_expect_no_child(CONTRACT_PATIENCE_MS);
}
