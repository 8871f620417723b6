/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What preemption and time slices take in the engine, with the plugins of the build
 * (${top_builddir}), without a store and with a virtual clock:
 *
 *	preempttime [JOBS [ROUNDS]]
 *
 * JOBS (1000) of one node each on as many nodes: a tenth of them is chosen and cancelled for a job
 * of so many nodes, from its submission to the last signal; and with two jobs on each node a time
 * slice, from its begin until the jobs that ran stand still and the others run. Medians of ROUNDS
 * (9), of processor time.
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "contrib/jobd/sim/sim.h"
#include "stepd/base/err.h"
#include "tests/lib/jobd_rig.h"

#define ROUNDS_MAX 999
#define BEGIN_MS   1000000000000u
#define SLICE_MS   10000

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_median(const char *plugin, const char *what, double *ms, int rounds)
{
	qsort(ms, (size_t)rounds, sizeof(*ms), compare);
	printf("%-9s %s: %8.2f ms\n", plugin, what, ms[rounds / 2]);
}

static void plan_job(const struct job *job, struct sim_job_plan *plan, void *userdata)
{
	(void)job;
	(void)plan;
	(void)userdata;
}

static struct sim *make_sim(const char *plugin, uint32_t jobs, const char *rest)
{
	static const struct log log = {
		.fd = STDERR_FILENO, .most = LOG_LEVEL_ERROR, .ident = "preempttime"};
	const char *builddir = getenv("top_builddir");
	struct sim_options options = {.log = &log, .now_ms = BEGIN_MS, .plan = plan_job};
	char text[2048], dir[4096];
	struct err e = ERR_INIT;
	struct sim *sim = NULL;

	(void)snprintf(text, sizeof(text),
		"ClusterName=bench\nSelectType=select/%s\n%sMaxJobCount=%u\nSchedulerTimeSlice=10\n"
		"SchedulerParameters=bf_interval=3600,default_queue_depth=100000\nNodeName=n[1-%u] CPUs=1\n%s",
		plugin, strcmp(plugin, "linear") == 0 ? "" : "SelectTypeParameters=CR_Core\n",
		4 * jobs, jobs, rest);
	(void)snprintf(dir, sizeof(dir), "%s/stepd/cli/plugins", builddir ? builddir : ".");
	options.conf = rig_conf(text);
	options.plugin_dir = dir;
	if (sim_new(&options, &sim, &e) < 0 || engine_begin(sim_get_engine(sim), NULL, &e) < 0)
		errx(1, "%s", e.text);
	return sim;
}

static void submit(struct sim *sim, const char *part, uint32_t nodes)
{
	_cleanup_request_ struct job_request q;
	struct err e = ERR_INIT;
	uint32_t id;

	request_init(&q);
	q.partition = strdup(part);
	q.min_nodes = q.max_nodes = nodes;
	if (engine_submit(sim_get_engine(sim), &q, 0, 0, &id, &e) < 0)
		errx(1, "%s", e.text);
}

static uint32_t count_in(const struct sim *sim, uint32_t state)
{
	const struct engine *e = sim_get_engine(sim);
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < engine_count_jobs(e); i++)
		n += engine_get_job(e, i)->record.job_state == state;
	return n;
}

static void must_be(uint32_t n, uint32_t wanted, const char *what)
{
	if (n != wanted)
		errx(1, "%u jobs %s, not %u", n, what, wanted);
}

static double time_choice(const char *plugin, uint32_t jobs)
{
	struct sim *sim = make_sim(plugin, jobs,
		"PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"
		"PartitionName=lo Nodes=ALL Default=YES PriorityTier=1\n"
		"PartitionName=hi Nodes=ALL PriorityTier=2\n");
	double begin;
	uint32_t i;

	for (i = 0; i < jobs; i++)
		submit(sim, "lo", 1);
	sim_run_until(sim, BEGIN_MS + 1000);
	must_be(count_in(sim, JOB_RUNNING), jobs, "run");
	begin = now_ms();
	submit(sim, "hi", jobs / 10);
	(void)engine_advance(sim_get_engine(sim), BEGIN_MS + 1000);
	begin = now_ms() - begin;
	sim_run_until(sim, BEGIN_MS + 2000);
	must_be(count_in(sim, JOB_PREEMPTED), jobs / 10, "are preempted");
	must_be(count_in(sim, JOB_RUNNING), jobs - jobs / 10 + 1, "run then");
	(void)sim_free(sim); /* always NULL */
	return begin;
}

static struct sim *begin_slices(const char *plugin, uint32_t jobs)
{
	struct sim *sim = make_sim(plugin, jobs,
		"PreemptMode=GANG\nPartitionName=p Nodes=ALL Default=YES OverSubscribe=FORCE:2\n");
	uint32_t i;

	for (i = 0; i < 2 * jobs; i++)
		submit(sim, "p", 1);
	sim_run_until(sim, BEGIN_MS + 1000);
	must_be(count_in(sim, JOB_RUNNING), jobs, "run");
	must_be(count_in(sim, JOB_SUSPENDED), jobs, "stand still");
	return sim;
}

static double time_slice(struct sim *sim, uint32_t jobs, int slice)
{
	double begin;

	sim_run_until(sim, BEGIN_MS + SLICE_MS * (uint64_t)slice - 1);
	begin = now_ms();
	sim_run_until(sim, BEGIN_MS + SLICE_MS * (uint64_t)slice);
	begin = now_ms() - begin;
	must_be(count_in(sim, JOB_RUNNING), jobs, "run");
	return begin;
}

int main(int argc, char **argv)
{
	static const char *const plugins[] = {"linear", "cons_tres"};
	uint32_t jobs = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
	int rounds = argc > 2 ? atoi(argv[2]) : 9, i;
	double ms[ROUNDS_MAX];
	struct sim *sim;
	char what[128];
	size_t k;

	if (jobs < 10 || rounds < 1 || rounds > ROUNDS_MAX)
		errx(2, "preempttime [JOBS [ROUNDS]]");
	for (k = 0; k < sizeof(plugins) / sizeof(plugins[0]); k++) {
		for (i = 0; i < rounds; i++)
			ms[i] = time_choice(plugins[k], jobs);
		(void)snprintf(
			what, sizeof(what), "choose and cancel %u of %u jobs", jobs / 10, jobs);
		print_median(plugins[k], what, ms, rounds);
		sim = begin_slices(plugins[k], jobs);
		for (i = 0; i < rounds; i++)
			ms[i] = time_slice(sim, jobs, 2 + i);
		(void)snprintf(what, sizeof(what), "a slice: %u jobs stop, %u go on", jobs, jobs);
		print_median(plugins[k], what, ms, rounds);
		(void)sim_free(sim); /* always NULL */
	}
	return 0;
}
