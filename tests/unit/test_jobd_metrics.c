/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a simulation comes to, beside values that were computed by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/sim/metrics.h"

#define S        1000u /* ms of a second */
#define CAPACITY 1000  /* CPU seconds */

static const struct trace_job rows[] = {
	{.number = 1, .task_id = NO_VAL, .user = 0},
	{.number = 2, .task_id = NO_VAL, .user = 1},
	{.number = 3, .task_id = NO_VAL, .user = 0},
	{.number = 4, .task_id = NO_VAL, .user = 1},
};

static struct metrics_summary summarise(const struct metrics *m)
{
	struct metrics_summary s;
	const struct metrics_job **jobs;
	size_t n;

	jobs = metrics_list(m, &n);
	metrics_summarise(jobs, n, CAPACITY, &s);
	free(jobs);
	return s;
}

/* 4 CPUs from 10 to 110 s: it waited 10 of its 110 s. */
static void test_one_job(void **state)
{
	struct metrics m;
	struct metrics_summary s;
	struct metrics_job *job;

	(void)state;
	metrics_init(&m, false);
	job = metrics_submit(&m, 1, &rows[0], 0);
	assert_ptr_equal(job, metrics_find(&m, 1));
	assert_null(metrics_find(&m, 0));
	assert_null(metrics_find(&m, 2));
	metrics_run(&m, job, 4, "n1", 10 * S);
	metrics_end(&m, job, JOB_COMPLETE, 110 * S);
	metrics_end(&m, job, JOB_FAILED, 120 * S); /* it has ended */
	s = summarise(&m);
	assert_int_equal(s.jobs, 1);
	assert_int_equal(s.completed, 1);
	assert_int_equal(s.failed + s.timed_out + s.preempted + s.waiting, 0);
	assert_float_equal(s.wait_mean_s, 10, 0);
	assert_float_equal(s.slowdown_mean, 1.1, 1e-9);
	assert_float_equal(s.cpu_s, 400, 0);
	assert_float_equal(s.lost_cpu_s, 0, 0);
	assert_int_equal(m.first_ms, 0);
	assert_int_equal(m.last_ms, 110 * S);
	assert_int_equal(m.most_waiting, 1);
	metrics_clear(&m);
}

/* A run of 2 s counts as 10 s: (30 + 2) / 10. One of 0 s that did not wait: 1, not 0. */
static void test_bound(void **state)
{
	struct metrics m;
	struct metrics_summary s;

	(void)state;
	metrics_init(&m, false);
	(void)metrics_submit(&m, 1, &rows[0], 0);
	(void)metrics_submit(&m, 2, &rows[1], 40 * S);
	metrics_run(&m, metrics_find(&m, 1), 1, "n1", 30 * S);
	metrics_end(&m, metrics_find(&m, 1), JOB_TIMEOUT, 32 * S);
	metrics_run(&m, metrics_find(&m, 2), 1, "n1", 40 * S);
	metrics_end(&m, metrics_find(&m, 2), JOB_FAILED, 40 * S);
	s = summarise(&m);
	assert_int_equal(s.timed_out, 1);
	assert_int_equal(s.failed, 1);
	assert_float_equal(s.slowdown_mean, (3.2 + 1) / 2, 1e-9);
	assert_float_equal(s.slowdown_median, 1, 1e-9);
	assert_float_equal(s.wait_mean_s, 15, 1e-9);
	assert_float_equal(s.wait_median_s, 0, 1e-9);
	assert_float_equal(s.wait_max_s, 30, 1e-9);
	metrics_clear(&m);
}

/* Waits of 1 to 20 s: half are not above 10 s, 95 % not above 19 s. */
static void test_quantiles(void **state)
{
	struct metrics m;
	struct metrics_summary s;
	uint32_t i;

	(void)state;
	metrics_init(&m, false);
	for (i = 1; i <= 20; i++)
		(void)metrics_submit(&m, i, &rows[0], 0);
	for (i = 1; i <= 20; i++)
		metrics_run(&m, metrics_find(&m, i), 1, "n1", (uint64_t)((i * 11) % 21) * S);
	s = summarise(&m);
	assert_float_equal(s.wait_mean_s, 10.5, 1e-9);
	assert_float_equal(s.wait_median_s, 10, 1e-9);
	assert_float_equal(s.wait_p95_s, 19, 1e-9);
	assert_float_equal(s.wait_max_s, 20, 1e-9);
	assert_int_equal(s.waiting, 20); /* none has ended */
	assert_int_equal(m.most_waiting, 20);
	metrics_clear(&m);
}

/* 2 CPUs for 30 s, suspended for 20 s, 70 s more: 200 CPU seconds, none of them lost. */
static void test_suspension(void **state)
{
	struct metrics m;
	struct metrics_summary s;
	struct metrics_job *job;

	(void)state;
	metrics_init(&m, true);
	job = metrics_submit(&m, 1, &rows[0], 0);
	metrics_stand(&m, job, true, 0); /* it has not started: it waits */
	metrics_run(&m, job, 2, "n[1-2]", 5 * S);
	metrics_stand(&m, job, false, 35 * S);
	metrics_stand(&m, job, true, 40 * S); /* it stands already */
	metrics_run(&m, job, 2, "n[1-2]", 55 * S);
	metrics_end(&m, job, JOB_COMPLETE, 125 * S);
	s = summarise(&m);
	assert_int_equal(s.suspensions, 1);
	assert_int_equal(s.preemptions, 0);
	assert_float_equal(s.stood_s, 20, 0);
	assert_float_equal(s.cpu_s, 200, 0);
	assert_float_equal(s.lost_cpu_s, 0, 0);
	assert_float_equal(s.utilisation, 0.2, 1e-9);
	assert_float_equal(s.wait_mean_s, 5, 0);
	assert_float_equal(s.slowdown_mean, 1.25, 1e-9);
	assert_int_equal(m.runs_count, 3);
	assert_int_equal(m.runs[0].end_ms, 35 * S);
	assert_false(m.runs[0].stands);
	assert_int_equal(m.runs[1].begin_ms, 35 * S);
	assert_int_equal(m.runs[1].end_ms, 55 * S);
	assert_true(m.runs[1].stands);
	assert_string_equal(m.runs[1].nodes, "n[1-2]");
	assert_int_equal(m.runs[1].cpus, 2);
	assert_int_equal(m.runs[2].end_ms, 125 * S);
	assert_int_equal(m.runs[2].next, SIZE_MAX);
	metrics_clear(&m);
}

/* Suspended for another job, and later for its equal's turn: one preemption, two suspensions. */
static void test_preempted_by_suspension(void **state)
{
	struct metrics m;
	struct metrics_summary s;
	struct metrics_job *job;

	(void)state;
	metrics_init(&m, false);
	job = metrics_submit(&m, 1, &rows[0], 0);
	metrics_run(&m, job, 2, "n1", 0);
	metrics_stand(&m, job, true, 10 * S);
	metrics_run(&m, job, 2, "n1", 20 * S);
	metrics_stand(&m, job, false, 30 * S);
	metrics_run(&m, job, 2, "n1", 40 * S);
	metrics_end(&m, job, JOB_COMPLETE, 50 * S);
	s = summarise(&m);
	assert_int_equal(s.preemptions, 1);
	assert_int_equal(s.suspensions, 2);
	assert_int_equal(s.preempted, 0);
	assert_float_equal(s.lost_cpu_s, 0, 0);
	assert_float_equal(s.cpu_s, 60, 0);
	metrics_clear(&m);
}

/* Queued again after 60 s on 8 CPUs, and cancelled for another 10 s after its next start: it has
 * lost 480 and 40 CPU seconds. */
static void test_preemption(void **state)
{
	struct metrics m;
	struct metrics_summary s;
	struct metrics_job *job;

	(void)state;
	metrics_init(&m, true);
	job = metrics_submit(&m, 1, &rows[0], 0);
	metrics_run(&m, job, 8, "n1", 0);
	metrics_queue_again(&m, job, 60 * S);
	metrics_queue_again(&m, job, 61 * S);
	assert_int_equal(m.waiting, 1);
	metrics_run(&m, job, 4, "n2", 200 * S);
	metrics_end(&m, job, JOB_PREEMPTED, 210 * S);
	s = summarise(&m);
	assert_int_equal(s.preemptions, 2);
	assert_int_equal(s.preempted, 1);
	assert_float_equal(s.cpu_s, 520, 0);
	assert_float_equal(s.lost_cpu_s, 520, 0);
	assert_float_equal(s.wait_mean_s, 0, 0);   /* until its first start */
	assert_float_equal(s.slowdown_mean, 0, 0); /* it did not end by itself */
	assert_true(m.runs[0].lost && m.runs[1].lost);
	assert_int_equal(m.runs[0].cpus, 8);
	assert_int_equal(m.runs[1].cpus, 4);
	metrics_clear(&m);
}

/* Only the run that was lost is: what it does after that is not. */
static void test_lost_run(void **state)
{
	struct metrics m;
	struct metrics_summary s;
	struct metrics_job *job;

	(void)state;
	metrics_init(&m, true);
	job = metrics_submit(&m, 1, &rows[0], 0);
	metrics_run(&m, job, 1, "n1", 0);
	metrics_queue_again(&m, job, 50 * S);
	metrics_run(&m, job, 1, "n1", 100 * S);
	metrics_end(&m, job, JOB_COMPLETE, 300 * S);
	s = summarise(&m);
	assert_float_equal(s.cpu_s, 250, 0);
	assert_float_equal(s.lost_cpu_s, 50, 0);
	assert_float_equal(s.slowdown_mean, 1.5, 1e-9); /* 300 s for a run of 200 */
	assert_true(m.runs[0].lost);
	assert_false(m.runs[1].lost);
	metrics_clear(&m);
}

static void test_groups(void **state)
{
	const struct metrics_job **jobs;
	struct metrics m;
	size_t n, i;

	(void)state;
	metrics_init(&m, false);
	for (i = 0; i < 4; i++) {
		struct metrics_job *job =
			metrics_submit(&m, (uint32_t)i + 1, &rows[i], 10 * S - 1000 * i);

		job->part = i == 2 ? 0 : 1;
		job->qos = i == 0 ? METRICS_NONE : 0;
	}
	jobs = metrics_list(&m, &n);
	assert_int_equal(n, 4);
	metrics_sort(jobs, n, METRICS_BY_USER);
	assert_int_equal(jobs[0]->trace->number, 1);
	assert_int_equal(jobs[1]->trace->number, 3);
	assert_int_equal(jobs[2]->trace->number, 2);
	metrics_sort(jobs, n, METRICS_BY_PART);
	assert_int_equal(jobs[0]->trace->number, 3);
	metrics_sort(jobs, n, METRICS_BY_QOS);
	assert_int_equal(jobs[3]->trace->number, 1);
	free(jobs);
	metrics_clear(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_job),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_suspension),
		cmocka_unit_test(test_preempted_by_suspension),
		cmocka_unit_test(test_preemption),
		cmocka_unit_test(test_lost_run),
		cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
