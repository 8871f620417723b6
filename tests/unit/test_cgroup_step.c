/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A step's cgroup in the tree: made, found by id and by pid, joined and removed, beside other
 * agents that do the same and users with cgroups of like names.
 */
#include "proctrack/cgroup/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>

#include "tests/lib/cgroup_rig.h"

static struct rig rig;
static struct cgroup_root *root; /* whose root is the rig's cgroup */

static int set_up(_unused_ void **state)
{
	if (!rig_open(&rig)) {
		rig.fd = -1;
		return 0;
	}
	return root_open(rig.path, &root, NULL);
}

static int tear_down(_unused_ void **state)
{
	root = root_close(root);
	return rig_tear_down(&rig);
}

static bool is_there(const char *path)
{
	return faccessat(rig.fd, path, F_OK, 0) == 0;
}

static void test_made_and_removed(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT, other = STEP_DIR_INIT;
	mode_t mask = umask(077);
	struct stat st;
	int fd;

	need_rig(&rig);
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	fd = step_open_task(&dir, 4294967295u);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755); /* whatever the agent's umask is */
	(void)close(fd);
	assert_int_equal(fstat(dir.fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(umask(mask), 077);
	assert_int_equal(st.st_ino, dir.id);
	assert_int_equal(fstatat(rig.fd, "stepd/job_7/step_0", &st, 0), 0);
	assert_int_equal(st.st_ino, dir.id);
	assert_true(is_there("stepd/job_7/step_0/task_4294967295"));

	assert_int_equal(make_step(root, 7, "batch", &other), 0);
	assert_int_equal(step_remove(&dir), 0);
	assert_false(is_there("stepd/job_7/step_0"));
	assert_true(is_there("stepd/job_7/step_batch"));
	assert_int_equal(step_remove(&dir), -ESRCH);
	assert_int_equal(step_open_task(&dir, 0), -ESRCH);
	assert_int_equal(step_remove(&other), 0);
	assert_false(is_there("stepd"));
}

static void test_names_that_will_not_do(_unused_ void **state)
{
	static const char *const names[] = {"", "a/b", "../x", "a\nb"};
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	char longest[300];
	size_t i;

	need_rig(&rig);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	for (i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(make_step(root, 7, names[i], &dir), -EINVAL);
	assert_int_equal(make_step(root, 7, longest, &dir), -EINVAL);
	assert_int_equal(make_step(root, 7, NULL, &dir), -EINVAL);
	assert_int_equal(dir.fd, -1);
	assert_false(is_there("stepd"));
}

static void test_one_that_lives_is_kept(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT, second = STEP_DIR_INIT;
	_cleanup_close_ int nested = -1;
	pid_t pid;

	need_rig(&rig);
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	nested = rig_group(dir.fd, "nested");
	pid = rig_sleeper(nested);
	assert_int_equal(make_step(root, 7, "0", &second), -EEXIST);
	assert_int_equal(second.fd, -1);
	assert_int_equal(step_remove(&dir), -EBUSY);
	assert_true(is_there("stepd/job_7/step_0/nested"));
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)rig_status(pid);
	assert_int_equal(step_remove(&dir), 0);
	assert_false(is_there("stepd"));
}

/* It may have been killed once, and then would kill what is cloned into it. */
/* A task's group goes when the task has ended, unless it left somebody in it. */
static void test_a_tasks_group_goes_with_it(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	_cleanup_close_ int task = -1;
	pid_t pid;

	need_rig(&rig);
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	task = rig_group(dir.fd, "task_3");
	pid = rig_sleeper(task);
	step_remove_task(&dir, 3);
	assert_true(is_there("stepd/job_7/step_0/task_3"));
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)rig_status(pid);
	step_remove_task(&dir, 3);
	assert_false(is_there("stepd/job_7/step_0/task_3"));
	step_remove_task(&dir, 3);
	assert_int_equal(step_remove(&dir), 0);
}

static void test_a_stale_one_is_made_anew(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir old = STEP_DIR_INIT, new = STEP_DIR_INIT;
	_cleanup_close_ int nested = -1, deeper = -1;
	struct group_events events;

	need_rig(&rig);
	assert_int_equal(make_step(root, 7, "0", &old), 0);
	nested = rig_group(old.fd, "a b");
	deeper = rig_group(nested, "c");
	(void)rig_sleeper(deeper);
	assert_int_equal(group_kill(old.fd), 0);
	assert_int_equal(group_wait_empty(old.fd, RIG_WAIT_MS), 0);
	assert_int_equal(make_step(root, 7, "0", &new), 0);
	assert_int_not_equal(old.id, new.id);
	assert_false(is_there("stepd/job_7/step_0/a b"));
	assert_int_equal(group_get_events(old.fd, &events), -ESRCH);
	assert_int_equal(step_remove(&new), 0);
}

static void test_a_failure_leaves_nothing(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	int limit;
	char text[16];

	need_rig(&rig);
	for (limit = 0; limit < 3; limit++) { /* no stepd/, no job_7/, no step_0/ */
		(void)snprintf(text, sizeof(text), "%d", limit);
		rig_write(rig.fd, "cgroup.max.descendants", text);
		assert_int_equal(make_step(root, 7, "0", &dir), -EAGAIN);
		assert_int_equal(dir.fd, -1);
		assert_false(is_there("stepd"));
	}
	rig_write(rig.fd, "cgroup.max.descendants", "3");
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	assert_int_equal(step_open_task(&dir, 0), -EAGAIN);
	assert_int_equal(step_remove(&dir), 0);
	assert_false(is_there("stepd"));
}

static void test_found_by_id(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir a = STEP_DIR_INIT, b = STEP_DIR_INIT,
					   found = STEP_DIR_INIT;
	_cleanup_close_ int task = -1;
	struct stat st;

	need_rig(&rig);
	assert_int_equal(step_find(root, 1, &found), -ESRCH);
	assert_int_equal(make_step(root, 7, "0", &a), 0);
	assert_int_equal(make_step(root, 8, "extern", &b), 0);
	task = step_open_task(&b, 0);
	assert_int_equal(step_find(root, b.id, &found), 0);
	assert_int_equal(found.id, b.id);
	assert_int_equal(found.job_id, 8);
	assert_string_equal(found.name, "step_extern");
	/* Ids that are no step's: 0, a task's, a job's. */
	assert_int_equal(step_find(root, 0, &found), -ESRCH);
	assert_int_equal(fstat(task, &st), 0);
	assert_int_equal(step_find(root, st.st_ino, &found), -ESRCH);
	assert_int_equal(fstatat(rig.fd, "stepd/job_8", &st, 0), 0);
	assert_int_equal(step_find(root, st.st_ino, &found), -ESRCH);
	assert_int_equal(step_remove(&found), 0);
	assert_int_equal(step_find(root, b.id, &found), -ESRCH);
	assert_int_equal(step_remove(&a), 0);
}

static void test_found_by_pid(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	_cleanup_close_ int task = -1, nested = -1, task_dir = -1;
	_cleanup_free_ char *below = NULL;
	uint64_t id = 0;
	pid_t pid;

	need_rig(&rig);
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	task = step_open_task(&dir, 3);
	task_dir = rig_group(dir.fd, "task_3");
	nested = rig_group(task_dir, "step_9 (deleted)");
	pid = rig_sleeper(nested);
	assert_int_equal(step_find_pid(root, pid, &id, &below), 0);
	assert_int_equal(id, dir.id);
	assert_string_equal(below, "task_3/step_9 (deleted)");
	assert_int_equal(step_find_pid(root, rig_sleeper(task), &id, NULL), 0);
	assert_int_equal(step_find_pid(root, getpid(), &id, NULL), -ENOENT);
	assert_int_equal(step_find_pid(root, 0, &id, NULL), -ESRCH);
	assert_int_equal(step_find_pid(root, -1, &id, NULL), -ESRCH);
	assert_int_equal(step_find_pid(root, 2147483647, &id, NULL), -ESRCH);
	assert_int_equal(group_kill(dir.fd), 0);
	assert_int_equal(group_wait_empty(dir.fd, RIG_WAIT_MS), 0);
	assert_int_equal(step_remove(&dir), 0);
	step_dir_clear(&dir);
	/* A zombie whose group was removed is in no step, not even in a later one of that name. */
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	assert_int_equal(step_find_pid(root, pid, &id, NULL), -ENOENT);
	assert_int_equal(step_remove(&dir), 0);
}

/* What a user calls alike, elsewhere, is no step. */
static void test_names_elsewhere_do_not_count(_unused_ void **state)
{
	static const char *const paths[] = {"stepd/job_7", "stepd/step_0", "x/stepd/job_7/step_0",
		"stepd2/job_7/step_0", "stepd/xjob_7/step_0", "stepd/job_7/xstep_0", "step_0"};
	uint64_t id;
	size_t i;

	need_rig(&rig);
	for (i = 0; i < ARRAY_SIZE(paths); i++) {
		_cleanup_free_ char *path = strdup(paths[i]);
		int fd = openat(rig.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), child;
		char *at = path, *name;

		while ((name = strsep(&at, "/"))) {
			child = rig_group(fd, name);
			(void)close(fd);
			fd = child;
		}
		assert_int_equal(step_find_pid(root, rig_sleeper(fd), &id, NULL), -ENOENT);
		(void)close(fd);
	}
}

static void test_joined(_unused_ void **state)
{
	_cleanup_step_dir_ struct step_dir dir = STEP_DIR_INIT;
	_cleanup_free_ char *below = NULL;
	const uint32_t rank = 5;
	uint64_t id;
	pid_t pid, zombie;
	siginfo_t info;

	need_rig(&rig);
	assert_int_equal(make_step(root, 7, "0", &dir), 0);
	pid = rig_sleeper(rig.fd);
	assert_int_equal(step_add(root, &dir, NULL, 0), -EINVAL);
	assert_int_equal(step_add(root, &dir, NULL, -1), -EINVAL);
	assert_int_equal(step_add(root, &dir, NULL, 2147483647), -ESRCH);
	assert_int_equal(step_add(root, &dir, NULL, pid), 0);
	assert_int_equal(step_find_pid(root, pid, &id, &below), 0);
	assert_int_equal(id, dir.id);
	assert_string_equal(below, "added"); /* not in the step's own: the process rule */
	free(take_ptr(below));
	assert_int_equal(step_add(root, &dir, &rank, pid), 0);
	/* Not moved out of its task's group again. */
	assert_int_equal(step_add(root, &dir, NULL, pid), 0);
	assert_int_equal(step_add(root, &dir, &rank, pid), 0);
	assert_int_equal(step_find_pid(root, pid, &id, &below), 0);
	assert_string_equal(below, "task_5");
	zombie = rig_fork(rig.fd);
	if (zombie == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(step_add(root, &dir, NULL, zombie), -ESRCH);
	(void)rig_status(zombie);
	assert_int_equal(group_kill(dir.fd), 0);
	(void)rig_status(pid);
	assert_int_equal(step_add(root, &dir, NULL, pid), -ESRCH);
	assert_int_equal(step_remove(&dir), 0);
}

/* Agents that come and go all the time, in one job and in jobs of their own. */
static void test_agents_side_by_side(_unused_ void **state)
{
	pid_t pid[6];
	size_t i;
	int round;

	need_rig(&rig);
	for (i = 0; i < ARRAY_SIZE(pid); i++) {
		pid[i] = fork();
		for (round = 0; pid[i] == 0 && round < 200; round++) {
			struct step_dir dir = STEP_DIR_INIT;
			char name[8];
			int fd;

			(void)snprintf(name, sizeof(name), "%zu", i);
			if (make_step(root, i < 3 ? 7 : (uint32_t)i, name, &dir) < 0)
				_exit(1);
			fd = step_open_task(&dir, 0);
			if (fd < 0 || step_remove(&dir) < 0)
				_exit(2);
			(void)close(fd);
			step_dir_clear(&dir);
		}
		if (pid[i] == 0)
			_exit(0);
	}
	for (i = 0; i < ARRAY_SIZE(pid); i++)
		assert_int_equal(rig_status(pid[i]), 0);
	assert_false(is_there("stepd"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define rig_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
		rig_test(test_made_and_removed),
		rig_test(test_names_that_will_not_do),
		rig_test(test_one_that_lives_is_kept),
		rig_test(test_a_tasks_group_goes_with_it),
		rig_test(test_a_stale_one_is_made_anew),
		rig_test(test_a_failure_leaves_nothing),
		rig_test(test_found_by_id),
		rig_test(test_found_by_pid),
		rig_test(test_names_elsewhere_do_not_count),
		rig_test(test_joined),
		rig_test(test_agents_side_by_side),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
