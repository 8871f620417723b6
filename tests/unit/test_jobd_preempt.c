/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preemption and time slices with a virtual clock: what the recorded cases of a real Slurm
 * (test_jobd_replay.c) do not have: suspensions that fail, heterogeneous jobs, a program that is
 * killed in between, and placements that preempt as little as possible. Random workloads are those
 * of test_jobd_workloads.c. Times are seconds since the begin.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/proc.h"
#include "tests/lib/jobd_rig.h"

#define NODES                                                                                      \
	"ClusterName=test\nKillWait=10\nMinJobAge=1000000\nSchedulerTimeSlice=10\n"                \
	"PreemptType=preempt/partition_prio\nNodeName=n[1-4] CPUs=2 RealMemory=4000\n"
#define TIERS(sharing, tier, tier2)                                                                \
	"PartitionName=lo Nodes=ALL Default=YES PriorityTier=" tier " OverSubscribe=" sharing "\n" \
	"PartitionName=hi Nodes=ALL PriorityTier=" tier2 " OverSubscribe=" sharing "\n"
#define PARTS(sharing) TIERS(sharing, "1", "2")
#define LINEAR         "SelectType=select/linear\n"
#define CORES          "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
#define CORES_MEMORY   "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
#define SUSPEND        "PreemptMode=SUSPEND,GANG\n"

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

#define LINEAR_MEMORY LINEAR "SelectTypeParameters=CR_Memory\n"

/* The guide: "suspended jobs remain in memory", which is counted "to ensure that memory page
 * swapping does not occur". */
static void test_memory_of_suspended(void **state)
{
	static const struct {
		const char *conf;
		const char *first, *second; /* those that have n1 and n2, when they are preempted */
		const char *high;
	} rows[] = {
		{NODES LINEAR_MEMORY SUSPEND PARTS("FORCE:1"), "R", "S", "n[2-3]"},
		{NODES CORES_MEMORY SUSPEND PARTS("FORCE:1"), "R", "S", "n[2-3]"},
		/* of a job that ends it is free */
		{NODES LINEAR_MEMORY "PreemptMode=CANCEL\n" PARTS("NO"), "PR", "R", "n[1,3]"},
	};
	struct job *low[4], *high, *waits;
	struct err err = ERR_INIT;
	struct rig rig;
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		/* n3 is free; n4 is full of memory, too */
		low[0] = rig_submit(
			&rig, .nodelist = "n1", .exclusive = true, .run_s = 300, .memory_mb = 3000);
		low[1] = rig_submit(&rig, .nodelist = "n2", .exclusive = true, .run_s = 1000,
			.memory_mb = 2000);
		low[2] = rig_submit(&rig, .nodelist = "n4", .exclusive = true, .run_s = 1000,
			.memory_mb = 4000);
		rig_run(&rig, 20);
		high = rig_submit(&rig, .nodes = 2, .exclusive = true, .partition = "hi",
			.run_s = 50, .memory_mb = 2000);
		rig_run(&rig, 21);
		if (strcmp(state_of(low[0]), rows[i].first) != 0 ||
			strcmp(state_of(low[1]), rows[i].second) != 0 ||
			strcmp(high->record.nodes ? high->record.nodes : "", rows[i].high) != 0)
			fail_msg("row %zu: %s %s, %s on %s", i, state_of(low[0]), state_of(low[1]),
				state_of(high), high->record.nodes);
		rig_clear(&rig);
	}
	/* it waits for memory, though jobs could stand still for it; by hand, too */
	rig_make(&rig, rows[0].conf);
	for (k = 0; k < 4; k++)
		low[k] =
			rig_submit(&rig, .nodes = 1, .run_s = 100 + (uint32_t)k, .memory_mb = 3000);
	rig_run(&rig, 20);
	waits = rig_submit(&rig, .nodes = 1, .partition = "hi", .run_s = 50, .memory_mb = 1500);
	assert_int_equal(engine_suspend(rig.e, low[0], &err), 0);
	rig_run(&rig, 50);
	assert_state(waits, "PD");
	assert_state(low[0], "S");
	assert_state(low[1], "R");
	rig_run(&rig, 101);
	assert_state(low[1], "CD");
	assert_state(waits, "R");
	assert_nodes(waits, "n2");
	rig_clear(&rig);
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

/* The guide: "only when the preemptor job ends then the suspended jobs will be resumed", also where
 * it has no turn meanwhile. */
static void test_shadow_stays(void **state)
{
	struct job *low, *high, *other;
	struct rig rig;
	uint32_t t;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:2"));
	low = rig_submit(&rig, .nodelist = "n1", .run_s = 100);
	rig_run(&rig, 1);
	high = rig_submit(&rig, .nodelist = "n[1-2]", .partition = "hi", .run_s = 35);
	other = rig_submit(&rig, .nodelist = "n[2-3]", .partition = "hi", .run_s = 100);
	assert_state(other, "S");
	for (t = 2; strcmp(state_of(high), "CD") != 0; t++) {
		assert_state(low, "S");
		rig_run(&rig, t);
	}
	assert_true(t > 50); /* of three slices and a half, with others in between */
	assert_state(low, "R");
	rig_clear(&rig);
}

static void test_shadows_of_three_tiers(void **state)
{
	struct job *low, *med, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		NODES LINEAR SUSPEND PARTS("FORCE:1") "PartitionName=top Nodes=ALL PriorityTier=3 "
						      "OverSubscribe=FORCE:1\n");
	low = rig_submit(&rig, .nodelist = "n4", .run_s = 1000);
	med = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 100);
	high = rig_submit(&rig, .nodelist = "n1", .partition = "top", .run_s = 50);
	rig_run(&rig, 40);
	assert_state(high, "R");
	assert_state(med, "S");
	assert_state(low, "S");
	rig_run(&rig, 60);
	assert_state(high, "CD");
	assert_state(med, "R");
	assert_state(low, "S");
	rig_run(&rig, 151);
	assert_state(med, "CD");
	assert_state(low, "R");
	rig_clear(&rig);
}

/* The guide: a tier "can be updated with scontrol reconfig". */
static void test_other_tiers(void **state)
{
	struct job *low, *high;
	struct err err = ERR_INIT;
	char *restart = NULL;
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:1"));
	low = rig_submit(&rig, .nodes = 4, .run_s = 100);
	high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 100);
	rig_run(&rig, 5);
	assert_state(low, "S");
	assert_int_equal(
		engine_reconfigure(rig.e, rig_conf(NODES LINEAR SUSPEND TIERS("FORCE:1", "3", "2")),
			&restart, &err),
		0);
	assert_null(restart);
	rig_run(&rig, 6);
	assert_state(low, "R");
	assert_state(high, "S");
	rig_clear(&rig);
}

#define TWO_PARTS(tier, tier2)                                                                     \
	"ClusterName=test\nSchedulerTimeSlice=10\nPreemptType=preempt/qos\nNodeName=n1 CPUs=2\n"   \
	"PreemptMode=SUSPEND,GANG\n" CORES                                                         \
	"PartitionName=a Nodes=n1 OverSubscribe=FORCE:1 PriorityTier=" tier "\n"                   \
	"PartitionName=b Nodes=n1 OverSubscribe=FORCE:1 PriorityTier=" tier2                       \
	"\nQOSName=low\nQOSName=high Priority=2 Preempt=low\n"

/* The guide: "if the preemptees and preemptor are on different partitions then the preempted jobs
 * will remain suspended until the preemptor ends"; the tiers are "not relevant". */
static void test_qos_in_two_partitions(void **state)
{
	static const char *const confs[] = {
		TWO_PARTS("1", "1"), TWO_PARTS("5", "1"), TWO_PARTS("1", "5")};
	struct job *low, *high, *next;
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(confs); i++) {
		rig_make(&rig, confs[i]);
		low = rig_submit(&rig, .partition = "a", .tasks = 2, .run_s = 100, .qos = "low");
		high = rig_submit(&rig, .partition = "b", .tasks = 2, .run_s = 50, .qos = "high");
		rig_run(&rig, 49);
		assert_state(high, "R");
		assert_state(low, "S");
		rig_run(&rig, 50);
		assert_state(high, "CD");
		assert_state(low, "R");
		/* in its own partition they take turns */
		next = rig_submit(&rig, .partition = "a", .tasks = 2, .run_s = 8, .qos = "high");
		assert_state(next, "S");
		rig_run(&rig, 69);
		assert_state(next, "CD");
		assert_state(low, "R");
		rig_clear(&rig);
	}
}

/* The guide: preempt/qos "will permit one additional job to be run on the partition", and no more.
 */
static void test_qos_has_one_more(void **state)
{
	struct job *high, *next;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		"ClusterName=test\nPreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n"
		"NodeName=n1 CPUs=2\n" CORES
		"PartitionName=a Nodes=n1 OverSubscribe=FORCE:2 Default=YES\n"
		"QOSName=low\nQOSName=high Priority=2 Preempt=low\n");
	(void)rig_submit(&rig, .tasks = 2, .run_s = 100, .qos = "low");
	(void)rig_submit(&rig, .tasks = 2, .run_s = 100, .qos = "low");
	high = rig_submit(&rig, .tasks = 2, .run_s = 100, .qos = "high");
	assert_state(high, "S");
	next = rig_submit(&rig, .tasks = 2, .run_s = 100, .qos = "high");
	assert_state(next, "PD");
	assert_int_equal(engine_get_reason(rig.e, next), JOB_REASON_RESOURCES);
	rig_clear(&rig);
}

/* The guide: "the preempted job(s) and the preemptor job" take turns: nobody else has to, who is
 * there. The first job is on the lower core. */
static void test_qos_shares_with_preempted(void **state)
{
	static const char *const rows[] = {"QOSName=other\n", "QOSName=other PreemptMode=OFF\n",
		"QOSName=other PreemptExemptTime=1:00\n"};
	struct job *other, *low, *high;
	struct rig rig;
	char conf[1024];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(conf, sizeof(conf),
			"ClusterName=test\nSchedulerTimeSlice=10\nPreemptType=preempt/qos\n"
			"PreemptMode=SUSPEND,GANG\nNodeName=n1 CPUs=2\n" CORES
			"PartitionName=a Nodes=n1 OverSubscribe=FORCE:1 Default=YES\n"
			"QOSName=low\n%sQOSName=high Priority=2 Preempt=low%s\n",
			rows[i], i ? ",other" : "");
		rig_make(&rig, conf);
		other = rig_submit(&rig, .tasks = 1, .run_s = 50, .qos = "other");
		low = rig_submit(&rig, .tasks = 1, .run_s = 40, .qos = "low");
		rig_run(&rig, 1);
		high = rig_submit(&rig, .tasks = 1, .run_s = 40, .qos = "high");
		assert_state(high, "S");
		assert_true(bit_equal(
			high->record.job_resrcs->core_bitmap, low->record.job_resrcs->core_bitmap));
		rig_run(&rig, 49);
		assert_true(low->record.tot_sus_time + high->record.tot_sus_time > 0);
		assert_state(other, "R");
		assert_int_equal(other->record.tot_sus_time, 0);
		rig_run(&rig, 100);
		assert_state(high, "CD");
		rig_clear(&rig);
	}
}

/* Of two rows one may be that of a job that is not preempted, but not both. */
static void test_qos_shares_one_row_more(void **state)
{
	struct job *high, *next;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		"ClusterName=test\nSchedulerTimeSlice=10\nPreemptType=preempt/qos\n"
		"PreemptMode=SUSPEND,GANG\nNodeName=n1 CPUs=2\n" CORES
		"PartitionName=a Nodes=n1 OverSubscribe=FORCE:2 Default=YES\n"
		"QOSName=low\nQOSName=other\nQOSName=high Priority=2 Preempt=low\n");
	(void)rig_submit(&rig, .tasks = 2, .run_s = 1000, .qos = "other");
	(void)rig_submit(&rig, .tasks = 1, .run_s = 1000, .qos = "other");
	(void)rig_submit(&rig, .tasks = 1, .run_s = 1000, .qos = "low");
	high = rig_submit(&rig, .tasks = 1, .run_s = 1000, .qos = "high");
	assert_true(bit_test(high->record.job_resrcs->core_bitmap, 1)); /* low's */
	next = rig_submit(&rig, .tasks = 1, .run_s = 1000, .qos = "high");
	assert_state(next, "PD");
	rig_clear(&rig);
}

/* A job that shares its nodes with nobody takes no turns with those that it preempts, nor does it
 * where it is preempted: it is as between partitions. */
static void test_qos_alone(void **state)
{
	static const struct {
		const char *sharing;
		bool low, high;
	} rows[] = {
		{"FORCE:1", false, true}, {"FORCE:1", true, false}, {"EXCLUSIVE", false, false}};
	struct job *low, *high;
	struct rig rig;
	char conf[1024];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(conf, sizeof(conf),
			"ClusterName=test\nSchedulerTimeSlice=10\nPreemptType=preempt/qos\n"
			"PreemptMode=SUSPEND,GANG\nNodeName=n1 CPUs=2\n" CORES
			"PartitionName=a Nodes=n1 OverSubscribe=%s Default=YES\n"
			"QOSName=low\nQOSName=high Priority=2 Preempt=low\n",
			rows[i].sharing);
		rig_make(&rig, conf);
		low = rig_submit(
			&rig, .tasks = 1, .exclusive = rows[i].low, .run_s = 100, .qos = "low");
		rig_run(&rig, 5);
		high = rig_submit(
			&rig, .tasks = 1, .exclusive = rows[i].high, .run_s = 50, .qos = "high");
		if (rows[i].high || !rows[i].low) {
			assert_state(high, "R");
			assert_state(low, "S");
			rig_run(&rig, 54);
			assert_state(low, "S");
		}
		assert_time(high->record.start_time, 5);
		rig_run(&rig, 55);
		assert_state(high, "CD");
		assert_state(low, "R");
		assert_int_equal(low->record.tot_sus_time, 50);
		rig_clear(&rig);
	}
}

#define BY_QOS(mode, lines)                                                                        \
	"ClusterName=test\nKillWait=2\nMinJobAge=1000000\nPreemptType=preempt/qos\n"               \
	"PreemptMode=" mode "\nNodeName=n[1-3] CPUs=1\n" CORES                                     \
	"PartitionName=a Nodes=ALL OverSubscribe=FORCE:1 Default=YES\n"                            \
	"PartitionName=b Nodes=ALL OverSubscribe=FORCE:1\n" lines

/* What a QOS has of its own is in effect for its jobs, in place of the cluster's. */
static void test_qos_of_preempted(void **state)
{
	static const struct {
		const char *conf;
		const char *at_once, *then; /* its state when it is preempted, and at 25 s */
		const char *high;           /* at 25 s */
	} rows[] = {
		{BY_QOS("CANCEL", "QOSName=low PreemptMode=REQUEUE\n"), "PD", "PD", "R"},
		{BY_QOS("CANCEL,GANG", "QOSName=low PreemptMode=SUSPEND\n"), "S", "S", "R"},
		{BY_QOS("REQUEUE", "QOSName=low PreemptMode=CANCEL GraceTime=8\n"), "R", "PR", "R"},
		{BY_QOS("REQUEUE", "QOSName=low PreemptMode=CANCEL GraceTime=20\n"), "R", "R",
			"PD"},
		{BY_QOS("CANCEL", "QOSName=low PreemptMode=OFF\n"), "R", "R", "PD"},
		{BY_QOS("CANCEL", "QOSName=low PreemptExemptTime=0:20\n"), "R", "PR", "R"},
		{BY_QOS("CANCEL", "PreemptExemptTime=10:00\nQOSName=low PreemptExemptTime=0\n"),
			"PR", "PR", "R"},
		{BY_QOS("CANCEL", "PreemptExemptTime=10:00\nQOSName=low\n"), "R", "R", "PD"},
	};
	struct job *low, *high;
	struct rig rig;
	char conf[1024];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(conf, sizeof(conf), "%sQOSName=high Priority=2 Preempt=low\n",
			rows[i].conf);
		rig_make(&rig, conf);
		low = rig_submit(&rig, .nodes = 3, .partition = "a", .run_s = 1000, .qos = "low");
		rig_run(&rig, 10);
		high = rig_submit(&rig, .nodes = 3, .partition = "b", .run_s = 1000, .qos = "high");
		if (strcmp(state_of(low), rows[i].at_once) != 0)
			fail_msg("row %zu: %s at once", i, state_of(low));
		rig_run(&rig, 25);
		if (strcmp(state_of(low), rows[i].then) != 0 ||
			strcmp(state_of(high), rows[i].high) != 0)
			fail_msg("row %zu: %s, %s", i, state_of(low), state_of(high));
		rig_clear(&rig);
	}
}

/* The lowest QOS first, whoever came first. */
static void test_qos_order(void **state)
{
	static const char *const qos[] = {"second", "last", "first"};
	static const int order[] = {2, 0, 1};
	struct job *low[3];
	struct rig rig;
	size_t i, k;

	(void)state;
	rig_make(&rig,
		BY_QOS("CANCEL",
			"QOSName=first Priority=1\nQOSName=second Priority=2\nQOSName=last "
			"Priority=3\nQOSName=high Priority=9 Preempt=first,second,last\n"));
	for (i = 0; i < 3; i++) {
		low[i] = rig_submit(&rig, .nodes = 1, .run_s = 1000, .qos = qos[i]);
		rig_run(&rig, rig_now(&rig) + 1);
	}
	for (i = 0; i < 3; i++) {
		(void)rig_submit(&rig, .nodes = 1, .run_s = 1000, .qos = "high");
		for (k = 0; k < 3; k++)
			assert_state(low[order[k]], k <= i ? "PR" : "R");
	}
	rig_clear(&rig);
}

#define TURNS(sharing) NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS(sharing)

/* The tick at 10 s is less than a slice after the second job came. Who comes while others take
 * turns waits for no tick more. */
static void test_first_turn(void **state)
{
	struct job *first, *second, *third;
	struct rig rig;

	(void)state;
	rig_make(&rig, TURNS("FORCE:3"));
	first = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	rig_run(&rig, 3);
	second = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	rig_run(&rig, 19);
	assert_state(first, "R");
	assert_state(second, "S");
	rig_run(&rig, 20);
	assert_state(first, "S");
	assert_state(second, "R");
	rig_run(&rig, 23);
	third = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	rig_run(&rig, 30);
	assert_state(first, "R");
	rig_run(&rig, 40);
	assert_state(third, "R");
	rig_clear(&rig);
}

/* Nobody has its cores as long as its processes have. */
static void test_turn_of_an_ending_job(void **state)
{
	struct job *first, *second;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(
		&rig, NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:2"));
	first = rig_submit(&rig, .nodes = 4, .run_s = 1000, .term_s = 5);
	second = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	rig_run(&rig, 8);
	assert_int_equal(engine_cancel(rig.e, first, &err), 0);
	rig_run(&rig, 12); /* a slice has begun */
	assert_state(first, "CG");
	assert_state(second, "S");
	rig_run(&rig, 13);
	assert_state(first, "CA");
	assert_state(second, "R");
	rig_clear(&rig);
}

/* A turn that was cut short by hand is one, too. */
static void test_turn_that_was_stopped(void **state)
{
	struct job *first, *second, *third;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(
		&rig, NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:3"));
	first = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	second = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	third = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	rig_run(&rig, 5);
	assert_int_equal(engine_suspend(rig.e, first, &err), 0);
	rig_run(&rig, 11);
	assert_state(third, "R");
	assert_int_equal(engine_resume(rig.e, first, &err), 0);
	rig_run(&rig, 19);
	assert_state(third, "R");
	rig_run(&rig, 21);
	assert_state(first, "R");
	assert_state(second, "S");
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

/* The guide has (Resources) as its reason: what it had is another's. When that has ended only the
 * time is left. */
static void test_requeued(void **state)
{
	struct job *low, *kept, *high;
	struct rig first, rig;
	uint32_t low_id;

	(void)state;
	rig_make(&first, NODES LINEAR "PreemptMode=REQUEUE\n" PARTS("NO"));
	low = rig_submit(&first, .nodes = 2, .run_s = 100);
	kept = rig_submit(&first, .nodes = 2, .run_s = 100, .no_requeue = true);
	high = rig_submit(&first, .nodes = 4, .partition = "hi", .run_s = 10);
	rig_run(&first, 1);
	assert_state(low, "PD");
	assert_int_equal(engine_get_reason(first.e, low), JOB_REASON_RESOURCES);
	assert_state(kept, "PR");
	assert_state(high, "R");
	low_id = id_of(low);
	rig_restore(&first, &rig, NODES LINEAR "PreemptMode=REQUEUE\n" PARTS("NO"));
	low = job_again(&rig, low_id);
	assert_int_equal(engine_get_reason(rig.e, low), JOB_REASON_RESOURCES);
	rig_run(&rig, 11);
	assert_int_equal(engine_get_reason(rig.e, low), JOB_REASON_BEGIN_TIME);
	rig_run(&rig, 120);
	assert_state(low, "PD");
	rig_run(&rig, 121);
	assert_state(low, "R");
	assert_time(low->record.start_time, 121);
	assert_int_equal(low->restarts, 1);
	assert_int_equal(low->preempt_time, 0);
	rig_clear(&rig);
}

/* The guide: GraceTime "is only honored if PreemptMode=CANCEL". */
static void test_requeued_without_grace(void **state)
{
	struct job *low, *kept, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		NODES LINEAR "PreemptMode=REQUEUE\nPartitionName=lo Nodes=ALL Default=YES "
			     "PriorityTier=1 GraceTime=30\nPartitionName=hi Nodes=ALL "
			     "PriorityTier=2\n");
	low = rig_submit(&rig, .nodes = 2, .run_s = 1000);
	kept = rig_submit(&rig, .nodes = 2, .run_s = 1000, .no_requeue = true);
	rig_run(&rig, 10);
	high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 50);
	assert_state(low, "PD");
	assert_state(kept, "PR");
	assert_state(high, "R");
	rig_clear(&rig);
}

/* The guide: "they must have the "--requeue" sbatch option set or the cluster wide JobRequeue". */
static void test_requeue_option(void **state)
{
	static const struct {
		const char *conf;
		bool requeue, no_requeue;
		const char *code;
	} rows[] = {
		{"JobRequeue=0\n", false, false, "PR"},
		{"JobRequeue=0\n", true, false, "PD"},
		{"JobRequeue=1\n", false, false, "PD"},
		{"JobRequeue=1\n", false, true, "PR"},
	};
	struct job *low, *high;
	struct rig rig;
	char conf[1024];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(conf, sizeof(conf), "%s%s", rows[i].conf,
			NODES LINEAR "PreemptMode=REQUEUE\n" PARTS("NO"));
		rig_make(&rig, conf);
		low = rig_submit(&rig, .nodes = 4, .run_s = 100, .requeue = rows[i].requeue,
			.no_requeue = rows[i].no_requeue);
		high = rig_submit(&rig, .nodes = 4, .partition = "hi", .run_s = 10);
		assert_state(low, rows[i].code);
		assert_state(high, "R");
		rig_clear(&rig);
	}
}

/* The guide: the exempt time "is honored for all values of PreemptMode". */
static void test_exempt_time(void **state)
{
	static const struct {
		const char *conf, *code;
	} rows[] = {
		{NODES LINEAR "PreemptMode=CANCEL\nPreemptExemptTime=0:30\n" PARTS("NO"), "PR"},
		{NODES LINEAR "PreemptMode=REQUEUE\nPreemptExemptTime=0:30\n" PARTS("NO"), "PD"},
		{NODES LINEAR SUSPEND "PreemptExemptTime=0:30\n" PARTS("FORCE:1"), "S"},
		{NODES CORES "PreemptMode=CANCEL\nPreemptExemptTime=0:30\n" PARTS("NO"), "PR"},
		{NODES CORES "PreemptMode=REQUEUE\nPreemptExemptTime=0:30\n" PARTS("NO"), "PD"},
		{NODES CORES SUSPEND "PreemptExemptTime=0:30\n" PARTS("FORCE:1"), "S"},
	};
	struct job *low, *high;
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		rig_run(&rig, 5);
		low = rig_submit(&rig, .nodes = 4, .tasks = 8, .run_s = 1000);
		rig_run(&rig, 10);
		high = rig_submit(&rig, .nodes = 1, .partition = "hi", .run_s = 1000);
		rig_run(&rig, 34);
		assert_state(low, "R");
		assert_state(high, "PD");
		rig_run(&rig, 36);
		assert_state(low, rows[i].code);
		assert_state(high, "R");
		assert_time(high->record.start_time, 35);
		rig_clear(&rig);
	}
}

#define SIZES(lines)                                                                               \
	"ClusterName=test\nMinJobAge=1000000\nPreemptMode=CANCEL\n"                                \
	"PreemptType=preempt/partition_prio\n" LINEAR lines "PartitionName=lo Nodes=ALL "          \
	"Default=YES\nPartitionName=mid Nodes=ALL PriorityTier=2\n"                                \
	"PartitionName=hi Nodes=ALL PriorityTier=3\n"

/* The guide: the list is sorted by "partition priority and job size", or by "job start time (with
 * SchedulerParameters=preempt_youngest_first)". */
static void test_youngest_first(void **state)
{
	static const struct {
		const char *conf;
		int order[3];
	} rows[] = {
		{SIZES("NodeName=n[1-4] CPUs=1\n"), {1, 0, 2}},
		{SIZES("NodeName=n[1-4] CPUs=1\nSchedulerParameters=preempt_youngest_first\n"),
			{2, 1, 0}},
	};
	struct job *low[3];
	struct rig rig;
	size_t i, k, m;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		low[0] = rig_submit(&rig, .nodes = 2, .run_s = 1000);
		rig_run(&rig, 1);
		low[1] = rig_submit(&rig, .nodes = 1, .run_s = 1000);
		rig_run(&rig, 2);
		low[2] = rig_submit(&rig, .nodes = 1, .partition = "mid", .run_s = 1000);
		rig_run(&rig, 3);
		for (k = 0; k < 3; k++) {
			(void)rig_submit(&rig, .nodes = low[rows[i].order[k]]->record.node_cnt,
				.partition = "hi", .run_s = 1000);
			for (m = 0; m < 3; m++)
				assert_state(low[rows[i].order[m]], m <= k ? "PR" : "R");
		}
		rig_clear(&rig);
	}
}

/* The guide's example of 2, 4 and 8 nodes for 8; and one that takes two turns: 1 and 2 nodes are
 * preempted before 3, for 5; with 3 first and 1, of the same overlap, 2 is the last one. */
static void test_reorder_count(void **state)
{
	static const struct {
		const char *conf;
		uint32_t sizes[3], wanted;
		const char *codes[3];
	} rows[] = {
		{SIZES("NodeName=n[1-14] CPUs=1\n"
		       "SchedulerParameters=preempt_reorder_count=0\n"),
			{2, 4, 8}, 8, {"PR", "PR", "PR"}},
		{SIZES("NodeName=n[1-14] CPUs=1\n"), {2, 4, 8}, 8, {"R", "R", "PR"}},
		{SIZES("NodeName=n[1-6] CPUs=1\n"), {3, 1, 2}, 5, {"PR", "PR", "PR"}},
		{SIZES("NodeName=n[1-6] CPUs=1\nSchedulerParameters=preempt_reorder_count=2\n"),
			{3, 1, 2}, 5, {"PR", "R", "PR"}},
	};
	struct job *low[3];
	struct rig rig;
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		for (k = 0; k < 3; k++)
			low[k] = rig_submit(&rig, .nodes = rows[i].sizes[k], .run_s = 1000);
		(void)rig_submit(&rig, .nodes = rows[i].wanted, .partition = "hi", .run_s = 1000);
		for (k = 0; k < 3; k++)
			assert_state(low[k], rows[i].codes[k]);
		rig_clear(&rig);
	}
}

/* ---- several modes at once ---------------------------------------------------------------------
 */

#define BOTH(select, mode)                                                                         \
	"ClusterName=test\nKillWait=2\nMinJobAge=1000000\nSchedulerTimeSlice=10\n"                 \
	"PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\n" select                    \
	"PartitionName=lo Nodes=ALL Default=YES OverSubscribe=FORCE:1\n"                           \
	"PartitionName=lo2 Nodes=ALL OverSubscribe=FORCE:1 " mode                                  \
	"\nPartitionName=hi Nodes=ALL PriorityTier=2 OverSubscribe=FORCE:1\n"

/* The guide: "jobs in a low priority queue may get requeued, while jobs in a medium priority queue
 * may get suspended", also for one job. */
static void test_both_modes(void **state)
{
	static const struct {
		const char *conf, *code;
		uint32_t end_s; /* of the one that ends */
	} rows[] = {
		{BOTH(LINEAR "NodeName=n[1-2] CPUs=1\n", "PreemptMode=CANCEL"), "PR", 10},
		{BOTH(LINEAR "NodeName=n[1-2] CPUs=1\n", "PreemptMode=REQUEUE"), "PD", 10},
		{BOTH(CORES "NodeName=n[1-2] CPUs=1\n", "PreemptMode=CANCEL"), "PR", 10},
		{BOTH(CORES "NodeName=n[1-2] CPUs=1\n", "PreemptMode=REQUEUE"), "PD", 10},
		{BOTH(CORES "NodeName=n1 CPUs=2\n", "PreemptMode=REQUEUE"), "PD", 10},
		{BOTH(CORES "NodeName=n1 CPUs=2\n", "PreemptMode=CANCEL GraceTime=20"), "PR", 30},
		{BOTH("SelectType=select/cons_res\nSelectTypeParameters=CR_Core,CR_Least_Preempt\n"
		      "NodeName=n1 CPUs=2\n",
			 "PreemptMode=CANCEL GraceTime=20"),
			"PR", 30},
	};
	struct job *stands, *ends, *high;
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		stands = rig_submit(&rig, .tasks = 1, .run_s = 1000);
		ends = rig_submit(&rig, .tasks = 1, .partition = "lo2", .run_s = 1000);
		rig_run(&rig, 10);
		high = rig_submit(&rig, .tasks = 2, .partition = "hi", .run_s = 50);
		rig_run(&rig, rows[i].end_s - 1);
		if (rows[i].end_s > 10) {
			assert_state(ends, "R");
			assert_state(stands, "R"); /* not before it helps */
			assert_state(high, "PD");
		}
		rig_run(&rig, rows[i].end_s);
		assert_state(ends, rows[i].code);
		assert_state(stands, "S");
		assert_state(high, "R");
		assert_time(high->record.start_time, rows[i].end_s);
		rig_run(&rig, rows[i].end_s + 50);
		assert_state(high, "CD");
		assert_state(stands, "R");
		rig_clear(&rig);
	}
}

/* By QOS: it takes turns with one of its own partition, has one of another suspended, and one
 * cancelled. */
static void test_all_ways_by_qos(void **state)
{
	struct job *turns, *stands, *ends, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		"ClusterName=test\nSchedulerTimeSlice=10\nPreemptType=preempt/qos\n"
		"PreemptMode=SUSPEND,GANG\nNodeName=n1 CPUs=3\n" CORES
		"PartitionName=a Nodes=n1 OverSubscribe=FORCE:1 Default=YES\n"
		"PartitionName=b Nodes=n1 OverSubscribe=FORCE:1\n"
		"QOSName=low\nQOSName=out PreemptMode=CANCEL\n"
		"QOSName=high Priority=2 Preempt=low,out\n");
	turns = rig_submit(&rig, .tasks = 1, .run_s = 1000, .qos = "low");
	stands = rig_submit(&rig, .tasks = 1, .partition = "b", .run_s = 1000, .qos = "low");
	ends = rig_submit(&rig, .tasks = 1, .partition = "b", .run_s = 1000, .qos = "out");
	rig_run(&rig, 5);
	high = rig_submit(&rig, .tasks = 3, .run_s = 40, .qos = "high");
	rig_run(&rig, 6);
	assert_state(ends, "PR");
	assert_state(high, "S"); /* its turn comes */
	rig_run(&rig, 25);
	assert_state(high, "R");
	assert_state(turns, "S");
	assert_state(stands, "S");
	rig_run(&rig, 35);
	assert_state(high, "S");
	assert_state(turns, "R");
	assert_state(stands, "S");
	rig_run(&rig, 200);
	assert_state(high, "CD");
	assert_state(turns, "R");
	assert_state(stands, "R");
	rig_clear(&rig);
}

/* ---- what is read again ------------------------------------------------------------------------
 */

#define SHARED(select, sharing)                                                                    \
	"ClusterName=test\nMinJobAge=1000000\n" select                                             \
	"NodeName=n1 CPUs=2\nPartitionName=a Nodes=n1 Default=YES OverSubscribe=" sharing "\n"

/* The guide: OverSubscribe "can be updated with scontrol reconfig"; running jobs share then, too.
 */
static void test_other_sharing(void **state)
{
	static const struct {
		const char *before, *after;
		bool restarts;
	} rows[] = {
		{SHARED(LINEAR, "NO"), SHARED(LINEAR, "FORCE:2"), false},
		{SHARED(LINEAR, "NO"), SHARED(LINEAR, "FORCE:2"), true},
		{SHARED(LINEAR, "EXCLUSIVE"), SHARED(LINEAR, "FORCE:2"), false},
		{SHARED(CORES, "NO"), SHARED(CORES, "FORCE:2"), false},
		{SHARED(CORES, "NO"), SHARED(CORES, "FORCE:2"), true},
		{SHARED(CORES, "EXCLUSIVE"), SHARED(CORES, "FORCE:2"), false},
		{SHARED(CORES, "EXCLUSIVE"), SHARED(CORES, "FORCE:2"), true},
	};
	uint32_t first_id, next_id;
	struct err err = ERR_INIT;
	struct job *first, *next;
	char *restart = NULL;
	struct rig was, rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].before);
		first_id = id_of(rig_submit(&rig, .tasks = 2, .run_s = 100));
		next_id = id_of(rig_submit(&rig, .tasks = 2, .run_s = 100));
		rig_run(&rig, 5);
		assert_state(job_again(&rig, next_id), "PD");
		if (rows[i].restarts) {
			was = rig;
			rig_restore(&was, &rig, rows[i].after);
		} else {
			assert_int_equal(
				engine_reconfigure(rig.e, rig_conf(rows[i].after), &restart, &err),
				0);
			assert_null(restart);
		}
		rig_run(&rig, 10);
		first = job_again(&rig, first_id);
		next = job_again(&rig, next_id);
		assert_state(first, "R");
		assert_state(next, "R");
		assert_int_equal(first->record.job_resrcs->node_req, NODE_CR_AVAILABLE);
		/* and back again: no third one, and nobody is put out */
		assert_int_equal(
			engine_reconfigure(rig.e, rig_conf(rows[i].before), &restart, &err), 0);
		next = rig_submit(&rig, .tasks = 2, .run_s = 100);
		rig_run(&rig, 50);
		assert_state(next, "PD");
		assert_state(first, "R");
		rig_run(&rig, 200);
		assert_state(next, "R");
		rig_run(&rig, 400);
		assert_int_equal(node_record_table_ptr[0].no_share_job_cnt, 0);
		assert_int_equal(
			node_record_table_ptr[0].node_state & NODE_STATE_BASE, NODE_STATE_IDLE);
		rig_clear(&rig);
	}
}

/* ---- heterogeneous jobs ------------------------------------------------------------------------
 */

#define COMPONENTS(mode, mode2)                                                                    \
	"ClusterName=test\nKillWait=10\nMinJobAge=1000000\nSchedulerTimeSlice=10\n"                \
	"PreemptType=preempt/partition_prio\nNodeName=n[1-3] CPUs=1 RealMemory=4000\n" LINEAR      \
	"PartitionName=lo Nodes=ALL Default=YES PriorityTier=1 GraceTime=5 " mode "\n"             \
	"PartitionName=lo2 Nodes=ALL PriorityTier=1 GraceTime=20 " mode2 "\n"                      \
	"PartitionName=hi Nodes=ALL PriorityTier=2 OverSubscribe=FORCE:1\n"

/* Two components of a node each; ret_jobs: both. */
static void add_components(
	struct rig *rig, struct rig_job first, struct rig_job second, struct job **ret_jobs)
{
	const struct rig_job jobs[] = {first, second};
	struct err err = ERR_INIT;
	uint32_t id = 0;

	if (rig_try_components(rig, jobs, 2, &id, &err) < 0)
		fail_msg("%s", err.text);
	rig_run(rig, rig_now(rig));
	ret_jobs[0] = engine_find_job(rig->e, id);
	ret_jobs[1] = engine_get_component(ret_jobs[0], 1);
	assert_int_equal(id_of(ret_jobs[1]), id + 1);
}

#define TWO(...)                                                                                   \
	(struct rig_job){__VA_ARGS__}, (struct rig_job)                                            \
	{                                                                                          \
		.partition = "lo2"                                                                 \
	}

/* They start together on nodes of their own, and end with the first one's script. */
static void test_components(void **state)
{
	struct job *het[2], *low, *next;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n");
	low = rig_submit(&rig, .nodes = 2, .run_s = 20);
	add_components(&rig, TWO(.run_s = 100, .exit_status = 256), het);
	assert_int_equal(engine_count_components(het[1]), 2);
	assert_ptr_equal(engine_get_component(het[1], 0), het[0]);
	assert_state(het[0], "PD"); /* n3 is free, for one of them */
	assert_state(het[1], "PD");
	assert_int_equal(engine_get_reason(rig.e, het[1]), JOB_REASON_RESOURCES);
	next = rig_submit(&rig, .nodes = 1, .run_s = 20);
	assert_state(next, "PD");
	rig_run(&rig, 20);
	assert_state(low, "CD");
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	assert_nodes(het[0], "n1");
	assert_nodes(het[1], "n2");
	assert_nodes(next, "n3");
	assert_time(het[0]->record.start_time, 20);
	assert_time(het[1]->record.start_time, 20);
	rig_run(&rig, 119);
	assert_state(het[1], "R");
	rig_run(&rig, 120);
	assert_state(het[0], "F");
	assert_state(het[1], "F");
	assert_int_equal(het[1]->exit_status, 256);
	rig_clear(&rig);
}

static void test_components_cancelled(void **state)
{
	struct job *het[2], *waits[2];
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n");
	add_components(&rig, TWO(.nodes = 2, .run_s = 100), het);
	add_components(&rig, TWO(.nodes = 1, .run_s = 100), waits);
	assert_state(het[1], "R");
	assert_int_equal(engine_hold(rig.e, waits[1], true, &err), 0);
	assert_int_equal(engine_get_reason(rig.e, waits[0]), JOB_REASON_HELD_USER);
	assert_int_equal(engine_release(rig.e, waits[1], true, &err), 0);
	assert_int_equal(engine_suspend(rig.e, het[1], &err), 0);
	rig_run(&rig, 1);
	assert_state(het[0], "S");
	assert_state(het[1], "S");
	assert_int_equal(engine_resume(rig.e, het[0], &err), 0);
	rig_run(&rig, 2);
	assert_state(het[1], "R");
	assert_int_equal(engine_cancel(rig.e, het[1], &err), 0); /* whichever is named */
	rig_run(&rig, 3);
	assert_state(het[0], "CA");
	assert_state(het[1], "CA");
	assert_state(waits[0], "R");
	assert_int_equal(engine_requeue(rig.e, waits[1], &err), 0);
	rig_run(&rig, 4);
	assert_state(waits[0], "PD");
	assert_state(waits[1], "PD");
	assert_int_equal(waits[1]->restarts, 1);
	rig_run(&rig, 130);
	assert_state(waits[0], "R");
	assert_state(waits[1], "R");
	assert_int_equal(engine_requeue(rig.e, waits[0], &err), 0);
	rig_run(&rig, 131);
	assert_int_equal(engine_cancel(rig.e, waits[1], &err), 0); /* while it waits */
	assert_state(waits[0], "CA");
	assert_state(waits[1], "CA");
	assert_int_equal(engine_cancel(rig.e, waits[0], &err), -EINVAL);
	rig_clear(&rig);
}

static void test_components_refused(void **state)
{
	static const struct {
		struct rig_job jobs[2];
		const char *why;
	} rows[] = {
		{{{.nodes = 2}, {.nodes = 2}}, "each component of a heterogeneous job has nodes"},
		{{{.nodelist = "n1"}, {.nodelist = "n1"}}, "has nodes of its own"},
		{{{.array = "0-1"}, {.nodes = 1}}, "can't be an array"},
		{{{.nodes = 1}, {.array = "0-1"}},
			"component 1: a heterogeneous job can't be an array"},
		{{{.nodes = 1}, {.hold = true}}, "to the first component, for all"},
		{{{.nodes = 1}, {.partition = "x"}}, "component 1: there is no partition x"},
		{{{.nodes = 1}, {.nodes = 4}}, "component 1: Requested node configuration"},
	};
	uint32_t id = 0;
	struct rig rig;
	size_t i;

	(void)state;
	rig_make(&rig,
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n");
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = ERR_INIT;

		assert_true(rig_try_components(&rig, rows[i].jobs, 2, &id, &err) < 0);
		if (!strstr(err.text, rows[i].why))
			fail_msg("row %zu: %s", i, err.text);
	}
	rig_run(&rig, 1);
	assert_int_equal(rig.starts, 0);
	assert_int_equal(json_object_size(rig.store.jobs), 0);
	rig_clear(&rig);
}

/* The one that has the fewest nodes to choose from chooses first; backfill has them, too. */
static void test_components_placed(void **state)
{
	struct job *het[2], *low, *small;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n");
	add_components(&rig, (struct rig_job){.run_s = 10},
		(struct rig_job){.exclude = "n[2-3]", .partition = "lo2"}, het);
	assert_nodes(het[0], "n2");
	assert_nodes(het[1], "n1");
	rig_run(&rig, 11);
	low = rig_submit(&rig, .nodelist = "n1", .run_s = 590, .minutes = 10);
	add_components(&rig, (struct rig_job){.run_s = 10, .minutes = 5},
		(struct rig_job){.nodelist = "n1", .partition = "lo2", .minutes = 5}, het);
	small = rig_submit(&rig, .run_s = 60, .minutes = 2);
	rig_run(&rig, 100);
	assert_state(small, "CD"); /* beside them, on a node that they do not need yet */
	assert_time(het[0]->planned_start, 611);
	assert_time(het[1]->planned_start, 611);
	small = rig_submit(&rig, .nodes = 2, .run_s = 590, .minutes = 10);
	rig_run(&rig, 600);
	assert_state(small, "PD"); /* it would delay them */
	rig_run(&rig, 602);
	assert_state(low, "CD");
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	rig_clear(&rig);
}

/* Oracle F1: all of them go, where one is needed; but each when its own grace time is over. */
static void test_components_grace(void **state)
{
	struct job *het[2], *high;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n");
	add_components(&rig, (struct rig_job){.partition = "lo2", .run_s = 1000, .term_s = 1},
		(struct rig_job){.partition = "lo", .term_s = 1}, het);
	high = rig_submit(&rig, .partition = "hi", .nodelist = "n2", .run_s = 500);
	assert_time(het[0]->record.end_time, 20);
	assert_time(het[1]->record.end_time, 5);
	rig_run(&rig, 7);
	assert_state(het[0], "R"); /* it has more time */
	assert_state(het[1], "PR");
	assert_state(high, "R");
	rig_run(&rig, 22);
	assert_state(het[0], "PR");
	/* also where that of the script is the shorter one */
	add_components(&rig, (struct rig_job){.run_s = 1000, .term_s = 1},
		(struct rig_job){.partition = "lo2", .term_s = NO_VAL}, het);
	assert_state(het[1], "R");
	high = rig_submit(&rig, .partition = "hi", .nodes = 1, .run_s = 500);
	rig_run(&rig, 27);
	assert_state(het[0], "CG");
	rig_run(&rig, 28);
	assert_state(het[0], "PR");
	assert_state(high, "R");
	rig_run(&rig, 41);
	assert_state(het[1], "R");
	rig_run(&rig, 42);
	assert_state(het[1], "CG");
	rig_run(&rig, 52); /* KillWait */
	assert_state(het[1], "PR");
	rig_clear(&rig);
}

/* Of two modes the higher one is that of all (oracle F2, F4), and one that can't be preempted
 * protects all (F5). */
static void test_components_modes(void **state)
{
	static const struct {
		const char *conf, *code, *high;
	} rows[] = {
		{COMPONENTS("PreemptMode=REQUEUE", "PreemptMode=REQUEUE") "PreemptMode=CANCEL\n",
			"PD", "R"},
		{COMPONENTS("PreemptMode=CANCEL", "PreemptMode=REQUEUE") "PreemptMode=CANCEL\n",
			"PD", "R"},
		{COMPONENTS("PreemptMode=REQUEUE", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n",
			"PD", "R"},
		{COMPONENTS("PreemptMode=CANCEL", "PreemptMode=OFF") "PreemptMode=CANCEL\n", "R",
			"PD"},
		{COMPONENTS("PreemptMode=OFF", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n", "R",
			"PD"},
		{COMPONENTS(
			 "PreemptMode=CANCEL", "PreemptMode=SUSPEND") "PreemptMode=SUSPEND,GANG\n",
			"S", "R"},
		{COMPONENTS(
			 "PreemptMode=SUSPEND", "PreemptMode=REQUEUE") "PreemptMode=SUSPEND,GANG\n",
			"S", "R"},
	};
	struct job *het[2], *high;
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		add_components(&rig, TWO(.run_s = 1000), het);
		rig_run(&rig, 1);
		high = rig_submit(&rig, .partition = "hi", .nodelist = "n2", .run_s = 50);
		rig_run(&rig, 25);
		if (strcmp(state_of(het[0]), rows[i].code) != 0 ||
			strcmp(state_of(het[1]), rows[i].code) != 0 ||
			strcmp(state_of(high), rows[i].high) != 0)
			fail_msg("row %zu: %s %s, %s", i, state_of(het[0]), state_of(het[1]),
				state_of(high));
		rig_run(&rig, 400);
		assert_state(high, i == 3 || i == 4 ? "PD" : "CD");
		assert_state(het[0], "R"); /* again */
		assert_state(het[1], "R");
		rig_clear(&rig);
	}
}

/* Oracle F3 has it otherwise: there nothing is suspended, and two jobs run on one core. By the
 * guide all components are. The nodes that they leave are others' meanwhile. */
static void test_components_suspended(void **state)
{
	struct job *het[2], *high, *low;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		COMPONENTS("OverSubscribe=FORCE:2",
			"OverSubscribe=FORCE:1") "PreemptMode=SUSPEND,GANG\n");
	add_components(&rig, (struct rig_job){.nodelist = "n1", .run_s = 100},
		(struct rig_job){.partition = "lo2", .nodelist = "n2"}, het);
	low = rig_submit(&rig, .nodelist = "n1", .run_s = 10);
	assert_state(low, "S");
	rig_run(&rig, 1);
	high = rig_submit(&rig, .partition = "hi", .nodelist = "n2", .run_s = 50);
	assert_state(het[0], "S");
	assert_state(het[1], "S");
	assert_state(low, "R");
	rig_run(&rig, 50);
	assert_state(low, "CD");
	assert_state(het[0], "S");
	rig_run(&rig, 51);
	assert_state(high, "CD");
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	assert_int_equal(het[0]->record.tot_sus_time, 50);
	rig_run(&rig, 150);
	assert_state(het[0], "CD");
	rig_clear(&rig);
}

/* One of two jobs has its turn, where each has a component in the way of the other: the one whose
 * component is in no shadow. */
static void test_components_cross(void **state)
{
	struct job *het[2], *other[2];
	struct rig rig;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:2"));
	add_components(&rig, (struct rig_job){.nodelist = "n1", .run_s = 100},
		(struct rig_job){.nodelist = "n2"}, het);
	add_components(&rig, (struct rig_job){.nodelist = "n1", .run_s = 50},
		(struct rig_job){.nodelist = "n2", .partition = "hi"}, other);
	assert_state(other[0], "R");
	assert_state(other[1], "R");
	assert_state(het[0], "S");
	assert_state(het[1], "S");
	rig_run(&rig, 51);
	assert_state(other[1], "CD");
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	rig_clear(&rig);
}

/* A component has its turns among its equals, whatever the tiers of the others are; and what one
 * without a turn leaves is others' in the meantime. */
static void test_components_turns(void **state)
{
	struct job *het[2], *equal, *waits = NULL;
	uint32_t t, ran, turn;
	struct rig rig;

	(void)state;
	for (turn = 0; turn < 2; turn++) {
		rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:2"));
		add_components(&rig,
			(struct rig_job){.nodelist = "n1", .partition = "hi", .run_s = 1000},
			(struct rig_job){.nodelist = "n2"}, het);
		equal = rig_submit(&rig, .nodelist = "n2", .run_s = 1000);
		if (turn)
			waits = rig_submit(
				&rig, .nodelist = "n1", .partition = "hi", .run_s = 1000);
		for (t = 1, ran = 0; t <= 60; t++) {
			rig_run(&rig, t);
			assert_string_equal(state_of(het[0]), state_of(het[1]));
			assert_string_not_equal(state_of(het[0]), state_of(equal));
			if (waits)
				assert_string_equal(state_of(waits), state_of(equal));
			ran += strcmp(state_of(equal), "R") == 0;
		}
		assert_in_range(ran, 20, 40);
		rig_clear(&rig);
	}
}

/* Where one can't be suspended the others go on, too. */
static void test_components_not_suspended(void **state)
{
	struct job *het[2], *high;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig, COMPONENTS("", "") "PreemptMode=SUSPEND,GANG\n");
	add_components(&rig, (struct rig_job){.nodelist = "n1", .run_s = 1000},
		(struct rig_job){.partition = "lo2", .nodelist = "n2", .fault = "suspend"}, het);
	high = rig_submit(&rig, .partition = "hi", .nodelist = "n1", .run_s = 50);
	rig_run(&rig, 1);
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	assert_state(high, "CF");
	rig_run(&rig, 35); /* in each slice it is tried again */
	assert_state(het[0], "R");
	assert_state(high, "CF");
	assert_int_equal(engine_cancel(rig.e, high, &err), 0);
	assert_int_equal(engine_suspend(rig.e, het[0], &err), 0);
	rig_run(&rig, 36);
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	rig_clear(&rig);
}

/* It preempts for all of its components at once. */
static void test_components_preempt(void **state)
{
	struct job *het[2], *low[3];
	struct rig rig;
	uint32_t i;

	(void)state;
	rig_make(&rig, NODES LINEAR "PreemptMode=CANCEL\n" PARTS("NO"));
	for (i = 0; i < 3; i++)
		low[i] = rig_submit(&rig, .run_s = 1000, .term_s = 3);
	add_components(&rig, (struct rig_job){.nodes = 2, .partition = "hi", .run_s = 5},
		(struct rig_job){.partition = "hi"}, het);
	rig_run(&rig, 2);
	assert_state(low[0], "CG");
	assert_state(low[1], "CG");
	assert_state(low[2], "R");
	assert_state(het[0], "PD");
	assert_state(het[1], "PD");
	rig_run(&rig, 4);
	assert_state(het[0], "R");
	assert_state(het[1], "R");
	rig_run(&rig, 9);
	assert_state(het[1], "CD");
	assert_state(low[2], "R");
	rig_clear(&rig);
}

static void test_components_killed(void **state)
{
	const char *conf =
		COMPONENTS("PreemptMode=REQUEUE", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n";
	struct job *het[2], *waits[2];
	struct rig first, rig, last;
	uint32_t a, b, i;

	(void)state;
	rig_make(&first, conf);
	add_components(&first, TWO(.run_s = 100), het);
	add_components(&first, TWO(.run_s = 100), waits);
	a = id_of(het[0]);
	b = id_of(waits[0]);
	rig_run(&first, 10);
	rig_restore(&first, &rig, conf);
	for (i = 0; i < 2; i++) {
		assert_state(job_again(&rig, a + i), "R");
		assert_state(job_again(&rig, b + i), "PD");
		assert_int_equal(job_again(&rig, a + i)->record.het_job_id, a);
		assert_int_equal(job_again(&rig, a + i)->record.het_job_offset, i);
	}
	(void)rig_submit(&rig, .partition = "hi", .nodes = 3, .run_s = 300);
	rig_run(&rig, 16); /* the script's grace time is over, and so the job */
	assert_state(job_again(&rig, a), "PD");
	assert_state(job_again(&rig, a + 1), "PD");
	rig_restore(&rig, &last, conf);
	rig_run(&last, 700);
	for (i = 0; i < 2; i++) {
		assert_state(job_again(&last, a + i), "CD");
		assert_state(job_again(&last, b + i), "CD");
	}
	rig_clear(&last);
}

/* A component whose start was stored, and that of the first one was not. */
static void test_half_a_start(void **state)
{
	const char *conf =
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n";
	struct job *het[2];
	struct rig first, rig;
	struct err err = ERR_INIT;
	json_t *pending;
	char key[16];
	uint32_t a;

	(void)state;
	rig_make(&first, conf);
	add_components(&first, TWO(.hold = true, .run_s = 100), het);
	a = id_of(het[0]);
	(void)snprintf(key, sizeof(key), "%u", a);
	pending = json_deep_copy(json_object_get(first.store.jobs, key));
	(void)json_object_set_new(pending, "priority", json_integer(1));
	assert_int_equal(engine_release(first.e, het[0], true, &err), 0);
	rig_run(&first, 1);
	assert_state(het[1], "R");
	assert_int_equal(json_object_set_new(first.store.jobs, key, pending), 0);
	rig_restore(&first, &rig, conf);
	rig_run(&rig, 12); /* KillWait */
	assert_state(job_again(&rig, a), "PD");
	assert_state(job_again(&rig, a + 1), "PD");
	rig_run(&rig, 140);
	assert_state(job_again(&rig, a), "R");
	assert_state(job_again(&rig, a + 1), "R");
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

/* The turn is as it was, whose ever it is. */
static void test_killed_in_a_later_slice(void **state)
{
	struct rig first, rig;
	uint32_t a, b, c;

	(void)state;
	rig_make(&first,
		NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:3"));
	a = id_of(rig_submit(&first, .nodes = 4, .run_s = 100));
	b = id_of(rig_submit(&first, .nodes = 4, .run_s = 100));
	c = id_of(rig_submit(&first, .nodes = 4, .run_s = 100));
	rig_run(&first, 15); /* b's */
	rig_restore(&first, &rig,
		NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:3"));
	rig_run(&rig, 19);
	assert_state(job_again(&rig, b), "R");
	rig_run(&rig, 21); /* c has not had any yet */
	assert_state(job_again(&rig, c), "R");
	rig_run(&rig, 31);
	assert_state(job_again(&rig, a), "R");
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

/* ---- as few as possible ------------------------------------------------------------------------
 */

/* "Future Ideas" of the guide: the job goes to n[3-5], and two of the three run on. */
static void check_least(const char *conf, const char *nodes, const char *states)
{
	struct job *low[3], *high;
	char got[8] = "";
	struct rig rig;
	uint32_t i;

	rig_make(&rig, conf);
	for (i = 0; i < 3; i++) {
		low[i] = rig_submit(&rig, .nodes = 1, .tasks = 2, .run_s = 600);
		rig_run(&rig, rig_now(&rig) + 1);
	}
	assert_nodes(low[2], "n3");
	rig_run(&rig, 16);
	high = rig_submit(&rig, .nodes = 3, .tasks = 6, .partition = "hi", .run_s = 20);
	assert_state(high, "R");
	assert_nodes(high, nodes);
	snprintf(got, sizeof(got), "%s%s%s", state_of(low[0]), state_of(low[1]), state_of(low[2]));
	assert_string_equal(got, states);
	rig_clear(&rig);
}

#define FIVE                                                                                       \
	"ClusterName=test\nMinJobAge=1000000\nPreemptType=preempt/partition_prio\n"                \
	"NodeName=n[1-5] CPUs=2\n" PARTS("FORCE:1") SUSPEND
#define LEAST_LINEAR LINEAR "SelectTypeParameters=CR_Least_Preempt\n"
#define LEAST_CORES  "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core,CR_Least_Preempt\n"

static void test_least(void **state)
{
	(void)state;
	check_least(FIVE CORES, "n[1-3]", "SSS"); /* as the guide prints it */
	check_least(FIVE LEAST_CORES, "n[3-5]", "RRS");
	check_least(FIVE LINEAR, "n[1,4-5]", "SRR");
	check_least(FIVE LEAST_LINEAR, "n[3-5]", "RRS");
}

/* With QOS it shares cores with as few as possible. */
static void test_least_with_qos(void **state)
{
	static const char *const confs[] = {CORES, LEAST_CORES},
				 *const nodes[] = {"n[1-3]", "n[3-5]"};
	struct job *high;
	struct rig rig;
	char conf[1024];
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(confs); i++) {
		(void)snprintf(conf, sizeof(conf),
			"ClusterName=test\nPreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n"
			"NodeName=n[1-5] CPUs=2\n%sPartitionName=normal Nodes=ALL Default=YES "
			"OverSubscribe=FORCE:1\nQOSName=low\nQOSName=high Priority=2 Preempt=low\n",
			confs[i]);
		rig_make(&rig, conf);
		(void)rig_submit(&rig, .tasks = 2, .nodes = 1, .qos = "low");
		(void)rig_submit(&rig, .tasks = 2, .nodes = 1, .qos = "low");
		rig_run(&rig, 5);
		(void)rig_submit(&rig, .tasks = 2, .nodes = 1, .qos = "low");
		rig_run(&rig, 10);
		high = rig_submit(&rig, .tasks = 6, .nodes = 3, .qos = "high");
		assert_nodes(high, nodes[i]);
		rig_clear(&rig);
	}
}

/* One of 6 nodes in place of two of 4, oracle's pattern P5. */
static void test_least_of_sizes(void **state)
{
	struct job *low[3], *high;
	struct rig rig;

	(void)state;
	rig_make(&rig,
		"ClusterName=test\nMinJobAge=1000000\nPreemptMode=CANCEL\n"
		"PreemptType=preempt/partition_prio\nNodeName=n[1-14] CPUs=1\n" PARTS("NO")
			LEAST_LINEAR);
	low[0] = rig_submit(&rig, .nodes = 4);
	low[1] = rig_submit(&rig, .nodes = 4);
	low[2] = rig_submit(&rig, .nodes = 6);
	rig_run(&rig, 10);
	high = rig_submit(&rig, .nodes = 5, .partition = "hi");
	assert_state(low[0], "R");
	assert_state(low[1], "R");
	assert_state(low[2], "PR");
	assert_nodes(high, "n[9-13]");
	rig_clear(&rig);
}

/* ---- equals ------------------------------------------------------------------------------------
 */

/* Of equals nobody has had more than one time slice more than another. */
static void check_equals(const char *conf, uint32_t count)
{
	time_t least, most, ran;
	struct job *jobs[8];
	struct rig rig;
	uint32_t i, t;

	rig_make(&rig, conf);
	for (i = 0; i < count; i++)
		jobs[i] = rig_submit(&rig, .nodes = 4, .tasks = 8, .run_s = 10000);
	for (t = 1; t < 400; t++) {
		rig_run(&rig, t);
		least = most = -1;
		for (i = 0; i < count; i++) {
			const job_record_t *r = &jobs[i]->record;

			ran = (r->job_state == JOB_SUSPENDED ? r->suspend_time
							     : (time_t)t + RIG_BEGIN_S) -
				r->start_time - r->tot_sus_time;
			least = least < 0 || ran < least ? ran : least;
			most = ran > most ? ran : most;
		}
		assert_true(most - least <= 10);
	}
	rig_clear(&rig);
}

static void test_equals(void **state)
{
	(void)state;
	check_equals(SLICES, 2);
	check_equals(
		NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:5"), 5);
	check_equals(
		NODES CORES "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:3"), 3);
}

/* A job whose turns are cut short by a higher tier, again and again, gives way to its equal all the
 * same. */
static void test_turns_beside_a_shadow(void **state)
{
	struct job *a, *b;
	struct rig rig;
	uint32_t t;

	(void)state;
	rig_make(&rig, NODES LINEAR SUSPEND PARTS("FORCE:2"));
	a = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	b = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	for (t = 5; t < 100; t += 10) {
		rig_run(&rig, t);
		(void)rig_submit(&rig, .nodes = 1, .partition = "hi", .run_s = 7);
	}
	assert_state(a, "S");
	assert_state(b, "S");
	assert_true(a->record.suspend_time - a->record.start_time - a->record.tot_sus_time >= 15);
	assert_true(b->record.suspend_time - b->record.start_time - b->record.tot_sus_time >= 15);
	rig_clear(&rig);
}

/* A job of whole nodes that takes turns with two small ones of these nodes: it has as many. */
static void test_unequal_sizes(void **state)
{
	struct job *one, *two, *all;
	struct rig rig;

	(void)state;
	rig_make(
		&rig, NODES LINEAR "PreemptMode=GANG\nPreemptType=preempt/none\n" PARTS("FORCE:2"));
	one = rig_submit(&rig, .nodes = 2, .nodelist = "n[1-2]", .run_s = 1000);
	two = rig_submit(&rig, .nodes = 2, .nodelist = "n[3-4]", .run_s = 1000);
	all = rig_submit(&rig, .nodes = 4, .run_s = 1000);
	rig_run(&rig, 5);
	assert_state(one, "R");
	assert_state(two, "R");
	assert_state(all, "S");
	rig_run(&rig, 15);
	assert_state(one, "S");
	assert_state(two, "S");
	assert_state(all, "R");
	rig_run(&rig, 25);
	assert_state(one, "R");
	assert_state(two, "R");
	assert_state(all, "S");
	rig_clear(&rig);
}

/* ---- notices, and what is left of a grace time --------------------------------------------------
 */

/* What the engine sends, as "SECONDS:JOB SIGNAL TO, ". */
static struct {
	const struct rig *rig;
	const struct engine_runner *runner; /* the simulation's */
	struct engine_runner noting;
	char text[1024];
} notes;

static void note_signal(struct job *job, int signal, enum job_signal_target target, void *userdata)
{
	static const char *const targets[] = {[JOB_SIGNAL_STEPS] = "steps",
		[JOB_SIGNAL_BATCH] = "script",
		[JOB_SIGNAL_BOTH] = "all"};
	const size_t size = strlen(notes.text);
	char name[SIGNALS_NAME_SIZE];

	(void)snprintf(notes.text + size, sizeof(notes.text) - size, "%u:%u %s %s, ",
		rig_now(notes.rig), id_of(job), signals_name(signal, name, sizeof(name)),
		targets[target]);
	notes.runner->signal(job, signal, target, userdata);
}

static void note_signals(const struct rig *rig)
{
	notes.rig = rig;
	notes.runner = rig->e->options.runner;
	notes.noting = *notes.runner;
	notes.noting.signal = note_signal;
	notes.text[0] = '\0';
	rig->e->options.runner = &notes.noting;
}

#define assert_noted(wanted)                                                                       \
	do {                                                                                       \
		assert_string_equal(notes.text, wanted);                                           \
		notes.text[0] = '\0';                                                              \
	} while (0)

#define SCRIPT      "#!/bin/sh\n"
#define USER_SIGNAL GRACE "SchedulerParameters=preempt_send_user_signal\n"

/* A part of a second that has passed is none of it. */
static void test_whole_grace(void **state)
{
	struct job *low;
	struct rig rig;

	(void)state;
	rig_make(&rig, GRACE);
	low = rig_submit(&rig, .nodes = 4, .run_s = 1000, .term_s = NO_VAL);
	sim_run_until(rig.sim, UINT64_C(1000) * (RIG_BEGIN_S + 10) + 900);
	(void)rig_submit(&rig, .nodes = 1, .partition = "hi");
	assert_time(low->preempt_time, 10);
	assert_time(low->record.end_time, 41);
	sim_run_until(rig.sim, UINT64_C(1000) * (RIG_BEGIN_S + 40) + 900);
	assert_state(low, "R");
	rig_run(&rig, 41);
	assert_state(low, "CG");
	rig_clear(&rig);
}

static void set_limit(const struct rig *rig, struct job *job, int minutes)
{
	json_auto_t *changes = json_pack("{s:i}", "time_limit_min", minutes);
	struct err err = ERR_INIT;

	assert_int_equal(engine_update_job(rig->e, job, changes, true, &err), 0);
}

/* The end of a grace time can be moved by nobody, but a job may end before it. */
static void test_limit_in_grace(void **state)
{
	static const struct {
		int minutes;
		uint32_t end;
	} rows[] = {{100, 80}, {-1, 80}, {1, 60}};
	struct job *low;
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, GRACE);
		low = rig_submit(&rig, .nodes = 4, .run_s = 1000, .minutes = 5, .term_s = NO_VAL);
		rig_run(&rig, 50);
		(void)rig_submit(&rig, .nodes = 1, .partition = "hi");
		assert_time(low->record.end_time, 80);
		set_limit(&rig, low, rows[i].minutes);
		assert_time(low->record.end_time, rows[i].end);
		rig_run(&rig, rows[i].end - 1);
		assert_state(low, "R");
		rig_run(&rig, rows[i].end);
		assert_state(low, "CG");
		rig_run(&rig, rows[i].end + 10);
		assert_state(low, "PR");
		rig_clear(&rig);
	}
}

/* A component that has more time than the first one has it after a restart, too. */
static void test_grace_after_the_script(void **state)
{
	const char *conf =
		COMPONENTS("PreemptMode=CANCEL", "PreemptMode=CANCEL") "PreemptMode=CANCEL\n";
	struct rig first, rig;
	struct job *het[2];
	uint32_t id, high;

	(void)state;
	rig_make(&first, conf);
	add_components(&first, TWO(.run_s = 1000), het);
	id = id_of(het[0]);
	high = id_of(rig_submit(&first, .partition = "hi", .nodes = 3, .run_s = 500));
	rig_run(&first, 10);
	assert_state(het[0], "PR");
	assert_state(het[1], "R");
	rig_restore(&first, &rig, conf);
	rig_run(&rig, 19);
	assert_state(job_again(&rig, id + 1), "R");
	assert_state(job_again(&rig, high), "PD");
	rig_run(&rig, 20);
	assert_state(job_again(&rig, id + 1), "PR");
	assert_state(job_again(&rig, high), "R");
	rig_clear(&rig);
	/* where the script ends by itself it is over for all */
	rig_make(&rig, conf);
	add_components(&rig, TWO(.run_s = 3), het);
	(void)rig_submit(&rig, .partition = "hi", .nodes = 2);
	rig_run(&rig, 3);
	assert_state(het[0], "CD");
	assert_state(het[1], "CD");
	rig_clear(&rig);
}

#define GANG_GRACE                                                                                 \
	NODES LINEAR "PreemptMode=CANCEL,GANG\nPartitionName=lo Nodes=ALL Default=YES "            \
		     "PriorityTier=1 OverSubscribe=FORCE:2 GraceTime=30\n"                         \
		     "PartitionName=hi Nodes=ALL PriorityTier=2\n"

/* The guide: "immediately sent SIGCONT and SIGTERM": also one that stands still for another's turn
 * can use its grace time, and those beside it that are not preempted give way to it. */
static void test_grace_without_a_turn(void **state)
{
	struct job *first, *second, *beside, *high;
	struct rig rig;

	(void)state;
	rig_make(&rig, GANG_GRACE);
	first = rig_submit(&rig, .nodelist = "n[1-3]", .run_s = 1000, .term_s = NO_VAL);
	second = rig_submit(&rig, .nodelist = "n[1-2]", .run_s = 1000, .term_s = NO_VAL);
	beside = rig_submit(&rig, .nodelist = "n3", .run_s = 1000);
	rig_run(&rig, 15);
	assert_state(first, "S");
	assert_state(second, "R");
	assert_state(beside, "R");
	note_signals(&rig);
	high = rig_submit(&rig, .nodelist = "n[1-2]", .partition = "hi", .run_s = 10);
	assert_noted("15:1 CONT steps, 15:1 TERM steps, 15:2 CONT steps, 15:2 TERM steps, ");
	assert_state(first, "R");
	assert_state(second, "R");
	assert_state(beside, "S");
	rig_run(&rig, 44);
	assert_state(first, "R");
	assert_state(second, "R");
	assert_state(beside, "S");
	rig_run(&rig, 55);
	assert_state(first, "PR");
	assert_state(second, "PR");
	assert_state(beside, "R");
	assert_state(high, "R");
	rig_clear(&rig);
}

/* The clock of its time limit stood, too. */
static void test_grace_of_a_suspended_job(void **state)
{
	struct job *low;
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig, GRACE);
	low = rig_submit(&rig, .nodes = 4, .run_s = 1000, .minutes = 1, .term_s = NO_VAL);
	rig_run(&rig, 20);
	assert_int_equal(engine_suspend(rig.e, low, &err), 0);
	rig_run(&rig, 100);
	(void)rig_submit(&rig, .nodes = 1, .partition = "hi", .run_s = 50);
	assert_state(low, "S");
	assert_time(low->record.end_time, 130);
	rig_run(&rig, 129);
	assert_state(low, "S"); /* by hand: it is for its user to resume */
	rig_run(&rig, 130);
	assert_state(low, "CG");
	rig_clear(&rig);
}

/* ---- signals of the user's choice --------------------------------------------------------------
 */

static void test_warned(void **state)
{
	static const struct {
		const char *signal, *noted;
	} rows[] = {
		{"USR1@30", "90:1 USR1 steps, 120:1 CONT all, 120:1 TERM all, "},
		{"B:USR2", "60:1 USR2 script, 120:1 CONT all, 120:1 TERM all, "},
		{"R:INT@500", "0:1 INT steps, 120:1 CONT all, 120:1 TERM all, "},
		{"HUP@0", "120:1 HUP steps, 120:1 CONT all, 120:1 TERM all, "},
		{NULL, "120:1 CONT all, 120:1 TERM all, "},
	};
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, GRACE);
		note_signals(&rig);
		(void)rig_submit(&rig, .run_s = 1000, .minutes = 2, .script = SCRIPT,
			.signal = rows[i].signal);
		rig_run(&rig, 200);
		assert_noted(rows[i].noted);
		rig_clear(&rig);
	}
}

/* It is warned once before each end, whatever happens meanwhile. */
static void test_warned_once(void **state)
{
	struct rig first, rig, last;
	struct err err = ERR_INIT;
	struct job *job;

	(void)state;
	rig_make(&first, GRACE);
	job = rig_submit(&first, .run_s = 1000, .minutes = 2, .signal = "USR1@30");
	rig_run(&first, 20);
	assert_int_equal(engine_suspend(first.e, job, &err), 0);
	rig_run(&first, 30);
	assert_int_equal(engine_resume(first.e, job, &err), 0);
	rig_run(&first, 40);
	rig_restore(&first, &rig, GRACE);
	note_signals(&rig);
	rig_run(&rig, 99);
	assert_noted("");
	rig_run(&rig, 105);
	assert_noted("100:1 USR1 steps, ");
	rig_restore(&rig, &last, GRACE);
	note_signals(&last);
	rig_run(&last, 125);
	assert_noted("");
	job = job_again(&last, 1);
	set_limit(&last, job, 3); /* another end */
	rig_run(&last, 165);
	assert_noted("160:1 USR1 steps, ");
	assert_int_equal(engine_requeue(last.e, job, &err), 0);
	rig_run(&last, 400);
	assert_state(job, "R");
	notes.text[0] = '\0';
	rig_run(&last, (uint32_t)(job->record.start_time - RIG_BEGIN_S) + 150);
	assert_non_null(strstr(notes.text, ":1 USR1 steps, ")); /* and another run */
	rig_clear(&last);
}

/* Oracle B8: in place of SIGTERM, with preempt_send_user_signal. */
static void test_user_signal_of_preempted(void **state)
{
	static const char end[] = "40:1 CONT all, 40:1 TERM all, ";
	static const struct {
		const char *conf, *signal, *noted;
	} rows[] = {
		{USER_SIGNAL, "USR1@5", "10:1 CONT steps, 10:1 USR1 steps, "},
		{USER_SIGNAL, "B:USR2", "10:1 CONT script, 10:1 USR2 script, "},
		{USER_SIGNAL, NULL, "10:1 CONT steps, 10:1 TERM steps, "},
		{GRACE "PreemptParameters=send_user_signal\n", "INT",
			"10:1 CONT steps, 10:1 INT steps, "},
		/* without it the signal comes before the end, as ever */
		{GRACE, "USR1@5", "10:1 CONT steps, 10:1 TERM steps, 35:1 USR1 steps, "},
	};
	char wanted[256];
	struct rig rig;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rig_make(&rig, rows[i].conf);
		note_signals(&rig);
		(void)rig_submit(&rig, .nodes = 4, .run_s = 1000, .script = SCRIPT,
			.signal = rows[i].signal);
		rig_run(&rig, 10);
		(void)rig_submit(&rig, .nodes = 1, .partition = "hi", .run_s = 50);
		rig_run(&rig, 60);
		(void)snprintf(wanted, sizeof(wanted), "%s%s", rows[i].noted, end);
		assert_noted(wanted);
		rig_clear(&rig);
	}
}

/* The guide: "the GraceTime and user warning signal for each component ... remain unique". One that
 * has no script can't get a signal for it. */
static void test_user_signals_of_components(void **state)
{
	struct job *het[3];
	struct rig rig;

	(void)state;
	rig_make(&rig,
		COMPONENTS("PreemptMode=CANCEL",
			"PreemptMode=CANCEL") "PreemptMode=CANCEL\n"
					      "PreemptParameters=send_user_signal\n");
	note_signals(&rig);
	add_components(&rig, (struct rig_job){.run_s = 1000, .script = SCRIPT, .signal = "USR1"},
		(struct rig_job){.partition = "lo2", .signal = "USR2@3"}, het);
	(void)rig_submit(&rig, .partition = "hi", .nodes = 3, .run_s = 10);
	assert_noted("0:2 CONT steps, 0:2 USR2 steps, 0:1 CONT steps, 0:1 USR1 steps, ");
	rig_run(&rig, 29);
	add_components(&rig, (struct rig_job){.run_s = 1000, .script = SCRIPT, .signal = "B:INT"},
		(struct rig_job){.partition = "lo2", .signal = "B:INT"}, het);
	rig_run(&rig, 40);
	notes.text[0] = '\0';
	(void)rig_submit(&rig, .partition = "hi", .nodes = 3, .run_s = 10);
	assert_noted("40:5 CONT steps, 40:5 TERM steps, 40:4 CONT script, 40:4 INT script, ");
	rig_clear(&rig);
}

/* What it is to get can only be changed before it runs. */
static void test_signal_is_shown(void **state)
{
	struct job *job;
	json_auto_t *doc = NULL, *changes = json_pack("{s:s}", "signal", "USR2@7");
	json_auto_t *wrong = json_pack("{s:s}", "signal", "NONE");
	const struct rig_job refused = {.signal = "USR1@"};
	struct err err = ERR_INIT;
	struct rig rig;
	uint32_t id;

	(void)state;
	rig_make(&rig, GRACE);
	assert_int_equal(rig_try(&rig, &refused, &id, &err), -EINVAL);
	assert_string_equal(err.text,
		"--signal: 'USR1@' is not [B:]SIGNAL[@SECONDS]: a signal such as USR1 or 10, and 0 "
		"to 65535 seconds before the end");
	job = rig_submit(&rig, .hold = true, .signal = "B:USR1@7");
	assert_int_equal(engine_update_job(rig.e, job, wrong, true, &err), -EINVAL);
	assert_string_equal(job->request.signal, "B:USR1@7");
	assert_int_equal(engine_update_job(rig.e, job, changes, true, &err), 0);
	doc = job_to_json(rig.e, job);
	assert_string_equal(json_string_value(json_object_get(doc, "signal")), "USR2@7");
	assert_int_equal(job->warning.signal, SIGUSR2);
	assert_int_equal(engine_release(rig.e, job, true, &err), 0);
	rig_run(&rig, 1);
	assert_int_equal(engine_update_job(rig.e, job, changes, true, &err), -EINVAL);
	rig_clear(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suspension),
		cmocka_unit_test(test_memory_of_suspended),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_not_resumed),
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_shadow_stays),
		cmocka_unit_test(test_shadows_of_three_tiers),
		cmocka_unit_test(test_other_tiers),
		cmocka_unit_test(test_qos_in_two_partitions),
		cmocka_unit_test(test_qos_has_one_more),
		cmocka_unit_test(test_qos_shares_with_preempted),
		cmocka_unit_test(test_qos_shares_one_row_more),
		cmocka_unit_test(test_qos_alone),
		cmocka_unit_test(test_qos_of_preempted),
		cmocka_unit_test(test_qos_order),
		cmocka_unit_test(test_first_turn),
		cmocka_unit_test(test_turn_of_an_ending_job),
		cmocka_unit_test(test_turn_that_was_stopped),
		cmocka_unit_test(test_grace),
		cmocka_unit_test(test_no_more_than_needed),
		cmocka_unit_test(test_requeued),
		cmocka_unit_test(test_requeued_without_grace),
		cmocka_unit_test(test_requeue_option),
		cmocka_unit_test(test_exempt_time),
		cmocka_unit_test(test_youngest_first),
		cmocka_unit_test(test_reorder_count),
		cmocka_unit_test(test_both_modes),
		cmocka_unit_test(test_all_ways_by_qos),
		cmocka_unit_test(test_other_sharing),
		cmocka_unit_test(test_components),
		cmocka_unit_test(test_components_cancelled),
		cmocka_unit_test(test_components_refused),
		cmocka_unit_test(test_components_placed),
		cmocka_unit_test(test_components_grace),
		cmocka_unit_test(test_components_modes),
		cmocka_unit_test(test_components_suspended),
		cmocka_unit_test(test_components_cross),
		cmocka_unit_test(test_components_turns),
		cmocka_unit_test(test_components_not_suspended),
		cmocka_unit_test(test_components_preempt),
		cmocka_unit_test(test_components_killed),
		cmocka_unit_test(test_half_a_start),
		cmocka_unit_test(test_killed_in_grace),
		cmocka_unit_test(test_killed_in_slice),
		cmocka_unit_test(test_killed_in_a_later_slice),
		cmocka_unit_test(test_killed_while_standing),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_least_with_qos),
		cmocka_unit_test(test_least_of_sizes),
		cmocka_unit_test(test_equals),
		cmocka_unit_test(test_turns_beside_a_shadow),
		cmocka_unit_test(test_unequal_sizes),
		cmocka_unit_test(test_whole_grace),
		cmocka_unit_test(test_limit_in_grace),
		cmocka_unit_test(test_grace_after_the_script),
		cmocka_unit_test(test_grace_without_a_turn),
		cmocka_unit_test(test_grace_of_a_suspended_job),
		cmocka_unit_test(test_warned),
		cmocka_unit_test(test_warned_once),
		cmocka_unit_test(test_user_signal_of_preempted),
		cmocka_unit_test(test_user_signals_of_components),
		cmocka_unit_test(test_signal_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
