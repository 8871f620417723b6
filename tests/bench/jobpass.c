/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What scheduling takes, with the plugins of the build (${top_builddir}):
 *
 *	jobpass pass [linear|cons_res [JOBS [NODES]]]
 *		a pass, and backfill for all, with so many pending jobs of 1 to 32 nodes and 10 to
 *		300 minutes, on nodes of 16 CPUs whose jobs of four nodes all end at other times
 *	jobpass parts [cons_res [JOBS [NODES]]]
 *		the same with jobs of 1 to 16 cores of a node, on nodes whose jobs have four each
 *	jobpass run [linear|cons_res [JOBS [NODES]]]
 *		jobs of random sizes and times, with backfill, from submission to end
 *	jobpass singleton [linear|cons_res [JOBS]]
 *		so many jobs, half of them of one name with --dependency=singleton
 *	jobpass restore [linear|cons_res [JOBS]]
 *		so many jobs are found again, half of them in arrays of two tasks
 *
 * Times are those of the processor: one thread does it all.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/lib/jobd_rig.h"

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint32_t random_below(uint32_t n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 33) % n);
}

static char *conf_text(const char *type, uint32_t jobs, uint32_t nodes, const char *parameters)
{
	char *text = NULL;

	if (asprintf(&text,
		    "ClusterName=bench\nSelectType=select/%s\n%sMaxJobCount=%u\nMinJobAge=60\n"
		    "SchedulerParameters=%s\nNodeName=n[1-%u] Sockets=2 CoresPerSocket=8\n"
		    "PartitionName=p Nodes=ALL Default=YES\n",
		    type, strcmp(type, "linear") == 0 ? "" : "SelectTypeParameters=CR_CPU\n",
		    2 * jobs + 5 * nodes, parameters, nodes) < 0)
		errx(1, "no memory");
	return text;
}

static void must_submit(struct rig *rig, const struct rig_job *job)
{
	struct err e = ERR_INIT;
	uint32_t id;

	if (rig_try(rig, job, &id, &e) < 0)
		errx(1, "%s", e.text);
}

static struct rig_job job_of(uint32_t nodes, uint32_t minutes)
{
	return (struct rig_job){
		.nodes = nodes, .tasks = 16 * nodes, .minutes = minutes, .run_s = 60 * minutes};
}

static struct rig_job part_of(uint32_t cores, uint32_t minutes)
{
	return (struct rig_job){
		.nodes = 1, .tasks = cores, .minutes = minutes, .run_s = 60 * minutes};
}

static void bench_pass(const char *type, uint32_t jobs, uint32_t nodes, bool parts)
{
	char *text = conf_text(type, jobs, nodes,
		"bf_interval=1000,bf_max_job_test=1000000,bf_window=43200,default_queue_depth=1000");
	double begin, submitted, passed, filled;
	struct rig_job job;
	struct rig rig;
	uint32_t i;

	rig_make(&rig, text);
	for (i = 0; i < (parts ? 4 * nodes : nodes / 4); i++) {
		job = parts ? part_of(4, 60 + i % 300) : job_of(4, 60 + i);
		must_submit(&rig, &job);
	}
	rig_run(&rig, 61); /* all have started by then: that pass is a full one */
	begin = now_ms();
	for (i = 0; i < jobs; i++) {
		const uint32_t size = 1 + random_below(parts ? 16 : 32);

		job = parts ? part_of(size, 10 + random_below(291))
			    : job_of(size, 10 + random_below(291));
		must_submit(&rig, &job);
	}
	submitted = now_ms();
	rig_run(&rig, 61);
	passed = now_ms();
	rig_run(&rig, 1001);
	filled = now_ms();
	printf("%s, %u jobs on %u nodes: submission %.4f ms a job, pass %.3f ms, backfill %.4f ms a "
	       "job (%llu tested, %llu questions)\n",
		type, jobs, nodes, (submitted - begin) / jobs, passed - submitted,
		(filled - passed) / jobs,
		(unsigned long long)engine_get_stats(rig.e)->last_backfill_jobs,
		(unsigned long long)engine_get_stats(rig.e)->tests);
	rig_clear(&rig);
	free(text);
}

/* So that about as much is submitted as can run. */
static void bench_run(const char *type, uint32_t jobs, uint32_t nodes)
{
	char *text = conf_text(type, jobs, nodes, "bf_interval=30");
	double begin = now_ms(), took;
	const struct engine_stats *stats;
	struct rig rig;
	uint32_t i;
	double t = 0;

	rig_make(&rig, text);
	for (i = 0; i < jobs; i++) {
		uint32_t size = 1 + random_below(64), minutes = 1 + random_below(240);
		struct rig_job job = job_of(size, minutes);

		job.run_s = 30 * minutes + random_below(30 * minutes);
		t += 2.0 * random_below(1000) / 1000 * 32.5 * 45 * 120 / nodes;
		rig_run(&rig, (uint32_t)t);
		must_submit(&rig, &job);
	}
	if (!sim_run_all(rig.sim, SIM_NEVER - 1))
		errx(1, "some jobs never end");
	took = now_ms() - begin;
	stats = engine_get_stats(rig.e);
	printf("%s, %u jobs on %u nodes: %.1f s for %.1f days; %llu completed, %llu by backfill, "
	       "%llu passes, %llu backfill cycles, %llu questions\n",
		type, jobs, nodes, took / 1e3, rig_now(&rig) / 86400.0,
		(unsigned long long)stats->completed, (unsigned long long)stats->backfilled,
		(unsigned long long)stats->passes, (unsigned long long)stats->backfill_cycles,
		(unsigned long long)stats->tests);
	if (stats->completed != jobs)
		errx(1, "%llu jobs have completed", (unsigned long long)stats->completed);
	rig_clear(&rig);
	free(text);
}

static void bench_singleton(const char *type, uint32_t jobs)
{
	char *text = conf_text(type, jobs, 4, "default_queue_depth=1000");
	const struct rig_job job = {.name = "one", .singleton = true, .run_s = 1};
	const struct rig_job other = {.name = "other", .hold = true};
	double begin, submitted, ended;
	struct rig rig;
	uint32_t i;

	rig_make(&rig, text);
	begin = now_ms();
	for (i = 0; i < jobs; i++)
		must_submit(&rig, i < jobs / 2 ? &other : &job);
	submitted = now_ms();
	rig_run(&rig, 10);
	ended = now_ms();
	printf("%s, %u jobs, half with singleton: submission %.4f ms a job, %.3f ms for the end of each\n",
		type, jobs, (submitted - begin) / jobs, (ended - submitted) / 10);
	rig_clear(&rig);
	free(text);
}

/* Half of the jobs are in arrays of two tasks. */
static void bench_restore(const char *type, uint32_t jobs)
{
	char *text = conf_text(type, jobs, 4, "default_queue_depth=1000");
	const struct rig_job alone = {.hold = true}, array = {.hold = true, .array = "0-1"};
	struct rig rig, again;
	double begin;
	uint32_t i;

	rig_make(&rig, text);
	for (i = 0; i < jobs / 2; i++)
		must_submit(&rig, &alone);
	for (i = 0; i < jobs / 4; i++)
		must_submit(&rig, &array);
	begin = now_ms();
	rig_restore(&rig, &again, text);
	printf("%s, %u jobs, half in arrays: %.1f ms to restore them\n", type, jobs,
		now_ms() - begin);
	rig_clear(&again);
	free(text);
}

int main(int argc, char **argv)
{
	bool is_run = argc > 1 && strcmp(argv[1], "run") == 0;
	bool is_parts = argc > 1 && strcmp(argv[1], "parts") == 0;
	const char *type = argc > 2 ? argv[2] : is_parts ? "cons_res" : "linear";
	uint32_t jobs = argc > 3 ? (uint32_t)atoi(argv[3]) : is_run ? 100000 : 10000;
	uint32_t nodes = argc > 4 ? (uint32_t)atoi(argv[4]) : is_run ? 10000 : 1000;

	if (argc > 1 && strcmp(argv[1], "singleton") == 0)
		bench_singleton(type, jobs);
	else if (argc > 1 && strcmp(argv[1], "restore") == 0)
		bench_restore(type, jobs);
	else if (is_run)
		bench_run(type, jobs, nodes);
	else
		bench_pass(type, jobs, nodes, is_parts);
	return 0;
}
