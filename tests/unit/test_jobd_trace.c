/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Traces: what each format's rows become, and what is wrong with bad ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/sim/trace.h"

#define BEGIN_MS (UINT64_C(1000) * TRACE_BEGIN_S)

static int parse(const char *text, struct trace *trace, struct err *err)
{
	char *copy = strdup(text);
	int r;

	assert_non_null(copy);
	r = trace_parse("t", copy, strlen(copy), trace, err);
	free(copy);
	return r;
}

static void must_parse(const char *text, struct trace *trace)
{
	struct err err = ERR_INIT;

	if (parse(text, trace, &err) < 0)
		fail_msg("%s", err.text);
}

/* The sentence must have this text. */
static void must_fail(const char *text, const char *sentence)
{
	struct err err = ERR_INIT;
	struct trace trace;

	assert_int_not_equal(parse(text, &trace, &err), 0);
	if (!strstr(err.text, sentence))
		fail_msg("'%s' is not in: %s", sentence, err.text);
}

static bool has_note(const struct trace *trace, const char *text)
{
	size_t i;

	for (i = 0; i < trace->notes.n; i++) {
		if (strstr(trace->notes.v[i], text))
			return true;
	}
	return false;
}

/* ---- the Standard Workload Format --------------------------------------------------------------
 */

static void test_swf(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};
	const struct trace_job *job;

	(void)state;
	must_parse("; UnixStartTime: 1000000000\n; MaxNodes: 64 (of two kinds)\n; MaxProcs: 256\n"
		   "; Partition: 2 fast\n;  Note: a text: with colons\n"
		   "7 60 5 100 8 -1 -1 16 3601 2048 1 3 1 -1 1 2 -1 -1\n"
		   "6 0 5 100.5 8 -1 -1 -1 -1 -1 0 3 1 -1 4 -1 6 10\r\n",
		&t);
	assert_int_equal(t.format, TRACE_SWF);
	assert_int_equal(t.max_nodes, 64);
	assert_int_equal(t.max_cpus, 256);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.users.n, 1);
	job = &t.jobs[0]; /* the one that was submitted first */
	assert_int_equal(job->number, 6);
	assert_int_equal(job->line, 7);
	assert_int_equal(job->submit_ms, UINT64_C(1000000000000));
	assert_int_equal(job->run_ms, 100500);
	assert_int_equal(job->exit_status, 0x100);
	assert_int_equal(job->request.ntasks, 8);
	assert_int_equal(job->request.time_limit_min, NO_VAL);
	assert_true(job->request.memory_mb == NO_VAL64);
	assert_string_equal(job->request.partition, "4");
	assert_true(job->part_is_number);
	job = &t.jobs[1];
	assert_int_equal(job->submit_ms, UINT64_C(1000000060000));
	assert_int_equal(job->exit_status, 0);
	assert_int_equal(job->request.ntasks, 16);
	assert_int_equal(job->request.time_limit_min, 61);
	assert_true(job->request.memory_mb == (2 | MEM_PER_CPU));
	assert_string_equal(job->request.partition, "fast");
	assert_false(job->part_is_number);
	assert_string_equal(t.users.v[job->user], "3");
	assert_true(has_note(&t, "1 jobs have no time limit"));
	assert_true(has_note(&t, "1 jobs name a preceding job"));
}

/* What was not requested is taken from what was used, but for the time limit. */
static void test_swf_used(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};

	(void)state;
	must_parse(";\n1 0 5 100 8 -1 3000 -1 -1 -1 1 3 1 -1 1 1 -1 -1\n"
		   "2 0 5 100 8 -1 3000 16 60 5000 1 3 1 -1 1 1 -1 -1\n"
		   "3 0 5 100 8 -1 0 16 60 -1 1 3 1 -1 1 1 -1 -1\n",
		&t);
	assert_int_equal(t.jobs[0].request.ntasks, 8);
	assert_true(t.jobs[0].request.memory_mb == (3 | MEM_PER_CPU));
	assert_int_equal(t.jobs[0].request.time_limit_min, NO_VAL);
	assert_int_equal(t.jobs[1].request.ntasks, 16);
	assert_true(t.jobs[1].request.memory_mb == (5 | MEM_PER_CPU));
	assert_true(t.jobs[2].request.memory_mb == NO_VAL64);
}

static void test_swf_leaves_out(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};

	(void)state;
	must_parse("1 0 5 -1 8 -1 -1 8 60 -1 5 1 1 -1 1 1 -1 -1\n"
		   "2 0 5 0 8 -1 -1 8 60 -1 5 1 1 -1 1 1 -1 -1\n"
		   "3 0 5 50 8 -1 -1 8 60 -1 2 1 1 -1 1 1 -1 -1\n"
		   "4 0 5 50 -1 -1 -1 -1 60 -1 5 -1 1 -1 -1 -1 -1 -1\n",
		&t);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.jobs[0].number, 4);
	assert_int_equal(t.jobs[0].request.ntasks, 1);
	assert_null(t.jobs[0].request.partition);
	assert_string_equal(t.users.v[t.jobs[0].user], TRACE_UNKNOWN_USER);
	assert_true(has_note(&t, "2 jobs that never started"));
	assert_true(has_note(&t, "1 rows of parts of a job"));
	assert_true(has_note(&t, "1 jobs did not end by themselves"));
	assert_true(has_note(&t, "1 jobs give no number of nodes or CPUs"));
	assert_true(has_note(&t, "1 jobs have no user"));
}

static void test_swf_errors(void **state)
{
	(void)state;
	must_fail("; Version: 2\n1 0 5 10 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1\n", "t:2: 17 fields");
	must_fail(";\n1 0 5 ten 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1\n",
		"t:2: field 4 (run time) is 'ten'");
	must_fail(";\n1 0 5 -2 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1\n", "field 4");
	must_fail(";\n1 0 5 nan 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1\n", "field 4");
	must_fail(";\n1 0 5 1 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1 9\n", "more than the 18 fields");
	must_fail(";\n-1 0 5 1 8 -1 -1 8 60 -1 1 1 1 -1 1 1 -1 -1\n", "needs a number");
	must_fail("; only a header\n", "t has no job that ran");
}

/* ---- sacct -------------------------------------------------------------------------------------
 */

#define HEADER                                                                                     \
	"JobID|User|Partition|QOS|Submit|Start|End|Elapsed|Timelimit|NNodes|NCPUS|ReqMem|State|"   \
	"ExitCode\n"
#define DAY "2026-01-20T"

static void test_sacct(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};
	const struct trace_job *job;

	(void)state;
	must_parse(HEADER "12_3|ann|batch|high|" DAY "10:00:10|" DAY "10:01:00|" DAY
			  "11:01:00|01:00:00|1-00:00:00|2|32|4000M|COMPLETED|0:0\n"
			  "12_3.batch||||" DAY "10:01:00|" DAY "10:01:00|" DAY
			  "11:01:00|01:00:00||1|16||COMPLETED|0:0\n"
			  "7|bob|batch||" DAY "10:00:00|" DAY "10:01:00|" DAY
			  "10:01:30|00:00:30|UNLIMITED|4|64|4Gn|FAILED|2:0\n"
			  "8|bob|batch||" DAY "10:00:05|" DAY "10:01:00|" DAY
			  "10:01:30|2-01:02:03.5|Partition_Limit|1|1|2Gc|CANCELLED by 1000|0:15\n",
		&t);
	assert_int_equal(t.format, TRACE_SACCT);
	assert_int_equal(t.count, 3);
	job = &t.jobs[0];
	assert_int_equal(job->number, 7);
	assert_int_equal(job->task_id, NO_VAL);
	assert_int_equal(job->submit_ms, UINT64_C(1768903200000)); /* date -ud 2026-01-20T10:00 */
	assert_int_equal(job->run_ms, 30000);
	assert_int_equal(job->exit_status, 0x200);
	assert_int_equal(job->request.time_limit_min, INFINITE);
	assert_int_equal(job->request.min_nodes, 4);
	assert_int_equal(job->request.max_nodes, 4);
	assert_int_equal(job->request.ntasks, 64);
	assert_true(job->request.memory_mb == 4096);
	assert_null(job->request.qos);
	job = &t.jobs[1];
	assert_int_equal(job->number, 8);
	assert_int_equal(job->run_ms, 1000 * (2 * 86400 + 3600 + 2 * 60 + 3));
	assert_int_equal(job->exit_status, 0);
	assert_int_equal(job->request.time_limit_min, NO_VAL);
	assert_true(job->request.memory_mb == (2048 | MEM_PER_CPU));
	job = &t.jobs[2];
	assert_int_equal(job->number, 12);
	assert_int_equal(job->task_id, 3);
	assert_int_equal(job->request.time_limit_min, 1440);
	assert_true(job->request.memory_mb == 2000); /* the job's, on two nodes */
	assert_string_equal(job->request.qos, "high");
	assert_string_equal(job->request.partition, "batch");
	assert_false(job->part_is_number);
	assert_string_equal(t.users.v[job->user], "ann");
	assert_true(has_note(&t, "1 rows of steps"));
	assert_true(has_note(&t, "1 jobs did not end by themselves"));
}

/* What sacct prints of jobs that were cancelled while they waited: they were given no node and no
 * CPU, and took no time; the start is None, or in older versions the end. */
static void test_sacct_unallocated(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};

	(void)state;
	must_parse("JobID|User|Partition|QOS|Submit|Start|End|Elapsed|Timelimit|NNodes|AllocNodes|"
		   "NCPUS|AllocCPUS|ReqCPUS|ReqMem|State|ExitCode\n"
		   "31|ann|batch|normal|" DAY "10:00:00|None|" DAY
		   "10:02:11|00:00:00|00:10:00|4|0|0|0|64|16G|CANCELLED by 1001|0:0\n"
		   "32|ann|batch|normal|" DAY "10:00:00|" DAY "10:02:11|" DAY
		   "10:02:11|00:00:00|00:10:00|4|0|0|0|64|16G|CANCELLED by 1001|0:0\n"
		   "33_[1-9]|bob|batch|normal|" DAY
		   "10:00:00|Unknown|Unknown|00:00:00|00:10:00|1|0|0|0|1|1G|PENDING|0:0\n"
		   "34|bob|batch|normal|" DAY "10:00:00|" DAY "10:01:00|" DAY
		   "10:02:00|00:01:00|00:10:00|2|2|0|0|32|1G|COMPLETED|0:0\n"
		   "34.extern||||" DAY "10:01:00|" DAY "10:01:00|" DAY
		   "10:02:00|00:01:00||0|0|0|0|0||COMPLETED|0:0\n"
		   "35|bob|batch|normal|" DAY "10:00:00|" DAY "10:01:00|" DAY
		   "10:01:00|00:00:00|00:10:00|1|1|16|16|16|1G|COMPLETED|0:0\n",
		&t);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.jobs[0].number, 34);
	assert_int_equal(t.jobs[0].request.min_nodes, 2);
	assert_int_equal(t.jobs[0].request.ntasks, 32);
	assert_int_equal(t.jobs[1].number, 35);
	assert_int_equal(t.jobs[1].run_ms, 0);
	assert_true(has_note(&t, "3 jobs that never started"));
	assert_false(has_note(&t, "number of nodes or CPUs"));
}

/* Counts from 1,024 on are in units, as far as they are exact; 0 is unknown. */
static void test_sacct_counts(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};

	(void)state;
	must_parse("JobID|Submit|Elapsed|NNodes|AllocNodes|NCPUS|State\n"
		   "1|" DAY "10:00:00|00:01:00|1.50K|1.50K|96K|COMPLETED\n"
		   "2|" DAY "10:00:01|00:01:00|2K|2K|1.50M|COMPLETED\n"
		   "3|" DAY "10:00:02|00:01:00|1500|1500|24000|COMPLETED\n"
		   "4|" DAY "10:00:03|00:01:00|4|0|0|COMPLETED\n"
		   "5|" DAY "10:00:04|00:01:00|0|0|0|COMPLETED\n",
		&t);
	assert_int_equal(t.count, 5);
	assert_int_equal(t.jobs[0].request.min_nodes, 1536);
	assert_int_equal(t.jobs[0].request.max_nodes, 1536);
	assert_int_equal(t.jobs[0].request.ntasks, 98304);
	assert_int_equal(t.jobs[1].request.min_nodes, 2048);
	assert_int_equal(t.jobs[1].request.ntasks, 1572864);
	assert_int_equal(t.jobs[2].request.min_nodes, 1500);
	assert_int_equal(t.jobs[3].request.min_nodes, 4);
	assert_int_equal(t.jobs[3].request.ntasks, NO_VAL);
	assert_int_equal(t.jobs[4].request.min_nodes, NO_VAL);
	assert_int_equal(t.jobs[4].request.ntasks, 1);
	assert_true(has_note(&t, "1 jobs give no number of nodes or CPUs"));
}

/* Columns in another order, with the '|' at the end that -p has; what is missing is defaulted. */
static void test_sacct_columns(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};

	(void)state;
	must_parse("Elapsedraw|JobName|Submit|JobID|\n"
		   "90|a name|" DAY "10:00:00|5|\n\n"
		   "60|another|" DAY "10:00:00|6+0|\n"
		   "60|another|" DAY "10:00:00|6+0.batch|\n",
		&t);
	assert_int_equal(t.count, 2);
	assert_int_equal(t.jobs[0].run_ms, 90000);
	assert_int_equal(t.jobs[0].request.ntasks, 1);
	assert_int_equal(t.jobs[1].number, 6);
	assert_true(has_note(&t, "2 jobs give no number of nodes or CPUs"));
	assert_true(has_note(&t, "2 jobs have no user"));
	assert_true(has_note(&t, "2 jobs have no time limit"));
	assert_true(has_note(&t, "1 components"));
}

static void test_sacct_never_started(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};

	(void)state;
	must_parse("JobID|Submit|Start|End|Elapsed|State\n"
		   "1|" DAY "10:00:00|Unknown|Unknown|00:00:00|PENDING\n"
		   "2_[3-9%2]|" DAY "10:00:00|Unknown|Unknown|00:00:00|PENDING\n"
		   "3|" DAY "10:00:00|None|" DAY "10:05:00|00:00:00|CANCELLED by 0\n"
		   "4|" DAY "10:00:00|" DAY "10:00:00|" DAY "10:00:00|00:00:00|COMPLETED\n"
		   "5|" DAY "10:00:00|" DAY "10:00:00|Unknown|00:10:00|RUNNING\n"
		   "6|" DAY "10:00:00|" DAY "10:00:00|" DAY "10:01:00||COMPLETED\n",
		&t);
	assert_int_equal(t.count, 3);
	assert_int_equal(t.jobs[0].number, 4);
	assert_int_equal(t.jobs[0].run_ms, 0);
	assert_int_equal(t.jobs[1].run_ms, 600000);
	assert_int_equal(t.jobs[2].run_ms, 60000);
	assert_true(has_note(&t, "3 jobs that never started"));
	assert_true(has_note(&t, "1 jobs had not ended"));
}

static void test_sacct_errors(void **state)
{
	(void)state;
	must_fail("JobID|Elapsed\n1|00:01:00\n", "t:1: the columns JobID, Submit and Elapsed");
	must_fail("JobID|Submit|Start\n", "t:1: the columns");
	must_fail("JobID|Submit|Elapsed\n1|" DAY "10:00:00\n", "t:2: 2 fields, the header has 3");
	must_fail("JobID|Submit|Elapsed|JobName\n1|" DAY "10:00:00|00:01:00|a|b\n",
		"t:2: more fields than the header's 4");
	must_fail("JobID|Submit|Elapsed\nx|" DAY "10:00:00|00:01:00\n", "t:2: JobID is 'x'");
	must_fail("JobID|Submit|Elapsed\n1|20.1.2026|00:01:00\n", "Submit is '20.1.2026'");
	must_fail("JobID|Submit|Elapsed\n1|Unknown|00:01:00\n", "job 1 has no Submit time");
	must_fail("JobID|Submit|Elapsed\n1|" DAY "10:00:00|1\n", "Elapsed is '1'");
	must_fail("JobID|Submit|Elapsed\n1|" DAY "10:00:00|1:2:3:4\n", "Elapsed is");
	must_fail("JobID|Submit|Elapsed|ReqMem\n1|" DAY "10:00:00|00:01:00|much\n",
		"ReqMem is 'much'");
	must_fail("JobID|Submit|Elapsed|Timelimit\n1|" DAY "10:00:00|00:01:00|soon\n", "Timelimit");
	must_fail("JobID|Submit|Elapsed|NNodes\n1|" DAY "10:00:00|00:01:00|few\n",
		"t:2: NNodes is 'few'");
	must_fail(
		"JobID|Submit|Elapsed|NNodes\n1|" DAY "10:00:00|00:01:00|1.5\n", "NNodes is '1.5'");
	must_fail("JobID|Submit|Elapsed|NCPUS\n1|" DAY "10:00:00|00:01:00|-1\n", "NCPUS is '-1'");
	must_fail("JobID|Submit|Elapsed|NCPUS\n1|" DAY "10:00:00|00:01:00|2G\n", "NCPUS is '2G'");
	must_fail(
		"JobID|Submit|Elapsed|ExitCode\n1|" DAY "10:00:00|00:01:00|1\n", "ExitCode is '1'");
}

/* ---- jobd's own --------------------------------------------------------------------------------
 */

static void test_jobd(void **state)
{
	_cleanup_trace_ struct trace t = {.file = NULL};
	const struct trace_job *job;

	(void)state;
	must_parse("# a comment\n\n"
		   "90 1.5 ann -N2-4 -n 8 -t 30 -p high --job-name='a b'\n"
		   "  5m\t2h:3 bob --array=0-3%2 -d afterok:1 --mail-type=END # one more\n"
		   "0 30m ann\n",
		&t);
	assert_int_equal(t.format, TRACE_JOBD);
	assert_int_equal(t.count, 3);
	job = &t.jobs[0];
	assert_int_equal(job->number, 3);
	assert_int_equal(job->submit_ms, BEGIN_MS);
	assert_int_equal(job->run_ms, 1800000);
	assert_int_equal(job->request.ntasks, NO_VAL);
	job = &t.jobs[1];
	assert_int_equal(job->number, 1);
	assert_int_equal(job->line, 3);
	assert_int_equal(job->submit_ms, BEGIN_MS + 90000);
	assert_int_equal(job->run_ms, 1500);
	assert_int_equal(job->request.min_nodes, 2);
	assert_int_equal(job->request.max_nodes, 4);
	assert_string_equal(job->request.name, "a b");
	assert_string_equal(job->request.partition, "high");
	job = &t.jobs[2];
	assert_int_equal(job->exit_status, 0x300);
	assert_int_equal(job->submit_ms, BEGIN_MS + 300000);
	assert_string_equal(job->request.array, "0-3%2");
	assert_int_equal(job->request.dependencies_count, 1);
	assert_int_equal(job->request.dependencies[0].job_id, 1);
	assert_true(has_note(&t, "t:4: --mail-type"));
	assert_int_equal(t.users.n, 2);
}

static void test_jobd_errors(void **state)
{
	(void)state;
	must_fail("0 60\n", "t:1: a job's line must have at least");
	must_fail("soon 60 ann\n", "t:1: its submit time is 'soon'");
	must_fail("#\n0 long ann\n", "t:2: its run time is 'long'");
	must_fail("0 60:256 ann\n", "its run time is '60:256'");
	must_fail("0 60 ann -N none\n", "t:1: --nodes");
	must_fail("0 60 ann --nonsense\n", "t:1: ");
	must_fail("0 60 ann job.sh\n", "'job.sh' is not an option of a job");
	must_fail("0 60 ann -J 'a\n", "t:1: ");
	must_fail("0 60 ann\n0 60 ann -d afterok:2\n", "t:2: --dependency names job 2");
	must_fail("5 60 ann\n0 60 ann -d afterok:1\n", "names job 1, which is submitted later");
	must_fail("", "has no job that ran");
}

static void test_names(void **state)
{
	struct trace_job job = {.number = 12, .task_id = NO_VAL};
	char *name = trace_job_name(&job);

	(void)state;
	assert_string_equal(name, "12");
	free(name);
	job.task_id = 3;
	name = trace_job_name(&job);
	assert_string_equal(name, "12_3");
	free(name);
}

static void test_files(void **state)
{
	struct err err = ERR_INIT;
	struct trace t;

	(void)state;
	assert_int_equal(trace_read("/nonexistent/trace", &t, &err), -ENOENT);
	assert_non_null(strstr(err.text, "read the trace '/nonexistent/trace'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_swf),
		cmocka_unit_test(test_swf_used),
		cmocka_unit_test(test_swf_leaves_out),
		cmocka_unit_test(test_swf_errors),
		cmocka_unit_test(test_sacct),
		cmocka_unit_test(test_sacct_unallocated),
		cmocka_unit_test(test_sacct_counts),
		cmocka_unit_test(test_sacct_columns),
		cmocka_unit_test(test_sacct_never_started),
		cmocka_unit_test(test_sacct_errors),
		cmocka_unit_test(test_jobd),
		cmocka_unit_test(test_jobd_errors),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
