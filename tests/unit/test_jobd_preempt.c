/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preemption and time slices with a virtual clock: what the recorded cases of a real Slurm
 * (test_jobd_replay.c) do not have: suspensions that fail, a program that is killed in between,
 * and random workloads, of which certain things hold at any time. Times are seconds since the
 * begin.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/jobd_rig.h"

#define NODES                                                                                      \
	"ClusterName=test\nKillWait=10\nMinJobAge=1000000\nSchedulerTimeSlice=10\n"                \
	"PreemptType=preempt/partition_prio\nNodeName=n[1-4] CPUs=2 RealMemory=4000\n"
#define PARTS(sharing)                                                                             \
	"PartitionName=lo Nodes=ALL Default=YES PriorityTier=1 OverSubscribe=" sharing "\n"        \
	"PartitionName=hi Nodes=ALL PriorityTier=2 OverSubscribe=" sharing "\n"
#define LINEAR  "SelectType=select/linear\n"
#define CORES   "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
#define SUSPEND "PreemptMode=SUSPEND,GANG\n"

#define GRACE                                                                                      \
	NODES LINEAR "PreemptMode=CANCEL\nPartitionName=lo Nodes=ALL Default=YES PriorityTier=1 "  \
		     "GraceTime=30\nPartitionName=hi Nodes=ALL PriorityTier=2\n"

static const char *state_of(const struct job *job)
{
	return job_state_code(job->record.job_state);
}

#define assert_state(job, code) assert_string_equal(state_of(job), code)
#define assert_nodes(job, list) assert_string_equal((job)->record.nodes, list)
#define assert_time(t, seconds) assert_int_equal((t)-RIG_BEGIN_S, seconds)
#define job_again(rig, job)     engine_find_job((rig)->e, (job))
#define id_of(job)              ((job)->record.job_id)

/* ---- suspension --------------------------------------------------------------------------------
 */

static void check_suspension(const char *conf)
{
	struct job *low, *high;
	struct rig rig;

	rig_make(&rig, conf);
	low = rig_submit(&rig, .nodes = 4, .exclusive = true, .run_s = 100, .minutes = 5);
	rig_run(&rig, 20);
	high = rig_submit(&rig, .nodes = 4, .exclusive = true, .partition = "hi", .run_s = 50);
	assert_state(low, "S");
	assert_state(high, "R");
	assert_nodes(high, "n[1-4]");
	assert_time(high->record.start_time, 20);
	rig_run(&rig, 69);
	assert_state(low, "S");
	rig_run(&rig, 70); /* the other has ended */
	assert_state(high, "CD");
	assert_state(low, "R");
	assert_int_equal(low->record.tot_sus_time, 50);
	assert_time(low->record.end_time, 350); /* by its limit, which stood still */
	rig_run(&rig, 149);
	assert_state(low, "R");
	rig_run(&rig, 150);
	assert_state(low, "CD");
	rig_clear(&rig);
}

static void test_suspension(void **state)
{
	(void)state;
	check_suspension(NODES LINEAR SUSPEND PARTS("FORCE:1"));
	check_suspension(NODES CORES SUSPEND PARTS("FORCE:1"));
}

/* Nothing is given to the other while the one still runs. */
static void test_refused(void **state)
{
	struct job *low, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:1"));
	low = rig_submit(&rig, .nodes = 4, .run_s = 100, .fault = "suspend");
	rig_run(&rig, 20);
	high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 50);
	rig_run(&rig, 99);
	assert_state(low, "R");
	assert_state(high, "CF");
	assert_int_equal(rig.starts, 1);
	rig_run(&rig, 100);
	assert_state(low, "CD");
	assert_state(high, "R");
	rig_run(&rig, 150);
	assert_state(high, "CD");
	rig_clear(&rig);
}

/* It is tried again in each slice, and others are not held up by it. */
static void test_not_resumed(void **state)
{
	struct job *low, *high, *next;
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:1"));
	low = rig_submit(&rig, .nodes = 4, .run_s = 100, .fault = "resume");
	high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 50);
	rig_run(&rig, 80);
	assert_state(high, "CD");
	assert_state(low, "S");
	next = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 5);
	assert_state(next, "R");
	rig_run(&rig, 90);
	assert_state(next, "CD");
	assert_state(low, "S");
	rig_clear(&rig);
}

static void test_by_hand(void **state)
{
	struct job *low, *high;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:1"));
	low = rig_submit(&rig, .nodes = 4, .run_s = 100);
	high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 50);
	assert_int_equal(engine_resume(rig.e, low, &err), -EINVAL); /* its turn comes by itself */
	assert_int_equal(engine_suspend(rig.e, low, &err), 0);
	rig_run(&rig, 60);
	assert_state(high, "CD");
	assert_state(low, "S");
	assert_int_equal(engine_resume(rig.e, low, &err), 0);
	rig_run(&rig, 61);
	assert_state(low, "R");
	rig_clear(&rig);
}

static void test_cancelled(void **state)
{
	struct job *first, *second;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(
		&rig, NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:2"));
	first = rig_submit(&rig, .nodes = 4, .run_s = 100);
	second = rig_submit(&rig, .nodes = 4, .run_s = 100);
	assert_state(first, "R");
	assert_state(second, "S");
	assert_int_equal(rig.starts, 1); /* it has no process yet */
	assert_int_equal(engine_cancel(rig.e, second, &err), 0);
	assert_state(second, "CA");
	second = rig_submit(&rig, .nodes = 4, .run_s = 100);
	rig_run(&rig, 12);
	assert_state(first, "S");
	assert_state(second, "R");
	assert_int_equal(engine_cancel(rig.e, first, &err), 0);
	rig_run(&rig, 13);
	assert_state(first, "CA");
	rig_run(&rig, 111);
	assert_state(second, "CD"); /* alone it has no slices */
	rig_clear(&rig);
}

/* ---- jobs that end for others ------------------------------------------------------------------
 */

static void test_grace(void **state)
{
	struct job *low, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig, GRACE);
	low = rig_submit(&rig, .nodes = 4, .run_s = 1000, .term_s = NO_VAL);
	rig_run(&rig, 10);
	high = rig_submit(&rig, .nodes = 1, .partition = "hi", .run_s = 50);
	assert_state(low, "R");
	assert_state(high, "PD");
	assert_time(low->preempt_time, 10);
	assert_time(low->record.end_time, 40);
	rig_run(&rig, 39);
	assert_state(low, "R");
	rig_run(&rig, 41);
	assert_state(low, "CG");
	rig_run(&rig, 51); /* KillWait */
	assert_state(low, "PR");
	assert_state(high, "R");
	rig_clear(&rig);
}

/* While the one that was chosen ends, which takes its time, nobody else is put aside for it. */
static void test_no_more_than_needed(void **state)
{
	struct job *low[4], *high;
	uint32_t i, preempted = 0;
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR "PreemptMode=CANCEL\n" PARTS("NO"));
	for (i = 0; i < 4; i++)
		low[i] = rig_submit(&rig, .run_s = 1000, .term_s = NO_VAL);
	high = rig_submit(&rig, .partition = "hi", .run_s = 50);
	(void)rig_submit(&rig, .run_s = 10); /* one behind it changes nothing */
	rig_run(&rig, 30);
	for (i = 0; i < 4; i++)
		preempted += strcmp(state_of(low[i]), "PR") == 0;
	assert_int_equal(preempted, 1);
	assert_state(high, "R");
	rig_clear(&rig);
}

static void test_requeued(void **state)
{
	struct job *low, *kept, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR "PreemptMode=REQUEUE\n" PARTS("NO"));
	low = rig_submit(&rig, .nodes = 2, .run_s = 100);
	kept = rig_submit(&rig, .nodes = 2, .run_s = 100, .no_requeue = true);
	high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 10);
	rig_run(&rig, 1);
	assert_state(low, "PD");
	assert_state(kept, "PR");
	assert_state(high, "R");
	rig_run(&rig, 125);
	assert_state(low, "R");
	assert_int_equal(low->restarts, 1);
	assert_int_equal(low->preempt_time, 0);
	rig_clear(&rig);
}

/* ---- a program that is killed ------------------------------------------------------------------
 */

static void test_killed_in_grace(void **state)
{
	struct rig first, rig;
	uint32_t low, high;

	(void)state;
	rig_make(&first, GRACE);
	low = id_of(rig_submit(&first, .nodes = 4, .run_s = 1000, .term_s = NO_VAL));
	rig_run(&first, 10);
	high = id_of(rig_submit(&first, .nodes = 1, .partition = "hi", .run_s = 50));
	rig_run(&first, 20);
	rig_restore(&first, &rig, GRACE);
	rig_run(&rig, 39);
	assert_state(job_again(&rig, low), "R"); /* not killed early */
	rig_run(&rig, 51);
	assert_state(job_again(&rig, low), "PR");
	assert_state(job_again(&rig, high), "R");
	rig_clear(&rig);
}

#define SLICES NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:2")

static void test_killed_in_slice(void **state)
{
	struct rig first, rig;
	uint32_t a, b;

	(void)state;
	rig_make(&first, SLICES);
	a = id_of(rig_submit(&first, .nodes = 4, .run_s = 100));
	b = id_of(rig_submit(&first, .nodes = 4, .run_s = 100)); /* without a process */
	rig_restore(&first, &rig, SLICES);
	assert_state(job_again(&rig, a), "R");
	assert_state(job_again(&rig, b), "S");
	rig_run(&rig, 15);
	assert_state(job_again(&rig, a), "S");
	assert_state(job_again(&rig, b), "R");
	rig_run(&rig, 400); /* nothing is left standing still */
	assert_state(job_again(&rig, a), "CD");
	assert_state(job_again(&rig, b), "CD");
	rig_clear(&rig);
}

static void test_killed_while_standing(void **state)
{
	struct rig first, rig;
	uint32_t low, high;

	(void)state;
	rig_make(&first, NODES LINEAR SUSPEND PARTS("FORCE:1"));
	low = id_of(rig_submit(&first, .nodes = 4, .run_s = 100));
	rig_run(&first, 20);
	high = id_of(rig_submit(&first, .nodes = 4, .partition = "hi", .run_s = 50));
	rig_run(&first, 30);
	rig_restore(&first, &rig, NODES LINEAR SUSPEND PARTS("FORCE:1"));
	assert_state(job_again(&rig, low), "S");
	rig_run(&rig, 71);
	assert_state(job_again(&rig, high), "CD");
	assert_state(job_again(&rig, low), "R");
	rig_run(&rig, 160);
	assert_state(job_again(&rig, low), "CD");
	rig_clear(&rig);
}

/* ---- random workloads --------------------------------------------------------------------------
 */

/* The same numbers in each run. */
static uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % below;
}

static bool runs(const struct job *job)
{
	return job && job->launched && job->record.job_resrcs &&
		job->record.job_state == JOB_RUNNING && job->change == JOB_STEADY;
}

/* Of two jobs that run no core is the same. */
static void check_cores(const struct engine *e)
{
	bitstr_t *used = NULL;
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *job = engine_get_job(e, i);
		const bitstr_t *parts;

		if (!runs(job))
			continue;
		parts = job->record.job_resrcs->core_bitmap ? job->record.job_resrcs->core_bitmap
							    : job->record.job_resrcs->node_bitmap;
		if (!used)
			used = bit_alloc(bit_size(parts));
		assert_false(bit_overlap_any(used, parts));
		bit_or(used, parts);
	}
	bit_free(used);
}

static void run_workload(const char *conf, uint64_t seed)
{
	static const char *const parts[] = {"lo", "lo", "hi"};
	struct rig rig;
	uint32_t i, jobs = 5 + draw(&seed, 20), ended = 0;

	rig_make(&rig, conf);
	for (i = 0; i < jobs; i++) {
		(void)rig_submit(&rig, .partition = parts[draw(&seed, 3)],
			.nodes = 1 + draw(&seed, 4), .run_s = 1 + draw(&seed, 200),
			.term_s = draw(&seed, 3) * 4, .no_requeue = draw(&seed, 2));
		rig_run(&rig, rig_now(&rig) + draw(&seed, 20));
		check_cores(rig.e);
	}
	for (i = 0; i < 100; i++) {
		rig_run(&rig, rig_now(&rig) + 7);
		check_cores(rig.e);
	}
	rig_run(&rig, rig_now(&rig) + 20000); /* nobody is starved, or left standing still */
	for (i = 0; i < engine_count_jobs(rig.e); i++)
		ended += (engine_get_job(rig.e, i)->record.job_state & JOB_STATE_BASE) >=
			JOB_COMPLETE;
	assert_int_equal(ended, jobs);
	rig_clear(&rig);
}

#define WORKLOADS 1700

static void test_workloads(void **state)
{
	static const char *const confs[] = {
		NODES LINEAR SUSPEND PARTS("FORCE:1"),
		NODES CORES SUSPEND PARTS("FORCE:1"),
		NODES CORES SUSPEND PARTS("FORCE:2"),
		NODES LINEAR "PreemptMode=CANCEL\n" PARTS("NO"),
		NODES CORES "PreemptMode=REQUEUE\n" PARTS("NO"),
		GRACE,
	};
	uint64_t seed;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(confs); i++) {
		for (seed = 1; seed <= WORKLOADS; seed++)
			run_workload(confs[i], seed * 1000 + i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suspension),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_not_resumed),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_grace),
		cmocka_unit_test(test_no_more_than_needed),
		cmocka_unit_test(test_requeued),
		cmocka_unit_test(test_killed_in_grace),
		cmocka_unit_test(test_killed_in_slice),
		cmocka_unit_test(test_killed_while_standing),
		cmocka_unit_test(test_workloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
