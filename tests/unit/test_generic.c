/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the host does for a backend, with a backend that follows a script; the contract suite has
 * the same functions with real ones.
 */
#include "proctrack/generic.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "tests/lib/child.h"
#include "tests/lib/scratch.h"

struct script {
	pid_t pid;     /* the member; 0 none */
	int lists;     /* calls so far */
	int last_list; /* from this call on: the result is then */
	int then;
	int signal_result;
	bool deaf; /* signals are taken and not sent */
	int last_signal;
};

static int list(void *ctx, uint64_t id, pid_t **ret_pids, int *ret_count)
{
	struct script *s = ctx;

	assert_int_equal(id, 42);
	if (++s->lists >= s->last_list && s->last_list > 0)
		return s->then;
	if (s->pid == 0)
		return 0;
	*ret_pids = malloc(sizeof(pid_t));
	assert_non_null(*ret_pids);
	**ret_pids = s->pid;
	*ret_count = 1;
	return 0;
}

static int send_signal(void *ctx, uint64_t id, int sig)
{
	struct script *s = ctx;

	assert_int_equal(id, 42);
	s->last_signal = sig;
	if (s->signal_result == 0 && !s->deaf)
		assert_int_equal(kill(s->pid, sig), 0);
	return s->signal_result;
}

static struct generic_ops ops_of(struct script *s)
{
	return (struct generic_ops){.get_pids = list, .signal = send_signal, .ctx = s};
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* where a test fails */
		for (;;)
			pause();
	}
	return pid;
}

static void a_wait_returns_ends_and_timeouts(void **state)
{
	struct script s = {.last_list = 1, .then = -ESRCH};
	struct generic_ops ops = ops_of(&s);
	int fds = scratch_count_fds();

	(void)state;
	assert_int_equal(generic_wait(&ops, 42, -1), -ESRCH); /* never was */
	s = (struct script){.last_list = 1, .then = -EIO};
	assert_int_equal(generic_wait(&ops, 42, -1), -EIO);
	s = (struct script){0};
	assert_int_equal(generic_wait(&ops, 42, 0), 0);
	s = (struct script){.pid = getpid(), .last_list = 2, .then = -ESRCH};
	assert_int_equal(generic_wait(&ops, 42, -1), 0); /* was, and went away */
	s = (struct script){.pid = getpid(), .last_list = 2, .then = -EIO};
	assert_int_equal(generic_wait(&ops, 42, -1), -EIO);
	s = (struct script){.pid = getpid()};
	assert_int_equal(generic_wait(&ops, 42, 0), -ETIMEDOUT);
	assert_int_equal(s.lists, 1);
	assert_int_equal(scratch_count_fds(), fds);
}

/* A member that leaves the container and lives on: no descriptor tells. */
static void a_wait_notices_members_that_leave(void **state)
{
	struct script s = {.pid = getpid(), .last_list = 3, .then = 0};
	struct generic_ops ops = ops_of(&s);
	int64_t start = clock_now_ms();

	(void)state;
	assert_int_equal(generic_wait(&ops, 42, 20000), 0);
	assert_int_equal(s.lists, 3);
	assert_true(clock_now_ms() - start >= 500);
}

/* It does not spin: the list is read when something has happened. */
static void a_wait_does_not_spin(void **state)
{
	struct script s = {.pid = getpid()};
	struct generic_ops ops = ops_of(&s);
	int64_t start = clock_now_ms();

	(void)state;
	assert_int_equal(generic_wait(&ops, 42, 300), -ETIMEDOUT);
	assert_true(clock_now_ms() - start >= 300);
	assert_in_range(s.lists, 1, 4);
}

static void a_wait_ends_before_the_child_is_reaped(void **state)
{
	struct script s = {.last_list = 2, .then = 0};
	struct generic_ops ops = ops_of(&s);

	(void)state;
	s.pid = start_child();
	assert_int_equal(kill(s.pid, SIGKILL), 0);
	assert_int_equal(generic_wait(&ops, 42, -1), 0); /* though it is not reaped */
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
}

static void a_wait_without_descriptors_fails(void **state)
{
	struct script s = {.pid = getpid()};
	struct generic_ops ops = ops_of(&s);
	struct rlimit saved, none;
	int r;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	none = saved;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = generic_wait(&ops, 42, -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(r, -EMFILE);
}

static void a_member_is_found_by_its_pid(void **state)
{
	struct script s = {.pid = 17};
	struct generic_ops ops = ops_of(&s);

	(void)state;
	assert_true(generic_has_pid(&ops, 42, 17));
	assert_false(generic_has_pid(&ops, 42, 18));
	s.pid = 0;
	assert_false(generic_has_pid(&ops, 42, 17));
	s.last_list = 1;
	s.then = -ESRCH;
	assert_false(generic_has_pid(&ops, 42, 17));
}

static void members_are_suspended_and_resumed(void **state)
{
	struct script s = {.pid = start_child()};
	struct generic_ops ops = ops_of(&s);
	struct generic_stopped *stopped = generic_stopped_new();
	int status;

	(void)state;
	assert_int_equal(generic_suspend(&ops, 42, 2000, stopped), 0);
	assert_int_equal(s.last_signal, SIGSTOP);
	assert_int_equal(waitpid(s.pid, &status, WNOHANG | WUNTRACED), s.pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(generic_resume(&ops, 42, stopped), 0);
	assert_int_equal(s.last_signal, SIGCONT);
	assert_int_equal(waitpid(s.pid, &status, WCONTINUED), s.pid);
	child_end(s.pid);
	s.signal_result = -ESRCH;
	assert_int_equal(generic_suspend(&ops, 42, 2000, stopped), -ESRCH);
	assert_int_equal(generic_resume(&ops, 42, stopped), -ESRCH);
	(void)generic_stopped_free(stopped);
}

/* Who was stopped before stays so, whichever process resumes; its pid alone is no proof. */
static void members_that_were_stopped_before_stay_stopped(void **state)
{
	struct script s = {.pid = start_child()};
	struct generic_ops ops = ops_of(&s);
	struct generic_stopped *stopped = generic_stopped_new();
	int status;
	pid_t worker;

	(void)state;
	assert_int_equal(kill(s.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(s.pid, &status, WUNTRACED), s.pid);
	worker = fork();
	if (worker == 0)
		_exit(generic_suspend(&ops, 42, 2000, stopped) < 0);
	assert_int_equal(waitpid(worker, &status, 0), worker);
	assert_int_equal(status, 0);
	assert_true(stopped->active);
	assert_int_equal(stopped->n, 1);
	assert_int_equal(generic_suspend(&ops, 42, 2000, stopped), 0); /* again: still one */
	assert_int_equal(stopped->n, 1);
	assert_int_equal(generic_resume(&ops, 42, stopped), 0);
	assert_int_equal(child_stat(s.pid).state, 'T');
	assert_false(stopped->active);
	assert_int_equal(generic_suspend(&ops, 42, 2000, stopped), 0);
	stopped->v[0].start_ticks++; /* another process, that had this pid */
	assert_int_equal(generic_resume(&ops, 42, stopped), 0);
	assert_int_equal(waitpid(s.pid, &status, WCONTINUED), s.pid);
	assert_true(WIFCONTINUED(status));
	/* Taken back before it began: nothing is to be continued. */
	assert_int_equal(kill(s.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(s.pid, &status, WUNTRACED), s.pid);
	stopped->owned = true;
	s.last_signal = 0;
	assert_int_equal(generic_resume(&ops, 42, stopped), 0);
	assert_int_equal(s.last_signal, 0);
	assert_int_equal(child_stat(s.pid).state, 'T');
	child_end(s.pid);
	(void)generic_stopped_free(stopped);
}

static void a_running_member_is_described(void **state)
{
	struct script s = {.pid = start_child()};
	struct generic_ops ops = ops_of(&s);
	char text[256] = "x", wanted[64];
	int status;

	(void)state;
	(void)snprintf(wanted, sizeof(wanted), "pid %d (test_generic) state ", (int)s.pid);
	generic_describe_moving(&ops, 42, GENERIC_STOPPED_STATES, text, sizeof(text));
	assert_memory_equal(text, wanted, strlen(wanted));
	assert_int_equal(kill(s.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(s.pid, &status, WUNTRACED), s.pid);
	generic_describe_moving(&ops, 42, GENERIC_STOPPED_STATES, text, sizeof(text));
	assert_string_equal(text, "");
	child_end(s.pid);
	generic_describe_moving(&ops, 42, GENERIC_STOPPED_STATES, text, sizeof(text));
	assert_string_equal(text, "");
}

/* One that does not stop: an answer in bounded time, and not a busy wait. */
static void a_suspension_ends_in_bounded_time(void **state)
{
	struct script s = {.pid = start_child(), .deaf = true};
	struct generic_ops ops = ops_of(&s);
	struct generic_stopped *stopped = generic_stopped_new();
	int64_t start = clock_now_ms();
	int fds = scratch_count_fds();

	(void)state;
	assert_int_equal(generic_suspend(&ops, 42, 2000, stopped), -ETIMEDOUT);
	assert_true(clock_now_ms() - start >= 2000);
	assert_in_range(s.lists, 5, 200);
	assert_int_equal(scratch_count_fds(), fds);
	child_end(s.pid);
	(void)generic_stopped_free(stopped);
}

static void usage_is_summed_over_members(void **state)
{
	struct script s = {.pid = getpid()};
	struct generic_ops ops = ops_of(&s);
	stepd_usage_t usage = {0};

	(void)state;
	assert_int_equal(generic_usage(&ops, 42, &usage), 0);
	assert_int_equal(usage.source[STEPD_USAGE_CPU_USER_USEC], STEPD_USAGE_PROC);
	assert_int_equal(usage.source[STEPD_USAGE_OOM_KILLS], STEPD_USAGE_UNKNOWN);
	assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 1);
	assert_true(usage.value[STEPD_USAGE_MEMORY_BYTES] > 0);
	s.pid = INT_MAX; /* gone since the list */
	assert_int_equal(generic_usage(&ops, 42, &usage), 0);
	assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 0);
	s.last_list = 1;
	s.then = -ESRCH;
	usage.value[STEPD_USAGE_PROCESSES] = 7;
	assert_int_equal(generic_usage(&ops, 42, &usage), -ESRCH);
	assert_int_equal(usage.value[STEPD_USAGE_PROCESSES], 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_returns_ends_and_timeouts),
		cmocka_unit_test(a_wait_notices_members_that_leave),
		cmocka_unit_test(a_wait_does_not_spin),
		cmocka_unit_test(a_wait_ends_before_the_child_is_reaped),
		cmocka_unit_test(a_wait_without_descriptors_fails),
		cmocka_unit_test(a_member_is_found_by_its_pid),
		cmocka_unit_test(members_are_suspended_and_resumed),
		cmocka_unit_test(a_suspension_ends_in_bounded_time),
		cmocka_unit_test(members_that_were_stopped_before_stay_stopped),
		cmocka_unit_test(a_running_member_is_described),
		cmocka_unit_test(usage_is_summed_over_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
