/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The group that a check-up tries things out on: it goes again, and so does one that was left by a
 * process that was killed; one in use stays.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>
#include <sys/file.h>

#include "proctrack/cgroup/probe.h"
#include "tests/lib/cgroup_rig.h"

static struct rig rig;

static int set_up(_unused_ void **state)
{
	if (!rig_open(&rig))
		rig.fd = -1;
	return 0;
}

static int tear_down(_unused_ void **state)
{
	return rig_tear_down(&rig);
}

static bool is_there(const char *name)
{
	return faccessat(rig.fd, name, F_OK, 0) == 0;
}

static void a_trial_group_is_removed_and_signals_are_restored(_unused_ void **state)
{
	struct trial trial = TRIAL_INIT;
	sigset_t now;
	char name[sizeof(trial.name)];

	need_rig(&rig);
	assert_int_equal(trial_open(rig.fd, &trial), 0);
	(void)snprintf(name, sizeof(name), "%s", trial.name);
	assert_true(is_there(name));
	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	assert_true(sigismember(&now, SIGINT));
	assert_int_equal(clone_try(trial.fd), 0);
	trial_close(&trial);
	assert_false(is_there(name));
	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	assert_false(sigismember(&now, SIGINT));
	trial_close(&trial); /* does no harm */
}

static void trial_groups_left_behind_are_removed_unless_in_use(_unused_ void **state)
{
	_cleanup_trial_ struct trial trial = TRIAL_INIT;
	_cleanup_close_ int used = -1, populated = -1;

	need_rig(&rig);
	(void)close_fd(rig_group(rig.fd, "stepd-checkup-1"));
	(void)close_fd(rig_group(rig.fd, "another"));
	used = rig_group(rig.fd, "stepd-checkup-2");
	assert_int_equal(flock(used, LOCK_EX), 0);
	populated = rig_group(rig.fd, "stepd-checkup-3");
	(void)rig_sleeper(populated);

	assert_int_equal(trial_open(rig.fd, &trial), 0);
	assert_false(is_there("stepd-checkup-1"));
	assert_true(is_there("another"));
	assert_true(is_there("stepd-checkup-2"));
	assert_true(is_there("stepd-checkup-3"));
}

/* Killed in the middle. */
static void the_group_of_a_killed_trial_is_removed_by_the_next(_unused_ void **state)
{
	struct trial trial = TRIAL_INIT;
	char name[sizeof(trial.name)];
	pid_t pid;

	need_rig(&rig);
	pid = fork();
	if (pid == 0) {
		if (trial_open(rig.fd, &trial) == 0)
			(void)raise(SIGKILL);
		_exit(1);
	}
	assert_int_equal(rig_status(pid), SIGKILL);
	(void)snprintf(name, sizeof(name), "stepd-checkup-%d", (int)pid);
	assert_true(is_there(name));
	assert_int_equal(trial_open(rig.fd, &trial), 0);
	assert_false(is_there(name));
	trial_close(&trial);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_trial_group_is_removed_and_signals_are_restored, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			trial_groups_left_behind_are_removed_unless_in_use, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_group_of_a_killed_trial_is_removed_by_the_next, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
