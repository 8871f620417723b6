/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of processes and the signal to a set, with marks of the test's own, which also play
 * what a busy machine does between the list and the signal.
 */
#include "proctrack/procs.h"

#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/child.h"
#include "tests/lib/scratch.h"

/* What the marks do in each pass, and which they mark. */
struct script {
	pid_t pids[8];
	int n;
	int passes;
	int fail_at;   /* the pass that fails with -EXDEV; 0 none */
	bool fork;     /* one more child in each pass */
	pid_t replace; /* in the first pass this one is ended and its pid given away */
	pid_t stranger;
};

static int mark_script(struct procs *procs, void *userdata)
{
	struct script *s = userdata;
	struct proc *p;
	int i;

	if (++s->passes == s->fail_at)
		return -EXDEV;
	for (i = 0; i < s->n; i++) {
		p = procs_get(procs, s->pids[i]);
		if (p)
			p->member = true;
	}
	if (s->fork && s->n < 8)
		s->pids[s->n++] = child_start(0);
	if (s->replace && s->passes == 1) {
		child_end(s->replace);
		(void)poll(NULL, 0, 30); /* a start time is counted in ticks of 10 ms */
		s->stranger = child_start(s->replace);
	}
	return 0;
}

static int mark_all(struct procs *procs, void *userdata)
{
	size_t i;

	(void)userdata;
	for (i = 0; i < procs->n; i++)
		procs->v[i].member = true;
	return 0;
}

static void a_process_is_read_from_proc(void **state)
{
	_cleanup_procs_ struct procs procs = {0};
	const struct proc *self, *child;
	pid_t pid = child_start(0);
	size_t i;

	(void)state;
	assert_int_equal(procs_read(&procs), 0);
	for (i = 1; i < procs.n; i++)
		assert_true(procs.v[i - 1].pid < procs.v[i].pid);
	self = procs_get(&procs, getpid());
	assert_non_null(self);
	assert_int_equal(self->ppid, getppid());
	assert_int_equal(self->pgrp, getpgrp());
	assert_true(self->living);
	child = procs_get(&procs, pid);
	assert_non_null(child);
	assert_int_equal(child->ppid, getpid());
	assert_true(child->start_ticks >= self->start_ticks);
	assert_false(child->member);
	assert_null(procs_get(&procs, 0));
	assert_null(procs_get(&procs, INT_MAX));
	child_end(pid);
}

static void no_members_are_an_empty_list(void **state)
{
	struct procs procs = {0};

	(void)state;
	assert_null(procs_get(&procs, 1));
	procs_clear(&procs);
	procs_clear(&procs);
}

static void members_are_listed_by_a_mark(void **state)
{
	struct script s = {.n = 2};
	_cleanup_free_ pid_t *pids = NULL;
	siginfo_t info;
	int n = -1;

	(void)state;
	s.pids[0] = child_start(0);
	s.pids[1] = child_start(0);
	assert_int_equal(procs_list(mark_script, &s, &pids, &n), 0);
	assert_int_equal(n, 2);
	assert_true(pids[0] != pids[1]);
	assert_true(pids[0] == s.pids[0] || pids[0] == s.pids[1]);
	free(pids);
	pids = NULL;
	/* a zombie is none */
	assert_int_equal(kill(s.pids[0], SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)s.pids[0], &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(procs_list(mark_script, &s, &pids, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(pids[0], s.pids[1]);
	free(pids);
	pids = NULL;
	assert_int_equal(waitpid(s.pids[0], NULL, 0), s.pids[0]);
	child_end(s.pids[1]);
	assert_int_equal(procs_list(mark_script, &s, &pids, &n), 0);
	assert_int_equal(n, 0);
	assert_null(pids);
}

static void a_signal_reaches_all_marked_processes(void **state)
{
	struct script s = {.n = 3};
	int i, status;

	(void)state;
	for (i = 0; i < 3; i++)
		s.pids[i] = child_start(0);
	assert_int_equal(procs_signal(mark_script, &s, 0), 0);
	assert_int_equal(s.passes, 1);
	assert_int_equal(procs_signal(mark_script, &s, -1), -EINVAL);
	assert_int_equal(procs_signal(mark_script, &s, SIGRTMAX + 1), -EINVAL);
	assert_int_equal(s.passes, 1);
	assert_int_equal(procs_signal(mark_script, &s, SIGTERM), 0);
	assert_true(s.passes >= 3); /* one more, to see that nothing new is there */
	for (i = 0; i < 3; i++) {
		assert_int_equal(waitpid(s.pids[i], &status, 0), s.pids[i]);
		assert_int_equal(WTERMSIG(status), SIGTERM);
	}
	assert_int_equal(procs_signal(mark_script, &s, SIGTERM), -ESRCH);
	assert_int_equal(procs_signal(mark_script, &s, 0), -ESRCH);
}

/* What is forked behind the list is met in a later pass. */
static void a_signal_reaches_processes_forked_meanwhile(void **state)
{
	struct script s = {.n = 1, .fork = true};
	int i, status;

	(void)state;
	s.pids[0] = child_start(0);
	assert_int_equal(procs_signal(mark_script, &s, SIGTERM), 0);
	assert_int_equal(s.n, 8);
	for (i = 0; i < s.n; i++) {
		assert_int_equal(waitpid(s.pids[i], &status, 0), s.pids[i]);
		assert_int_equal(WTERMSIG(status), SIGTERM);
	}
}

static int mark_first_pass_only(struct procs *procs, void *userdata)
{
	struct script *s = userdata;

	if (s->passes > 0) {
		s->passes++;
		return 0;
	}
	return mark_script(procs, s);
}

/* Between the list and the signal a member ends, and its pid becomes a stranger's. */
static void a_reused_pid_is_never_signalled(void **state)
{
	struct script s = {.n = 1};
	int r;

	(void)state;
	s.pids[0] = child_start(0);
	s.replace = s.pids[0];
	r = procs_signal(mark_first_pass_only, &s, SIGKILL);
	if (s.stranger == -EPERM || s.stranger == -ENOSYS) {
		(void)printf("# the pid can't be forced here\n");
		return;
	}
	assert_int_equal(s.stranger, s.replace);
	assert_int_equal(r, 0); /* there was a member, and it has ended */
	(void)poll(NULL, 0, 20);
	assert_int_equal(waitpid(s.stranger, NULL, WNOHANG), 0);
	child_end(s.stranger);
}

static void a_mark_that_fails_ends_the_operation(void **state)
{
	struct script s = {.n = 1, .fail_at = 1};
	int fds = scratch_count_fds(), n = 7;
	pid_t *pids = NULL;

	(void)state;
	s.pids[0] = child_start(0);
	assert_int_equal(procs_list(mark_script, &s, &pids, &n), -EXDEV);
	assert_int_equal(n, 7);
	s.passes = 0;
	assert_int_equal(procs_signal(mark_script, &s, 0), -EXDEV);
	s.passes = 0;
	s.fail_at = 2;
	assert_int_equal(procs_signal(mark_script, &s, SIGCONT), -EXDEV);
	assert_int_equal(scratch_count_fds(), fds);
	child_end(s.pids[0]);
}

/* As a user: what belongs to root can be seen, and not signalled. */
static void a_process_that_may_not_be_signalled_is_reported(void **state)
{
	struct script s = {.n = 1};
	int status = -1;
	pid_t pid;

	(void)state;
	if (geteuid() != 0) {
		(void)printf("# not root: there is no process to be refused of\n");
		return;
	}
	s.pids[0] = child_start(0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(1);
		if (procs_signal(mark_script, &s, SIGKILL) != -EPERM)
			_exit(2);
		s.pids[s.n++] = child_start(0); /* and one that may be signalled: a success */
		_exit(procs_signal(mark_script, &s, SIGKILL) != 0 ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(waitpid(s.pids[0], NULL, WNOHANG), 0);
	child_end(s.pids[0]);
}

static void a_list_without_descriptors_fails_and_leaks_none(void **state)
{
	int fds = scratch_count_fds(), r, in_signal, n;
	struct rlimit saved, none;
	struct procs procs = {0};
	pid_t *pids = NULL;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
	none = saved;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = procs_read(&procs);
	assert_int_equal(procs_list(mark_all, NULL, &pids, &n), -EMFILE);
	in_signal = procs_signal(mark_all, NULL, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
	assert_int_equal(r, -EMFILE);
	assert_int_equal(in_signal, -EMFILE);
	assert_null(procs.v);
	assert_int_equal(scratch_count_fds(), fds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_is_read_from_proc),
		cmocka_unit_test(no_members_are_an_empty_list),
		cmocka_unit_test(members_are_listed_by_a_mark),
		cmocka_unit_test(a_signal_reaches_all_marked_processes),
		cmocka_unit_test(a_signal_reaches_processes_forked_meanwhile),
		cmocka_unit_test(a_reused_pid_is_never_signalled),
		cmocka_unit_test(a_mark_that_fails_ends_the_operation),
		cmocka_unit_test(a_process_that_may_not_be_signalled_is_reported),
		cmocka_unit_test(a_list_without_descriptors_fails_and_leaks_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
