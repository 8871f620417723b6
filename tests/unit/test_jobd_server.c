/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the service makes of the names of jobs, and of what its users have already. The engine is a
 * table of jobs.
 */
#include "contrib/jobd/server/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "contrib/jobd/server/users.h"

#define JOBS_MAX 64

struct engine {
	struct job *jobs[JOBS_MAX];
	size_t count;
	struct conf conf;
};

size_t engine_count_jobs(const struct engine *e)
{
	return e->count;
}

struct job *engine_get_job(const struct engine *e, size_t i)
{
	return e->jobs[i];
}

struct job *engine_find_job(struct engine *e, uint32_t job_id)
{
	size_t i;

	for (i = 0; i < e->count; i++) {
		if (e->jobs[i] && e->jobs[i]->record.job_id == job_id)
			return e->jobs[i];
	}
	return NULL;
}

const struct conf *engine_get_conf(const struct engine *e)
{
	return &e->conf;
}

static time_t seconds; /* of the clock */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){.tv_sec = seconds};
	return 0;
}

/* ---- a table of jobs ----------------------------------------------------------------------------
 */

static int set_up(void **state)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return -1;
	e->conf.max_job_count = 20;
	e->conf.max_array_size = 1001;
	seconds = 1000;
	*state = e;
	return 0;
}

static int tear_down(void **state)
{
	struct engine *e = *state;
	size_t i;

	for (i = 0; i < e->count; i++) {
		if (e->jobs[i])
			request_clear(&e->jobs[i]->request);
		free(e->jobs[i]);
	}
	free(e);
	return 0;
}

static struct job *add(struct engine *e, uint32_t id, uint32_t array_id, uint32_t task)
{
	struct job *job = calloc(1, sizeof(*job));

	assert_non_null(job);
	request_init(&job->request);
	job->record.job_id = id;
	job->record.array_job_id = array_id;
	job->record.array_task_id = task;
	e->jobs[e->count++] = job;
	return job;
}

static void forget(struct engine *e, uint32_t id)
{
	size_t i;

	for (i = 0; i < e->count; i++) {
		if (!e->jobs[i] || e->jobs[i]->record.job_id != id)
			continue;
		request_clear(&e->jobs[i]->request);
		free(e->jobs[i]);
		e->jobs[i] = NULL;
	}
}

/* ---- names of jobs ------------------------------------------------------------------------------
 */

/* The ids of the jobs that the text stands for. */
static void expect_jobs(struct engine *e, const char *text, const char *ids)
{
	_cleanup_target_ struct target target = {NULL, 0};
	struct err err = ERR_INIT;
	char got[256] = "";
	size_t i;

	assert_int_equal(target_find(e, text, &target, &err), 0);
	for (i = 0; i < target.count; i++)
		(void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%u", i ? " " : "",
			target.jobs[i]->record.job_id);
	assert_string_equal(got, ids);
}

static void expect_error(struct engine *e, const char *text, int r)
{
	struct target target = {NULL, 0};
	struct err err = ERR_INIT;

	assert_int_equal(target_find(e, text, &target, &err), r);
	assert_null(target.jobs);
	assert_non_null(strstr(err.text, text));
}

static void fill(struct engine *e)
{
	add(e, 3, 0, NO_VAL);
	add(e, 4, 4, 0);
	add(e, 5, 4, 1);
	add(e, 6, 0, NO_VAL);
	add(e, 7, 4, 2); /* the engine makes tasks one after the other, but need not */
	add(e, 9, 0, NO_VAL);
}

static void test_names(void **state)
{
	struct engine *e = *state;

	fill(e);
	expect_jobs(e, "3", "3");
	expect_jobs(e, "4", "4 5 7");
	expect_jobs(e, "5", "5");
	expect_jobs(e, "4_1", "5");
	expect_jobs(e, "4_[0,2-3]", "4 7");
	forget(e, 4);
	forget(e, 6);
	expect_jobs(e, "4", "5 7");
	expect_jobs(e, "4_2", "7");
	expect_jobs(e, "9", "9");
}

static void test_bad_names(void **state)
{
	static const char *const bad[] = {"", "0", "x", "-1", " 3", "3 ", "4_", "4_x", "4_1_1",
		"4_[1", "4_[1%2]", "4294967294", "99999999999", "3.0"};
	struct engine *e = *state;
	size_t i;

	fill(e);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		expect_error(e, bad[i], -EINVAL);
	expect_error(e, "4_1001", -ERANGE);
	expect_error(e, "8", -ESRCH);
	expect_error(e, "3_0", -ESRCH);
	expect_error(e, "4_7", -ESRCH);
}

static void test_indexes(void **state)
{
	struct engine *e = *state;

	assert_int_equal(target_first_index(e, 1), 0);
	fill(e);
	assert_int_equal(target_first_index(e, 0), 0);
	assert_int_equal(target_first_index(e, 6), 3);
	assert_int_equal(target_first_index(e, 8), 5);
	assert_int_equal(target_first_index(e, 10), 6);
	forget(e, 6);
	forget(e, 7);
	assert_in_range(target_first_index(e, 6), 3, 5); /* holes don't matter */
	forget(e, 3);
	assert_in_range(target_first_index(e, 4), 0, 1);
}

/* ---- what users have ----------------------------------------------------------------------------
 */

static int admit(struct users *u, uid_t uid, const char *array, const char *script)
{
	struct job_request q;
	struct err err = ERR_INIT;
	int r;

	request_init(&q);
	q.array = (char *)(uintptr_t)array;
	q.script = (char *)(uintptr_t)script;
	r = users_admit(u, uid, &q, &err);
	assert_int_equal(r < 0, err.text[0] != '\0');
	return r;
}

static struct users *open_users(struct engine *e)
{
	struct err err = ERR_INIT;
	struct users *u = NULL;

	assert_int_equal(users_new(e, &u, &err), 0);
	return u;
}

/* 15 of MaxJobCount, which is 20; those that have ended are none. */
static void test_numbers_of_jobs(void **state)
{
	struct engine *e = *state;
	struct users *u;
	uint32_t i;

	for (i = 1; i <= 12; i++)
		add(e, i, 0, NO_VAL)->record.user_id = 7;
	e->jobs[0]->record.job_state = JOB_COMPLETE;
	e->jobs[1]->record.job_state = JOB_COMPLETE | JOB_COMPLETING;
	u = open_users(e);
	assert_int_equal(admit(u, 7, "0-4", NULL), -EDQUOT);
	assert_int_equal(admit(u, 7, "0-3", NULL), 0);
	assert_int_equal(admit(u, 7, NULL, NULL), -EDQUOT);
	assert_int_equal(admit(u, 8, "0-14", NULL), 0);
	assert_int_equal(admit(u, 8, NULL, NULL), -EDQUOT);
	assert_int_equal(admit(u, 8, "x", NULL), -EINVAL);
	u = users_free(u);
}

/* Counts are made anew, but not within a second. */
static void test_counts_are_made_anew(void **state)
{
	struct engine *e = *state;
	struct users *u = open_users(e);

	assert_int_equal(admit(u, 7, "0-14", NULL), 0); /* of which none is there */
	assert_int_equal(admit(u, 7, NULL, NULL), -EDQUOT);
	seconds += 2;
	assert_int_equal(admit(u, 7, NULL, NULL), 0);
	assert_int_equal(admit(u, 7, "0-14", NULL), -EDQUOT);
	u = users_free(u);
}

static void test_bytes(void **state)
{
	struct engine *e = *state;
	struct users *u = open_users(e);
	_cleanup_free_ char *script = malloc(USERS_BYTES_MAX / 4);

	assert_non_null(script);
	memset(script, 'x', USERS_BYTES_MAX / 4 - 1);
	script[USERS_BYTES_MAX / 4 - 1] = '\0';
	assert_int_equal(admit(u, 7, "0-3", script), -EDQUOT); /* each task has its own */
	assert_int_equal(admit(u, 7, "0-2", script), 0);
	assert_int_equal(admit(u, 7, NULL, script), -EDQUOT);
	assert_int_equal(admit(u, 7, NULL, "#!/bin/sh"), 0);
	assert_int_equal(admit(u, 8, NULL, script), 0);
	u = users_free(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bad_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_indexes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_numbers_of_jobs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_counts_are_made_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bytes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
