/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Requests to real containers, by a real worker. A worker that is to take its time is stopped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "stepd/step/requests.h"
#include "tests/lib/child.h"
#include "tests/lib/scratch.h"

static const char *const backends[] = {"linuxproc", "pgid"};

struct rig {
	struct proctrack *pt;
	struct ev_loop *loop;
	stepd_step_rec_t job;
	struct requests rq;
	pid_t member;
	int executing_fd; /* -1: all have been executed */
	char told[256];   /* "suspend 0, USR1 0, " as they were done */
	int begun;
};

static void on_begin(const struct request *request, void *userdata)
{
	struct rig *rig = userdata;

	(void)request;
	rig->begun++;
}

static void on_done(const struct request *request, int r, const struct err *err, void *userdata)
{
	static const char *const words[] = {
		[REQUEST_SUSPEND] = "suspend", [REQUEST_RESUME] = "resume"};
	struct rig *rig = userdata;
	size_t len = strlen(rig->told);

	if (r < 0)
		assert_true(err->text[0]);
	if (request->kind == REQUEST_SIGNAL)
		(void)snprintf(
			rig->told + len, sizeof(rig->told) - len, "%d=%d ", request->signal, r);
	else
		(void)snprintf(rig->told + len, sizeof(rig->told) - len, "%s=%d ",
			words[request->kind], r);
}

static size_t find_executing(int fds[2], void *userdata)
{
	const struct rig *rig = userdata;

	fds[0] = rig->executing_fd;
	return rig->executing_fd >= 0 ? 1 : 0;
}

static void rig_open(struct rig *rig, const char *backend)
{
	const char *top = getenv("top_builddir");
	struct err err = ERR_INIT;
	char dir[PATH_MAX];

	*rig = (struct rig){.executing_fd = -1,
		.job = {.api_version = STEPD_API_VERSION,
			.job_id = (uint32_t)getpid(),
			.step_name = "0",
			.user_name = "x",
			.node_name = "x",
			.jmgr_pid = getpid()}};
	(void)snprintf(dir, sizeof(dir), "%s/stepd/cli/plugins", top ? top : ".");
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	if (proctrack_open(dir, backend, &rig->pt, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(proctrack_create(rig->pt, &rig->job), 0);
	rig->member = fork();
	if (rig->member == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
		for (;;)
			pause();
	}
	assert_int_equal(proctrack_add(rig->pt, &rig->job, rig->member), 0);
	rig->loop = ev_loop_new(EVFLAG_NOENV);
	assert_non_null(rig->loop);
	rig->rq = (struct requests){.pt = rig->pt,
		.job = &rig->job,
		.suspend_timeout_ms = 5000,
		.begin = on_begin,
		.done = on_done,
		.executing = find_executing,
		.userdata = rig};
	assert_int_equal(requests_init(&rig->rq, rig->loop), 0);
}

static void rig_close(struct rig *rig)
{
	(void)kill(rig->member, SIGKILL);
	assert_int_equal(waitpid(rig->member, NULL, 0), rig->member);
	requests_clear(&rig->rq);
	requests_clear(&rig->rq); /* twice is once */
	ev_loop_destroy(rig->loop);
	assert_int_equal(proctrack_destroy(rig->pt, rig->job.cont_id), 0);
	rig->pt = proctrack_close(rig->pt);
}

/* Runs the loop until nothing is under way. */
static void settle(struct rig *rig)
{
	while (rig->rq.now || !STAILQ_EMPTY(&rig->rq.waiting) || worker_is_busy(&rig->rq.worker))
		ev_run(rig->loop, EVRUN_ONCE);
	assert_int_equal(rig->job.worker_pid, 0);
}

/* rig_close() reaps it. */
static void await_end(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void ask(struct rig *rig, enum request_kind kind, int sig)
{
	assert_int_equal(requests_add(&rig->rq, kind, sig), 0);
}

/* The worker that runs stops before it comes to its end; or it has come to it. */
static void hold_worker(const struct rig *rig)
{
	assert_true(rig->job.worker_pid > 0);
	assert_int_equal(kill(rig->job.worker_pid, SIGSTOP), 0);
}

static void test_in_order(struct rig *rig)
{
	ask(rig, REQUEST_SUSPEND, 0);
	ask(rig, REQUEST_SIGNAL, SIGTERM);
	settle(rig);
	assert_string_equal(rig->told, "suspend=0 15=0 ");
	assert_int_equal(rig->begun, 2);
	assert_int_equal(child_stat(rig->member).state, 'T');
	assert_int_equal(waitpid(rig->member, NULL, WNOHANG), 0); /* it waits in the kernel */
	ask(rig, REQUEST_RESUME, 0);
	settle(rig);
	await_end(rig->member);
}

/* Those of job control would act on what stands. */
static void test_job_control_is_kept(struct rig *rig)
{
	ask(rig, REQUEST_SUSPEND, 0);
	ask(rig, REQUEST_SIGNAL, SIGSTOP);
	ask(rig, REQUEST_SIGNAL, SIGCONT);
	settle(rig);
	assert_int_equal(child_stat(rig->member).state, 'T');
	assert_string_equal(rig->told, "suspend=0 ");
	ask(rig, REQUEST_RESUME, 0);
	settle(rig);
	assert_string_equal(rig->told, "suspend=0 resume=0 18=0 "); /* CONT cancelled STOP */
	assert_int_not_equal(child_stat(rig->member).state, 'T');
	rig->told[0] = '\0';
	ask(rig, REQUEST_SUSPEND, 0);
	ask(rig, REQUEST_SIGNAL, SIGSTOP);
	ask(rig, REQUEST_RESUME, 0);
	ask(rig, REQUEST_SIGNAL, 0); /* goes through as any other */
	settle(rig);
	assert_string_equal(rig->told, "suspend=0 resume=0 19=0 0=0 ");
	while (child_stat(rig->member).state != 'T')
		(void)sched_yield();
}

static void test_withdrawn(struct rig *rig)
{
	ask(rig, REQUEST_SUSPEND, 0);
	hold_worker(rig);
	ask(rig, REQUEST_SUSPEND, 0);
	requests_withdraw_suspend(&rig->rq);
	ask(rig, REQUEST_RESUME, 0);
	settle(rig);
	assert_string_equal(rig->told, "suspend=-125 resume=0 "); /* ECANCELED */
	assert_int_not_equal(child_stat(rig->member).state, 'T');
}

/* A kill waits for nothing, and nothing is told of what it overtakes. */
static void test_kill_overtakes(struct rig *rig)
{
	pid_t *pids = NULL;
	int n = 0;

	ask(rig, REQUEST_SUSPEND, 0);
	hold_worker(rig);
	ask(rig, REQUEST_SIGNAL, SIGUSR1);
	assert_int_equal(proctrack_get_pids(rig->pt, rig->job.cont_id, &pids, &n), 0);
	assert_int_equal(n, 1); /* the worker is no member */
	assert_int_equal(pids[0], rig->member);
	free(pids);
	assert_int_equal(requests_kill(&rig->rq), 0);
	await_end(rig->member);
	settle(rig);
	assert_string_equal(rig->told, "");
	assert_int_equal(requests_kill(&rig->rq), -ESRCH);
}

static void test_lost_worker(struct rig *rig)
{
	ask(rig, REQUEST_SUSPEND, 0);
	hold_worker(rig);
	assert_int_equal(kill(rig->job.worker_pid, SIGKILL), 0);
	ask(rig, REQUEST_RESUME, 0);
	settle(rig);
	assert_string_equal(rig->told, "suspend=-32 resume=0 "); /* EPIPE */
	assert_true(worker_is_lost(-EPIPE));
	assert_false(worker_is_lost(-ETIMEDOUT));
}

/* One that is under way when the owner goes: it is ended, and reaped. */
static void test_cleared(struct rig *rig)
{
	pid_t worker;

	ask(rig, REQUEST_SUSPEND, 0);
	hold_worker(rig);
	worker = rig->job.worker_pid;
	ask(rig, REQUEST_RESUME, 0);
	requests_clear(&rig->rq);
	assert_int_equal(kill(worker, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_string_equal(rig->told, "");
	assert_int_equal(requests_add(&rig->rq, REQUEST_RESUME, 0), -ESRCH);
	assert_int_equal(requests_add(&rig->rq, REQUEST_SIGNAL, SIGUSR1), -ESRCH);
	assert_string_equal(rig->told, "");
}

static void keep_result(int r, _unused_ const struct err *err, void *userdata)
{
	*(int *)userdata = r;
}

/* A child that has not run yet would keep the lock of the step's directory after the agent. */
static void test_suspension_awaits_exec(struct rig *rig)
{
	int64_t begin_ms = clock_now_ms();
	int ends[2], status;
	pid_t child;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	child = fork();
	if (child == 0) {
		(void)poll(NULL, 0, 100); /* the worker had time to stop the member */
		status = child_stat(rig->member).state == 'T';
		/* It waits for a second: a machine that stands still that long shows nothing. */
		_exit(status && clock_now_ms() - begin_ms < 1000);
	}
	assert_int_equal(close(ends[1]), 0);
	rig->executing_fd = ends[0];
	ask(rig, REQUEST_SUSPEND, 0);
	settle(rig);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	ask(rig, REQUEST_RESUME, 0);
	settle(rig);
	assert_int_equal(close(ends[0]), 0);
	/* Another one is not executed at all. */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	rig->executing_fd = ends[0];
	ask(rig, REQUEST_SUSPEND, 0);
	settle(rig);
	assert_string_equal(rig->told, "suspend=0 resume=0 suspend=0 ");
	assert_int_equal(child_stat(rig->member).state, 'T');
	assert_int_equal(close(ends[1]), 0);
	ask(rig, REQUEST_RESUME, 0);
	settle(rig);
	assert_int_equal(close(ends[0]), 0);
}

/* A signal ends the member, and the step is over before its worker has returned. */
static void test_signal_that_ends_the_step(struct rig *rig)
{
	struct request_target member = {.whom = REQUEST_PROCESS, .alone = true, .pid = rig->member};
	int result[2] = {1, 1};
	struct request_answer answers[2] = {{.fn = keep_result, .userdata = &result[0]},
		{.fn = keep_result, .userdata = &result[1]}};

	assert_int_equal(requests_add_signal(&rig->rq, SIGTERM, &member, &answers[0]), 0);
	assert_int_equal(requests_add_signal(&rig->rq, SIGTERM, &member, &answers[1]), 0);
	await_end(rig->member);
	requests_clear(&rig->rq);
	assert_int_equal(result[0], 0);
	assert_int_equal(result[1], -ESRCH); /* its turn had not come */
	assert_string_equal(rig->told, "");
}

/* A worker that hangs is not waited for. */
static void test_signal_that_hangs_at_the_end(struct rig *rig)
{
	struct request_target nobody = {.whom = REQUEST_PROCESS, .alone = true, .pid = getpid()};
	int result = 1;
	struct request_answer answer = {.fn = keep_result, .userdata = &result};

	assert_int_equal(requests_add_signal(&rig->rq, SIGTERM, &nobody, &answer), 0);
	hold_worker(rig);
	requests_clear(&rig->rq);
	assert_int_equal(result, -ESRCH);
}

static void run(void (*test)(struct rig *rig))
{
	struct rig rig;
	size_t i;
	int fds;

	for (i = 0; i < ARRAY_SIZE(backends); i++) {
		fds = scratch_count_fds();
		rig_open(&rig, backends[i]);
		test(&rig);
		rig_close(&rig);
		assert_int_equal(scratch_count_fds(), fds);
	}
}

#define TEST(name)                                                                                 \
	{                                                                                          \
#name, run_##name, NULL, NULL, NULL                                                \
	}
#define RUN(name)                                                                                  \
	static void run_##name(_unused_ void **state)                                              \
	{                                                                                          \
		run(name);                                                                         \
	}

RUN(test_in_order)
RUN(test_job_control_is_kept)
RUN(test_withdrawn)
RUN(test_kill_overtakes)
RUN(test_lost_worker)
RUN(test_cleared)
RUN(test_suspension_awaits_exec)
RUN(test_signal_that_ends_the_step)
RUN(test_signal_that_hangs_at_the_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_in_order),
		TEST(test_job_control_is_kept),
		TEST(test_withdrawn),
		TEST(test_kill_overtakes),
		TEST(test_lost_worker),
		TEST(test_cleared),
		TEST(test_suspension_awaits_exec),
		TEST(test_signal_that_ends_the_step),
		TEST(test_signal_that_hangs_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
