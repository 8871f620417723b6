/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a select plugin takes to place a job: us of a processor per call of select_test(), for
 * 1,000, 10,000 and 100,000 nodes of 16 CPUs. TEST_ONLY on all nodes; RUN_NOW where every other job
 * of four nodes has ended; WILL_RUN of a job that needs all nodes but one job's, behind as many
 * jobs with different ends as there are fourths of nodes, 250 at most.
 *
 * Then the choice of 100 jobs to preempt among 1,000 on as many nodes.
 *
 *	jobtest [PLUGIN_DIR]
 */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contrib/jobd/select/use.h"
#include "tests/lib/jobd_cluster.h"

#define RUNNING_MAX 250u

static double now_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct mode {
	const char *name;
	uint32_t mode;
	uint32_t nodes; /* of the job; 0: all but four */
	bool fails;
};

static job_record_t *add_job(struct cluster *c, uint32_t nodes)
{
	job_record_t *job = cluster_add_job(c, &c->parts[0]);

	job->details->min_nodes = nodes;
	job->details->min_cpus = 16 * nodes;
	return job;
}

static void run(struct cluster *c, job_record_t *job, uint32_t mode, bool fails)
{
	struct err e = ERR_INIT;
	struct select_request q;
	int r;

	cluster_request(c, job, &q);
	r = select_test(c->select, &q, mode, &e);
	if ((r < 0) != fails)
		errx(1, "job of %u nodes: %s", job->details->min_nodes, e.text);
	bit_free(q.nodes);
}

/* Jobs of so many nodes each over all of the cluster, with different ends; every other one is over
 * then, if there is to be a place. */
static void fill(struct cluster *c, uint32_t nodes, bool half)
{
	uint32_t jobs = nodes / 4 < RUNNING_MAX ? nodes / 4 : RUNNING_MAX, i;
	job_record_t *ended[RUNNING_MAX];
	struct err e = ERR_INIT;

	for (i = 0; i < jobs; i++) {
		job_record_t *job = add_job(c, nodes / jobs);

		run(c, job, SELECT_MODE_RUN_NOW, false);
		job->job_state = JOB_RUNNING;
		job->end_time = slurm_now() + 600 + 60 * (time_t)((i * 7919) % jobs);
		if (select_job_begin(c->select, job, &e) < 0)
			errx(1, "%s", e.text);
		ended[i] = job;
	}
	for (i = 0; half && i < jobs; i += 2) {
		if (select_job_fini(c->select, ended[i], &e) < 0)
			errx(1, "%s", e.text);
		cluster_free_job(ended[i]);
	}
}

/* As often as fits in a fifth of a second. */
static double time_calls(struct cluster *c, const struct mode *m, uint32_t nodes)
{
	job_record_t *job = add_job(c, m->nodes ? m->nodes : nodes - 4);
	double begun, us;
	uint32_t n = 0;

	run(c, job, m->mode, m->fails);
	begun = now_us();
	do {
		run(c, job, m->mode, m->fails);
		n++;
		us = now_us() - begun;
	} while (us < 200000);
	cluster_free_job(job);
	return us / n;
}

static void measure(const char *plugin, const char *dir, uint32_t nodes)
{
	static const struct mode empty = {"TEST_ONLY", SELECT_MODE_TEST_ONLY, 32, false};
	static const struct mode half[] = {
		{"RUN_NOW", SELECT_MODE_RUN_NOW, 32, false},
		{"RUN_NOW in vain", SELECT_MODE_RUN_NOW, 0, true},
	};
	static const struct mode full[] = {
		{"WILL_RUN of 32", SELECT_MODE_WILL_RUN, 32, false},
		{"WILL_RUN of most", SELECT_MODE_WILL_RUN, 0, false},
	};
	char text[512];
	struct cluster c;
	size_t i;

	(void)snprintf(text, sizeof(text),
		"SelectType=select/%s\n%sNodeName=n[1-%u] Sockets=2 CoresPerSocket=8 "
		"RealMemory=64000\nPartitionName=p Nodes=ALL\n",
		plugin, strcmp(plugin, "linear") == 0 ? "" : "SelectTypeParameters=CR_Core\n",
		nodes);
	cluster_make(&c, text, dir, NULL);
	(void)printf("%7u %-9s %-16s %10.1f\n", nodes, plugin, empty.name,
		time_calls(&c, &empty, nodes));
	fill(&c, nodes, true);
	for (i = 0; i < ARRAY_SIZE(half); i++)
		(void)printf("%7u %-9s %-16s %10.1f\n", nodes, plugin, half[i].name,
			time_calls(&c, &half[i], nodes));
	cluster_clear(&c);
	cluster_make(&c, text, dir, NULL);
	fill(&c, nodes, false);
	for (i = 0; i < ARRAY_SIZE(full); i++)
		(void)printf("%7u %-9s %-16s %10.1f\n", nodes, plugin, full[i].name,
			time_calls(&c, &full[i], nodes));
	cluster_clear(&c);
}

static uint16_t cancel_mode(const job_record_t *job)
{
	(void)job;
	return PREEMPT_MODE_CANCEL;
}

/* Each node has a job of its own, all of which may be preempted for one of 100 nodes. */
static double time_preemption(struct cluster *c, List candidates)
{
	job_record_t *job = add_job(c, 100);
	double begun = now_us(), us;
	uint32_t n = 0;

	do {
		struct err e = ERR_INIT;
		struct select_request q;
		List preempted = NULL;

		cluster_request(c, job, &q);
		q.candidates = candidates;
		q.preempted = &preempted;
		if (select_test(c->select, &q, SELECT_MODE_RUN_NOW, &e) != -EINPROGRESS)
			errx(1, "preemption: %s", e.text);
		if (!preempted || list_count(preempted) != 100)
			errx(1, "%d jobs are preempted", preempted ? list_count(preempted) : 0);
		list_destroy(preempted);
		bit_free(q.nodes);
		n++;
		us = now_us() - begun;
	} while (us < 200000);
	cluster_free_job(job);
	return us / n;
}

static void measure_preemption(const char *plugin, const char *dir)
{
	const uint32_t nodes = 1000;
	List candidates = list_create(NULL);
	struct err e = ERR_INIT;
	struct cluster c;
	char text[512];
	uint32_t i;

	(void)snprintf(text, sizeof(text),
		"SelectType=select/%s\n%sNodeName=n[1-%u] Sockets=2 CoresPerSocket=8 "
		"RealMemory=64000\nPartitionName=p Nodes=ALL\n",
		plugin, strcmp(plugin, "linear") == 0 ? "" : "SelectTypeParameters=CR_Core\n",
		nodes);
	cluster_make(&c, text, dir, NULL);
	select_preempt_mode = cancel_mode;
	for (i = 0; i < nodes; i++) {
		job_record_t *job = add_job(&c, 1);

		run(&c, job, SELECT_MODE_RUN_NOW, false);
		job->job_state = JOB_RUNNING;
		job->end_time = slurm_now() + 600;
		if (select_job_begin(c.select, job, &e) < 0)
			errx(1, "%s", e.text);
		job->node_bitmap = bit_copy(job->job_resrcs->node_bitmap);
		(void)list_append(candidates, job);
	}
	(void)printf("%7u %-9s %-16s %10.1f\n", nodes, plugin, "100 of 1,000",
		time_preemption(&c, candidates));
	while (!list_is_empty(candidates))
		FREE_NULL_BITMAP(((job_record_t *)list_pop(candidates))->node_bitmap);
	list_destroy(candidates);
	select_preempt_mode = NULL;
	cluster_clear(&c);
}

int main(int argc, char **argv)
{
	static const uint32_t sizes[] = {1000, 10000, 100000};
	size_t i;

	(void)printf("%7s %-9s %-16s %10s\n", "nodes", "plugin", "mode", "us");
	measure_preemption("linear", argc > 1 ? argv[1] : NULL);
	measure_preemption("cons_res", argc > 1 ? argv[1] : NULL);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		measure("linear", argc > 1 ? argv[1] : NULL, sizes[i]);
		measure("cons_res", argc > 1 ? argv[1] : NULL, sizes[i]);
	}
	return 0;
}
