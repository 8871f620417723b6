/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/launch/environ.h"
#include "stepd/launch/plan.h"

/* A plan from a document, environment included. */
static void make(struct plan *plan, struct spec **spec, const char *json, const char *mpi_type)
{
	struct err err = ERR_INIT;

	if (spec_from_text(json, strlen(json), spec, &err) < 0 ||
		plan_make(*spec, plan, &err) < 0 || plan_make_environ(plan, mpi_type, &err) < 0)
		fail_msg("%s", err.text);
}

static void assert_var(struct plan *plan, size_t program, const char *name, const char *value)
{
	const char *got = strv_env_get(&plan->programs[program].env, name);

	if (value && (!got || strcmp(got, value) != 0))
		fail_msg("%s is %s, not %s", name, got ? got : "unset", value);
	if (!value && got)
		fail_msg("%s is %s, not unset", name, got);
}

static void test_layout_of_two_nodes(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;

	(void)state;
	make(&plan, &spec,
		"{\"job\": 7, \"step\": 3, \"name\": \"bench\", \"ntasks\": 5, \"local_ntasks\": 2,"
		" \"first_rank\": 3, \"argv\": [\"x\"], \"env\": {\"A\": \"b=c\", \"SLURM_PROCID\": \"99\"},"
		" \"node\": {\"name\": \"n2\", \"id\": 1, \"count\": 2, \"list\": \"n[1-2]\","
		" \"tasks_per_node\": [3, 2]}}",
		"pmix");
	assert_var(&plan, 0, "A", "b=c");
	assert_var(&plan, 0, "SLURM_JOB_ID", "7");
	assert_var(&plan, 0, "SLURM_JOBID", "7");
	assert_var(&plan, 0, "SLURM_STEP_ID", "3");
	assert_var(&plan, 0, "SLURM_STEPID", "3");
	assert_var(&plan, 0, "SLURM_JOB_NAME", "bench");
	assert_var(&plan, 0, "SLURM_NTASKS", "5");
	assert_var(&plan, 0, "SLURM_NPROCS", "5");
	assert_var(&plan, 0, "SLURM_NNODES", "2");
	assert_var(&plan, 0, "SLURM_NODEID", "1");
	assert_var(&plan, 0, "SLURM_STEP_NODELIST", "n[1-2]");
	assert_var(&plan, 0, "SLURM_TASKS_PER_NODE", "3,2");
	assert_var(&plan, 0, "SLURM_GTIDS", "3,4");
	assert_var(&plan, 0, "SLURMD_NODENAME", "n2");
	assert_var(&plan, 0, "SLURM_MPI_TYPE", "pmix");
	assert_var(&plan, 0, "TMPDIR", "/tmp");
	assert_var(&plan, 0, "SLURM_PROCID", NULL); /* the child's to set, and nobody else's */
	plan_clear(&plan);
}

static void test_untold_layout_is_not_invented(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;

	(void)state;
	make(&plan, &spec,
		"{\"ntasks\": 5, \"local_ntasks\": 2, \"argv\": [\"x\"], \"node\": {\"name\": \"n2\","
		" \"id\": 1, \"count\": 2}, \"first_rank\": 3, \"env\": {\"SLURM_MPI_TYPE\": \"none\", \"TMPDIR\": \"/x\"}}",
		NULL);
	assert_var(&plan, 0, "SLURM_TASKS_PER_NODE", NULL);
	assert_var(&plan, 0, "SLURM_STEP_NODELIST", NULL);
	assert_var(&plan, 0, "SLURM_MPI_TYPE", NULL);
	assert_var(&plan, 0, "TMPDIR", "/x");
	plan_clear(&plan);
}

static void test_the_shell_of_an_salloc(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;

	(void)state;
	make(&plan, &spec,
		"{\"job\": 7, \"step\": 4294967290, \"argv\": [\"x\"], \"env\": {\"SLURM_NTASKS\": \"2\","
		" \"SLURM_NPROCS\": \"2\", \"SLURM_TASKS_PER_NODE\": \"2\", \"SLURM_MPI_TYPE\": \"none\"}}",
		NULL);
	assert_var(&plan, 0, "SLURM_STEP_ID", "4294967290");
	assert_var(&plan, 0, "SLURM_NTASKS", "2");
	assert_var(&plan, 0, "SLURM_NPROCS", "2");
	assert_var(&plan, 0, "SLURM_TASKS_PER_NODE", "2");
	assert_var(&plan, 0, "SLURM_MPI_TYPE", "none");
	assert_var(&plan, 0, "SLURM_STEP_NUM_TASKS", "1");
	plan_clear(&plan);
}

static void test_compressed_tasks_per_node(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;

	(void)state;
	make(&plan, &spec,
		"{\"ntasks\": 9, \"local_ntasks\": 2, \"argv\": [\"x\"], \"node\": {\"name\": \"n\","
		" \"id\": 0, \"count\": 5, \"tasks_per_node\": [2, 2, 2, 1, 2]}}",
		NULL);
	assert_var(&plan, 0, "SLURM_TASKS_PER_NODE", "2(x3),1,2");
	plan_clear(&plan);
}

static void test_a_script_has_its_jobs_variables(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;

	(void)state;
	make(&plan, &spec,
		"{\"kind\": \"batch\", \"job\": 7, \"script\": \"#!/bin/sh\\n\", \"env\": {"
		"\"SLURM_NTASKS\": \"8\", \"SLURM_NNODES\": \"2\", \"SLURM_NODELIST\": \"n[1-2]\","
		" \"SLURM_CPUS_ON_NODE\": \"4\", \"SLURM_JOB_ID\": \"99\"}}",
		NULL);
	assert_var(&plan, 0, "SLURM_NTASKS", "8");
	assert_var(&plan, 0, "SLURM_NNODES", "2");
	assert_var(&plan, 0, "SLURM_NODELIST", "n[1-2]");
	assert_var(&plan, 0, "SLURM_CPUS_ON_NODE", "4");
	assert_var(&plan, 0, "SLURM_NPROCS", "1"); /* the document doesn't have it */
	assert_var(&plan, 0, "SLURM_STEP_NUM_TASKS", "1");
	assert_var(&plan, 0, "SLURM_JOB_ID", "7");
	plan_clear(&plan);
}

static void test_a_complete_environment_is_left_as_it_is(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;

	(void)state;
	make(&plan, &spec,
		"{\"kind\": \"batch\", \"job\": 7, \"script_file\": \"/s\", \"env_complete\": true,"
		" \"env\": {\"A\": \"1\", \"SLURM_PROCID\": \"9\", \"SLURM_CPU_BIND\": \"x\"}}",
		NULL);
	assert_var(&plan, 0, "A", "1");
	assert_var(&plan, 0, "SLURM_CPU_BIND", "x");
	assert_int_equal(plan.programs[0].env.n, 2);
	plan_clear(&plan);
}

static void test_overrides_and_the_task_vector(void **state)
{
	_cleanup_spec_ struct spec *spec = NULL;
	struct plan plan;
	char **v;

	(void)state;
	make(&plan, &spec,
		"{\"ntasks\": 3, \"argv\": [\"x\"], \"env\": {\"A\": \"1\"}, \"tasks\": [{\"ranks\": [1, 2],"
		" \"argv\": [\"y\", \"z\"], \"env\": {\"A\": \"2\", \"B\": \"3\", \"SLURM_PROCID\": \"77\","
		" \"SLURM_NTASKS\": \"77\"}}]}",
		NULL);
	assert_int_equal(plan.task_program[0], 0);
	assert_int_equal(plan.task_program[1], 1);
	assert_int_equal(plan.task_program[2], 1);
	assert_var(&plan, 0, "A", "1");
	assert_var(&plan, 1, "A", "2");
	assert_var(&plan, 1, "B", "3");
	assert_var(&plan, 1, "SLURM_PROCID", NULL);
	assert_var(&plan, 1, "SLURM_NTASKS", "3");
	assert_string_equal(plan.programs[1].argv[0], "y");
	environ_task_fill(&plan.task_env, &plan.programs[1].env, 2, 2, 4711);
	for (v = plan.task_env.v; *v && strcmp(*v, "SLURM_TASK_PID=4711") != 0; v++)
		;
	assert_non_null(*v);
	environ_task_set_pid(&plan.task_env, 12);
	assert_string_equal(*v, "SLURM_TASK_PID=12");
	plan_clear(&plan);
}

static void test_a_rank_without_program(void **state)
{
	static const char json[] =
		"{\"ntasks\": 2, \"tasks\": [{\"ranks\": [0], \"argv\": [\"y\"]}]}";
	_cleanup_spec_ struct spec *spec = NULL;
	struct err err = ERR_INIT;
	struct plan plan;
	int r;

	(void)state;
	r = spec_from_text(json, strlen(json), &spec, &err);
	if (r == 0)
		r = plan_make(spec, &plan, &err);
	assert_int_equal(r, -EINVAL);
	assert_non_null(strstr(err.text, "argv"));
	assert_non_null(strstr(err.text, "1"));
}

static void test_node_name_must_not_lead_elsewhere(void **state)
{
	static const char *const names[] = {"../x", "a/b", ".", "", "a b"};
	struct err err = ERR_INIT;
	struct spec *spec;
	struct plan plan;
	char json[256];
	size_t i;
	int r;

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		spec = NULL;
		(void)snprintf(json, sizeof(json),
			"{\"argv\": [\"x\"], \"node\": {\"name\": \"%s\"}}", names[i]);
		r = spec_from_text(json, strlen(json), &spec, &err);
		if (r == 0)
			r = plan_make(spec, &plan, &err);
		assert_true(r < 0);
		spec_free(spec);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout_of_two_nodes),
		cmocka_unit_test(test_untold_layout_is_not_invented),
		cmocka_unit_test(test_the_shell_of_an_salloc),
		cmocka_unit_test(test_compressed_tasks_per_node),
		cmocka_unit_test(test_a_script_has_its_jobs_variables),
		cmocka_unit_test(test_a_complete_environment_is_left_as_it_is),
		cmocka_unit_test(test_overrides_and_the_task_vector),
		cmocka_unit_test(test_a_rank_without_program),
		cmocka_unit_test(test_node_name_must_not_lead_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
