/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine with a virtual clock: jobs from their submission to their end, who goes first, what
 * operators do, and what is found again. Times are seconds since the begin.
 */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/json.h"
#include "tests/lib/jobd_rig.h"

/* Four nodes in a line, that jobs get as a whole. */
#define LINE_OF(age)                                                                               \
	"ClusterName=test\nSelectType=select/linear\nKillWait=10\nMinJobAge=" age "\n"             \
	"NodeName=n[1-4] CPUs=2 RealMemory=4000\n"                                                 \
	"PartitionName=p Nodes=ALL Default=YES\n"

#define LINE LINE_OF("1000000")

/* Nodes of eight cores, whose cores jobs share out. */
#define CORES                                                                                      \
	"ClusterName=test\nSelectType=select/cons_res\nSelectTypeParameters=CR_Core_Memory\n"      \
	"KillWait=10\nNodeName=n[1-4] Sockets=2 CoresPerSocket=4 RealMemory=8000\n"                \
	"PartitionName=p Nodes=ALL Default=YES DefMemPerCPU=100\n"

static const char *state_of(const struct job *job)
{
	return job_state_code(job->record.job_state);
}

#define assert_state(job, code) assert_string_equal(state_of(job), code)
#define assert_nodes(job, list) assert_string_equal((job)->record.nodes, list)
#define assert_reason(rig, job, name)                                                              \
	assert_string_equal(job_reason_name(engine_get_reason((rig)->e, job)), name)
#define assert_time(t, seconds) assert_int_equal((t)-RIG_BEGIN_S, seconds)
#define assert_ok(call)                                                                            \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			fail_msg("%s: %s", #call, err.text);                                       \
	} while (0)

/* ---- from submission to end --------------------------------------------------------------------
 */

static void test_life(void **state)
{
	struct rig rig;
	struct job *job;
	uint32_t id;

	(void)state;
	rig_make(&rig, LINE_OF("60"));
	job = rig_submit(&rig, .nodes = 2, .run_s = 100);
	id = job->record.job_id;
	assert_int_equal(id, 1);
	assert_state(job, "R");
	assert_nodes(job, "n[1-2]");
	assert_time(job->record.start_time, 0);
	rig_run(&rig, 99);
	assert_state(job, "R");
	rig_run(&rig, 100);
	assert_state(job, "CD");
	assert_time(job->record.end_time, 100);
	assert_int_equal(job->exit_status, 0);
	assert_int_equal(engine_get_stats(rig.e)->completed, 1);
	/* it is shown for MinJobAge */
	rig_run(&rig, 159);
	assert_non_null(engine_find_job(rig.e, id));
	rig_run(&rig, 160);
	assert_null(engine_find_job(rig.e, id));
	assert_int_equal(json_object_size(rig.store.jobs), 0);
	rig_clear(&rig);
}

static void test_failed(void **state)
{
	struct rig rig;
	struct job *job;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .run_s = 5, .exit_status = 256);
	rig_run(&rig, 5);
	assert_state(job, "F");
	assert_int_equal(job->exit_status, 256);
	rig_clear(&rig);
}

/* ---- what is refused ---------------------------------------------------------------------------
 */

#define LIMITS                                                                                     \
	"ClusterName=test\nSelectType=select/cons_res\nSelectTypeParameters=CR_Core_Memory\n"      \
	"EnforcePartLimits=ALL\nMaxJobCount=4\n"                                                   \
	"NodeName=n[1-4] Sockets=2 CoresPerSocket=4 RealMemory=8000 Feature=a\n"                   \
	"NodeName=m1 Sockets=1 CoresPerSocket=4 RealMemory=8000 Feature=a,b\n"                     \
	"PartitionName=p Nodes=ALL Default=YES DefMemPerCPU=100 MaxMemPerCPU=1000\n"               \
	"PartitionName=short Nodes=ALL MaxTime=10 MaxNodes=2\n"                                    \
	"PartitionName=root Nodes=ALL RootOnly=YES\n"                                              \
	"PartitionName=staff Nodes=ALL AllowGroups=no-such-group\n"                                \
	"PartitionName=drain Nodes=ALL State=DRAIN\n"

static void test_refusals(void **state)
{
	static const struct {
		struct rig_job job;
		const char *sentence;
	} rows[] = {
		{{.partition = "none"}, "there is no partition none"},
		{{.partition = "root"}, "partition root is for root alone"},
		{{.partition = "staff"}, "members of certain groups"},
		{{.partition = "drain"}, "takes no jobs now"},
		{{.partition = "short", .minutes = 11}, "above the 10 minutes of partition short"},
		{{.partition = "short", .minutes = 5, .nodes = 3}, "MaxNodes"},
		{{.qos = "high"}, "there is no QOS high"},
		{{.reservation = "r"}, "there is no reservation r"},
		{{.nodes = 6}, "Requested node configuration is not available"},
		{{.tasks = 37}, "Requested node configuration is not available"},
		{{.cpus_per_task = 9}, "Requested node configuration is not available"},
		{{.features = "c"}, "Requested node configuration is not available"},
		{{.features = "b", .nodes = 2}, "Requested node configuration is not available"},
		{{.features = "a[1]"}, "--constraint=a[1]"},
		{{.features = "a&"}, "a feature is missing"},
		{{.nodelist = "n9"}, "--nodelist=n9: no such nodes"},
		{{.exclude = "x[1-2]"}, "--exclude=x[1-2]: no such nodes"},
		{{.nodelist = "n1", .exclude = "n[1-2]"}, "name the same node"},
		{{.partition = "short", .memory_mb = 9000},
			"Requested node configuration is not available"},
		{{.memory_mb = MEM_PER_CPU | 1001}, "more than the 1000 MB"},
		{{.nodes = 3, .max_nodes = 2}, "--nodes=3-2"},
		{{.array = "1-"}, "array"},
		{{.array = "0-9"}, "MaxJobCount=4"},
		{{.cpus_per_task = 100000}, "--cpus-per-task"},
	};
	struct rig rig;
	uint32_t id = 77, before;
	size_t i;

	(void)state;
	rig_make(&rig, LIMITS);
	before = rig.store.changes;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rig_job job = rows[i].job;
		struct err err = ERR_INIT;

		job.uid = 1000;
		if (rig_try(&rig, &job, &id, &err) >= 0)
			fail_msg("row %zu is accepted, not '%s'", i, rows[i].sentence);
		if (!strstr(err.text, rows[i].sentence))
			fail_msg("row %zu: '%s', not '%s'", i, err.text, rows[i].sentence);
	}
	assert_int_equal(id, 77);
	assert_int_equal(engine_count_jobs(rig.e), 0);
	assert_int_equal(rig.store.changes, before); /* of nodes */
	assert_int_equal(engine_get_stats(rig.e)->submitted, 0);
	/* the first that is accepted gets the first number all the same */
	assert_int_equal(rig_submit(&rig, .uid = 1000)->record.job_id, 1);
	rig_clear(&rig);
}

#define LIMITED(select, limit)                                                                     \
	"ClusterName=test\nMinJobAge=1000000\nSelectType=select/" select                           \
	"\nNodeName=n[1-4] CPUs=4 RealMemory=8000\nPartitionName=p Nodes=ALL Default=YES " limit   \
	"\n"
#define PER_CPU(mb) (MEM_PER_CPU | (mb))

/* A limit of one kind holds for requests of the other, too: by the CPUs on a node. */
static void test_memory_limits(void **state)
{
	static const struct {
		const char *conf;
		struct rig_job job;
		const char *refused; /* NULL: it is not */
	} rows[] = {
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.memory_mb = PER_CPU(100)}, NULL},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.memory_mb = PER_CPU(101)},
			"memory of 101 MB on each CPU is more than the 100 MB on each CPU"},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.memory_mb = 100}, NULL},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.memory_mb = 101},
			"memory of 101 MB on each node is more than the 100 MB on each CPU of "
			"partition p (the job has 1 CPUs on a node)"},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.tasks = 4, .memory_mb = 400}, NULL},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.tasks = 4, .memory_mb = 401}, "401 MB"},
		{LIMITED("cons_res", "MaxMemPerCPU=100"),
			{.tasks = 4, .nodes = 2, .memory_mb = 201}, "201 MB"},
		{LIMITED("cons_res", "MaxMemPerCPU=100"),
			{.nodes = 2, .ntasks_per_node = 3, .memory_mb = 300}, NULL},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.cpus_per_task = 2, .memory_mb = 200},
			NULL},
		{LIMITED("cons_res", "MaxMemPerCPU=100"), {.exclusive = true, .memory_mb = 400},
			NULL},
		{LIMITED("linear", "MaxMemPerCPU=100"), {.memory_mb = 400}, NULL},
		{LIMITED("linear", "MaxMemPerCPU=100"), {.memory_mb = 401}, "has 4 CPUs on a node"},
		{LIMITED("cons_res", "MaxMemPerNode=400"), {.tasks = 4, .memory_mb = PER_CPU(100)},
			NULL},
		{LIMITED("cons_res", "MaxMemPerNode=400"), {.tasks = 4, .memory_mb = PER_CPU(101)},
			"101 MB on each CPU"},
		{LIMITED("cons_res", "MaxMemPerNode=400"),
			{.tasks = 4, .nodes = 4, .memory_mb = PER_CPU(400)}, NULL},
		{LIMITED("cons_res", "MaxMemPerNode=400"), {.memory_mb = 401}, "401 MB"},
		{LIMITED("linear", "MaxMemPerNode=400"), {.memory_mb = PER_CPU(101)}, "101 MB"},
	};
	struct rig rig, again;
	uint32_t id;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;
		int r;

		rig_make(&rig, rows[i].conf);
		r = rig_try(&rig, &rows[i].job, &id, &err);
		if ((r < 0) != (rows[i].refused != NULL) ||
			(r < 0 && !strstr(err.text, rows[i].refused)))
			fail_msg("row %zu: %s", i, r < 0 ? err.text : "accepted");
		rig_clear(&rig);
	}
	/* who was accepted before remains so */
	rig_make(&rig, LIMITED("cons_res", "MaxMemPerCPU=100"));
	id = rig_submit(&rig, .tasks = 4, .memory_mb = 400)->record.job_id;
	rig_restore(&rig, &again, LIMITED("cons_res", "MaxMemPerNode=300"));
	assert_state(engine_find_job(again.e, id), "R");
	rig_clear(&again);
}

/* With as many jobs as numbers there is no next one. */
static void test_numbers(void **state)
{
	struct rig rig;
	struct err err = ERR_INIT;
	uint32_t id = 0;

	(void)state;
	rig_make(&rig, "FirstJobId=5\nMaxJobId=7\nMinJobAge=10\n" LINE_OF("10"));
	(void)rig_submit(&rig, .run_s = 100);
	assert_int_equal(rig_submit(&rig, .array = "1-2", .run_s = 1)->record.job_id, 6);
	assert_int_equal(rig_try(&rig, &(struct rig_job){.nodes = 1}, &id, &err), -EAGAIN);
	assert_non_null(strstr(err.text, "FirstJobId=5 to MaxJobId=7"));
	rig_run(&rig, 20);
	assert_int_equal(rig_submit(&rig, .run_s = 1)->record.job_id, 6);
	rig_clear(&rig);
}

/* ---- who goes first ----------------------------------------------------------------------------
 */

#define TIERS                                                                                      \
	"ClusterName=test\nSelectType=select/linear\nNodeName=n1 CPUs=1\n"                         \
	"PartitionName=low Nodes=ALL Default=YES PriorityTier=1\n"                                 \
	"PartitionName=high Nodes=ALL PriorityTier=5\n"

/* By tier, then priority, then number. */
static void test_order(void **state)
{
	struct rig rig;
	struct job *jobs[6];
	/* each runs for 10 s: this is the order of their starts */
	static const size_t order[] = {0, 4, 3, 5, 2, 1};
	size_t i;

	(void)state;
	rig_make(&rig, TIERS);
	jobs[0] = rig_submit(&rig, .run_s = 10);
	jobs[1] = rig_submit(&rig, .run_s = 10, .priority = 5);
	jobs[2] = rig_submit(&rig, .run_s = 10, .priority = 70);
	jobs[3] = rig_submit(&rig, .run_s = 10, .partition = "high", .priority = 6);
	jobs[4] = rig_submit(&rig, .run_s = 10, .partition = "high", .priority = 7);
	jobs[5] = rig_submit(&rig, .run_s = 10, .partition = "high", .priority = 6);
	rig_run(&rig, 100);
	for (i = 0; i < 6; i++)
		assert_time(jobs[order[i]]->record.start_time, 10 * i);
	rig_clear(&rig);
}

static void test_reasons(void **state)
{
	struct rig rig;
	struct job *first, *second, *third;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig,
		LINE "PartitionName=short Nodes=n4 MaxTime=10\n"
		     "PartitionName=down Nodes=n4 State=DOWN\n"
		     "PartitionName=few Nodes=ALL MaxNodes=2\n");
	first = rig_submit(&rig, .nodes = 3, .run_s = 100);
	assert_reason(&rig, first, "None");
	second = rig_submit(&rig, .nodes = 4);
	third = rig_submit(&rig, .nodes = 4);
	assert_reason(&rig, second, "Resources");
	assert_reason(&rig, third, "Priority");
	assert_reason(&rig, rig_submit(&rig, .partition = "short", .minutes = 20, .uid = 1000),
		"PartitionTimeLimit");
	assert_reason(&rig, rig_submit(&rig, .partition = "few", .nodes = 3), "PartitionNodeLimit");
	assert_reason(&rig, rig_submit(&rig, .partition = "down"), "PartitionDown");
	assert_reason(&rig, rig_submit(&rig, .begin_s = 50), "BeginTime");
	assert_reason(&rig, rig_submit(&rig, .hold = true), "JobHeldUser");
	assert_reason(&rig,
		rig_submit(&rig, .after = first->record.job_id, .kind = DEPENDS_AFTER_ANY),
		"Dependency");
	assert_ok(engine_update_nodes(rig.e, "n4", NODE_CHANGE_DRAIN, "a test", 0, &err));
	rig_run(&rig, 1);
	assert_reason(&rig, second, "ReqNodeNotAvail");
	rig_clear(&rig);
}

/* What waits for nodes that can't be had holds back nobody. */
static void test_held_back(void **state)
{
	struct rig rig;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	(void)rig_submit(&rig, .nodelist = "n4", .hold = true);
	assert_ok(engine_update_nodes(rig.e, "n4", NODE_CHANGE_DRAIN, "a test", 0, &err));
	assert_state(rig_submit(&rig, .nodelist = "n4"), "PD");
	assert_state(rig_submit(&rig, .nodes = 3), "R");
	rig_clear(&rig);
}

/* ---- limits of time ----------------------------------------------------------------------------
 */

static void test_time_limit(void **state)
{
	struct rig rig;
	struct job *polite, *deaf;

	(void)state;
	rig_make(&rig, LINE);
	polite = rig_submit(&rig, .minutes = 2, .term_s = 3);
	deaf = rig_submit(&rig, .minutes = 2, .term_s = NO_VAL);
	rig_run(&rig, 119);
	assert_state(polite, "R");
	rig_run(&rig, 120);
	assert_state(polite, "CG");
	rig_run(&rig, 123);
	assert_state(polite, "TO");
	assert_state(deaf, "CG");
	/* after KillWait */
	rig_run(&rig, 129);
	assert_state(deaf, "CG");
	rig_run(&rig, 130);
	assert_state(deaf, "TO");
	assert_time(deaf->record.end_time, 120);
	rig_clear(&rig);
}

/* Without a limit a job is never ended, not even after years. */
static void test_no_limit(void **state)
{
	struct rig rig;
	struct job *job;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .run_s = 0);
	assert_true(sim_run_all(rig.sim, SIM_NEVER)); /* nothing is due */
	rig_run(&rig, 5u * 365 * 24 * 3600);
	assert_state(job, "R");
	rig_clear(&rig);
}

/* ---- cancelling --------------------------------------------------------------------------------
 */

static void test_cancel(void **state)
{
	struct rig rig;
	struct job *running, *waiting, *held, *stopped, *dependent, *slow;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	running = rig_submit(&rig, .run_s = 1000, .term_s = 2);
	stopped = rig_submit(&rig, .run_s = 1000, .term_s = 2);
	slow = rig_submit(&rig, .run_s = 1000, .term_s = NO_VAL);
	waiting = rig_submit(&rig, .nodes = 4);
	held = rig_submit(&rig, .hold = true);
	dependent = rig_submit(&rig, .after = running->record.job_id, .kind = DEPENDS_AFTER_OK);
	assert_ok(engine_suspend(rig.e, stopped, &err));
	rig_run(&rig, 10);
	assert_state(stopped, "S");
	assert_ok(engine_cancel(rig.e, running, &err));
	assert_ok(engine_cancel(rig.e, stopped, &err));
	assert_ok(engine_cancel(rig.e, slow, &err));
	assert_ok(engine_cancel(rig.e, waiting, &err));
	assert_ok(engine_cancel(rig.e, held, &err));
	assert_state(running, "CG");
	assert_state(stopped, "CG");
	assert_state(waiting, "CA");
	assert_state(held, "CA");
	rig_run(&rig, 12);
	assert_state(running, "CA");
	assert_state(stopped, "CA");
	assert_reason(&rig, dependent, "DependencyNeverSatisfied");
	assert_ok(engine_cancel(rig.e, slow, &err)); /* once more changes nothing */
	rig_run(&rig, 20);
	assert_state(slow, "CA");
	assert_ok(engine_cancel(rig.e, dependent, &err));
	assert_int_equal(engine_cancel(rig.e, running, &err), -EINVAL);
	assert_string_equal(err.text, "job 1 can't be cancelled: it is CANCELLED");
	rig_run(&rig, 21);
	assert_int_equal(engine_get_stats(rig.e)->cancelled, 6);
	rig_clear(&rig);
}

/* ---- holding -----------------------------------------------------------------------------------
 */

static void test_hold(void **state)
{
	struct rig rig;
	struct job *job, *running;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	running = rig_submit(&rig, .nodes = 4, .run_s = 100);
	job = rig_submit(&rig, .uid = 1000, .run_s = 10);
	assert_int_equal(engine_hold(rig.e, running, true, &err), -EINVAL);
	assert_ok(engine_hold(rig.e, job, false, &err));
	assert_reason(&rig, job, "JobHeldUser");
	assert_ok(engine_release(rig.e, job, false, &err));
	rig_run(&rig, 1);
	assert_reason(&rig, job, "Resources");
	assert_ok(engine_hold(rig.e, job, true, &err));
	assert_reason(&rig, job, "JobHeldAdmin");
	assert_int_equal(engine_release(rig.e, job, false, &err), -EPERM);
	rig_run(&rig, 200);
	assert_state(job, "PD");
	assert_ok(engine_release(rig.e, job, true, &err));
	rig_run(&rig, 200);
	assert_state(job, "R");
	assert_time(job->record.start_time, 200);
	rig_clear(&rig);
}

/* One that was held keeps its turn: its number is what counts. */
static void test_release_keeps_turn(void **state)
{
	struct rig rig;
	struct job *first, *second;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	(void)rig_submit(&rig, .nodes = 4, .run_s = 100);
	first = rig_submit(&rig, .nodes = 4, .run_s = 10, .hold = true);
	second = rig_submit(&rig, .nodes = 4, .run_s = 10);
	assert_ok(engine_release(rig.e, first, true, &err));
	rig_run(&rig, 200);
	assert_time(first->record.start_time, 100);
	assert_time(second->record.start_time, 110);
	rig_clear(&rig);
}

/* ---- requeueing --------------------------------------------------------------------------------
 */

static void test_requeue(void **state)
{
	struct rig rig;
	struct job *job, *never;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .nodes = 2, .run_s = 1000, .term_s = 4);
	never = rig_submit(&rig, .no_requeue = true);
	rig_run(&rig, 50);
	assert_int_equal(engine_requeue(rig.e, never, &err), -EINVAL);
	assert_ok(engine_requeue(rig.e, job, &err));
	assert_state(job, "CG");
	rig_run(&rig, 54);
	assert_state(job, "PD");
	assert_reason(&rig, job, "BeginTime");
	assert_null(job->record.nodes);
	assert_int_equal(job->restarts, 1);
	/* the delay of 121 s counts from the end of its processes */
	rig_run(&rig, 174);
	assert_state(job, "PD");
	rig_run(&rig, 175);
	assert_state(job, "R");
	assert_time(job->record.start_time, 175);
	rig_run(&rig, 1175);
	assert_state(job, "CD");
	/* one that has ended runs again, too */
	assert_ok(engine_requeue(rig.e, job, &err));
	assert_state(job, "PD");
	rig_run(&rig, 1175 + 121);
	assert_state(job, "R");
	assert_int_equal(job->restarts, 2);
	assert_int_equal(engine_get_stats(rig.e)->requeued, 2);
	rig_clear(&rig);
}

/* ---- jobs that wait for others -----------------------------------------------------------------
 */

static void test_dependencies(void **state)
{
	struct rig rig;
	struct job *good, *bad, *late, *after, *any, *ok, *not_ok, *never_ok, *never_not_ok;

	(void)state;
	rig_make(&rig,
		"ClusterName=test\nSelectType=select/linear\nNodeName=n[1-20] CPUs=1\n"
		"PartitionName=p Nodes=ALL Default=YES\n");
	good = rig_submit(&rig, .run_s = 10);
	bad = rig_submit(&rig, .run_s = 20, .exit_status = 256);
	late = rig_submit(&rig, .run_s = 10, .begin_s = 5);
	after = rig_submit(&rig, .after = late->record.job_id, .kind = DEPENDS_AFTER);
	any = rig_submit(&rig, .after = bad->record.job_id, .kind = DEPENDS_AFTER_ANY);
	ok = rig_submit(&rig, .after = good->record.job_id, .kind = DEPENDS_AFTER_OK);
	not_ok = rig_submit(&rig, .after = bad->record.job_id, .kind = DEPENDS_AFTER_NOT_OK);
	never_ok = rig_submit(&rig, .after = bad->record.job_id, .kind = DEPENDS_AFTER_OK);
	never_not_ok = rig_submit(&rig, .after = good->record.job_id, .kind = DEPENDS_AFTER_NOT_OK);
	rig_run(&rig, 30);
	assert_time(after->record.start_time, 5);
	assert_time(ok->record.start_time, 10);
	assert_time(any->record.start_time, 20);
	assert_time(not_ok->record.start_time, 20);
	assert_reason(&rig, never_ok, "DependencyNeverSatisfied");
	assert_reason(&rig, never_not_ok, "DependencyNeverSatisfied");
	rig_clear(&rig);
}

static void test_array_dependencies(void **state)
{
	struct rig rig;
	struct job *array, *failing, *ok, *never;

	(void)state;
	rig_make(&rig, LINE);
	array = rig_submit(&rig, .array = "0-7", .run_s = 10);
	failing = rig_submit(&rig, .array = "1-2", .run_s = 10, .exit_status = 256);
	ok = rig_submit(&rig, .after = array->record.job_id, .kind = DEPENDS_AFTER_OK);
	never = rig_submit(&rig, .after = failing->record.job_id, .kind = DEPENDS_AFTER_OK);
	rig_run(&rig, 15);
	assert_reason(&rig, ok, "Dependency"); /* four of eight have ended */
	rig_run(&rig, 30);
	assert_time(ok->record.start_time, 20);
	assert_reason(&rig, never, "DependencyNeverSatisfied");
	rig_clear(&rig);
}

static void test_task_dependencies(void **state)
{
	struct job *array, *after, *never;
	struct rig rig, again;
	uint32_t id;

	(void)state;
	rig_make(&rig, LINE);
	array = rig_submit(&rig, .array = "0-7", .run_s = 10, .exit_status = 256);
	after = rig_submit(&rig, .after = array->record.job_id, .of_task = true, .task = 1,
		.kind = DEPENDS_AFTER_ANY);
	never = rig_submit(&rig, .after = array->record.job_id, .of_task = true, .task = 7,
		.kind = DEPENDS_AFTER_OK);
	id = never->record.job_id;
	rig_run(&rig, 11);
	assert_reason(&rig, after, "Resources"); /* tasks 4 to 7 came first */
	assert_reason(&rig, never, "Dependency");
	rig_restore(&rig, &again, LINE);
	rig_run(&again, 21);
	assert_reason(&again, engine_find_job(again.e, id), "DependencyNeverSatisfied");
	rig_clear(&again);
}

static void test_delayed(void **state)
{
	struct job *first, *second, *other, *third;
	struct rig rig, again;
	struct err err = ERR_INIT;
	uint32_t id;

	(void)state;
	rig_make(&rig, LINE);
	first = rig_submit(&rig, .run_s = 30);
	other = rig_submit(&rig, .hold = true);
	second = rig_submit(&rig, .after = first->record.job_id, .delay_min = 2, .run_s = 10);
	third = rig_submit(&rig, .after = other->record.job_id, .delay_min = 1);
	rig_run(&rig, 119);
	assert_reason(&rig, second, "Dependency");
	rig_run(&rig, 120);
	assert_state(second, "R");
	assert_time(second->record.start_time, 120);
	/* what was cancelled counts as started */
	assert_ok(engine_cancel(rig.e, other, &err));
	id = third->record.job_id;
	rig_run(&rig, 150);
	rig_restore(&rig, &again, LINE);
	rig_run(&again, 179);
	assert_state(engine_find_job(again.e, id), "PD");
	rig_run(&again, 181);
	assert_state(engine_find_job(again.e, id), "R");
	assert_time(engine_find_job(again.e, id)->record.start_time, 180);
	rig_clear(&again);
}

static int update(struct rig *rig, struct job *job, bool by_admin, struct err *err,
	const char *member, json_t *value);

#define SCRIPT_SIZE (1u << 20)
#define MANY        10000u

static size_t memory_used(void)
{
	const struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void submit_large(struct rig *rig, const char *tasks)
{
	_cleanup_request_ struct job_request q;
	char *env[] = {(char[]){"A=1"}, NULL};
	struct err err = ERR_INIT;
	uint32_t id;

	request_init(&q);
	q.array = strdup(tasks);
	q.script = malloc(SCRIPT_SIZE);
	assert_true(q.array && q.script);
	memset(q.script, '#', SCRIPT_SIZE - 1);
	q.script[SCRIPT_SIZE - 1] = '\0';
	q.env = env;
	assert_ok(engine_submit(rig->e, &q, 1000, 1000, &id, &err));
	assert_int_equal(id, 1);
	q.env = NULL;
}

/* All tasks have one script in memory, also when one was changed, or all were found again. */
static void test_array_memory(void **state)
{
	static const char conf[] =
		"ClusterName=test\nSelectType=select/linear\nNodeName=n1 CPUs=1\n"
		"PartitionName=p Nodes=ALL Default=YES\nMaxJobCount=20000\nMaxArraySize=20000\n";
	size_t before;
	struct rig rig, again;
	struct err err = ERR_INIT;
	struct job *first, *job;

	(void)state;
	rig_make(&rig, conf);
	rig.store.no_payload = true;
	before = memory_used();
	submit_large(&rig, "0-9999");
	assert_int_equal(engine_count_jobs(rig.e), MANY);
	/* the store's documents are 50 MB of it */
	assert_true(memory_used() < before + 100 * SCRIPT_SIZE);
	job = engine_find_job(rig.e, MANY);
	assert_ok(update(&rig, job, true, &err, "comment", json_string("other")));
	assert_string_equal(job->request.comment, "other");
	assert_ptr_equal(job->request.script, engine_find_job(rig.e, 1)->request.script);
	rig_clear(&rig);

	rig_make(&rig, conf);
	submit_large(&rig, "0-19");
	rig_restore(&rig, &again, conf);
	first = engine_find_job(again.e, 1);
	job = engine_find_job(again.e, 20);
	assert_int_equal(strlen(job->request.script), SCRIPT_SIZE - 1);
	assert_ptr_equal(job->request.script, first->request.script);
	assert_ptr_equal(job->request.env, first->request.env);
	assert_ptr_equal(job->request.array, first->request.array);
	rig_clear(&again);
}

/* An array is what is left of it: its first task may be forgotten before the last has ended. */
static void test_array_outlives_first(void **state)
{
	struct rig rig, again;
	struct job *array, *after;
	uint32_t id;

	(void)state;
	rig_make(&rig, LINE_OF("60"));
	array = rig_submit(&rig, .array = "0-3%1", .run_s = 100);
	id = array->record.job_id;
	after = rig_submit(&rig, .after = id, .kind = DEPENDS_AFTER_OK);
	rig_run(&rig, 170);
	assert_null(engine_find_job(rig.e, id));
	assert_non_null(engine_find_array_task(rig.e, id, 1));
	assert_reason(&rig, after, "Dependency");
	id = after->record.job_id;
	rig_restore(&rig, &again, LINE_OF("60"));
	rig_run(&again, 330); /* one at a time still */
	assert_int_equal(engine_find_job(again.e, 4)->record.start_time - RIG_BEGIN_S, 300);
	after = engine_find_job(again.e, id);
	assert_reason(&again, after, "Dependency");
	rig_run(&again, 400);
	assert_state(after, "R");
	assert_time(after->record.start_time, 400);
	rig_clear(&again);
}

static void test_singleton(void **state)
{
	struct rig rig;
	struct job *first, *second, *other_user, *other_name;

	(void)state;
	rig_make(&rig, LINE);
	first = rig_submit(&rig, .name = "one", .uid = 1000, .run_s = 10);
	second = rig_submit(&rig, .name = "one", .uid = 1000, .singleton = true);
	other_user = rig_submit(&rig, .name = "one", .uid = 1001, .singleton = true);
	other_name = rig_submit(&rig, .name = "two", .uid = 1000, .singleton = true);
	assert_state(first, "R");
	assert_reason(&rig, second, "Dependency");
	assert_state(other_user, "R");
	assert_state(other_name, "R");
	rig_run(&rig, 10);
	assert_state(second, "R");
	rig_clear(&rig);
}

/* Those that have another name by now, have ended, or are queued again. */
static void test_singleton_changes(void **state)
{
	struct rig rig, again;
	struct job *jobs[4];
	struct err err = ERR_INIT;
	size_t i;

	(void)state;
	rig_make(&rig, LINE);
	for (i = 0; i < 4; i++)
		jobs[i] = rig_submit(&rig, .name = "one", .singleton = true, .run_s = 100);
	assert_state(jobs[0], "R");
	assert_reason(&rig, jobs[1], "Dependency");
	/* others come into its place, or it into theirs */
	assert_ok(update(&rig, jobs[1], false, &err, "name", json_string("two")));
	rig_run(&rig, 1);
	assert_state(jobs[1], "R");
	assert_reason(&rig, jobs[2], "Dependency");
	assert_ok(update(&rig, jobs[2], false, &err, "name", json_string("two")));
	assert_ok(update(&rig, jobs[0], false, &err, "name", json_string("three")));
	rig_run(&rig, 2);
	assert_reason(&rig, jobs[2], "Dependency");
	assert_state(jobs[3], "R");
	assert_ok(engine_cancel(rig.e, jobs[1], &err));
	rig_run(&rig, 3);
	assert_state(jobs[2], "R");
	/* one that is queued again comes before those behind it */
	assert_ok(engine_requeue(rig.e, jobs[1], &err));
	jobs[0] = rig_submit(&rig, .name = "two", .singleton = true);
	rig_restore(&rig, &again, LINE);
	assert_ok(engine_cancel(again.e, engine_find_job(again.e, 3), &err));
	rig_run(&again, 4);
	assert_reason(&again, engine_find_job(again.e, 5), "Dependency");
	assert_ok(engine_cancel(again.e, engine_find_job(again.e, 2), &err));
	rig_run(&again, 5);
	assert_state(engine_find_job(again.e, 5), "R");
	rig_clear(&again);
}

static size_t count_state(const struct rig *rig, uint32_t wanted)
{
	size_t i, n = 0;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		const struct job *job = engine_get_job(rig->e, i);

		n += job && job->record.job_state == wanted;
	}
	return n;
}

static void test_array_limit(void **state)
{
	struct rig rig;
	struct job *first;
	uint32_t second, i;

	(void)state;
	rig_make(&rig, LINE);
	first = rig_submit(&rig, .array = "0-8%2", .run_s = 10);
	second = first->record.job_id + 2;
	assert_int_equal(first->record.array_job_id, first->record.job_id);
	assert_ptr_equal(engine_find_array_task(rig.e, first->record.job_id, 2),
		engine_find_job(rig.e, second));
	assert_reason(&rig, engine_find_job(rig.e, second), "JobArrayTaskLimit");
	for (i = 0; i < 9; i += 2) {
		rig_run(&rig, 5 * i + 1);
		assert_int_equal(count_state(&rig, JOB_RUNNING), i < 8 ? 2 : 1);
	}
	rig_run(&rig, 50);
	assert_int_equal(count_state(&rig, JOB_COMPLETE), 9);
	rig_clear(&rig);
}

static void test_begin(void **state)
{
	struct rig rig;
	struct job *job;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .begin_s = 500);
	rig_run(&rig, 499);
	assert_reason(&rig, job, "BeginTime");
	rig_run(&rig, 500);
	assert_state(job, "R");
	rig_clear(&rig);
}

/* ---- suspension --------------------------------------------------------------------------------
 */

static void test_suspend(void **state)
{
	struct rig rig;
	struct job *job;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .run_s = 100, .minutes = 2);
	rig_run(&rig, 30);
	assert_ok(engine_suspend(rig.e, job, &err));
	rig_run(&rig, 30);
	assert_state(job, "S");
	assert_int_equal(engine_suspend(rig.e, job, &err), -EINVAL);
	rig_run(&rig, 530); /* beyond its limit: that stands still, too */
	assert_state(job, "S");
	assert_ok(engine_resume(rig.e, job, &err));
	rig_run(&rig, 530);
	assert_state(job, "R");
	assert_int_equal(job->record.tot_sus_time, 500);
	assert_time(job->record.end_time, 120 + 500);
	assert_int_equal(engine_resume(rig.e, job, &err), -EINVAL);
	/* twice adds up */
	rig_run(&rig, 540);
	assert_ok(engine_suspend(rig.e, job, &err));
	rig_run(&rig, 550);
	assert_ok(engine_resume(rig.e, job, &err));
	rig_run(&rig, 550);
	assert_int_equal(job->record.tot_sus_time, 510);
	rig_run(&rig, 609);
	assert_state(job, "R");
	rig_run(&rig, 610);
	assert_state(job, "CD");
	rig_clear(&rig);
}

static void test_suspend_fails(void **state)
{
	struct rig rig;
	struct job *job, *stuck;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .run_s = 100, .fault = "suspend");
	stuck = rig_submit(&rig, .run_s = 100, .fault = "resume");
	rig_run(&rig, 10);
	assert_ok(engine_suspend(rig.e, job, &err));
	assert_ok(engine_suspend(rig.e, stuck, &err));
	rig_run(&rig, 20);
	assert_state(job, "R");
	assert_state(stuck, "S");
	assert_ok(engine_resume(rig.e, stuck, &err));
	rig_run(&rig, 30);
	assert_state(stuck, "S");
	/* and may be tried again */
	assert_ok(engine_resume(rig.e, stuck, &err));
	rig_run(&rig, 100);
	assert_state(job, "CD");
	assert_state(stuck, "S");
	rig_clear(&rig);
}

/* ---- nodes -------------------------------------------------------------------------------------
 */

static const char *node_state(int i)
{
	return node_state_name(node_record_table_ptr[i].node_state);
}

static void test_node_down(void **state)
{
	struct rig rig;
	struct job *again, *never;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	again = rig_submit(&rig, .nodes = 2, .run_s = 100);
	never = rig_submit(&rig, .nodelist = "n3", .no_requeue = true);
	rig_run(&rig, 10);
	assert_int_equal(
		engine_update_nodes(rig.e, "n1", NODE_CHANGE_DOWN, NULL, 0, &err), -EINVAL);
	assert_int_equal(engine_update_nodes(rig.e, "n9", NODE_CHANGE_DOWN, "x", 0, &err), -EINVAL);
	assert_ok(engine_update_nodes(rig.e, "n[2-3]", NODE_CHANGE_DOWN, "smoke", 0, &err));
	rig_run(&rig, 10);
	assert_state(again, "PD");
	assert_state(never, "NF");
	assert_string_equal(node_state(0), "idle");
	assert_string_equal(node_state(1), "down");
	assert_string_equal(engine_get_node_reason(rig.e, &node_record_table_ptr[1]), "smoke");
	rig_run(&rig, 131);
	assert_state(again, "R");
	assert_nodes(again, "n[1,4]");
	assert_ok(engine_update_nodes(rig.e, "n[2-3]", NODE_CHANGE_RESUME, NULL, 0, &err));
	assert_string_equal(node_state(1), "idle");
	assert_null(engine_get_node_reason(rig.e, &node_record_table_ptr[1]));
	assert_nodes(rig_submit(&rig, .nodes = 2), "n[2-3]");
	rig_clear(&rig);
}

static void test_drain(void **state)
{
	struct rig rig;
	struct job *job, *waiting;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .nodelist = "n2", .run_s = 100);
	assert_ok(engine_update_nodes(rig.e, "n2", NODE_CHANGE_DRAIN, "fan", 0, &err));
	assert_state(job, "R");
	assert_string_equal(node_state(1), "draining");
	waiting = rig_submit(&rig, .nodelist = "n2", .run_s = 10);
	rig_run(&rig, 150);
	assert_state(job, "CD");
	assert_string_equal(node_state(1), "drained");
	assert_reason(&rig, waiting, "ReqNodeNotAvail");
	assert_ok(engine_update_nodes(rig.e, "n2", NODE_CHANGE_RESUME, NULL, 0, &err));
	rig_run(&rig, 150);
	assert_state(waiting, "R");
	rig_clear(&rig);
}

/* The node is drained, and the job queued again: once, elsewhere. */
static void test_node_failed(void **state)
{
	struct rig rig, again;
	struct job *job;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .nodes = 2, .run_s = 100, .fault = "node=1");
	rig_run(&rig, 0);
	assert_state(job, "PD");
	assert_string_equal(node_state(1), "drained");
	assert_string_equal(node_state(0), "idle");
	rig_run(&rig, 121);
	assert_state(job, "R");
	assert_nodes(job, "n[1,3]");
	assert_int_equal(job->restarts, 1);
	rig_run(&rig, 221);
	assert_state(job, "CD");
	/* "start": wherever it is; the second time it is held */
	job = rig_submit(&rig, .fault = "start");
	rig_run(&rig, 221 + 121);
	assert_state(job, "PD");
	assert_reason(&rig, job, "launch failed requeued held");
	assert_int_equal(job->record.priority, 0);
	assert_string_equal(node_state(0), "drained");
	assert_string_equal(node_state(2), "drained");
	assert_string_equal(node_state(3), "idle");
	rig_run(&rig, 1000);
	assert_state(job, "PD");
	/* also if it was found again; then it may go to any node */
	rig_restore(&rig, &again, LINE);
	job = engine_find_job(again.e, 2);
	assert_reason(&again, job, "launch failed requeued held");
	assert_ok(engine_update_nodes(again.e, "n[1-3]", NODE_CHANGE_RESUME, NULL, 0, &err));
	assert_ok(engine_release(again.e, job, false, &err));
	rig_run(&again, 1000);
	assert_int_equal(job->restarts, 3);
	assert_string_equal(node_state(0), "drained");
	/* and one that may not be queued again fails */
	job = rig_submit(&again, .fault = "start", .no_requeue = true);
	rig_run(&again, 1001);
	assert_state(job, "NF");
	rig_clear(&again);
}

/* What was given before the restart is not there any more. */
static void test_other_memory(void **state)
{
	static const char less[] = "ClusterName=test\nSelectType=select/cons_res\n"
				   "SelectTypeParameters=CR_Core_Memory\nKillWait=10\n"
				   "NodeName=n[1-2,4] Sockets=2 CoresPerSocket=4 RealMemory=8000\n"
				   "NodeName=n3 Sockets=2 CoresPerSocket=4 RealMemory=3000\n"
				   "PartitionName=p Nodes=ALL Default=YES DefMemPerCPU=100\n";
	struct job *large, *small, *stubborn;
	struct rig rig, again;

	(void)state;
	rig_make(&rig, CORES);
	large = rig_submit(&rig, .nodelist = "n3", .memory_mb = 3500, .run_s = 1000);
	small = rig_submit(&rig, .nodelist = "n3", .memory_mb = 3000, .run_s = 1000);
	stubborn = rig_submit(
		&rig, .nodelist = "n[2-3]", .memory_mb = 1200, .run_s = 1000, .no_requeue = true);
	rig_run(&rig, 1);
	assert_state(large, "R");
	assert_state(small, "R");
	assert_state(stubborn, "R");
	/* nodes of one configuration are compared by their names */
	rig_restore(&rig, &again, less);
	large = engine_find_job(again.e, 1);
	small = engine_find_job(again.e, 2);
	stubborn = engine_find_job(again.e, 3);
	rig_run(&again, 2);
	assert_state(large, "PD");
	assert_reason(&again, large, "BeginTime");
	assert_state(small, "R");
	assert_state(stubborn, "R");
	assert_string_equal(node_state(3), "mixed");
	/* it is as it was at the last start */
	rig_restore(&again, &rig, less);
	rig_run(&rig, 3);
	assert_state(engine_find_job(rig.e, 2), "R");
	rig_clear(&rig);
}

/* ---- reservations ------------------------------------------------------------------------------
 */

static void test_reservation(void **state)
{
	static const uid_t users[] = {1000};
	struct reservation_request q = {.name = "r",
		.nodelist = "n[1-2]",
		.duration_min = 10,
		.users = users,
		.users_count = 1};
	struct job *crossing, *before, *owner;
	struct err err = ERR_INIT;
	struct rig rig;
	const char *name;
	uint32_t id;

	(void)state;
	rig_make(&rig, LINE);
	q.start_time = RIG_BEGIN_S + 600;
	assert_ok(engine_reserve(rig.e, &q, &name, &err));
	assert_string_equal(name, "r");
	assert_int_equal(engine_reserve(rig.e, &q, &name, &err), -EEXIST);
	before = rig_submit(&rig, .nodes = 4, .minutes = 9, .run_s = 60);
	assert_state(before, "R");
	rig_run(&rig, 60);
	crossing = rig_submit(&rig, .nodes = 3, .minutes = 10, .run_s = 60);
	assert_reason(&rig, crossing, "ReqNodeNotAvail, May be reserved for other job");
	owner = rig_submit(
		&rig, .uid = 1000, .reservation = "r", .nodes = 2, .run_s = 60, .minutes = 5);
	assert_state(owner, "PD");
	assert_int_equal(
		rig_try(&rig, &(struct rig_job){.reservation = "r", .uid = 1001}, &id, &err),
		-EACCES);
	rig_run(&rig, 600);
	assert_state(owner, "R");
	assert_nodes(owner, "n[1-2]");
	assert_true(node_record_table_ptr[0].node_state & NODE_STATE_RES);
	assert_false(node_record_table_ptr[2].node_state & NODE_STATE_RES);
	/* before the one that waits for three nodes until it is over */
	before = rig_submit(&rig, .nodes = 2, .minutes = 1, .run_s = 30);
	rig_run(&rig, 640);
	assert_state(before, "R");
	assert_nodes(before, "n[3-4]");
	rig_run(&rig, 1199);
	assert_state(crossing, "PD");
	rig_run(&rig, 1200); /* it is over */
	assert_state(crossing, "R");
	assert_false(node_record_table_ptr[0].node_state & NODE_STATE_RES);
	assert_int_equal(engine_delete_reservation(rig.e, "r", &err), -ENOENT);
	rig_clear(&rig);
}

static void test_reservation_refused(void **state)
{
	static const uid_t users[] = {1000};
	struct reservation_request q = {.name = "r",
		.nodelist = "n[1-2]",
		.duration_min = 10,
		.users = users,
		.users_count = 1};
	struct reservation_request bad;
	struct err err = ERR_INIT;
	struct rig rig;
	const char *name;

	(void)state;
	rig_make(&rig, LINE);
	(void)rig_submit(&rig, .nodelist = "n2", .minutes = 60, .run_s = 3000);
	assert_int_equal(engine_reserve(rig.e, &q, &name, &err), -EBUSY);
	bad = q;
	bad.duration_min = 0;
	assert_int_equal(engine_reserve(rig.e, &bad, &name, &err), -EINVAL);
	bad = q;
	bad.nodelist = "x";
	assert_int_equal(engine_reserve(rig.e, &bad, &name, &err), -EINVAL);
	bad = q;
	bad.nodelist = NULL;
	assert_int_equal(engine_reserve(rig.e, &bad, &name, &err), -EINVAL);
	bad.node_count = 4;
	assert_int_equal(engine_reserve(rig.e, &bad, &name, &err), -EBUSY);
	q.ignore_jobs = true;
	assert_ok(engine_reserve(rig.e, &q, &name, &err));
	/* by number, on what is left; its name is made */
	bad.name = NULL;
	bad.node_count = 2;
	assert_ok(engine_reserve(rig.e, &bad, &name, &err));
	assert_int_equal(json_object_size(rig.store.reservations), 2);
	assert_ok(engine_delete_reservation(rig.e, "r", &err));
	assert_int_equal(json_object_size(rig.store.reservations), 1);
	rig_clear(&rig);
}

/* ---- backfill ----------------------------------------------------------------------------------
 */

static void test_backfill(void **state)
{
	struct rig rig;
	struct job *large, *fits, *too_long;

	(void)state;
	rig_make(&rig, LINE "SchedulerParameters=bf_interval=1,bf_resolution=1\n");
	(void)rig_submit(&rig, .nodes = 3, .minutes = 10, .run_s = 600);
	large = rig_submit(&rig, .nodes = 4, .minutes = 5, .run_s = 300);
	too_long = rig_submit(&rig, .nodes = 1, .minutes = 11, .run_s = 60);
	fits = rig_submit(&rig, .nodes = 1, .minutes = 9, .run_s = 540);
	rig_run(&rig, 2);
	assert_state(fits, "R");
	assert_nodes(fits, "n4");
	assert_state(too_long, "PD");
	assert_time(large->planned_start, 600);
	assert_time(too_long->planned_start, 900);
	rig_run(&rig, 901);
	assert_time(large->record.start_time, 600);
	assert_time(too_long->record.start_time, 900);
	assert_int_equal(engine_get_stats(rig.e)->backfilled, 1);
	rig_clear(&rig);
}

/* ---- when a job would start --------------------------------------------------------------------
 */

#define DOWN                                                                                       \
	"PartitionName=down Nodes=ALL State=DOWN\n"                                                \
	"PartitionName=short Nodes=ALL MaxTime=10\nPartitionName=high Nodes=ALL PriorityTier=5\n"

static void assert_will_run(
	struct rig *rig, struct rig_job job, int start_s, const char *nodes, uint32_t cpus)
{
	struct engine_start start = {0};
	struct err err = ERR_INIT;

	assert_ok(rig_test(rig, &job, &start, &err));
	assert_time(start.start_time, start_s);
	assert_string_equal(start.nodes, nodes);
	assert_int_equal(start.cpus, cpus);
	assert_string_equal(start.partition, job.partition ? job.partition : "p");
	free(start.nodes);
}

#define assert_start(rig, start_s, nodes, cpus, ...)                                               \
	assert_will_run(rig, (struct rig_job){__VA_ARGS__}, start_s, nodes, cpus)

static void assert_no_start(struct rig *rig, struct rig_job job, int code, const char *sentence)
{
	struct engine_start start = {0};
	struct err err = ERR_INIT;

	assert_int_equal(rig_test(rig, &job, &start, &err), code);
	assert_non_null(strstr(err.text, sentence));
	assert_null(start.nodes);
}

static void test_will_run(void **state)
{
	struct rig rig;
	struct err err = ERR_INIT;
	uint32_t changes;

	(void)state;
	rig_make(&rig, LINE DOWN "SchedulerParameters=bf_interval=1,bf_resolution=1\n");
	(void)rig_submit(&rig, .nodes = 3, .minutes = 10, .run_s = 600); /* until 600 */
	(void)rig_submit(&rig, .nodes = 4, .minutes = 5, .run_s = 300);  /* from 600 to 900 */
	rig_run(&rig, 2);
	changes = rig.store.changes;
	assert_start(&rig, 2, "n4", 2, .minutes = 9);
	assert_start(&rig, 900, "n4", 2, .minutes = 11);
	assert_start(&rig, 900, "n[1-2]", 4, .nodes = 2, .minutes = 1);
	assert_start(&rig, 900, "n4", 2, .minutes = 11, .array = "4-7");
	assert_start(&rig, 2, "n4", 2, .minutes = 9, .hold = true);
	/* it comes before the one that is pending */
	assert_start(&rig, 2, "n4", 2, .minutes = 11, .partition = "high");
	assert_start(&rig, 600, "n[1-4]", 8, .nodes = 4, .minutes = 11, .partition = "high");
	/* not before its begin time, which is later than all of the window of backfill */
	assert_start(&rig, 200000, "n[1-4]", 8, .nodes = 4, .minutes = 1, .begin_s = 199998);
	assert_no_start(&rig, (struct rig_job){.nodes = 5}, -EINVAL, "is not available");
	assert_no_start(&rig, (struct rig_job){.partition = "none"}, -EINVAL, "no partition none");
	assert_no_start(&rig, (struct rig_job){.partition = "down"}, -EBUSY, "down is down");
	assert_no_start(&rig, (struct rig_job){.partition = "short", .minutes = 11}, -EINVAL,
		"above the 10 minutes");
	assert_no_start(&rig, (struct rig_job){.array = "x"}, -EINVAL, "x");
	assert_int_equal(rig.store.changes, changes);
	assert_int_equal(rig.starts, 1);
	assert_int_equal(engine_count_jobs(rig.e), 2);
	assert_ok(engine_update_nodes(rig.e, "n1", NODE_CHANGE_DRAIN, "disk", 0, &err));
	assert_no_start(&rig, (struct rig_job){.nodes = 4}, -EBUSY, "down, drained or reserved");
	assert_int_equal(rig_submit(&rig, .nodes = 1)->record.job_id, 3);
	rig_clear(&rig);
}

/* Cores that jobs share out, and nodes beside them that are empty. */
static void test_will_run_cores(void **state)
{
	struct rig rig;

	(void)state;
	rig_make(&rig, CORES);
	(void)rig_submit(&rig, .tasks = 32, .minutes = 10, .run_s = 600);
	assert_start(&rig, 600, "n1", 3, .tasks = 3);
	assert_start(&rig, 600, "n1", 8, .tasks = 3, .exclusive = true);
	rig_clear(&rig);
	rig_make(&rig, CORES);
	(void)rig_submit(&rig, .tasks = 28, .minutes = 10, .run_s = 600);
	assert_start(&rig, 0, "n4", 4, .tasks = 4);
	assert_start(&rig, 600, "n4", 5, .nodes = 1, .tasks = 5);
	rig_clear(&rig);
}

/* ---- updates -----------------------------------------------------------------------------------
 */

static int update(struct rig *rig, struct job *job, bool by_admin, struct err *err,
	const char *member, json_t *value)
{
	json_t *changes = json_pack("{s:o}", member, value);
	int r;

	assert_non_null(changes);
	r = engine_update_job(rig->e, job, changes, by_admin, err);
	json_decref(changes);
	return r;
}

static void test_update_pending(void **state)
{
	struct rig rig;
	struct job *job, *first;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE "PartitionName=other Nodes=n[1-2]\n");
	(void)rig_submit(&rig, .nodes = 4, .run_s = 100);
	job = rig_submit(&rig, .nodes = 4, .minutes = 10, .uid = 1000);
	first = rig_submit(&rig, .nodes = 4, .minutes = 10, .uid = 1000);
	/* all or nothing: the partition has two nodes */
	assert_true(update(&rig, job, true, &err, "partition", json_string("other")) < 0);
	assert_string_equal(job->record.partition, "p");
	assert_true(update(&rig, job, true, &err, "no_such_member", json_integer(1)) < 0);
	assert_int_equal(
		update(&rig, job, false, &err, "time_limit_min", json_integer(20)), -EPERM);
	assert_ok(update(&rig, job, false, &err, "time_limit_min", json_integer(5)));
	assert_int_equal(job->record.time_limit, 5);
	assert_int_equal(
		update(&rig, first, false, &err, "priority", json_integer(UINT32_MAX - 3)), -EPERM);
	assert_ok(update(&rig, first, true, &err, "priority", json_integer(UINT32_MAX - 3)));
	rig_run(&rig, 100);
	assert_state(first, "R");
	assert_state(job, "PD");
	rig_clear(&rig);
}

static void test_update_running(void **state)
{
	struct rig rig;
	struct job *job;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .nodes = 3, .minutes = 10);
	assert_true(update(&rig, job, true, &err, "partition", json_string("p")) < 0);
	assert_ok(update(&rig, job, true, &err, "time_limit_min", json_integer(20)));
	assert_true(update(&rig, job, true, &err, "nodelist", json_string("n4")) < 0);
	assert_ok(update(&rig, job, true, &err, "nodelist", json_string("n[1,3]")));
	assert_nodes(job, "n[1,3]");
	assert_string_equal(node_state(1), "idle");
	assert_nodes(rig_submit(&rig, .nodes = 2), "n[2,4]");
	rig_run(&rig, 1199);
	assert_state(job, "R");
	rig_run(&rig, 1200);
	assert_state(job, "TO");
	/* where it is queued again it needs what it needed before */
	job = rig_submit(&rig, .nodes = 2, .nodelist = "n1", .script = "#!/bin/sh\n");
	assert_nodes(job, "n[1,3]");
	assert_true(update(&rig, job, true, &err, "nodelist", json_string("n3")) < 0);
	assert_non_null(strstr(err.text, "script is on node n1"));
	assert_ok(update(&rig, job, true, &err, "nodelist", json_string("n1")));
	assert_nodes(job, "n1");
	assert_string_equal(job->request.nodelist, "n1");
	job = rig_submit(&rig, .nodes = 1, .script = "#!/bin/sh\n");
	assert_ok(update(&rig, job, true, &err, "comment", json_string("c")));
	assert_null(job->request.nodelist);
	rig_clear(&rig);
}

static void test_expand(void **state)
{
	struct rig rig;
	struct job *from, *to, *other;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	to = rig_submit(&rig, .nodes = 1);
	other = rig_submit(&rig, .nodes = 1, .uid = 1000);
	from = rig_submit(&rig, .nodes = 2);
	assert_int_equal(engine_expand(rig.e, other, to, &err), -EINVAL);
	assert_int_equal(engine_expand(rig.e, to, to, &err), -EINVAL);
	assert_ok(engine_expand(rig.e, from, to, &err));
	rig_run(&rig, 1);
	assert_state(from, "CA");
	assert_nodes(to, "n[1,3-4]");
	assert_state(rig_submit(&rig, .nodes = 1), "PD");
	assert_ok(engine_cancel(rig.e, to, &err));
	rig_run(&rig, 2);
	assert_string_equal(node_state(0), "allocated"); /* by the one that waited */
	assert_string_equal(node_state(2), "idle");
	assert_string_equal(node_state(3), "idle");
	rig_clear(&rig);
}

/* Its script stays where it is, also for the next jobd. */
static void test_batch_host(void **state)
{
	struct rig rig, again;
	struct job *from, *to;
	struct err err = ERR_INIT;
	json_auto_t *json = NULL;

	(void)state;
	rig_make(&rig, LINE);
	from = rig_submit(&rig, .nodes = 2, .script = "#!/bin/sh\n");
	to = rig_submit(&rig, .nodes = 1, .script = "#!/bin/sh\n");
	assert_int_equal(to->batch_node, 2);
	assert_ok(engine_expand(rig.e, from, to, &err));
	rig_run(&rig, 1);
	assert_nodes(to, "n[1-3]");
	assert_int_equal(to->batch_node, 2);
	rig_restore(&rig, &again, LINE);
	to = engine_find_job(again.e, 2);
	assert_int_equal(to->batch_node, 2);
	json = job_to_json(again.e, to);
	assert_string_equal(json_get_text(json, "batch_host", ""), "n3");
	rig_clear(&again);
}

/* ---- the configuration -------------------------------------------------------------------------
 */

static void test_reconfigure(void **state)
{
	struct rig rig;
	struct job *low, *high, *running;
	struct err err = ERR_INIT;
	struct conf *conf;
	char *restart = NULL;

	(void)state;
	rig_make(&rig, TIERS);
	running = rig_submit(&rig, .run_s = 100);
	low = rig_submit(&rig, .run_s = 10);
	high = rig_submit(&rig, .run_s = 10, .partition = "high");
	conf = rig_conf("ClusterName=test\nSelectType=select/linear\nNodeName=n1 CPUs=1\n"
			"PartitionName=low Nodes=ALL Default=YES PriorityTier=9\n"
			"PartitionName=high Nodes=ALL PriorityTier=5\n");
	assert_ok(engine_reconfigure(rig.e, conf, &restart, &err));
	assert_null(restart);
	assert_state(running, "R");
	rig_run(&rig, 130);
	assert_time(low->record.start_time, 100);
	assert_time(high->record.start_time, 110);
	/* other nodes need a restart, and nothing is changed */
	conf = rig_conf("ClusterName=test\nSelectType=select/linear\nNodeName=n[1-2] CPUs=1\n"
			"PartitionName=low Nodes=ALL Default=YES PriorityTier=1\n"
			"PartitionName=high Nodes=ALL PriorityTier=5\n");
	assert_int_equal(engine_reconfigure(rig.e, conf, &restart, &err), -EINVAL);
	assert_non_null(strstr(err.text, "NodeName"));
	(void)conf_free(conf);
	/* another plugin, or memory: all else is taken */
	conf = rig_conf("ClusterName=test\nSelectType=select/cons_res\nNodeName=n1 CPUs=1 "
			"State=DRAIN Reason=now MemSpecLimit=1\n"
			"PartitionName=low Nodes=ALL Default=YES PriorityTier=1\n"
			"PartitionName=high Nodes=ALL PriorityTier=5\n");
	assert_ok(engine_reconfigure(rig.e, conf, &restart, &err));
	assert_string_equal(restart, "SelectType MemSpecLimit");
	assert_string_equal(node_state(0), "drained");
	free(restart);
	/* named until it is restarted; and another reason is one, too */
	conf = rig_conf("ClusterName=test\nSelectType=select/cons_res\nNodeName=n1 CPUs=1 "
			"State=DRAIN Reason=later\n"
			"PartitionName=low Nodes=ALL Default=YES PriorityTier=1\n"
			"PartitionName=high Nodes=ALL PriorityTier=5\n");
	assert_ok(engine_reconfigure(rig.e, conf, &restart, &err));
	assert_string_equal(restart, "SelectType");
	assert_string_equal(engine_get_node_reason(rig.e, &node_record_table_ptr[0]), "later");
	free(restart);
	rig_clear(&rig);
}

/* ---- what plugins read of it -------------------------------------------------------------------
 */

#define WITH_QOS                                                                                   \
	LINE "PreemptType=preempt/qos\nPreemptMode=CANCEL\n"                                       \
	     "QOSName=low Priority=5 GraceTime=30 PreemptExemptTime=2\n"                           \
	     "QOSName=high Priority=9 Preempt=low PreemptMode=requeue\n"

static const char *reason_with(struct rig *rig, struct rig_job job)
{
	return job_reason_name(rig_add(rig, job)->reason);
}

/* Flags of a QOS lift the limits of partitions, or need a reservation. */
static void test_qos_flags(void **state)
{
	struct rig rig;
	struct err err = ERR_INIT;
	uint32_t id;

	(void)state;
	rig_make(&rig,
		"SelectType=select/linear\nNodeName=n[1-4]\n"
		"PartitionName=p Nodes=ALL Default=YES MaxTime=10 MinNodes=2 MaxNodes=3\n"
		"QOSName=plain\nQOSName=long Flags=PartitionTimeLimit\n"
		"QOSName=wide Flags=PartitionMaxNodes\nQOSName=narrow Flags=PartitionMinNodes\n"
		"QOSName=guest Flags=RequiresReservation\n");
	assert_string_equal(reason_with(&rig, (struct rig_job){.minutes = 11, .qos = "plain"}),
		"PartitionTimeLimit");
	assert_string_equal(reason_with(&rig, (struct rig_job){.nodes = 4, .qos = "long"}),
		"PartitionNodeLimit");
	assert_string_equal(reason_with(&rig, (struct rig_job){.nodes = 1, .qos = "wide"}),
		"PartitionNodeLimit");
	assert_int_equal(rig_try(&rig, &(struct rig_job){.qos = "guest"}, &id, &err), -EINVAL);
	assert_non_null(strstr(err.text, "RequiresReservation"));
	assert_nodes(rig_submit(&rig, .nodes = 1, .qos = "narrow", .run_s = 1), "n1");
	rig_run(&rig, 2);
	assert_nodes(rig_submit(&rig, .nodes = 4, .qos = "wide", .run_s = 1), "n[1-4]");
	rig_run(&rig, 4);
	assert_state(rig_submit(&rig, .nodes = 2, .minutes = 100, .qos = "long"), "R");
	rig_clear(&rig);
}

static void test_qos_records(void **state)
{
	struct rig rig, again;
	struct job *low, *high;
	struct err err = ERR_INIT;
	char *restart = NULL;

	(void)state;
	rig_make(&rig, WITH_QOS);
	low = rig_submit(&rig, .qos = "low");
	high = rig_submit(&rig, .qos = "high");
	assert_null(rig_submit(&rig, .nodes = 1)->record.qos_ptr);
	assert_string_equal(low->record.qos_ptr->name, "low");
	assert_int_equal(low->record.qos_ptr->id, 0);
	assert_int_equal(low->record.qos_ptr->priority, 5);
	assert_int_equal(low->record.qos_ptr->grace_time, 30);
	assert_int_equal(low->record.qos_ptr->preempt_exempt_time, 120);
	assert_int_equal(low->record.qos_ptr->preempt_mode, NO_VAL16);
	assert_int_equal(high->record.qos_ptr->preempt_exempt_time, NO_VAL);
	assert_int_equal(high->record.qos_ptr->preempt_mode, PREEMPT_MODE_REQUEUE);
	assert_true(
		bit_test(high->record.qos_ptr->preempt_bitstr, (bitoff_t)low->record.qos_ptr->id));
	assert_false(bit_test(low->record.qos_ptr->preempt_bitstr, 1));
	/* another one, found again, and those of a new configuration */
	high = rig_submit(&rig, .qos = "high", .hold = true);
	assert_ok(update(&rig, high, true, &err, "qos", json_string("low")));
	assert_ptr_equal(high->record.qos_ptr, low->record.qos_ptr);
	rig_restore(&rig, &again, WITH_QOS);
	assert_string_equal(engine_find_job(again.e, 2)->record.qos_ptr->name, "high");
	assert_ok(engine_reconfigure(again.e,
		rig_conf(LINE "PreemptType=preempt/qos\nPreemptMode=CANCEL\n"
			      "QOSName=other\nQOSName=high Priority=11\n"),
		&restart, &err));
	assert_null(restart);
	assert_int_equal(engine_find_job(again.e, 2)->record.qos_ptr->priority, 11);
	assert_int_equal(engine_find_job(again.e, 2)->record.qos_ptr->id, 1);
	assert_null(engine_find_job(again.e, 1)->record.qos_ptr);
	rig_clear(&again);
}

/* Submits it, and checks the member "command". NULL: there is none. */
static void check_command(struct rig *rig, const char *command, char **argv, const char *shown)
{
	_cleanup_request_ struct job_request q;
	json_auto_t *json = NULL;
	struct err err = ERR_INIT;
	uint32_t id = 0;

	request_init(&q);
	q.command = command ? strdup(command) : NULL;
	q.argv = argv;
	assert_ok(engine_submit(rig->e, &q, 0, 0, &id, &err));
	q.argv = NULL;
	json = job_to_json(rig->e, engine_find_job(rig->e, id));
	assert_string_equal(json_get_text(json, "command", "none"), shown ? shown : "none");
}

static void test_command(void **state)
{
	char long_text[3000], expected[2000];
	char *none[] = {NULL}, *two[] = {(char[]){"5"}, (char[]){"b c"}, NULL};
	char *much[] = {long_text, NULL};
	struct rig rig;

	(void)state;
	rig_make(&rig, LINE);
	check_command(&rig, NULL, none, NULL);
	check_command(&rig, NULL, two, NULL);
	check_command(&rig, "/home/u/job.sh", none, "/home/u/job.sh");
	check_command(&rig, "/home/u/job.sh", two, "/home/u/job.sh 5 b c");
	/* cut off between two characters */
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	memcpy(long_text + 1020, "\u00e9\u00e9\u00e9", 6);
	memset(expected, 'x', sizeof(expected));
	memcpy(expected, "/a ", 3);
	memcpy(expected + 1023, "...", 4);
	check_command(&rig, "/a", much, expected);
	rig_clear(&rig);
}

/* ---- the store ---------------------------------------------------------------------------------
 */

static const char *stored_state(const struct rig *rig, const char *id)
{
	return json_get_text(json_object_get(rig->store.jobs, id), "job_state", "none");
}

static void test_store(void **state)
{
	struct rig rig;
	struct job *job;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, LINE);
	assert_int_equal(rig.store.commits, 1); /* the nodes */
	assert_int_equal(json_object_size(rig.store.nodes), 4);
	job = rig_submit(&rig, .run_s = 100, .minutes = 10, .uid = 1000);
	assert_int_equal(rig.store.commits, 2);
	assert_string_equal(stored_state(&rig, "1"), "RUNNING");
	assert_ok(engine_suspend(rig.e, job, &err));
	rig_run(&rig, 10);
	assert_string_equal(stored_state(&rig, "1"), "SUSPENDED");
	assert_ok(engine_resume(rig.e, job, &err));
	rig_run(&rig, 10);
	assert_string_equal(stored_state(&rig, "1"), "RUNNING");
	assert_ok(update(&rig, job, true, &err, "time_limit_min", json_integer(30)));
	assert_int_equal(
		json_get_int(json_object_get(rig.store.jobs, "1"), "time_limit_min", 0), 30);
	assert_ok(engine_requeue(rig.e, job, &err));
	rig_run(&rig, 10);
	assert_string_equal(stored_state(&rig, "1"), "PENDING");
	assert_ok(engine_hold(rig.e, job, true, &err));
	assert_string_equal(json_get_text(json_object_get(rig.store.jobs, "1"), "state_reason", ""),
		"JobHeldAdmin");
	assert_ok(engine_cancel(rig.e, job, &err));
	assert_string_equal(stored_state(&rig, "1"), "CANCELLED");
	assert_ok(engine_update_nodes(rig.e, "n3", NODE_CHANGE_DRAIN, "fan", 0, &err));
	assert_string_equal(
		json_get_text(json_object_get(rig.store.nodes, "n3"), "reason", ""), "fan");
	rig_clear(&rig);
}

/* What can't be kept is not accepted, and leaves nothing. */
static void test_store_fails(void **state)
{
	struct rig rig;
	struct err err = ERR_INIT;
	uint32_t id = 0;

	(void)state;
	rig_make(&rig, LINE);
	rig.store.fails = true;
	assert_int_equal(rig_try(&rig, &(struct rig_job){.run_s = 10}, &id, &err), -ENOSPC);
	assert_int_equal(
		rig_try(&rig, &(struct rig_job){.run_s = 10, .array = "0-5"}, &id, &err), -ENOSPC);
	assert_int_equal(rig.store.rollbacks, 2);
	assert_false(rig.store.open);
	rig.store.fails = false;
	rig_run(&rig, 10);
	assert_int_equal(count_state(&rig, JOB_RUNNING), 0);
	assert_int_equal(engine_get_stats(rig.e)->submitted, 0);
	assert_int_equal(rig.starts, 0);
	assert_state(rig_submit(&rig, .nodes = 4), "R");
	rig_clear(&rig);
}

/* ---- random workloads --------------------------------------------------------------------------
 */

struct random {
	uint64_t state;
};

static uint32_t random_below(struct random *random, uint32_t n)
{
	random->state = random->state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random->state >> 33) % n);
}

/* Jobs that are submitted one after the other at certain times. */
struct load {
	struct rig_job jobs[60];
	uint32_t times[60];
	uint32_t count;
};

static void load_make(struct load *load, uint64_t seed, uint32_t nodes, bool cores)
{
	struct random random = {.state = seed};
	uint32_t i, t = 0;

	random_below(&random, 2);
	load->count = ARRAY_SIZE(load->jobs);
	for (i = 0; i < load->count; i++) {
		uint32_t minutes = 1 + random_below(&random, 30);

		t += random_below(&random, 120);
		load->times[i] = t;
		load->jobs[i] = (struct rig_job){.nodes = 1 + random_below(&random, nodes),
			.minutes = minutes,
			.run_s = 60 * minutes};
		if (cores && random_below(&random, 3)) {
			load->jobs[i].nodes = 0;
			load->jobs[i].tasks = 1 + random_below(&random, 8 * nodes);
		}
	}
}

/* No node is given twice, nor a core or memory of one. */
static void check_shares(const struct rig *rig)
{
	uint32_t cpus[64] = {0};
	uint64_t memory[64] = {0};
	size_t i;
	int n;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		const struct job *job = engine_get_job(rig->e, i);
		const job_resources_t *r = job ? job->record.job_resrcs : NULL;
		bitoff_t node = 0;
		uint32_t k = 0;

		if (!r || (job->record.job_state & JOB_STATE_BASE) >= JOB_COMPLETE)
			continue;
		for (; (node = bit_ffs_from_bit(r->node_bitmap, node)) >= 0; node++, k++) {
			cpus[node] += r->cpus[k];
			memory[node] += r->memory_allocated[k];
		}
	}
	for (n = 0; n < node_record_count; n++) {
		assert_true(cpus[n] <= node_record_table_ptr[n].cpus);
		assert_true(memory[n] <= node_record_table_ptr[n].real_memory);
	}
}

static void load_submit(struct rig *rig, const struct load *load, uint32_t from, uint32_t until_s)
{
	uint32_t i;

	for (i = from; i < load->count && load->times[i] <= until_s; i++) {
		rig_run(rig, load->times[i]);
		(void)rig_add(rig, load->jobs[i]);
		check_shares(rig);
	}
}

/* Starts by number; all must have ended. */
static void load_finish(struct rig *rig, uint32_t *starts, uint32_t count)
{
	uint32_t i, t;

	for (t = rig_now(rig); t < 400000 && count_state(rig, JOB_COMPLETE) < count; t += 300) {
		rig_run(rig, t);
		check_shares(rig);
	}
	for (i = 0; i < count; i++) {
		const struct job *job = engine_find_job(rig->e, i + 1);

		assert_non_null(job);
		assert_state(job, "CD");
		starts[i] = (uint32_t)(job->record.start_time - RIG_BEGIN_S);
	}
}

#define EIGHT                                                                                      \
	"ClusterName=test\nSelectType=select/linear\nMinJobAge=1000000\nNodeName=n[1-8] CPUs=1\n"  \
	"PartitionName=p Nodes=ALL Default=YES\n"
#define EIGHT_OF_CORES                                                                             \
	"ClusterName=test\nSelectType=select/cons_res\nSelectTypeParameters=CR_Core\n"             \
	"MinJobAge=1000000\nNodeName=n[1-8] Sockets=2 CoresPerSocket=4\n"                          \
	"PartitionName=p Nodes=ALL Default=YES\n"
#define BACKFILL    "SchedulerParameters=bf_interval=1,bf_resolution=1,bf_max_job_test=1000\n"
#define NO_BACKFILL "SchedulerType=sched/builtin\n"

static void load_run(const char *conf, const struct load *load, uint32_t *starts)
{
	struct rig rig;

	rig_make(&rig, conf);
	load_submit(&rig, load, 0, UINT32_MAX);
	load_finish(&rig, starts, load->count);
	rig_clear(&rig);
}

/* With limits that are the run times nobody starts later than without backfill. */
static void test_backfill_delays_nobody(void **state)
{
	uint32_t with[60], without[60], i, seed, earlier = 0;
	struct load load;

	(void)state;
	for (seed = 1; seed <= 60; seed++) {
		load_make(&load, seed, 8, false);
		load_run(EIGHT BACKFILL, &load, with);
		load_run(EIGHT NO_BACKFILL, &load, without);
		for (i = 0; i < load.count; i++) {
			if (with[i] > without[i])
				fail_msg("seed %u: job %u starts at %u, without backfill at %u",
					seed, i + 1, with[i], without[i]);
			earlier += with[i] < without[i];
		}
	}
	assert_true(earlier > 1000); /* of 3600 */
}

/* With parts of nodes, too, the one that is planned first is not delayed: checked while it waits.
 */
static void test_first_planned_is_kept(void **state)
{
	uint32_t seed, i;
	struct load load;
	struct rig rig;

	(void)state;
	for (seed = 1; seed <= 40; seed++) {
		struct job *first = NULL;
		time_t planned = 0;

		load_make(&load, seed, 8, true);
		rig_make(&rig, EIGHT_OF_CORES BACKFILL);
		load_submit(&rig, &load, 0, UINT32_MAX);
		for (i = rig_now(&rig); i < 200000; i += 7) {
			size_t k;

			rig_run(&rig, i);
			check_shares(&rig);
			if (first && first->record.start_time && first->record.start_time > planned)
				fail_msg("seed %u: job %u starts %ld s late", seed,
					first->record.job_id,
					(long)(first->record.start_time - planned));
			if (first && job_state_code(first->record.job_state)[0] != 'P')
				first = NULL;
			for (k = 0; !first && k < engine_count_jobs(rig.e); k++) {
				struct job *job = engine_get_job(rig.e, k);

				if (job->record.job_state == JOB_PENDING && job->planned_start) {
					first = job;
					planned = job->planned_start;
				}
			}
			if (count_state(&rig, JOB_COMPLETE) == load.count)
				break;
		}
		assert_int_equal(count_state(&rig, JOB_COMPLETE), load.count);
		rig_clear(&rig);
	}
}

/* ---- what is found again -----------------------------------------------------------------------
 */

/* Killed at any moment and begun anew, everything goes on as without that. */
static void restored_run(const char *conf, const struct load *load, uint32_t at_s, uint32_t *starts)
{
	struct rig first, second;
	uint32_t n;

	rig_make(&first, conf);
	load_submit(&first, load, 0, at_s);
	rig_run(&first, at_s);
	for (n = 0; n < load->count && load->times[n] <= at_s; n++)
		;
	rig_restore(&first, &second, conf);
	check_shares(&second);
	load_submit(&second, load, n, UINT32_MAX);
	load_finish(&second, starts, load->count);
	rig_clear(&second);
}

static void test_restore(void **state)
{
	static const char *const confs[] = {EIGHT NO_BACKFILL, EIGHT_OF_CORES NO_BACKFILL};
	uint32_t whole[60], restored[60], seed, i;
	struct load load;

	(void)state;
	for (seed = 1; seed <= 40; seed++) {
		const char *conf = confs[seed % 2];
		struct random random = {.state = seed * 77};

		load_make(&load, seed, 8, seed % 2);
		load_run(conf, &load, whole);
		restored_run(conf, &load, random_below(&random, 10000), restored);
		for (i = 0; i < load.count; i++) {
			if (whole[i] != restored[i])
				fail_msg("seed %u: job %u starts at %u, not at %u", seed, i + 1,
					restored[i], whole[i]);
		}
	}
}

/* With backfill a plan is made anew, at another time: all run, and nothing is given twice. */
static void test_restore_backfill(void **state)
{
	uint32_t restored[60], seed;
	struct load load;

	(void)state;
	for (seed = 1; seed <= 20; seed++) {
		struct random random = {.state = seed * 77};

		load_make(&load, seed, 8, seed % 2);
		restored_run(seed % 2 ? EIGHT_OF_CORES BACKFILL : EIGHT BACKFILL, &load,
			random_below(&random, 10000), restored);
	}
}

/* Each state that a job can have. */
/* A job that was told to end has its whole KillWait, whoever counts it. */
static void test_restore_kill_wait(void **state)
{
	struct rig first, second;
	struct job *job;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&first, LINE);
	job = rig_submit(&first, .minutes = 30, .term_s = NO_VAL);
	rig_run(&first, 20);
	assert_ok(engine_cancel(first.e, job, &err));
	rig_run(&first, 24);
	rig_restore(&first, &second, LINE);
	job = engine_find_job(second.e, 1);
	rig_run(&second, 29);
	assert_state(job, "CG");
	rig_run(&second, 30);
	assert_state(job, "CA");
	rig_clear(&second);
}

static void test_restore_states(void **state)
{
	static const uid_t users[] = {0};
	struct reservation_request q = {.name = "r",
		.nodelist = "n4",
		.start_time = RIG_BEGIN_S + 100000,
		.duration_min = 10,
		.users = users,
		.users_count = 1};
	struct rig first, second;
	struct job *job, *slow;
	json_t *list;
	struct err err = ERR_INIT;
	const char *name;

	(void)state;
	rig_make(&first, LINE_OF("60"));
	(void)rig_submit(&first, .run_s = 10);                                       /* 1 */
	(void)rig_submit(&first, .run_s = 1000, .minutes = 30);                      /* 2 */
	job = rig_submit(&first, .run_s = 1000, .minutes = 30);                      /* 3 */
	slow = rig_submit(&first, .minutes = 30, .term_s = 3);                       /* 4 */
	(void)rig_submit(&first, .nodes = 4, .run_s = 10, .minutes = 60);            /* 5 */
	(void)rig_submit(&first, .hold = true, .uid = 1000);                         /* 6 */
	(void)rig_submit(&first, .begin_s = 2000, .run_s = 10);                      /* 7 */
	(void)rig_submit(&first, .after = 5, .kind = DEPENDS_AFTER_OK, .run_s = 10); /* 8 */
	(void)rig_submit(&first, .array = "5-7%1", .begin_s = 3000, .run_s = 10);    /* 9, 10, 11 */
	assert_ok(engine_suspend(first.e, job, &err));
	assert_ok(engine_reserve(first.e, &q, &name, &err));
	rig_run(&first, 20);
	assert_ok(engine_cancel(first.e, slow, &err));
	assert_ok(engine_hold(first.e, engine_find_job(first.e, 6), true, &err));
	rig_restore(&first, &second, LINE_OF("60"));
	assert_state(engine_find_job(second.e, 1), "CD");
	assert_state(engine_find_job(second.e, 2), "R");
	assert_state(engine_find_job(second.e, 3), "S");
	assert_state(engine_find_job(second.e, 4), "CG");
	assert_state(engine_find_job(second.e, 5), "PD");
	assert_reason(&second, engine_find_job(second.e, 6), "JobHeldAdmin");
	list = engine_reservations_to_json(second.e);
	assert_int_equal(json_array_size(list), 1);
	json_decref(list);
	assert_int_equal(rig_submit(&second, .hold = true)->record.job_id, 12);
	rig_run(&second, 30);
	assert_state(engine_find_job(second.e, 4), "CA");
	rig_run(&second, 70);
	assert_null(engine_find_job(second.e, 1)); /* MinJobAge after its end */
	rig_run(&second, 120);
	assert_ok(engine_resume(second.e, engine_find_job(second.e, 3), &err));
	rig_run(&second, 1000);
	assert_state(engine_find_job(second.e, 2), "CD");
	assert_state(engine_find_job(second.e, 3), "R");
	rig_run(&second, 1121);
	job = engine_find_job(second.e, 5);
	assert_time(job->record.start_time, 1120);
	rig_run(&second, 1140);
	job = engine_find_job(second.e, 8);
	assert_state(job, "CD");
	assert_time(job->record.start_time, 1130);
	rig_run(&second, 2005);
	assert_state(engine_find_job(second.e, 7), "R");
	rig_run(&second, 3005);
	assert_state(engine_find_array_task(second.e, 9, 5), "R");
	assert_reason(&second, engine_find_array_task(second.e, 9, 6), "JobArrayTaskLimit");
	rig_run(&second, 3035);
	assert_state(engine_find_array_task(second.e, 9, 7), "CD");
	rig_clear(&second);
}

/* ---- the plugin's part in a job -----------------------------------------------------------------
 */

#define PLUGIN                                                                                     \
	"ClusterName=test\nSelectType=select/broken\nKillWait=10\nMinJobAge=1000000\n"             \
	"NodeName=n[1-5] CPUs=2\n"                                                                 \
	"PartitionName=p Nodes=ALL Default=YES\nPartitionName=q Nodes=n[1,4]\n"

static int use_broken(void **state)
{
	(void)state;
	rig_plugins = "tests/lib/plugins";
	(void)unsetenv("BROKEN_SELECT_STEPS");
	return unsetenv("BROKEN_SELECT");
}

static int use_sound(void **state)
{
	(void)state;
	rig_plugins = NULL;
	return unsetenv("BROKEN_SELECT");
}

static void assert_info(const struct rig *rig, const struct job *job, const char *text)
{
	json_auto_t *json = job_to_json(rig->e, job);

	assert_string_equal(json_get_text(json, "select_jobinfo", ""), text);
}

static void test_jobinfo(void **state)
{
	struct rig rig, again;
	struct job *job, *waits;
	struct err err = ERR_INIT;
	uint32_t id, id_waits;

	(void)state;
	rig_make(&rig, PLUGIN);
	job = rig_submit(&rig, .nodes = 4);
	waits = rig_submit(&rig, .nodes = 4);
	assert_info(&rig, job, "Begun=1");
	assert_info(&rig, waits, "Begun=0");
	assert_ok(engine_requeue(rig.e, job, &err));
	rig_run(&rig, 500);
	id = job->record.job_id;
	id_waits = waits->record.job_id;
	assert_state(waits, "R");
	assert_ok(engine_cancel(rig.e, waits, &err));
	rig_run(&rig, 600);
	assert_info(&rig, job, "Begun=2");
	rig_restore(&rig, &again, PLUGIN);
	assert_info(&again, engine_find_job(again.e, id), "Begun=2");
	assert_info(&again, engine_find_job(again.e, id_waits), "Begun=1");
	json_object_set_new(
		json_object_get(again.store.jobs, "1"), "select_state", json_string("1:AA=="));
	rig_restore(&again, &rig, PLUGIN); /* a warning, and it is as new */
	assert_info(&rig, engine_find_job(rig.e, id), "Begun=0");
	rig_clear(&rig);
}

/* A script that goes on after the kernel has killed one of its processes. */
static void test_out_of_memory(void **state)
{
	struct job *job, *after, *not_after;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .nodes = 1);
	after = rig_submit(&rig, .nodes = 1, .kind = DEPENDS_AFTER_OK, .after = 1);
	not_after = rig_submit(&rig, .nodes = 1, .kind = DEPENDS_AFTER_NOT_OK, .after = 1);
	engine_job_ended(rig.e, job, 0, true);
	rig_run(&rig, 1);
	assert_state(job, "OOM");
	assert_reason(&rig, after, "DependencyNeverSatisfied");
	assert_state(not_after, "R");
	job = rig_submit(&rig, .nodes = 1);
	assert_ok(engine_cancel(rig.e, job, &err));
	engine_job_ended(rig.e, job, 9, true);
	assert_state(job, "CA"); /* why it ended */
	rig_clear(&rig);
}

/* One node's part of the job has used up its memory: all of it ends. */
static void test_out_of_memory_on_a_node(void **state)
{
	struct job *job;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig, LINE);
	job = rig_submit(&rig, .nodes = 2, .term_s = 3);
	engine_job_out_of_memory(rig.e, job, "it has used more than its memory on node n2");
	rig_run(&rig, 2);
	assert_state(job, "CG");
	rig_run(&rig, 3);
	assert_state(job, "OOM");
	assert_string_equal(job->description, "it has used more than its memory on node n2");
	engine_job_out_of_memory(rig.e, job, "late");
	assert_state(job, "OOM");
	job = rig_submit(&rig, .nodes = 1, .term_s = 3);
	assert_ok(engine_cancel(rig.e, job, &err));
	engine_job_out_of_memory(rig.e, job, "while it ends");
	rig_run(&rig, 7);
	assert_state(job, "CA"); /* why it ended */
	rig_clear(&rig);
}

static void assert_steps(const char *wanted)
{
	const char *steps = getenv("BROKEN_SELECT_STEPS");

	assert_string_equal(steps ? steps : "", wanted);
	(void)unsetenv("BROKEN_SELECT_STEPS");
}

static void test_steps(void **state)
{
	struct rig rig, again;
	struct job *job;
	struct err err = ERR_INIT;

	(void)state;
	rig_make(&rig, PLUGIN);
	(void)rig_submit(&rig, .nodes = 1, .run_s = 5); /* without a script */
	rig_run(&rig, 10);
	assert_steps("");
	(void)rig_submit(&rig, .nodes = 2, .run_s = 5, .script = "#!/bin/sh\n");
	assert_steps("begin 2;");
	rig_run(&rig, 20);
	assert_steps("end 2;");
	job = rig_submit(&rig, .nodes = 2, .term_s = NO_VAL, .script = "#!/bin/sh\n");
	assert_ok(engine_cancel(rig.e, job, &err));
	rig_run(&rig, 29);
	assert_steps("begin 3;");
	rig_run(&rig, 100);
	assert_steps("kill 3;end 3;");
	(void)rig_submit(&rig, .nodes = 2, .script = "#!/bin/sh\n", .fault = "start");
	rig_run(&rig, 101);
	assert_steps("begin 4;end 4;");
	job = rig_submit(&rig, .nodes = 1, .run_s = 50, .script = "#!/bin/sh\n");
	assert_state(job, "R");
	rig_restore(&rig, &again, PLUGIN);
	assert_steps("begin 5;");
	job = engine_find_job(again.e, 5);
	assert_int_equal(node_record_table_ptr[bit_ffs(job->record.node_bitmap)].node_state &
			NODE_STATE_BASE,
		NODE_STATE_ALLOCATED);
	rig_clear(&again);
}

/* The job is completing, and has its nodes, until the plugin is done with its end. */
static void test_cleaning(void **state)
{
	struct rig rig, again;
	struct job *job, *other;
	struct err err = ERR_INIT;

	(void)state;
	assert_int_equal(setenv("BROKEN_SELECT", "cleaning", 1), 0);
	rig_make(&rig, PLUGIN);
	job = rig_submit(&rig, .nodes = 5, .run_s = 10, .exit_status = 0);
	other = rig_submit(&rig, .nodes = 1, .run_s = 10);
	rig_run(&rig, 10);
	assert_state(job, "CG");
	assert_true(node_record_table_ptr[0].node_state & NODE_STATE_COMPLETING);
	assert_state(other, "PD");
	rig_run(&rig, 12);
	assert_state(job, "CG");
	assert_ok(engine_cancel(rig.e, job, &err)); /* it is over, and stays so */
	rig_run(&rig, 14);
	assert_state(job, "CD");
	assert_time(job->record.end_time, 10);
	assert_false(node_record_table_ptr[0].node_state & NODE_STATE_COMPLETING);
	assert_state(other, "R");
	rig_run(&rig, 25);
	assert_state(other, "CG");
	rig_restore(&rig, &again, PLUGIN); /* in the middle: it ends all the same */
	rig_run(&again, 60);
	assert_state(engine_find_job(again.e, 2), "CD");
	assert_int_equal(engine_get_stats(again.e)->failed, 0);
	rig_clear(&again);
}

/* A job that the plugin can't prepare is not begun again before the plugin is done with it. */
static void test_begin_fails(void **state)
{
	struct job *job, *other;
	struct rig rig;

	(void)state;
	assert_int_equal(setenv("BROKEN_SELECT", "unready", 1), 0);
	rig_make(&rig, PLUGIN);
	job = rig_submit(&rig, .nodes = 5, .run_s = 10);
	other = rig_submit(&rig, .nodes = 1, .run_s = 10);
	rig_run(&rig, 1);
	assert_state(job, "CG");
	assert_state(other, "PD");
	assert_int_equal(setenv("BROKEN_SELECT", "cleaning", 1), 0);
	rig_run(&rig, 5);
	assert_state(job, "PD");
	assert_reason(&rig, job, "BeginFailed");
	assert_int_equal(job->restarts, 0);
	assert_state(other, "R");
	rig_run(&rig, 68);
	assert_state(job, "R");
	rig_clear(&rig);
}

static void test_unclean(void **state)
{
	struct rig rig;
	struct job *job;

	(void)state;
	assert_int_equal(setenv("BROKEN_SELECT", "unclean", 1), 0);
	rig_make(&rig, PLUGIN);
	job = rig_submit(&rig, .nodes = 2, .run_s = 10);
	rig_run(&rig, 30);
	assert_state(job, "CD");
	assert_true(node_record_table_ptr[1].node_state & NODE_STATE_DRAIN);
	assert_false(node_record_table_ptr[2].node_state & NODE_STATE_DRAIN);
	assert_non_null(strstr(engine_get_node_reason(rig.e, &node_record_table_ptr[0]),
		"select_p_select_jobinfo_get()"));
	rig_clear(&rig);
	assert_int_equal(setenv("BROKEN_SELECT", "fini", 1), 0);
	rig_make(&rig, PLUGIN);
	job = rig_submit(&rig, .nodes = 1, .run_s = 10);
	rig_run(&rig, 30);
	assert_state(job, "CD");
	assert_true(node_record_table_ptr[0].node_state & NODE_STATE_DRAIN);
	rig_clear(&rig);
}

/* n5, then n3 and n4, then n1 and n2: as the plugin ranks them. */
static void test_ranks(void **state)
{
	struct rig rig;
	struct job *job;
	struct err err = ERR_INIT;
	char *restarts = NULL;

	(void)state;
	assert_int_equal(setenv("BROKEN_SELECT", "rank", 1), 0);
	rig_make(&rig, PLUGIN);
	assert_string_equal(node_record_table_ptr[0].name, "n5");
	assert_string_equal(node_record_table_ptr[1].name, "n3");
	assert_string_equal(node_record_table_ptr[2].name, "n4");
	assert_string_equal(node_record_table_ptr[4].name, "n2");
	assert_int_equal(node_record_table_ptr[4].index, 4);
	assert_int_equal(node_record_table_ptr[4].core_offset, 8);
	job = rig_submit(&rig, .nodes = 2, .run_s = 10, .partition = "q");
	assert_nodes(job, "n[4,1]");
	assert_true(bit_test(job->record.node_bitmap, 2));
	assert_true(bit_test(job->record.node_bitmap, 3));
	assert_ok(engine_reconfigure(rig.e, rig_conf(PLUGIN), &restarts, &err));
	assert_null(restarts);
	assert_string_equal(node_record_table_ptr[0].name, "n5");
	rig_run(&rig, 20);
	job = rig_submit(&rig, .nodes = 2, .run_s = 10, .partition = "q");
	assert_nodes(job, "n[4,1]");
	rig_clear(&rig);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_memory_limits),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_held_back),
		cmocka_unit_test(test_time_limit),
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_hold),
		cmocka_unit_test(test_release_keeps_turn),
		cmocka_unit_test(test_requeue),
		cmocka_unit_test(test_dependencies),
		cmocka_unit_test(test_array_dependencies),
		cmocka_unit_test(test_task_dependencies),
		cmocka_unit_test(test_delayed),
		cmocka_unit_test(test_array_memory),
		cmocka_unit_test(test_array_outlives_first),
		cmocka_unit_test(test_singleton),
		cmocka_unit_test(test_singleton_changes),
		cmocka_unit_test(test_array_limit),
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_suspend),
		cmocka_unit_test(test_suspend_fails),
		cmocka_unit_test(test_node_down),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_node_failed),
		cmocka_unit_test(test_other_memory),
		cmocka_unit_test(test_reservation),
		cmocka_unit_test(test_reservation_refused),
		cmocka_unit_test(test_backfill),
		cmocka_unit_test(test_will_run),
		cmocka_unit_test(test_will_run_cores),
		cmocka_unit_test(test_update_pending),
		cmocka_unit_test(test_update_running),
		cmocka_unit_test(test_expand),
		cmocka_unit_test(test_batch_host),
		cmocka_unit_test(test_qos_flags),
		cmocka_unit_test(test_reconfigure),
		cmocka_unit_test(test_qos_records),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_store),
		cmocka_unit_test(test_store_fails),
		cmocka_unit_test(test_backfill_delays_nobody),
		cmocka_unit_test(test_first_planned_is_kept),
		cmocka_unit_test(test_restore),
		cmocka_unit_test(test_restore_backfill),
		cmocka_unit_test(test_restore_kill_wait),
		cmocka_unit_test(test_restore_states),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_out_of_memory_on_a_node),
		cmocka_unit_test_setup_teardown(test_jobinfo, use_broken, use_sound),
		cmocka_unit_test_setup_teardown(test_steps, use_broken, use_sound),
		cmocka_unit_test_setup_teardown(test_cleaning, use_broken, use_sound),
		cmocka_unit_test_setup_teardown(test_begin_fails, use_broken, use_sound),
		cmocka_unit_test_setup_teardown(test_unclean, use_broken, use_sound),
		cmocka_unit_test_setup_teardown(test_ranks, use_broken, use_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
