/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MPI host: with mpi/none as it is installed, and with plugins of the tests
 * (tests/lib/trial_mpi.c).
 */
#include "mpi/mpi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "stepd/api/env.h"
#include "stepd/plugin/plugin.h"
#include "tests/lib/scratch.h"

/* Plugins that start no service need nothing of it. */
static const struct mpi_host host = {.wire = {.listen_fd = -1}};

struct fixture {
	char *dir;
	int fds;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	if (!fixture)
		return -1;
	fixture->dir = scratch_make();
	scratch_copy_built("stepd/cli/plugins/mpi_none.so", fixture->dir, "mpi_none.so");
	scratch_copy_built("tests/lib/plugins/mpi_trial.so", fixture->dir, "mpi_trial.so");
	fixture->fds = scratch_count_fds();
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;
	int fds = scratch_count_fds() - fixture->fds;

	scratch_remove(fixture->dir);
	free(fixture->dir);
	free(fixture);
	return fds;
}

static char **env_new(void)
{
	char **env = calloc(2, sizeof(*env));

	assert_non_null(env);
	env[0] = strdup("PATH=/bin");
	assert_non_null(env[0]);
	return env;
}

static void env_free(char **env)
{
	size_t i;

	for (i = 0; env[i]; i++)
		free(env[i]);
	free(env);
}

static void the_plugin_none_changes_no_environment(void **state)
{
	const struct fixture *fixture = *state;
	_cleanup_mpi_ struct mpi *mpi = NULL;
	const stepd_step_rec_t job = {.api_version = STEPD_API_VERSION, .job_id = 7};
	const mpi_plugin_task_info_t task = {.api_version = STEPD_API_VERSION, .job_id = 7};
	struct err err = ERR_INIT;
	char **env = env_new();

	assert_int_equal(mpi_open(fixture->dir, "mpi/none", &mpi, &err), 0);
	assert_null(mpi_get_env_type(mpi));
	assert_int_equal(mpi_prefork(mpi, &job, &host, &env, &err), 0);
	assert_int_equal(mpi_task(mpi, &task, &env), 0);
	assert_string_equal(env[0], "PATH=/bin");
	assert_null(env[1]);
	env_free(env);
}

/* The two hooks of the client. */
static void the_plugin_none_changes_nothing_in_the_client(void **state)
{
	const struct fixture *fixture = *state;
	const mpi_plugin_client_info_t job = {.api_version = STEPD_API_VERSION, .job_id = 7};
	mpi_plugin_client_state_t *client;
	_cleanup_mpi_ struct mpi *mpi = NULL;
	char **env = env_new();

	assert_int_equal(mpi_plugin_kind()->symbols_count, 5);
	assert_int_equal(mpi_open(fixture->dir, "none", &mpi, NULL), 0);
	assert_int_equal(mpi_client_prelaunch(mpi, &job, &env, &client, NULL), 0);
	assert_non_null(client);
	assert_int_equal(mpi_client_fini(mpi, client, NULL), 0);
	assert_null(env[1]);
	env_free(env);
}

static void a_client_hook_that_fails_is_reported(void **state)
{
	const struct fixture *fixture = *state;
	const mpi_plugin_client_info_t job = {.api_version = STEPD_API_VERSION, .job_id = 7};
	mpi_plugin_client_state_t *client = NULL;
	_cleanup_mpi_ struct mpi *mpi = NULL;
	struct err err = ERR_INIT;
	char **env = env_new();

	assert_int_equal(mpi_open(fixture->dir, "trial", &mpi, NULL), 0);
	assert_int_equal(mpi_client_prelaunch(mpi, &job, &env, &client, &err), -ENOSYS);
	assert_null(client);
	assert_non_null(strstr(err.text, "plugin mpi/trial: p_mpi_hook_client_prelaunch() failed"));
	env_free(env);
}

static void prefork_and_task_hooks_set_their_environment(void **state)
{
	const struct fixture *fixture = *state;
	_cleanup_mpi_ struct mpi *mpi = NULL;
	stepd_step_rec_t job = {.api_version = STEPD_API_VERSION, .job_id = 7};
	const mpi_plugin_task_info_t task = {.api_version = STEPD_API_VERSION, .gtaskid = 3};
	struct err err = ERR_INIT;
	char **env = env_new();

	assert_int_equal(mpi_open(fixture->dir, "trial", &mpi, &err), 0);
	assert_string_equal(mpi_get_env_type(mpi), "trial");
	assert_int_equal(mpi_prefork(mpi, &job, &host, &env, &err), 0);
	assert_string_equal(stepd_env_get(env, "TRIAL_PREFORK"), "job 7");
	assert_int_equal(mpi_task(mpi, &task, &env), 0);
	assert_string_equal(stepd_env_get(env, "TRIAL_TASK"), "rank 3");
	assert_int_equal(err.code, 0);
	env_free(env);
}

/* It has the task hook, too, which is not called. */
static void the_environ_hook_is_called_instead_of_the_task_hook(void **state)
{
	const struct fixture *fixture = *state;
	_cleanup_mpi_ struct mpi *mpi = NULL;
	mpi_plugin_task_info_t task = {.ltaskid = 1, .rank = 3, .size = 8, .ntasks = 9};
	char **env = env_new();
	int fd = 77;

	assert_int_equal(mpi_open(fixture->dir, "trial", &mpi, NULL), 0);
	assert_false(mpi_has_task_environ(mpi));
	mpi = mpi_close(mpi);
	scratch_copy_built("tests/lib/plugins/mpi_environ.so", fixture->dir, "mpi_environ.so");
	assert_int_equal(mpi_open(fixture->dir, "environ", &mpi, NULL), 0);
	assert_true(mpi_has_task_environ(mpi));
	assert_int_equal(mpi_task_environ(mpi, &task, &env, &fd), 0);
	assert_string_equal(stepd_env_get(env, "TRIAL_ENVIRON"), "rank 3 of 8, local 1");
	assert_null(stepd_env_get(env, "TRIAL_TASK"));
	assert_int_equal(fd, -1); /* there is no service */
	assert_int_equal(stepd_env_set(&env, "TRIAL_FAILS", "1"), 0);
	assert_int_equal(mpi_task_environ(mpi, &task, &env, &fd), -EDQUOT);
	mpi_task_forked(mpi, 1); /* nothing to close */
	env_free(env);
}

static void a_prefork_hook_that_fails_is_reported(void **state)
{
	const struct fixture *fixture = *state;
	_cleanup_mpi_ struct mpi *mpi = NULL;
	stepd_step_rec_t job = {.api_version = STEPD_API_VERSION, .job_id = 1};
	struct err err = ERR_INIT;
	char **env = env_new();

	assert_int_equal(mpi_open(fixture->dir, "mpi/trial", &mpi, &err), 0);
	assert_int_equal(mpi_prefork(mpi, &job, &host, &env, &err), -EHOSTUNREACH);
	assert_non_null(strstr(err.text, "plugin mpi/trial"));
	assert_non_null(strstr(err.text, strerror(EHOSTUNREACH)));
	job.job_id = 2; /* no errno */
	assert_int_equal(mpi_prefork(mpi, &job, &host, &env, &err), -EIO);
	env_free(env);
}

static void a_plugin_that_is_not_installed_is_refused(void **state)
{
	const struct fixture *fixture = *state;
	struct mpi *mpi = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(mpi_open(fixture->dir, "pmi9", &mpi, &err), -ENOENT);
	assert_non_null(strstr(err.text, "there is no plugin mpi/pmi9"));
	assert_non_null(strstr(err.text, "the plugin files there are: none, trial"));
	assert_int_equal(mpi_open(fixture->dir, "proctrack/none", &mpi, &err), -EINVAL);
	scratch_copy_built("tests/lib/plugins/mpi_misspelt.so", fixture->dir, "mpi_misspelt.so");
	assert_int_equal(mpi_open(fixture->dir, "misspelt", &mpi, &err), -ENOEXEC);
	assert_non_null(strstr(err.text, "lacks the function p_mpi_hook_client_fini()"));
	assert_null(mpi);
	assert_null(mpi_close(NULL));
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_plugin_none_changes_no_environment),
		TEST(the_plugin_none_changes_nothing_in_the_client),
		TEST(a_client_hook_that_fails_is_reported),
		TEST(prefork_and_task_hooks_set_their_environment),
		TEST(the_environ_hook_is_called_instead_of_the_task_hook),
		TEST(a_prefork_hook_that_fails_is_reported),
		TEST(a_plugin_that_is_not_installed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
