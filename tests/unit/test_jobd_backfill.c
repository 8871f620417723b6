/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backfill: what planned jobs hold, and who starts beside them. And what is skipped for speed
 * changes no decision. Times are seconds since the begin.
 *
 * JOBD_BACKFILL_SEED is where the random workloads begin; JOBD_BACKFILL_WORKLOADS how many of each
 * kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/jobd_rig.h"
#include "tests/lib/rounds.h"

static const char *state_of(const struct job *job)
{
	return job_state_code(job->record.job_state);
}

#define assert_state(job, code) assert_string_equal(state_of(job), code)
#define assert_nodes(job, list) assert_string_equal((job)->record.nodes, list)
#define assert_time(t, seconds) assert_int_equal((t)-RIG_BEGIN_S, seconds)

/* ---- parts of nodes -----------------------------------------------------------------------------
 */

#define TWO(params)                                                                                \
	"ClusterName=test\nSelectType=select/cons_res\nSelectTypeParameters=" params "\n"          \
	"MinJobAge=1000000\nNodeName=n[1-2] Sockets=2 CoresPerSocket=8 RealMemory=16000\n"         \
	"SchedulerParameters=bf_interval=1,bf_resolution=1\n"
#define TIERS                                                                                      \
	"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"                                 \
	"PartitionName=lo Nodes=ALL Default=YES PriorityTier=1 GraceTime=60 DefMemPerCPU=100\n"    \
	"PartitionName=hi Nodes=ALL PriorityTier=2 DefMemPerCPU=100\n"
#define FOREVER .minutes = 10000, .run_s = 600000

/* A job has n1, and 2 cores of n2, and is given a minute to end for one of 4 cores of each: 10 of
 * n2's 14 free ones are not needed by that. */
struct scene {
	struct rig rig;
	struct job *victim, *preemptor;
};

static void set_scene(struct scene *s, const char *conf)
{
	rig_make(&s->rig, conf);
	s->victim = rig_submit(&s->rig, .nodes = 2, .tasks = 18, FOREVER);
	assert_int_equal(s->victim->record.job_resrcs->cpus[0], 16);
	assert_int_equal(s->victim->record.job_resrcs->cpus[1], 2);
	rig_run(&s->rig, 10);
	s->preemptor = rig_submit(&s->rig, .partition = "hi", .nodes = 2, .tasks = 8,
		.ntasks_per_node = 4, .minutes = 60, .run_s = 3600);
	rig_run(&s->rig, 12);
	assert_state(s->victim, "R");
	assert_state(s->preemptor, "PD");
	assert_time(s->preemptor->planned_start, 70);
}

static void check_scene(struct scene *s)
{
	rig_run(&s->rig, 69);
	assert_state(s->victim, "R");
	rig_run(&s->rig, 71);
	assert_state(s->victim, "PR");
	assert_state(s->preemptor, "R");
	assert_time(s->preemptor->record.start_time, 70);
	rig_clear(&s->rig);
}

/* 12 cores fit beside it for any time. */
static void test_beside_preemptor(void **state)
{
	struct job *beside;
	struct scene s;

	(void)state;
	set_scene(&s, TWO("CR_Core") TIERS);
	beside = rig_submit(&s.rig, .tasks = 12, .nodes = 1, FOREVER);
	rig_run(&s.rig, 14);
	assert_state(beside, "R");
	assert_nodes(beside, "n2");
	check_scene(&s);
}

/* 13 would be in its way. */
static void test_not_beside_preemptor(void **state)
{
	struct job *too_long, *beside;
	struct scene s;

	(void)state;
	set_scene(&s, TWO("CR_Core") TIERS);
	too_long = rig_submit(&s.rig, .tasks = 13, .nodes = 1, .minutes = 1, .run_s = 60);
	rig_run(&s.rig, 14);
	assert_state(too_long, "PD");
	beside = rig_submit(&s.rig, .tasks = 2, FOREVER);
	rig_run(&s.rig, 16);
	assert_state(beside, "R");
	check_scene(&s);
}

/* Memory is held as cores are: it leaves 16000 - 4 * 3000 MB. */
static void test_memory_beside_preemptor(void **state)
{
	struct job *too_large, *beside;
	struct scene s;

	(void)state;
	rig_make(&s.rig, TWO("CR_Core_Memory") TIERS);
	s.victim = rig_submit(&s.rig, .nodes = 2, .tasks = 18, FOREVER);
	rig_run(&s.rig, 10);
	s.preemptor =
		rig_submit(&s.rig, .partition = "hi", .nodes = 2, .tasks = 8, .ntasks_per_node = 4,
			.memory_mb = MEM_PER_CPU | 3000, .minutes = 60, .run_s = 3600);
	rig_run(&s.rig, 12);
	assert_time(s.preemptor->planned_start, 70);
	too_large = rig_submit(&s.rig, .tasks = 1, .memory_mb = 4001, FOREVER);
	rig_run(&s.rig, 14);
	assert_state(too_large, "PD");
	beside = rig_submit(&s.rig, .tasks = 4, .memory_mb = MEM_PER_CPU | 1000, FOREVER);
	rig_run(&s.rig, 16);
	assert_state(beside, "R");
	assert_nodes(beside, "n2");
	check_scene(&s);
}

/* Without preemption, too. Of a plan's job the cores that are busy now are held, so that those that
 * are free now are left to others. */
static void test_beside_planned(void **state)
{
	struct job *planned, *second, *beside, *too_long;
	struct rig rig;

	(void)state;
	rig_make(&rig, TWO("CR_Core") "PartitionName=p Nodes=n1 Default=YES\n");
	(void)rig_submit(&rig, .tasks = 10, .minutes = 10, .run_s = 600);
	planned = rig_submit(&rig, .tasks = 8, .minutes = 100, .run_s = 6000);
	second = rig_submit(&rig, .tasks = 8, .minutes = 10, .run_s = 600);
	rig_run(&rig, 2);
	assert_time(planned->planned_start, 600);
	assert_time(second->planned_start, 600);
	assert_int_equal(planned->planned_resrcs->cpus[0], 8);
	assert_int_equal(second->planned_resrcs->cpus[0], 8);
	assert_false(bit_overlap_any(
		planned->planned_resrcs->core_bitmap, second->planned_resrcs->core_bitmap));
	beside = rig_submit(&rig, .tasks = 6, .minutes = 9, .run_s = 540);
	too_long = rig_submit(&rig, .tasks = 6, .minutes = 11, .run_s = 660);
	rig_run(&rig, 4);
	assert_state(beside, "R");
	assert_state(too_long, "PD");
	assert_time(too_long->planned_start, 1200);
	rig_run(&rig, 602);
	assert_time(planned->record.start_time, 600);
	assert_state(second, "R");
	rig_clear(&rig);
}

/* A job of all of a node waits until those parts have ended. */
static void test_whole_after_parts(void **state)
{
	struct job *part, *whole, *beside;
	struct rig rig;

	(void)state;
	rig_make(&rig, TWO("CR_Core") "PartitionName=p Nodes=n1 Default=YES\n");
	(void)rig_submit(&rig, .tasks = 16, .minutes = 10, .run_s = 600);
	part = rig_submit(&rig, .tasks = 4, .minutes = 20, .run_s = 1200);
	whole = rig_submit(&rig, .tasks = 1, .exclusive = true, .minutes = 10, .run_s = 600);
	beside = rig_submit(&rig, .tasks = 12, .minutes = 20, .run_s = 1200);
	rig_run(&rig, 2);
	assert_time(part->planned_start, 600);
	assert_time(whole->planned_start, 1800);
	assert_null(whole->planned_resrcs);
	assert_time(beside->planned_start, 600);
	rig_clear(&rig);
}

/* When a job would start that is not submitted: beside the parts that are planned. */
static void test_will_run_beside(void **state)
{
	struct engine_start start = {0};
	struct err err = ERR_INIT;
	struct rig rig;

	(void)state;
	rig_make(&rig, TWO("CR_Core") "PartitionName=p Nodes=n1 Default=YES\n");
	(void)rig_submit(&rig, .tasks = 16, .minutes = 10, .run_s = 600);
	(void)rig_submit(&rig, .tasks = 10, .minutes = 20, .run_s = 1200);
	rig_run(&rig, 2);
	assert_int_equal(
		rig_test(&rig, &(struct rig_job){.tasks = 6, .minutes = 20}, &start, &err), 0);
	assert_time(start.start_time, 600);
	free(start.nodes);
	assert_int_equal(
		rig_test(&rig, &(struct rig_job){.tasks = 7, .minutes = 20}, &start, &err), 0);
	assert_time(start.start_time, 1800);
	free(start.nodes);
	rig_clear(&rig);
}

/* Each component holds what it gets, and others go beside it. */
static void test_beside_components(void **state)
{
	const struct rig_job jobs[] = {
		{.tasks = 4, .minutes = 10, .run_s = 600},
		{.tasks = 6, .minutes = 10, .run_s = 600},
	};
	struct job *het, *beside, *too_many;
	struct err err = ERR_INIT;
	struct rig rig;
	uint32_t id;

	(void)state;
	rig_make(&rig,
		TWO("CR_Core_Memory") "PartitionName=p Nodes=ALL Default=YES "
				      "DefMemPerCPU=100\n");
	(void)rig_submit(&rig, .nodes = 2, .tasks = 32, .minutes = 10, .run_s = 600);
	assert_int_equal(rig_try_components(&rig, jobs, 2, &id, &err), 0);
	rig_run(&rig, 1);
	het = engine_find_job(rig.e, id);
	beside = rig_submit(&rig, .nodes = 1, .tasks = 12, .minutes = 10, .run_s = 600);
	too_many = rig_submit(&rig, .nodes = 1, .tasks = 11, .minutes = 10, .run_s = 600);
	rig_run(&rig, 3);
	assert_time(het->planned_start, 600);
	assert_time(beside->planned_start, 600);
	assert_time(too_many->planned_start, 1200);
	rig_run(&rig, 602);
	assert_state(het, "R");
	assert_state(beside, "R");
	assert_state(too_many, "PD");
	rig_clear(&rig);
}

/* ---- random workloads ---------------------------------------------------------------------------
 */

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((random_state >> 33) % n);
}

#define CLUSTER                                                                                    \
	"ClusterName=test\nMinJobAge=1000000\nPartitionName=DEFAULT Nodes=ALL DefMemPerCPU=100 "   \
	"GraceTime=20\n"
#define EIGHT                                                                                      \
	"NodeName=n[1-6] Sockets=2 CoresPerSocket=4 RealMemory=8000 Feature=a\n"                   \
	"NodeName=n[7-8] Sockets=1 CoresPerSocket=6 ThreadsPerCore=2 RealMemory=4000 Weight=2 "    \
	"Feature=a,b\n"
#define LO_HI(sharing)                                                                             \
	"PartitionName=lo Default=YES PriorityTier=1 OverSubscribe=" sharing                       \
	"\nPartitionName=hi PriorityTier=2 OverSubscribe=" sharing "\n"
#define LINEAR        "SelectType=select/linear\n"
#define CORES(params) "SelectType=select/cons_tres\nSelectTypeParameters=" params "\n"
#define PREEMPT(mode) "PreemptType=preempt/partition_prio\nPreemptMode=" mode "\n"

#define EACH_SECOND "SchedulerParameters=bf_interval=1,bf_resolution=1\n"

struct kind {
	const char *conf;
	bool preempts;
};

static const struct kind kinds[] = {
	{CLUSTER LINEAR EIGHT LO_HI("NO"), false},
	{CLUSTER LINEAR EIGHT LO_HI("FORCE:2"), false},
	{CLUSTER LINEAR EIGHT PREEMPT("CANCEL") LO_HI("NO"), true},
	{CLUSTER LINEAR EIGHT PREEMPT("SUSPEND,GANG") LO_HI("FORCE:1"), true},
	{CLUSTER CORES("CR_Core") EIGHT LO_HI("NO"), false},
	{CLUSTER CORES("CR_Core_Memory") EIGHT LO_HI("NO"), false},
	{CLUSTER CORES("CR_CPU_Memory") EIGHT LO_HI("YES:2"), false},
	{CLUSTER CORES("CR_Socket_Memory") EIGHT LO_HI("NO"), false},
	{CLUSTER CORES("CR_Core,CR_LLN") EIGHT LO_HI("FORCE:2"), false},
	{CLUSTER CORES("CR_Core_Memory") EIGHT PREEMPT("REQUEUE") LO_HI("NO"), true},
	{CLUSTER CORES("CR_Core,CR_Least_Preempt") EIGHT PREEMPT("CANCEL") LO_HI("NO"), true},
	{CLUSTER CORES("CR_Core") EIGHT PREEMPT("SUSPEND,GANG") LO_HI("FORCE:1"), true},
	{CLUSTER CORES("CR_Core_Memory") EIGHT EACH_SECOND PREEMPT("CANCEL") LO_HI("NO"), true},
	{CLUSTER CORES("CR_Core") EIGHT
		"SchedulerParameters=bf_window=40,bf_max_job_test=7\n" LO_HI("EXCLUSIVE"),
		false},
};

static struct rig_job random_job(bool preempts)
{
	struct rig_job job = {.minutes = 1 + below(60), .partition = "lo"};
	const uint32_t longest = 60 * job.minutes;

	job.run_s = below(3) ? 1 + below(longest) : longest;
	if (preempts && below(5) == 0)
		job.partition = "hi";
	if (below(2))
		job.nodes = 1 + below(8);
	if (job.nodes && below(4) == 0)
		job.max_nodes = job.nodes + below(3);
	if (!job.nodes || below(2))
		job.tasks = job.nodes + 1 + below(16);
	if (below(6) == 0)
		job.cpus_per_task = 1 + below(3);
	if (below(4) == 0)
		job.memory_mb = below(2) ? MEM_PER_CPU | (100 + below(900)) : 100 + below(7900);
	if (below(8) == 0)
		job.ntasks_per_socket = 1 + below(3);
	if (below(8) == 0)
		job.ntasks_per_core = 1 + below(2);
	if (below(8) == 0)
		job.distribution = below(2) ? "plane=2" : "block:block";
	job.spread_job = below(12) == 0;
	job.use_min_nodes = below(12) == 0;
	job.exclusive = below(10) == 0;
	job.oversubscribe = below(4) == 0;
	job.contiguous = below(12) == 0;
	if (below(12) == 0)
		job.features = "b";
	else if (below(12) == 0)
		job.exclude = "n[1-2]";
	else if (below(16) == 0)
		job.nodelist = "n3";
	return job;
}

/* Of nodes, or of cores of them. */
static void reserve(struct rig *rig)
{
	static const uid_t users[] = {1000};
	static const uint32_t counts[] = {3, 0};
	struct reservation_request q = {.node_count = 1 + below(2),
		.start_time = engine_get_time(rig->e) + below(3600),
		.duration_min = 1 + below(60),
		.users = users,
		.users_count = 1,
		.ignore_jobs = true,
		.partition = "lo"};
	struct err err = ERR_INIT;
	const char *name;

	if (below(2) && strncmp(engine_get_conf(rig->e)->select_type, "cons", 4) == 0)
		q.core_counts = counts;
	if (engine_reserve(rig->e, &q, &name, &err) < 0)
		return; /* others have them */
}

static void submit_random(struct rig *rig, bool preempts)
{
	struct err err = ERR_INIT;
	struct rig_job jobs[2];
	uint32_t id;

	jobs[0] = random_job(preempts);
	if (below(12)) {
		(void)rig_try(rig, &jobs[0], &id, &err); /* or it can never run */
		return;
	}
	jobs[1] = random_job(preempts);
	jobs[1].partition = jobs[0].partition;
	jobs[1].run_s = jobs[0].run_s; /* they end together */
	jobs[1].minutes = jobs[0].minutes;
	(void)rig_try_components(rig, jobs, 2, &id, &err);
}

static bool all_ended(const struct rig *rig)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		const struct job *job = engine_get_job(rig->e, i);

		if (job && (job->record.job_state & JOB_STATE_BASE) < JOB_COMPLETE)
			return false;
	}
	return true;
}

static uint64_t run_workload(const struct kind *kind, uint64_t seed, uint32_t *ret_starts)
{
	struct rig rig;
	uint64_t history;
	uint32_t i, jobs;

	random_state = seed;
	(void)below(2);
	rig_make(&rig, kind->conf);
	jobs = 20 + below(60);
	for (i = 0; i < jobs; i++) {
		submit_random(&rig, kind->preempts);
		if (below(30) == 0)
			reserve(&rig);
		rig_run(&rig, rig_now(&rig) + below(180));
	}
	for (i = 0; i < 1000 && !all_ended(&rig); i++)
		rig_run(&rig, rig_now(&rig) + 600);
	if (i == 1000)
		fail_msg("seed %llu: some jobs never end", (unsigned long long)seed);
	history = rig.history;
	*ret_starts = rig.starts;
	rig_clear(&rig);
	return history;
}

/* With all that is skipped, without it, and with cycles that end early: who starts when and where
 * is the same. */
static void test_same_decisions(void **state)
{
	uint32_t seed = rounds_get("JOBD_BACKFILL_SEED", 1), n, starts[3];
	uint32_t workloads = rounds_choose("JOBD_BACKFILL_WORKLOADS", 12, 40);
	uint64_t history[3];
	size_t i, k;

	(void)state;
	for (i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		for (n = seed; n < seed + workloads; n++) {
			for (k = 0; k < 3; k++) {
				rig_plain = k == 1;
				rig_no_plans = k == 2;
				history[k] = run_workload(&kinds[i], n * 1000 + i, &starts[k]);
			}
			rig_plain = rig_no_plans = false;
			for (k = 1; k < 3; k++) {
				if (history[k] != history[0] || starts[k] != starts[0])
					fail_msg("kind %zu, seed %u: %s %u starts, not %u", i, n,
						k == 1 ? "without what is skipped"
						       : "without plans",
						starts[k], starts[0]);
			}
		}
	}
}

/* The one of a partition that comes first. NULL: none waits. */
static struct job *find_head(const struct rig *rig, const char *part)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		struct job *job = engine_get_job(rig->e, i);

		if (job->record.job_state == JOB_PENDING && job->planned_start &&
			strcmp(job->record.partition, part) == 0)
			return job;
	}
	return NULL;
}

/* What the first one of the highest tier was promised is kept: it never starts later, whoever is
 * started before it, and is never planned later. */
static void keep_promises(const struct kind *kind, uint64_t seed, uint32_t *ret_kept)
{
	struct job *head = NULL, *job;
	time_t promised = 0;
	struct rig rig;
	uint32_t i, jobs;

	random_state = seed;
	(void)below(2);
	rig_make(&rig, kind->conf);
	jobs = 20 + below(40);
	for (i = 0; i < jobs || (i < 100000 && !all_ended(&rig)); i++) {
		if (i < jobs) {
			struct rig_job random = random_job(kind->preempts);
			struct err err = ERR_INIT;
			uint32_t id;

			(void)rig_try(&rig, &random, &id, &err); /* or it can never run */
		}
		rig_run(&rig, rig_now(&rig) + 1 + below(i < jobs ? 120 : 30));
		if (head && head->record.job_state == JOB_PENDING && head->planned_start &&
			head->planned_start > promised)
			fail_msg("seed %llu: job %u is to start %ld s later",
				(unsigned long long)seed, head->record.job_id,
				(long)(head->planned_start - promised));
		if (head && head->record.job_state != JOB_PENDING) {
			if (head->record.start_time > promised)
				fail_msg("seed %llu: job %u starts %ld s late",
					(unsigned long long)seed, head->record.job_id,
					(long)(head->record.start_time - promised));
			(*ret_kept)++;
		}
		job = find_head(&rig, kind->preempts ? "hi" : "lo");
		promised = job ? job->planned_start : 0;
		head = job;
	}
	assert_true(all_ended(&rig));
	rig_clear(&rig);
}

static void test_promises(void **state)
{
	static const struct kind promised[] = {
		{CLUSTER LINEAR EIGHT EACH_SECOND LO_HI("NO"), false},
		{CLUSTER CORES("CR_Core") EIGHT EACH_SECOND LO_HI("NO"), false},
		{CLUSTER CORES("CR_Core_Memory") EIGHT EACH_SECOND LO_HI("NO"), false},
		{CLUSTER CORES("CR_CPU_Memory") EIGHT EACH_SECOND LO_HI("NO"), false},
		{CLUSTER CORES("CR_Socket_Memory") EIGHT EACH_SECOND LO_HI("NO"), false},
		{CLUSTER CORES("CR_Core_Memory") EIGHT EACH_SECOND PREEMPT("CANCEL") LO_HI("NO"),
			true},
		{CLUSTER CORES("CR_Core,CR_Least_Preempt") EIGHT EACH_SECOND PREEMPT("CANCEL")
				LO_HI("NO"),
			true},
	};
	uint32_t seed = rounds_get("JOBD_BACKFILL_SEED", 1), n, kept;
	uint32_t workloads = rounds_choose("JOBD_BACKFILL_WORKLOADS", 12, 40);
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(promised) / sizeof(*promised); i++) {
		kept = 0;
		for (n = seed; n < seed + workloads; n++)
			keep_promises(&promised[i], n * 1000 + i, &kept);
		assert_true(kept > workloads); /* else nobody waits */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beside_preemptor),
		cmocka_unit_test(test_not_beside_preemptor),
		cmocka_unit_test(test_memory_beside_preemptor),
		cmocka_unit_test(test_beside_planned),
		cmocka_unit_test(test_whole_after_parts),
		cmocka_unit_test(test_will_run_beside),
		cmocka_unit_test(test_beside_components),
		cmocka_unit_test(test_same_decisions),
		cmocka_unit_test(test_promises),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
