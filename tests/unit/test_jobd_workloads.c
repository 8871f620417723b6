/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What holds at any time, whatever jobs come: at each second of random workloads, with each mode of
 * preemption, with time slices and with memory, and of programs that are killed after any change of
 * what they keep. And that CR_Least_Preempt never costs more.
 *
 *	cores     no two jobs run on one at a time, and no more have it than may share it
 *	memory    that jobs have, those that stand still too, is never more than a node has
 *	equals    a job stands still for no more time slices than there are jobs of its partition
 *	          with some of its cores, and one: the first turn is longer than a slice
 *	order     of two pending jobs with the same request the one that came first starts first
 *	nodes     documents of nodes have what jobs have of them
 *	grace     a job that is cancelled for another ends when its grace time is over
 *	account   what is kept of a job is what was seen: its seconds on its cores, and no others
 *	ends      all jobs come to an end, and nothing of a node is in use then
 *
 * JOBD_WORKLOADS_SEED is where the random numbers begin, JOBD_WORKLOADS how many workloads there
 * are: 2,520, with STEPD_TEST_ALL=1 10,080. The last row and seed are printed: those of a failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stepd/base/parse.h"
#include "tests/lib/jobd_rig.h"
#include "tests/lib/rounds.h"

#define SLICE_S  10
#define JOBS_MAX 64
#define FOUR                                                                                       \
	"ClusterName=test\nKillWait=10\nMinJobAge=1000000\nSchedulerTimeSlice=10\n"                \
	"NodeName=n[1-4] CPUs=2 RealMemory=4000\n"
#define BY_TIER       "PreemptType=preempt/partition_prio\n"
#define BY_QOS        "PreemptType=preempt/qos\n"
#define LINEAR        "SelectType=select/linear\n"
#define LINEAR_MEMORY LINEAR "SelectTypeParameters=CR_Memory\n"
#define LINEAR_LEAST  LINEAR "SelectTypeParameters=CR_Least_Preempt\n"
#define CORES         "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
#define CORES_MEMORY  "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
#define CORES_LEAST   "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core,CR_Least_Preempt\n"
#define MODE(mode)    "PreemptMode=" mode "\n"
#define PART(name, tier, sharing, more)                                                            \
	"PartitionName=" name " Nodes=ALL PriorityTier=" tier " OverSubscribe=" sharing " " more   \
	"\n"
#define TWO(sharing, more)                                                                         \
	PART("lo", "1", sharing, "Default=YES " more) PART("hi", "2", sharing, "")
#define QOS_LINES "QOSName=low\nQOSName=high Priority=2 Preempt=low\n"

static const char *state_of(const struct job *job)
{
	return job_state_code(job->record.job_state);
}

static bool runs(const struct job *job)
{
	return job && job->launched && job->record.job_resrcs &&
		job->record.job_state == JOB_RUNNING && job->change == JOB_STEADY;
}

/* It has nodes, and its end has not begun. */
static bool has_nodes(const struct job *job)
{
	return job && job->record.job_resrcs && job->record.job_state != JOB_PENDING &&
		(job->record.job_state & JOB_STATE_BASE) < JOB_COMPLETE &&
		!(job->record.job_state & JOB_COMPLETING);
}

static const bitstr_t *parts_of(const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;

	return r->core_bitmap ? r->core_bitmap : r->node_bitmap;
}

/* ---- what holds at any time --------------------------------------------------------------------
 */

/* Of two jobs that run no core is the same; but preempted ones run until the end of their grace
 * time, whoever had the turn. */
static void check_cores(const struct engine *e)
{
	bitstr_t *used = NULL;
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *job = engine_get_job(e, i);

		if (!runs(job))
			continue;
		if (!used)
			used = bit_alloc(bit_size(parts_of(job)));
		if (job->preempted)
			continue;
		assert_false(bit_overlap_any(used, parts_of(job)));
		bit_or(used, parts_of(job));
	}
	bit_free(used);
}

/* OverSubscribe=FORCE:n is n; for preempt/qos there is one more. */
static uint32_t share_of(const part_record_t *part)
{
	uint32_t share =
		part->max_share & SHARED_FORCE ? part->max_share & (uint16_t)~SHARED_FORCE : 1u;

	return share + slurm_conf.preempt_by_qos;
}

/* Of one partition no more jobs have a core than its share lets. */
static void check_shares(const struct engine *e)
{
	uint32_t count[JOBS_MAX];
	const struct job *jobs[JOBS_MAX];
	size_t n = 0, i, k;
	bitoff_t part;

	for (i = 0; i < engine_count_jobs(e); i++) {
		if (has_nodes(engine_get_job(e, i)))
			jobs[n++] = engine_get_job(e, i);
	}
	for (part = 0; n > 0 && part < bit_size(parts_of(jobs[0])); part++) {
		for (i = 0; i < n; i++) {
			if (!bit_test(parts_of(jobs[i]), part))
				continue;
			count[i] = 1;
			for (k = 0; k < i; k++)
				count[i] += jobs[k]->record.part_ptr == jobs[i]->record.part_ptr &&
					bit_test(parts_of(jobs[k]), part);
			assert_true(count[i] <= share_of(jobs[i]->record.part_ptr));
		}
	}
}

/* What jobs on a node have, suspended ones included, is never more than it has. */
static void check_memory(const struct engine *e)
{
	uint64_t used[8] = {0};
	bitoff_t node;
	uint32_t k;
	size_t i;

	if (!(slurm_conf.select_type_param & CR_MEMORY))
		return;
	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *job = engine_get_job(e, i);
		const job_resources_t *r = has_nodes(job) ? job->record.job_resrcs : NULL;

		for (node = 0, k = 0; r && (node = bit_ffs_from_bit(r->node_bitmap, node)) >= 0;
			node++, k++)
			used[node] += r->memory_allocated[k];
	}
	for (node = 0; node < node_record_count; node++)
		assert_true(used[node] <= node_record_table_ptr[node].real_memory);
}

/* All components of a job have their turn, or none. */
static void check_components(const struct engine *e)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *job = engine_get_job(e, i);
		const struct job *first = job ? engine_get_component(job, 0) : NULL;

		if (first && first != job && has_nodes(job) && has_nodes(first))
			assert_int_equal(runs(job), runs(first));
	}
}

/* What documents of nodes say of the jobs on them. */
struct node_sum {
	uint64_t cpus, memory, running, suspended;
};

static void check_node(
	const struct engine *e, const node_record_t *node, const struct node_sum *sum)
{
	json_t *json = node_to_json(e, node);
	uint64_t cpus = sum->cpus < node->cpus ? sum->cpus : node->cpus;

	assert_int_equal(json_integer_value(json_object_get(json, "alloc_cpus")), cpus);
	assert_int_equal(json_integer_value(json_object_get(json, "alloc_memory_mb")), sum->memory);
	assert_int_equal(json_integer_value(json_object_get(json, "running_jobs")), sum->running);
	assert_int_equal(
		json_integer_value(json_object_get(json, "suspended_jobs")), sum->suspended);
	if (strcmp(json_string_value(json_object_get(json, "state")),
		    sum->running + sum->suspended == 0 ? "IDLE"
			    : cpus == node->cpus       ? "ALLOCATED"
						       : "MIXED") != 0)
		fail_msg("%s with %llu CPUs is %s", node->name, (unsigned long long)cpus,
			json_string_value(json_object_get(json, "state")));
	json_decref(json);
}

static void check_nodes(const struct engine *e)
{
	struct node_sum sums[8] = {{0}};
	bitoff_t node;
	uint32_t k;
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *job = engine_get_job(e, i);
		const job_resources_t *r = has_nodes(job) ? job->record.job_resrcs : NULL;

		for (node = 0, k = 0; r && (node = bit_ffs_from_bit(r->node_bitmap, node)) >= 0;
			node++, k++) {
			sums[node].cpus += r->cpus[k];
			sums[node].memory += r->memory_allocated[k];
			if ((job->record.job_state & JOB_STATE_BASE) == JOB_SUSPENDED)
				sums[node].suspended++;
			else
				sums[node].running++;
		}
	}
	for (node = 0; node < node_record_count; node++)
		check_node(e, &node_record_table_ptr[node], &sums[node]);
}

static void check_now(const struct engine *e)
{
	check_cores(e);
	check_shares(e);
	check_memory(e);
	check_components(e);
	check_nodes(e);
}

/* Seconds that a job wants to run. */
static unsigned int wanted_s(const struct job *job)
{
	unsigned int run_s = 0;

	assert_int_equal(sscanf(job->request.comment, "run=%u", &run_s), 1);
	return run_s;
}

static time_t ran_s(const struct job *job)
{
	const job_record_t *r = &job->record;

	return r->end_time - r->start_time - r->tot_sus_time;
}

/* It has waited, run and stood still, and nothing else: its processes ran as long as they wanted.
 * Where the program was killed for away_s, an end is known that much later, and for as long the
 * processes may have run, or stood still, unknown to it. */
static void check_account(const struct job *job, uint32_t away_s)
{
	const job_record_t *r = &job->record;
	unsigned int run_s = wanted_s(job);

	assert_true(r->submit_time <= r->start_time && r->start_time <= r->end_time);
	assert_true(r->tot_sus_time >= 0);
	if (ran_s(job) > (time_t)(run_s + away_s))
		fail_msg("job %u (%s) has run for %lld s of %u", r->job_id, state_of(job),
			(long long)ran_s(job), run_s);
	assert_true(
		ran_s(job) + (time_t)away_s >= (r->job_state == JOB_COMPLETE ? (time_t)run_s : 0));
}

/* ---- random workloads --------------------------------------------------------------------------
 */

/* The same numbers in each run. */
static uint32_t draw(uint64_t *seed, uint32_t below)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33) % below;
}

struct workload {
	const char *conf;
	const char *parts[3];
	const char *qos[3]; /* NULL: without */
	bool with_components;
};

/* What was seen of the jobs, by their numbers: the first one is 1. */
struct seen {
	time_t start[JOBS_MAX];
	uint32_t ran_s[JOBS_MAX];    /* since then */
	uint32_t beside_s[JOBS_MAX]; /* it has stood still, while equals have run */
	uint32_t equals[JOBS_MAX];   /* that can be before it, having some of its cores */
	uint32_t ordered;            /* pairs of equal requests */
};

static bool is_alone(const struct job *job)
{
	return job->record.job_resrcs->node_req == NODE_CR_RESERVED;
}

static bool are_equals(const struct job *a, const struct job *b)
{
	if (a == b || !has_nodes(b) || a->record.part_ptr != b->record.part_ptr)
		return false;
	return bit_overlap_any(parts_of(a), parts_of(b)) &&
		!(slurm_conf.preempt_by_qos && (is_alone(a) || is_alone(b)));
}

/* Others than equals keep it from its cores: of another tier, with preempt/qos, or equals that use
 * their grace time. */
static bool is_in_shadow(const struct engine *e, const struct job *job)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *other = engine_get_job(e, i);

		if (other != job && has_nodes(other) &&
			(!are_equals(job, other) || other->preempted) &&
			bit_overlap_any(parts_of(job), parts_of(other)))
			return true;
	}
	return false;
}

/* The second from now on: whether an equal has the cores for which it waits. */
static void see_turn(struct seen *seen, const struct engine *e, const struct job *job)
{
	uint32_t id = job->record.job_id, equals = 0;
	bool any_runs = false;
	size_t i;

	if (!has_nodes(job) || !job->gang_stopped || job->het) {
		seen->beside_s[id] = 0;
		return;
	}
	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *other = engine_get_job(e, i);

		if (!are_equals(job, other))
			continue;
		equals++;
		any_runs |= runs(other);
	}
	/* it goes behind those that have come in the slice in which it ran */
	if (seen->beside_s[id] == 0)
		seen->equals[id] = 0;
	if (seen->beside_s[id] <= SLICE_S && equals > seen->equals[id])
		seen->equals[id] = equals;
	seen->beside_s[id] += any_runs && !is_in_shadow(e, job);
	if (seen->beside_s[id] >= (seen->equals[id] + 1) * SLICE_S)
		fail_msg("job %u stands still for %u s beside %u equals", id, seen->beside_s[id],
			seen->equals[id]);
}

static bool have_same_request(const struct job *a, const struct job *b)
{
	const job_details_t *x = &a->details, *y = &b->details;

	return !a->het && !b->het && a->record.part_ptr == b->record.part_ptr &&
		a->record.qos_ptr == b->record.qos_ptr && x->min_nodes == y->min_nodes &&
		x->min_cpus == y->min_cpus &&
		(x->pn_min_memory == y->pn_min_memory ||
			!(slurm_conf.select_type_param & CR_MEMORY));
}

/* It has just started: all that came before it, and could start as well, have. One for which others
 * end preempts no more until they have. */
static void see_start(struct seen *seen, const struct engine *e, const struct job *job)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		const struct job *other = engine_get_job(e, i);

		if (other->record.job_id >= job->record.job_id || !have_same_request(job, other))
			continue;
		seen->ordered++;
		if (other->record.job_state == JOB_PENDING && other->victims == 0 &&
			other->begin_time <= job->record.start_time &&
			other->record.submit_time < job->record.start_time)
			fail_msg("job %u starts before job %u, which came first",
				job->record.job_id, other->record.job_id);
	}
}

/* The second from now on. */
static void see_job(struct seen *seen, const struct engine *e, const struct job *job)
{
	uint32_t id = job->record.job_id;

	assert_true(id < JOBS_MAX);
	if (seen->start[id] != job->record.start_time && has_nodes(job)) {
		seen->start[id] = job->record.start_time;
		seen->ran_s[id] = 0;
		see_start(seen, e, job);
	}
	seen->ran_s[id] += runs(job);
	see_turn(seen, e, job);
}

static void run_to(struct rig *rig, struct seen *seen, uint32_t until_s)
{
	uint32_t t;
	size_t i;

	rig_run(rig, rig_now(rig)); /* what was done by hand */
	for (t = rig_now(rig); t < until_s; t++) {
		check_now(rig->e);
		for (i = 0; i < engine_count_jobs(rig->e); i++)
			see_job(seen, rig->e, engine_get_job(rig->e, i));
		rig_run(rig, t + 1);
	}
}

static struct rig_job draw_job(const struct workload *w, uint64_t *seed)
{
	struct rig_job job = {.partition = w->parts[draw(seed, 3)],
		.nodes = 1 + draw(seed, 4),
		.run_s = 1 + draw(seed, 60),
		.term_s = draw(seed, 3) * 4,
		.no_requeue = draw(seed, 2),
		.memory_mb = 500 + 500 * draw(seed, 6)};

	job.tasks = job.nodes * (1 + draw(seed, 2));
	if (w->qos[0])
		job.qos = w->qos[draw(seed, 3)];
	return job;
}

static void submit_components(struct rig *rig, const struct workload *w, uint64_t *seed)
{
	struct rig_job jobs[2] = {draw_job(w, seed), draw_job(w, seed)};
	struct err err = ERR_INIT;
	uint32_t id;

	jobs[0].nodes = jobs[1].nodes = 1;
	jobs[0].tasks = jobs[1].tasks = 1;
	jobs[1].run_s = 0; /* the first one's script is that of both */
	jobs[1].no_requeue = jobs[0].no_requeue;
	if (rig_try_components(rig, jobs, 2, &id, &err) < 0)
		fail_msg("%s", err.text);
}

/* What users do to any job; refused where that is no time for it. */
static void meddle(struct rig *rig, uint64_t *seed)
{
	static int (*const acts[])(struct engine *, struct job *, struct err *) = {
		engine_suspend, engine_suspend, engine_resume, engine_requeue, engine_cancel};
	size_t n = engine_count_jobs(rig->e);
	struct err err = ERR_INIT;

	(void)acts[draw(seed, 5)](rig->e, engine_get_job(rig->e, draw(seed, (uint32_t)n)), &err);
}

/* Nobody is left standing still by hand. */
static bool resume_all(struct rig *rig)
{
	bool all_ended = true;
	size_t i;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		struct job *job = engine_get_job(rig->e, i);
		struct err err = ERR_INIT;

		all_ended &= (job->record.job_state & JOB_STATE_BASE) >= JOB_COMPLETE &&
			!(job->record.job_state & JOB_COMPLETING);
		if (job->record.job_state == JOB_SUSPENDED && !job->gang_stopped &&
			job->change == JOB_STEADY && engine_resume(rig->e, job, &err) < 0)
			fail_msg("%s", err.text);
	}
	return all_ended;
}

static void check_nodes_idle(const struct engine *e)
{
	int i;

	for (i = 0; i < node_record_count; i++) {
		json_t *json = node_to_json(e, &node_record_table_ptr[i]);

		assert_int_equal(json_integer_value(json_object_get(json, "alloc_cpus")), 0);
		assert_int_equal(json_integer_value(json_object_get(json, "alloc_memory_mb")), 0);
		assert_string_equal(json_string_value(json_object_get(json, "state")), "IDLE");
		json_decref(json);
	}
}

/* Its processes had that much, and not more. */
static void check_grace(const struct job *job, uint32_t seen_s)
{
	uint32_t grace_s = job->record.part_ptr->grace_time;

	if (job->record.job_state == JOB_PREEMPTED && seen_s > 0)
		assert_int_equal(job->record.end_time - job->preempt_time, grace_s);
}

static void check_ends(struct rig *rig, const struct seen *seen)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(rig->e); i++) {
		const struct job *job = engine_get_job(rig->e, i);

		if (engine_get_component(job, 0) == job)
			check_account(job, 0);
		if (job->record.start_time == seen->start[job->record.job_id] &&
			ran_s(job) != seen->ran_s[job->record.job_id])
			fail_msg("job %u (%s) has run for %lld s, and was seen for %u s",
				job->record.job_id, state_of(job), (long long)ran_s(job),
				seen->ran_s[job->record.job_id]);
		check_grace(job, seen->ran_s[job->record.job_id]);
	}
	check_nodes_idle(rig->e);
}

/* Returns how many pairs of equal requests there were. */
static uint32_t run_workload(const struct workload *w, uint64_t seed)
{
	struct seen seen = {.start = {0}};
	uint32_t jobs = 5 + draw(&seed, 20), i;
	struct rig rig;

	rig_make(&rig, w->conf);
	for (i = 0; i < jobs; i++) {
		if (w->with_components && draw(&seed, 5) == 0)
			submit_components(&rig, w, &seed);
		else
			(void)rig_add(&rig, draw_job(w, &seed));
		run_to(&rig, &seen, rig_now(&rig) + draw(&seed, 15));
		if (draw(&seed, 8) == 0)
			meddle(&rig, &seed);
	}
	while (!resume_all(&rig)) {
		assert_true(rig_now(&rig) < 20000);
		run_to(&rig, &seen, rig_now(&rig) + 10);
	}
	check_ends(&rig, &seen);
	rig_clear(&rig);
	return seen.ordered;
}

#define THREE_MODES                                                                                \
	PART("lo", "1", "NO", "PreemptMode=REQUEUE")                                               \
	PART("med", "2", "FORCE:1", "PreemptMode=SUSPEND")                                         \
	PART("hi", "3", "FORCE:1", "PreemptMode=OFF")

#define MIXED                                                                                      \
	PART("lo", "1", "FORCE:1", "Default=YES")                                                  \
	PART("back", "1", "FORCE:1", "PreemptMode=CANCEL")                                         \
	PART("hi", "2", "FORCE:1", "")

static const struct workload workloads[] = {
	{.conf = FOUR BY_TIER LINEAR MODE("SUSPEND,GANG") TWO("FORCE:1", ""),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER CORES MODE("SUSPEND,GANG") TWO("FORCE:1", ""),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER CORES MODE("SUSPEND,GANG") TWO("FORCE:2", ""),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER CORES_MEMORY MODE("SUSPEND,GANG") TWO("FORCE:2", ""),
		.parts = {"lo", "lo", "hi"},
		.with_components = true},
	{.conf = FOUR BY_TIER CORES_LEAST MODE("SUSPEND,GANG") TWO("FORCE:1", ""),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER LINEAR MODE("SUSPEND,GANG") TWO("NO", ""),
		.parts = {"lo", "lo", "hi"},
		.with_components = true},
	{.conf = FOUR LINEAR MODE("GANG") PART("p", "1", "FORCE:3", ""), .parts = {"p", "p", "p"}},
	{.conf = FOUR CORES_MEMORY MODE("GANG") PART("p", "1", "FORCE:3", ""),
		.parts = {"p", "p", "p"},
		.with_components = true},
	{.conf = FOUR BY_TIER LINEAR MODE("CANCEL") TWO("NO", ""),
		.parts = {"lo", "lo", "hi"},
		.with_components = true},
	{.conf = FOUR BY_TIER LINEAR_LEAST MODE("CANCEL") TWO("NO", ""),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER CORES MODE("REQUEUE") TWO("NO", ""),
		.parts = {"lo", "lo", "hi"},
		.with_components = true},
	{.conf = FOUR BY_TIER LINEAR MODE("CANCEL") TWO("NO", "GraceTime=30"),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER CORES MODE("CANCEL,GANG") TWO("FORCE:2", "GraceTime=7"),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER CORES_MEMORY "PreemptExemptTime=0:25\n" MODE("SUSPEND,GANG")
			TWO("FORCE:1", ""),
		.parts = {"lo", "lo", "hi"}},
	{.conf = FOUR BY_TIER LINEAR MODE("SUSPEND,GANG") THREE_MODES,
		.parts = {"lo", "med", "hi"}},
	{.conf = FOUR BY_TIER CORES MODE("SUSPEND,GANG") THREE_MODES, .parts = {"lo", "med", "hi"}},
	{.conf = FOUR BY_TIER CORES_MEMORY MODE("SUSPEND,GANG") MIXED,
		.parts = {"lo", "back", "hi"}},
	{.conf = FOUR BY_TIER LINEAR_MEMORY MODE("SUSPEND,GANG") TWO("FORCE:2", ""),
		.parts = {"lo", "lo", "hi"},
		.with_components = true},
	{.conf = FOUR BY_TIER LINEAR_MEMORY MODE("SUSPEND,GANG") MIXED,
		.parts = {"lo", "back", "hi"}},
	{.conf = FOUR BY_QOS CORES MODE("SUSPEND,GANG") PART("p", "1", "FORCE:1", "") QOS_LINES,
		.parts = {"p", "p", "p"},
		.qos = {"low", "low", "high"}},
	{.conf = FOUR BY_QOS CORES MODE("SUSPEND,GANG") PART("p", "1", "FORCE:1", "")
			PART("x", "1", "EXCLUSIVE", "") QOS_LINES,
		.parts = {"p", "x", "x"},
		.qos = {"low", "low", "high"}},
	{.conf = FOUR BY_QOS CORES MODE("SUSPEND,GANG") PART("a", "1", "FORCE:2", "") PART(
		 "b", "1", "FORCE:1", "") "QOSName=low\nQOSName=high Priority=2 PreemptMode=CANCEL "
					  "Preempt=low\nQOSName=top Priority=3 Preempt=low,high\n",
		.parts = {"a", "a", "b"},
		.qos = {"low", "high", "top"}},
	{.conf = FOUR BY_QOS CORES_MEMORY MODE("SUSPEND,GANG") PART("a", "1", "FORCE:1", "")
			PART("b", "1", "FORCE:2", "") QOS_LINES,
		.parts = {"a", "a", "b"},
		.qos = {"low", "low", "high"}},
	{.conf = FOUR BY_QOS CORES MODE("SUSPEND,GANG") PART("a", "2", "FORCE:1", "")
			PART("b", "1", "FORCE:1", "") QOS_LINES,
		.parts = {"a", "a", "b"},
		.qos = {"low", "low", "high"}},
};

static struct {
	size_t row;
	uint32_t seed;
} last;

static int print_last(void **state)
{
	(void)state;
	print_message(
		"# the last workload was row %zu, JOBD_WORKLOADS_SEED=%u\n", last.row, last.seed);
	return 0;
}

static void test_workloads(void **state)
{
	uint32_t first = rounds_get("JOBD_WORKLOADS_SEED", 1);
	uint32_t count = rounds_choose("JOBD_WORKLOADS", 2520, 10080), i;
	uint32_t each = (count + ARRAY_SIZE(workloads) - 1) / ARRAY_SIZE(workloads), ordered = 0;
	size_t k;

	(void)state;
	for (k = 0; k < ARRAY_SIZE(workloads); k++) {
		for (i = 0; i < each; i++) {
			last.row = k;
			last.seed = first + i;
			ordered += run_workload(&workloads[k], (uint64_t)last.seed * 1000 + k);
		}
	}
	print_message("# %u pairs of equal requests\n", ordered);
	assert_true(ordered > 0);
}

/* ---- as few as possible ------------------------------------------------------------------------
 */

/* What one preemptor costs others: jobs that ran and do not now, or have to share their cores with
 * it, and the time that they have run on their nodes. */
struct cost {
	uint32_t jobs;
	uint64_t node_s;
	bool fits;
};

/* Nodes for so many tasks, of 4 CPUs each. */
static uint32_t draw_nodes(uint64_t *seed, uint32_t tasks)
{
	uint32_t least = (tasks + 3) / 4, most = tasks < 6 ? tasks : 6;

	return least + draw(seed, most - least + 1);
}

static struct rig_job draw_sizes(uint64_t *seed, uint32_t most_tasks)
{
	struct rig_job job = {.tasks = 1 + draw(seed, most_tasks)};

	job.nodes = draw_nodes(seed, job.tasks);
	job.memory_mb = 300 + 100 * draw(seed, 8);
	return job;
}

static bool is_hit(const struct job *low, const struct job *high)
{
	return !runs(low) || (has_nodes(high) && bit_overlap_any(parts_of(low), parts_of(high)));
}

static struct cost find_cost(const char *conf, uint64_t seed)
{
	static const char *const parts[] = {"lo", "back"};
	struct job *low[24], *high;
	bool ran[24];
	struct cost cost = {.jobs = 0};
	uint32_t n = 2 + draw(&seed, 22), i;
	struct rig_job wanted;
	struct rig rig;

	rig_make(&rig, conf);
	for (i = 0; i < n; i++) {
		wanted = draw_sizes(&seed, 8);
		wanted.partition = parts[draw(&seed, 2)];
		wanted.run_s = 10000;
		wanted.qos = "low";
		low[i] = rig_add(&rig, wanted);
		rig_run(&rig, rig_now(&rig) + draw(&seed, 5));
	}
	for (i = 0; i < n; i++)
		ran[i] = runs(low[i]);
	wanted = draw_sizes(&seed, 12);
	wanted.partition = slurm_conf.preempt_by_qos ? "lo" : "hi";
	wanted.qos = "high";
	high = rig_add(&rig, wanted);
	for (i = 0; i < n; i++) {
		if (!ran[i] || !is_hit(low[i], high))
			continue;
		cost.jobs++;
		cost.node_s += (uint64_t)(engine_get_time(rig.e) - low[i]->last_start_time) *
			low[i]->details.min_nodes;
	}
	cost.fits = high->record.job_state != JOB_PENDING || high->victims > 0;
	rig_clear(&rig);
	return cost;
}

static void make_six(char *text, size_t size, const char *rest, const char *param)
{
	(void)snprintf(text, size,
		"ClusterName=test\nMinJobAge=1000000\nSchedulerParameters=bf_interval=3600\n"
		"NodeName=n[1-6] CPUs=4 CoresPerSocket=4 RealMemory=2000\n%s"
		"SelectTypeParameters=%s\nQOSName=low\nQOSName=high%s\n",
		rest, param, strstr(rest, BY_QOS) ? " Priority=2 Preempt=low" : "");
}

#define LEAST    "CR_Least_Preempt"
#define CONS_RES "SelectType=select/cons_res\n"
#define THREE(sharing, more)                                                                       \
	PART("lo", "1", sharing, "")                                                               \
	PART("back", "1", sharing, more)                                                           \
	PART("hi", "2", sharing, "")

/* The same workload with and without. */
static void test_never_more(void **state)
{
	static const struct {
		const char *conf, *param, *least;
	} rows[] = {
		{BY_TIER LINEAR MODE("CANCEL") THREE("NO", ""), "CR_Memory", "CR_Memory," LEAST},
		{BY_TIER LINEAR MODE("REQUEUE") THREE("NO", ""), "CR_CPU", LEAST},
		{BY_TIER LINEAR MODE("SUSPEND,GANG") THREE("FORCE:1", ""), "CR_CPU", LEAST},
		{BY_TIER LINEAR MODE("SUSPEND,GANG") THREE("FORCE:1", "PreemptMode=REQUEUE"),
			"CR_CPU", LEAST},
		{BY_TIER CONS_RES MODE("CANCEL") THREE("NO", ""), "CR_Core", "CR_Core," LEAST},
		{BY_TIER CONS_RES MODE("REQUEUE") THREE("NO", "PreemptMode=CANCEL"), "CR_Core",
			"CR_Core," LEAST},
		{BY_TIER CONS_RES MODE("SUSPEND,GANG") THREE("FORCE:1", ""), "CR_Core",
			"CR_Core," LEAST},
		{BY_TIER CONS_RES MODE("CANCEL") THREE("NO", ""), "CR_Core_Memory",
			"CR_Core_Memory," LEAST},
		{BY_TIER CONS_RES MODE("SUSPEND,GANG") THREE("FORCE:1", ""), "CR_Core_Memory",
			"CR_Core_Memory," LEAST},
		{BY_TIER CONS_RES MODE("SUSPEND,GANG") THREE("FORCE:1", "PreemptMode=REQUEUE"),
			"CR_Core", "CR_Core," LEAST},
		{BY_TIER CONS_RES MODE("SUSPEND,GANG") THREE("FORCE:1", "PreemptMode=CANCEL"),
			"CR_Core_Memory", "CR_Core_Memory," LEAST},
		{BY_TIER LINEAR MODE("SUSPEND,GANG") THREE("FORCE:1", ""), "CR_Memory",
			"CR_Memory," LEAST},
		{BY_QOS CONS_RES MODE("SUSPEND,GANG") THREE("FORCE:1", ""), "CR_Core",
			"CR_Core," LEAST},
	};
	uint32_t first = rounds_get("JOBD_WORKLOADS_SEED", 1), i, fewer;
	uint32_t each = rounds_choose("JOBD_WORKLOADS", 2520, 10000) / ARRAY_SIZE(rows) + 1;
	char usually[2048], sparing[2048];
	size_t k;

	(void)state;
	for (k = 0; k < ARRAY_SIZE(rows); k++) {
		make_six(usually, sizeof(usually), rows[k].conf, rows[k].param);
		make_six(sparing, sizeof(sparing), rows[k].conf, rows[k].least);
		fewer = 0;
		for (i = first; i < first + each; i++) {
			last.row = k;
			last.seed = i;
			struct cost usual = find_cost(usually, (uint64_t)i * 77 + k);
			struct cost least = find_cost(sparing, (uint64_t)i * 77 + k);

			if (usual.fits != least.fits || least.jobs > usual.jobs ||
				least.node_s > usual.node_s)
				fail_msg("%u jobs, %llu s; usually %u, %llu s", least.jobs,
					(unsigned long long)least.node_s, usual.jobs,
					(unsigned long long)usual.node_s);
			fewer += least.jobs < usual.jobs;
		}
		print_message("# row %zu: fewer jobs are preempted in %u of %u workloads\n", k,
			fewer, each);
		assert_true(fewer > 0 || each < 1000); /* else it does nothing */
	}
}

/* ---- killed after each change of the store -----------------------------------------------------
 */

/* A job that is submitted at a time, and how it is to end. */
struct crash_job {
	uint32_t at_s;
	struct rig_job job;  /* its name identifies it */
	struct rig_job with; /* a second component; its name NULL: none */
	const char *code;
	uint32_t restarts;
	uint32_t grace_s; /* which it has at least from its preemption to its end */
};

struct crash {
	const char *conf;
	struct crash_job jobs[5]; /* by at_s; a name of NULL ends them */
	uint32_t end_s;           /* all have ended by then */
};

static struct job *find_name(const struct engine *e, const char *name)
{
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++) {
		struct job *job = engine_get_job(e, i);

		if (job && strcmp(job->record.name, name) == 0)
			return job;
	}
	return NULL;
}

/* Those whose time has come, and that the store does not have. */
static void submit_missing(struct rig *rig, const struct crash *c)
{
	const struct crash_job *j;

	for (j = c->jobs; j->job.name && j->at_s <= rig_now(rig); j++) {
		const struct rig_job both[] = {j->job, j->with};
		struct err err = ERR_INIT;
		uint32_t id;

		if (find_name(rig->e, j->job.name))
			continue;
		if (j->with.name && rig_try_components(rig, both, 2, &id, &err) < 0)
			fail_msg("%s: %s", j->job.name, err.text);
		if (!j->with.name)
			(void)rig_add(rig, j->job);
		rig_run(rig, rig_now(rig));
	}
}

static void check_end(const struct crash *c, struct rig *rig, uint32_t change, uint32_t away_s)
{
	const struct crash_job *j;

	for (j = c->jobs; j->job.name; j++) {
		const struct job *job = find_name(rig->e, j->job.name);
		time_t end = job ? job->record.end_time : 0;

		if (!job || strcmp(state_of(job), j->code) != 0 || job->restarts != j->restarts)
			fail_msg("%s: killed after change %u: job %s is %s, restarted %u times",
				c->conf, change, j->job.name, job ? state_of(job) : "lost",
				job ? job->restarts : 0);
		if (j->grace_s && end < job->preempt_time + (time_t)j->grace_s)
			fail_msg("%s: killed after change %u: job %s had %lld s of %u s", c->conf,
				change, j->job.name, (long long)(end - job->preempt_time),
				j->grace_s);
		check_account(job, away_s);
	}
}

/* Returns how many changes there were; fewer than `most`: it was not killed. */
static uint32_t run_crash(const struct crash *c, uint32_t most, uint32_t away_s)
{
	struct rig rig, next;
	uint32_t t, changes;
	bool killed;

	rig_make(&rig, c->conf);
	rig.store.most = most;
	for (t = 0; t <= c->end_s; t++) {
		rig_run(&rig, t);
		submit_missing(&rig, c);
		if (rig.store.killed) {
			rig_restore_later(&rig, &next, c->conf, away_s);
			rig = next;
			t = rig_now(&rig);
			rig_run(&rig, t);
			submit_missing(&rig, c);
		}
		check_now(rig.e);
	}
	changes = rig.store.changes;
	killed = rig_now(&rig) > 0 && rig.store.most == 0;
	check_end(c, &rig, killed ? most : 0, away_s);
	rig_clear(&rig);
	return killed ? most : changes;
}

#define COMPONENTS                                                                                 \
	PART("lo", "1", "NO", "Default=YES GraceTime=5")                                           \
	PART("lo2", "1", "NO", "GraceTime=20")                                                     \
	PART("hi", "2", "FORCE:1", "")

static void test_killed_at_each_change(void **state)
{
	static const struct crash crashes[] = {
		/* suspended, and resumed */
		{.conf = FOUR BY_TIER LINEAR MODE("SUSPEND,GANG") TWO("FORCE:1", ""),
			.jobs = {{0, {.name = "a", .nodes = 2, .run_s = 60}, .code = "CD"},
				{0, {.name = "b", .nodes = 2, .run_s = 70}, .code = "CD"},
				{20, {.name = "c", .nodes = 3, .partition = "hi", .run_s = 20},
					.code = "CD"}},
			.end_s = 160},
		{.conf = FOUR BY_TIER CORES_MEMORY MODE("SUSPEND,GANG") TWO("FORCE:1", ""),
			.jobs = {{0, {.name = "a", .tasks = 8, .run_s = 60, .memory_mb = 1000},
					 .code = "CD"},
				{20,
					{.name = "b",
						.tasks = 3,
						.partition = "hi",
						.run_s = 20,
						.memory_mb = 1000},
					.code = "CD"},
				{21, {.name = "c", .tasks = 2, .run_s = 5, .memory_mb = 1000},
					.code = "CD"}},
			.end_s = 180},
		/* time slices; the third begins suspended */
		{.conf = FOUR LINEAR MODE("GANG") TWO("FORCE:3", ""),
			.jobs = {{0, {.name = "a", .nodes = 4, .run_s = 25}, .code = "CD"},
				{1, {.name = "b", .nodes = 4, .run_s = 25}, .code = "CD"},
				{2, {.name = "c", .nodes = 2, .run_s = 25}, .code = "CD"}},
			.end_s = 200},
		/* cancelled after a grace time, one that acts on SIGTERM, and one that does not */
		{.conf = FOUR BY_TIER LINEAR MODE("CANCEL") TWO("NO", "GraceTime=30"),
			.jobs = {{0, {.name = "a", .nodes = 2, .run_s = 1000, .term_s = NO_VAL},
					 .code = "PR", .grace_s = 30},
				{0, {.name = "b", .nodes = 2, .run_s = 1000, .term_s = 1},
					.code = "PR", .grace_s = 30},
				{20, {.name = "c", .nodes = 4, .partition = "hi", .run_s = 20},
					.code = "CD"}},
			.end_s = 200},
		/* queued again, or cancelled */
		{.conf = FOUR BY_TIER LINEAR MODE("REQUEUE") TWO("NO", ""),
			.jobs = {{0, {.name = "a", .nodes = 2, .run_s = 60, .term_s = 3},
					 .code = "CD", .restarts = 1},
				{0, {.name = "b", .nodes = 2, .run_s = 60, .no_requeue = true},
					.code = "PR"},
				{20, {.name = "c", .nodes = 4, .partition = "hi", .run_s = 20},
					.code = "CD"}},
			.end_s = 400},
		/* components */
		{.conf = FOUR BY_TIER LINEAR MODE("SUSPEND,GANG") COMPONENTS,
			.jobs = {{0, {.name = "a", .nodes = 1, .run_s = 60},
					 .with = {.name = "a", .partition = "lo2"}, .code = "CD"},
				{20,
					{.name = "b",
						.nodelist = "n2",
						.partition = "hi",
						.run_s = 20},
					.code = "CD"}},
			.end_s = 160},
		{.conf = FOUR BY_TIER LINEAR MODE("CANCEL") COMPONENTS,
			.jobs = {{0, {.name = "a", .partition = "lo2", .run_s = 1000, .term_s = 1},
					 .with = {.name = "b", .partition = "lo", .term_s = 1},
					 .code = "PR", .grace_s = 20},
				{20, {.name = "c", .nodes = 3, .partition = "hi", .run_s = 20},
					.code = "CD"}},
			.end_s = 160},
	};
	uint32_t change, away_s;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(crashes); i++) {
		for (away_s = 0; away_s <= 7; away_s += 7) {
			for (change = 1; run_crash(&crashes[i], change, away_s) == change; change++)
				;
			assert_true(change > 5); /* else nothing was tried */
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_workloads, print_last),
		cmocka_unit_test_teardown(test_never_more, print_last),
		cmocka_unit_test(test_killed_at_each_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
