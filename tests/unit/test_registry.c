/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <jansson.h>

#include "stepd/record/registry.h"
#include "tests/lib/scratch.h"

static stepd_step_rec_t make_job(stepd_step_task_info_t *task)
{
	*task = (stepd_step_task_info_t){.id = 0, .gtid = 5, .pid = 4711};
	return (stepd_step_rec_t){.job_id = 7,
		.step_id = 0,
		.step_name = "0",
		.node_name = "n1",
		.user_name = "alice",
		.node_tasks = 1,
		.task = task,
		.jmgr_pid = getpid(),
		.cont_id = 0xfedcba9876u};
}

static int count_entry(const struct step_entry *entry, void *userdata)
{
	int *n = userdata;

	assert_string_equal(entry->step, "7.0");
	assert_string_equal(entry->node, "n1");
	assert_string_equal(entry->user, "alice");
	assert_string_equal(entry->state, "running");
	assert_string_equal(entry->proctrack, "proctrack/pgid");
	assert_int_equal(entry->cont_id, 0xfedcba9876u);
	assert_true(entry->alive);
	(*n)++;
	return 0;
}

static void test_publish_list_close(void **state)
{
	char *dir = *state;
	stepd_step_task_info_t task;
	stepd_step_rec_t job = make_job(&task);
	struct registry *reg = NULL;
	struct err err = ERR_INIT;
	int before = scratch_count_fds(), n = 0;

	assert_int_equal(steps_each(dir, count_entry, &n, &err), 0);
	assert_int_equal(n, 0);
	if (registry_open(dir, &job, &reg, &err) < 0 ||
		registry_publish(reg, &job, "proctrack/pgid", "running", NULL, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(steps_each(dir, count_entry, &n, &err), 0);
	assert_int_equal(n, 1);
	registry_close(reg);
	assert_int_equal(steps_each(dir, count_entry, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rmdir(dir), 0); /* nothing is left in it */
	assert_int_equal(mkdir(dir, 0755), 0);
	assert_int_equal(scratch_count_fds(), before);
}

/* A state that has grown much: both that may come next have blocks for as much. */
static void test_next_states_have_blocks(void **state)
{
	char *dir = *state, name[64], path[512];
	stepd_step_task_info_t task;
	stepd_step_rec_t job = make_job(&task);
	struct registry *reg = NULL;
	struct err err = ERR_INIT;
	size_t size = 300000;
	char *text = malloc(size + 1);
	struct stat st;
	json_t *more;
	int i;

	assert_non_null(text);
	memset(text, 'x', size);
	text[size] = '\0';
	more = json_pack("{s:s}", "long", text);
	assert_int_equal(registry_open(dir, &job, &reg, &err), 0);
	assert_int_equal(registry_publish(reg, &job, "proctrack/pgid", "running", NULL, &err), 0);
	assert_int_equal(registry_publish(reg, &job, "proctrack/pgid", "running", more, &err), 0);
	for (i = 0; i < 2; i++) {
		(void)snprintf(name, sizeof(name), "state.json.%d.%d.new", i, (int)getpid());
		(void)snprintf(path, sizeof(path), "%s/n1_7.0/%s", dir, name);
		assert_int_equal(stat(path, &st), 0);
		assert_true((size_t)st.st_blocks * 512 >= size);
	}
	json_decref(more);
	free(text);
	registry_close(reg);
}

static void test_second_agent_is_refused(void **state)
{
	char *dir = *state;
	stepd_step_task_info_t task;
	stepd_step_rec_t job = make_job(&task);
	struct registry *reg = NULL, *other = NULL;
	struct err err = ERR_INIT;
	int before;

	assert_int_equal(registry_open(dir, &job, &reg, &err), 0);
	assert_int_equal(registry_publish(reg, &job, "proctrack/pgid", "running", NULL, &err), 0);
	before = scratch_count_fds();
	assert_int_equal(registry_open(dir, &job, &other, &err), -EEXIST);
	assert_non_null(strstr(err.text, "7.0"));
	assert_int_equal(scratch_count_fds(), before);
	registry_close(reg);
}

/* An agent that dies without a word leaves its directory: the next one takes it over. */
static void test_dead_agents_leavings_are_taken_over(void **state)
{
	char *dir = *state;
	stepd_step_task_info_t task;
	stepd_step_rec_t job = make_job(&task);
	struct registry *reg = NULL;
	struct err err = ERR_INIT;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (registry_open(dir, &job, &reg, &err) < 0 ||
			registry_publish(reg, &job, "proctrack/pgid", "running", NULL, &err) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* One that comes to nothing leaves the dead agent's state to who looks for its processes.
	 */
	if (registry_open(dir, &job, &reg, &err) < 0)
		fail_msg("%s", err.text);
	registry_close(reg);
	assert_int_equal(rmdir(dir), -1);
	if (registry_open(dir, &job, &reg, &err) < 0 ||
		registry_publish(reg, &job, "proctrack/pgid", "running", NULL, &err) < 0)
		fail_msg("%s", err.text);
	registry_close(reg);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0755), 0);
}

static int ignore_entry(const struct step_entry *entry, void *userdata)
{
	(void)entry;
	(void)userdata;
	return 0;
}

/* To ask whether an agent lives takes no lock that one which starts would trip over. */
static void test_asking_is_no_hindrance(void **state)
{
	char *dir = *state;
	stepd_step_task_info_t task;
	stepd_step_rec_t job = make_job(&task);
	struct registry *reg = NULL;
	struct err err = ERR_INIT;
	int i, status;
	pid_t pid = fork();

	if (pid == 0) {
		for (;;)
			(void)!steps_each(dir, ignore_entry, NULL, NULL);
	}
	for (i = 0; i < 2000; i++) {
		if (registry_open(dir, &job, &reg, &err) < 0 ||
			registry_publish(reg, &job, "proctrack/pgid", "running", NULL, &err) < 0)
			break;
		if (i < 1999)
			registry_leave(reg); /* as a dead agent does */
		else
			registry_close(reg);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (i < 2000)
		fail_msg("round %d: %s", i, err.text);
}

/* Whoever could write the runtime directory could lead the agent elsewhere. */
static void test_runtime_dir_of_others_is_refused(void **state)
{
	char *dir = *state, *link = scratch_path(dir, "link");
	stepd_step_task_info_t task;
	stepd_step_rec_t job = make_job(&task);
	struct registry *reg = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(registry_open(dir, &job, &reg, &err), -EPERM);
	assert_non_null(strstr(err.text, "0777"));
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(symlink("/tmp", link), 0);
	assert_true(registry_open(link, &job, &reg, &err) < 0);
	assert_int_equal(unlink(link), 0);
	free(link);
}

/* State files that are cut off or hold something else are passed over. */
static void test_rubbish_is_passed_over(void **state)
{
	static const char *const rubbish[] = {"", "{", "[]", "{}", "{\"job\": \"x\"}", "\xff\xfe"};
	char *dir = *state, *step = scratch_path(dir, "n1_9.0");
	struct err err = ERR_INIT;
	int fd, n = 0;
	size_t i;

	assert_int_equal(mkdir(step, 0755), 0);
	fd = open(step, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		assert_int_equal(fs_write_atomic(fd, "state.json", rubbish[i], strlen(rubbish[i]),
					 0644, false),
			0);
		assert_int_equal(steps_each(dir, count_entry, &n, &err), 0);
		assert_int_equal(n, 0);
	}
	assert_int_equal(unlinkat(fd, "state.json", 0), 0);
	(void)close(fd);
	assert_int_equal(rmdir(step), 0);
	free(step);
}

static int set_up(void **state)
{
	*state = scratch_make();
	return 0;
}

static int tear_down(void **state)
{
	scratch_remove(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_publish_list_close, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_next_states_have_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_second_agent_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_dead_agents_leavings_are_taken_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_runtime_dir_of_others_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_asking_is_no_hindrance, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rubbish_is_passed_over, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
