/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The select plugins against a model that knows only their contract: on random small clusters each
 * set of nodes is tried. And the choices of a real Slurm, as tests/data/jobd/ has them.
 *
 * JOBD_SELECT_SEED is where the random numbers begin; JOBD_SELECT_REQUESTS how many requests.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>

#include "contrib/jobd/engine/request.h"
#include "contrib/jobd/select/use.h"
#include "stepd/base/hostlist.h"
#include "tests/lib/jobd_cluster.h"
#include "tests/lib/rounds.h"
#include "tests/lib/scratch.h"

#define NODES_MAX 6u
#define JOBS_MAX  12u
#define CORES_MAX 8u /* of a node */

static unsigned seed, first_seed;

static uint32_t below(uint32_t n)
{
	return n ? (uint32_t)rand_r(&seed) % n : 0;
}

static uint32_t between(uint32_t least, uint32_t most)
{
	return least + below(most - least + 1);
}

/* ---- the model ---------------------------------------------------------------------------------
 */

/* What is tried, in words. */
static char scene[4096];

struct kind {
	const char *plugin, *param; /* "CR_Core", or NULL */
	bool memory;
	const char *share;
	bool parts; /* of nodes */
};

struct trial {
	struct cluster c;
	struct kind kind;
	job_record_t *jobs[JOBS_MAX]; /* that run or are suspended */
	uint32_t jobs_count;
	bitstr_t *exc_cores; /* of this request; NULL: none */
};

static bool has_param(uint32_t param)
{
	return slurm_conf.select_type_param & param;
}

static bool is_whole(const job_record_t *job)
{
	return job->details->whole_node || job->part_ptr->max_share == 0;
}

/* Jobs on one resource, itself among them. */
static uint32_t share_of(const job_record_t *job)
{
	uint32_t n = job->part_ptr->max_share & ~SHARED_FORCE;

	if (is_whole(job) || n <= 1)
		return 1;
	if (job->part_ptr->max_share & SHARED_FORCE)
		return n;
	return job->details->share_res == JOB_SHARED_OK ? n : 1;
}

static bool is_on(const job_record_t *job, uint32_t node)
{
	return bit_test(job->job_resrcs->node_bitmap, node);
}

static uint32_t place_on(const job_record_t *job, uint32_t node)
{
	return (uint32_t)bit_set_count_range(job->job_resrcs->node_bitmap, 0, node);
}

static bool is_there(const struct trial *t, uint32_t k, time_t when)
{
	time_t end = t->jobs[k]->end_time;

	return when == 0 || end == 0 || end > when;
}

/* That of suspended jobs, too. */
static uint64_t memory_used(const struct trial *t, uint32_t node, time_t when)
{
	uint64_t used = 0;
	uint32_t k;

	for (k = 0; k < t->jobs_count; k++) {
		const job_record_t *job = t->jobs[k];

		if (is_there(t, k, when) && is_on(job, node))
			used += job->job_resrcs->memory_allocated[place_on(job, node)];
	}
	return used;
}

static bool is_excepted(const struct trial *t, uint32_t node, uint32_t core)
{
	return t->exc_cores &&
		bit_test(t->exc_cores, (bitoff_t)t->c.nodes[node].core_offset + core);
}

static bool core_is_free(
	const struct trial *t, const job_record_t *job, uint32_t node, uint32_t core, time_t when)
{
	uint32_t k, others = 0;

	if (is_excepted(t, node, core))
		return false;

	for (k = 0; k < t->jobs_count; k++) {
		const job_record_t *other = t->jobs[k];

		if (!is_there(t, k, when) || !is_on(other, node))
			continue;
		if (is_whole(other) || is_whole(job))
			return false;
		if (!bit_test(other->job_resrcs->core_bitmap,
			    (bitoff_t)t->c.nodes[node].core_offset + core))
			continue;
		if (share_of(other) <= 1)
			return false;
		others++;
	}
	return others < share_of(job);
}

static uint32_t count_cores(
	const struct trial *t, const job_record_t *job, uint32_t node, time_t when, bool empty)
{
	const node_record_t *n = &t->c.nodes[node];
	uint32_t socket, core, free, sum = 0;

	for (socket = 0; socket < n->tot_sockets; socket++) {
		for (core = 0, free = 0; core < n->cores; core++)
			free += empty ? !is_excepted(t, node, socket * n->cores + core)
				      : core_is_free(t, job, node, socket * n->cores + core, when);
		sum += has_param(CR_SOCKET) && free < n->cores ? 0 : free;
	}
	return is_whole(job) && sum < n->tot_cores ? 0 : sum;
}

/* Whole nodes: whether the job can be on this one beside the others. */
static bool can_join(const struct trial *t, const job_record_t *job, uint32_t node, time_t when)
{
	uint32_t k, others = 0;

	for (k = 0; k < t->jobs_count; k++) {
		if (!is_there(t, k, when) || !is_on(t->jobs[k], node))
			continue;
		if (share_of(t->jobs[k]) <= 1 || share_of(job) <= 1)
			return false;
		others++;
	}
	return others < share_of(job);
}

/* Tasks that so many cores of this node may have: each with --ntasks-per-core at most, or as many
 * as there are CPUs for. One that is larger than a core has cores of its own then. */
static uint32_t tasks_of_cores(const job_details_t *d, const node_record_t *n, uint32_t cores)
{
	uint32_t each = n->threads / d->cpus_per_task, of_task;

	if (!d->ntasks_per_core)
		return cores * n->threads / d->cpus_per_task;
	for (of_task = 1; of_task * n->threads < d->cpus_per_task;)
		of_task++;
	if (each == 0)
		return cores / of_task;
	return cores * (each < d->ntasks_per_core ? each : d->ntasks_per_core);
}

/* Of those cores, free[core], those tasks that its limits by socket and core allow. */
static uint32_t count_tasks(const job_details_t *d, const node_record_t *n, const bool *free)
{
	uint32_t socket, core, all = 0, sum = 0, sockets_of_task = 0;

	for (socket = 0; socket < n->tot_sockets; socket++) {
		uint32_t cores = 0, tasks;

		for (core = 0; core < n->cores; core++)
			cores += free[socket * n->cores + core];
		tasks = tasks_of_cores(d, n, cores);
		all += cores;
		sum += d->ntasks_per_socket && tasks > d->ntasks_per_socket ? d->ntasks_per_socket
									    : tasks;
	}
	if (!d->ntasks_per_socket)
		return tasks_of_cores(d, n, all);
	if (tasks_of_cores(d, n, n->cores) > 0)
		return sum;
	/* a task larger than a socket: its sockets count for it alone */
	do
		sockets_of_task++;
	while (tasks_of_cores(d, n, sockets_of_task * n->cores) == 0);
	sum = n->tot_sockets * d->ntasks_per_socket / sockets_of_task;
	all = tasks_of_cores(d, n, all);
	return all < sum ? all : sum;
}

static uint32_t count_limited(
	const struct trial *t, const job_record_t *job, uint32_t node, time_t when, bool empty)
{
	const node_record_t *n = &t->c.nodes[node];
	bool free[CORES_MAX];
	uint32_t core, socket;

	for (core = 0; core < n->tot_cores; core++)
		free[core] = empty ? !is_excepted(t, node, core)
				   : core_is_free(t, job, node, core, when);
	for (socket = 0; has_param(CR_SOCKET) && socket < n->tot_sockets; socket++) {
		bool whole = true;

		for (core = 0; core < n->cores; core++)
			whole &= free[socket * n->cores + core];
		for (core = 0; core < n->cores; core++)
			free[socket * n->cores + core] &= whole;
	}
	return count_tasks(job->details, n, free);
}

/* CPUs of whole tasks that the node can give the job; 0: it can't be on it. */
static uint32_t offer(
	const struct trial *t, const job_record_t *job, uint32_t node, time_t when, bool empty)
{
	const job_details_t *d = job->details;
	const node_record_t *n = &t->c.nodes[node];
	uint64_t memory = n->real_memory, per_cpu = 0, wanted = d->pn_min_memory;
	uint32_t cpus = n->cpus, tasks, most;

	if (!empty && has_param(CR_MEMORY))
		memory -= memory_used(t, node, when);
	if (wanted & MEM_PER_CPU)
		per_cpu = wanted & ~MEM_PER_CPU;
	if (!t->kind.parts) {
		if ((!empty && !can_join(t, job, node, when)) || d->pn_min_cpus > cpus ||
			d->cpus_per_task > cpus)
			return 0;
		if (!has_param(CR_MEMORY))
			return cpus;
		wanted = per_cpu ? per_cpu * cpus : wanted ? wanted : n->real_memory;
		return wanted <= memory ? cpus : 0;
	}
	cpus = count_cores(t, job, node, when, empty) * n->threads;
	if (has_param(CR_MEMORY) && per_cpu && memory / per_cpu < cpus)
		cpus = (uint32_t)(memory / per_cpu);
	if (!per_cpu && wanted > memory)
		return 0;
	if (per_cpu > n->real_memory ||
		(has_param(CR_MEMORY) && !wanted && memory < n->real_memory))
		return 0;
	if (cpus < d->pn_min_cpus)
		return 0;
	tasks = cpus / d->cpus_per_task;
	if (d->ntasks_per_node && tasks > d->ntasks_per_node)
		tasks = d->ntasks_per_node;
	most = count_limited(t, job, node, when, empty);
	return (tasks < most ? tasks : most) * d->cpus_per_task;
}

/* Whether these nodes, bits of set, are a choice for the request. */
static bool is_choice(const struct select_request *q, const bitstr_t *given, const uint32_t *offers,
	uint32_t set, uint32_t nodes)
{
	const job_details_t *d = q->job->details;
	uint32_t i, count = 0, rows = 0, cpus = 0;

	for (i = 0; i < nodes; i++) {
		bool in = set >> i & 1;

		if (d->req_node_bitmap && bit_test(d->req_node_bitmap, i) && !in)
			return false;
		if (in && (!bit_test(given, i) || !offers[i]))
			return false;
		rows += in && (i == 0 || !(set >> (i - 1) & 1));
		count += in;
		cpus += in ? offers[i] : 0;
	}
	return count >= q->min_nodes && count <= q->max_nodes && cpus >= d->min_cpus &&
		(!d->contiguous || rows <= 1);
}

/* when 0: now; empty: without any job. */
static bool can_run(const struct trial *t, const struct select_request *q, const bitstr_t *given,
	time_t when, bool empty)
{
	uint32_t offers[NODES_MAX], i, set, nodes = (uint32_t)t->c.conf->nodes_count;

	for (i = 0; i < nodes; i++)
		offers[i] = offer(t, q->job, i, when, empty);
	for (set = 1; set < 1u << nodes; set++) {
		if (is_choice(q, given, offers, set, nodes))
			return true;
	}
	return false;
}

/* Not before this one; -1: never. Jobs that should have ended by now have not. */
static time_t earliest(const struct trial *t, const struct select_request *q, const bitstr_t *given,
	time_t not_before)
{
	time_t best = -1, now = slurm_now(), end;
	uint32_t k;

	if (not_before <= now)
		not_before = 0;
	if (can_run(t, q, given, not_before, false))
		return not_before ? not_before : now;
	for (k = 0; k < t->jobs_count; k++) {
		end = t->jobs[k]->end_time;
		if (end && end > not_before && (best < 0 || end < best) &&
			can_run(t, q, given, end, false))
			best = end;
	}
	return best >= 0 && best < now ? now : best;
}

/* ---- what must be so of what a job got ----------------------------------------------------------
 */

#define SHOULD(condition)                                                                          \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_msg("seed %u: %s: %s", first_seed, #condition, scene);                \
	} while (0)

static void check_cores(const struct trial *t)
{
	uint32_t node, core, k;

	for (node = 0; node < t->c.conf->nodes_count; node++) {
		for (core = 0; core < t->c.nodes[node].tot_cores; core++) {
			uint32_t jobs = 0, least = UINT32_MAX;

			for (k = 0; k < t->jobs_count; k++) {
				const job_record_t *job = t->jobs[k];

				if (!is_on(job, node) ||
					(job->job_resrcs->core_bitmap &&
						!bit_test(job->job_resrcs->core_bitmap,
							(bitoff_t)t->c.nodes[node].core_offset +
								core)))
					continue;
				jobs++;
				if (share_of(job) < least)
					least = share_of(job);
			}
			SHOULD(jobs <= least);
		}
	}
}

static void check_memory(const struct trial *t)
{
	uint32_t node;

	for (node = 0; has_param(CR_MEMORY) && node < t->c.conf->nodes_count; node++)
		SHOULD(memory_used(t, node, 0) <= t->c.nodes[node].real_memory);
}

static void check_nodes_use(const struct trial *t)
{
	uint32_t node, k;

	for (node = 0; node < t->c.conf->nodes_count; node++) {
		uint32_t cpus = 0;
		uint16_t told_cpus;
		uint64_t told_memory;

		for (k = 0; k < t->jobs_count; k++)
			cpus += is_on(t->jobs[k], node)
				? t->jobs[k]->job_resrcs->cpus[place_on(t->jobs[k], node)]
				: 0;
		if (cpus > t->c.nodes[node].cpus)
			cpus = t->c.nodes[node].cpus;
		select_node_use(t->c.select, &t->c.nodes[node], &told_cpus, &told_memory);
		SHOULD(told_cpus == cpus);
		SHOULD(told_memory == memory_used(t, node, 0));
	}
}

static void check_given(
	const struct trial *t, const struct select_request *q, const bitstr_t *given)
{
	const job_record_t *job = q->job;
	const job_resources_t *r = job->job_resrcs;
	const job_details_t *d = job->details;
	uint32_t i, k = 0, cpus = 0, rows = 0, n = (uint32_t)bit_set_count(q->nodes), tasks = 0;
	uint32_t core;

	SHOULD(bit_super_set(q->nodes, given));
	SHOULD(n >= q->min_nodes && n <= q->max_nodes);
	SHOULD(!d->req_node_bitmap || bit_super_set(d->req_node_bitmap, q->nodes));
	SHOULD(r && r->nhosts == n && bit_equal(r->node_bitmap, q->nodes));
	for (i = 0; i < t->c.conf->nodes_count; i++) {
		const node_record_t *node = &t->c.nodes[i];
		bitoff_t first = node->core_offset, end = first + node->tot_cores;

		if (!bit_test(q->nodes, i)) {
			SHOULD(!r->core_bitmap ||
				bit_set_count_range(r->core_bitmap, first, end) == 0);
			continue;
		}
		rows += i == 0 || !bit_test(q->nodes, i - 1);
		SHOULD(r->cpus[k] > 0 && r->cpus[k] <= node->cpus);
		SHOULD(r->cpus[k] >= d->cpus_per_task);
		SHOULD(!r->core_bitmap ||
			(uint32_t)bit_set_count_range(r->core_bitmap, first, end) * node->threads ==
				r->cpus[k]);
		SHOULD(!(is_whole(job) && r->core_bitmap) || r->cpus[k] == node->cpus);
		cpus += r->cpus[k++];
		if (r->core_bitmap) {
			bool its[CORES_MAX];

			for (core = 0; core < node->tot_cores; core++)
				its[core] = bit_test(r->core_bitmap, first + core);
			tasks += count_tasks(d, node, its);
		}
	}
	SHOULD(!r->core_bitmap || tasks >= d->min_cpus / d->cpus_per_task);
	SHOULD(cpus >= d->min_cpus && cpus == r->ncpus);
	SHOULD(!d->contiguous || rows == 1);
}

/* ---- random clusters, jobs and what is done with them -------------------------------------------
 */

static void make_cluster(struct trial *t, const struct kind *kind)
{
	char text[4096];
	uint32_t nodes = between(1, NODES_MAX), i;
	bool alike = below(2), threads = below(2);
	size_t at;

	*t = (struct trial){.kind = *kind};
	at = (size_t)snprintf(text, sizeof(text), "SelectType=select/%s\n", kind->plugin);
	if (kind->param || kind->memory)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "SelectTypeParameters=%s%s\n",
			kind->param ? kind->param : "CR_Memory",
			kind->param && kind->memory ? "_Memory" : "");
	for (i = 0; i < nodes; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
			"NodeName=n%u Sockets=%u CoresPerSocket=%u ThreadsPerCore=%u RealMemory=%u "
			"Weight=%u\n",
			i + 1, alike ? 2 : between(1, 2), alike ? 3 : between(1, 4),
			threads ? 2u : 1u, alike ? 3000 : between(1, 4) * 1000,
			below(4) ? 1 : between(1, 3));
	(void)snprintf(text + at, sizeof(text) - at, "PartitionName=p Nodes=ALL OverSubscribe=%s\n",
		kind->share);
	cluster_make(&t->c, text, NULL, NULL);
	(void)snprintf(scene, sizeof(scene), "%s", text);
}

static bitstr_t *random_nodes(const struct trial *t, uint32_t often)
{
	bitstr_t *nodes = bit_alloc((bitoff_t)t->c.conf->nodes_count);
	uint32_t i;

	for (i = 0; i < t->c.conf->nodes_count; i++) {
		if (below(often) == 0)
			bit_set(nodes, i);
	}
	return nodes;
}

static uint64_t random_memory(void)
{
	switch (below(4)) {
	case 0:
		return MEM_PER_CPU | between(1, 1000);
	case 1:
		return between(1, 4200);
	case 2:
		return between(1, 1000);
	default:
		return 0;
	}
}

static job_record_t *random_job(struct trial *t)
{
	job_record_t *job = cluster_add_job(&t->c, &t->c.parts[0]);
	job_details_t *d = job->details;
	uint32_t nodes = (uint32_t)t->c.conf->nodes_count, tasks;

	d->min_nodes = below(2) ? 1 : between(1, nodes);
	if (below(2))
		d->max_nodes = below(2) ? d->min_nodes : between(d->min_nodes, nodes + 1);
	d->cpus_per_task = (uint16_t)(below(3) ? 1 : between(1, 4));
	tasks = below(2) ? d->min_nodes : between(d->min_nodes, d->min_nodes + 12);
	d->min_cpus = tasks * d->cpus_per_task;
	if (below(6) == 0 && t->kind.parts)
		d->ntasks_per_node = (uint16_t)between(1, 4);
	if (below(6) == 0 && t->kind.parts)
		d->ntasks_per_socket = (uint16_t)between(1, 3);
	if (below(6) == 0 && t->kind.parts)
		d->ntasks_per_core = (uint16_t)between(1, 2);
	if (below(3) == 0)
		d->task_dist = below(4) << 4 | (below(4) ? 0 : SLURM_DIST_PLANE);
	if (below(6) == 0)
		job->bit_flags = below(2) ? SPREAD_JOB : USE_MIN_NODES;
	if (below(6) == 0)
		d->pn_min_cpus = (uint16_t)between(1, 6);
	d->pn_min_memory = random_memory();
	d->contiguous = below(4) == 0;
	d->share_res = below(2) ? JOB_SHARED_OK : NO_VAL16;
	if (below(8) == 0) {
		d->whole_node = 1;
		d->share_res = JOB_SHARED_NONE;
	}
	if (below(5) == 0)
		d->req_node_bitmap = random_nodes(t, 3);
	if (d->req_node_bitmap && d->max_nodes &&
		(uint32_t)bit_set_count(d->req_node_bitmap) > d->max_nodes)
		FREE_NULL_BITMAP(d->req_node_bitmap);
	return job;
}

static void describe(const struct trial *t, const struct select_request *q)
{
	const job_details_t *d = q->job->details;
	size_t at = strlen(scene);
	char nodes[64], required[64] = "";
	uint32_t k;

	if (strstr(scene, "request:"))
		at = (size_t)(strstr(scene, "request:") - scene);
	if (d->req_node_bitmap)
		(void)bit_fmt(required, sizeof(required), d->req_node_bitmap);
	at += (size_t)snprintf(scene + at, sizeof(scene) - at,
		"request: nodes %u-%u (%u) of %s, required %s, cpus %u, -c%u, per node %u tasks %u "
		"cpus, per socket %u, per core %u, dist %x, flags %llx, memory %llx, contiguous %u, share %u, whole %u\n",
		q->min_nodes, q->max_nodes, q->req_nodes, bit_fmt(nodes, sizeof(nodes), q->nodes),
		required, d->min_cpus, d->cpus_per_task, d->ntasks_per_node, d->pn_min_cpus,
		d->ntasks_per_socket, d->ntasks_per_core, d->task_dist,
		(unsigned long long)q->job->bit_flags, (unsigned long long)d->pn_min_memory,
		d->contiguous, d->share_res, d->whole_node);
	for (k = 0; k < t->jobs_count && at < sizeof(scene); k++) {
		const job_resources_t *r = t->jobs[k]->job_resrcs;
		char cores[128] = "all";

		if (r->core_bitmap)
			(void)bit_fmt(cores, sizeof(cores), r->core_bitmap);
		at += (size_t)snprintf(scene + at, sizeof(scene) - at,
			"job %u: nodes %s cores %s memory %llu end %ld share %u%s\n",
			t->jobs[k]->job_id, bit_fmt(nodes, sizeof(nodes), r->node_bitmap), cores,
			(unsigned long long)r->memory_allocated[0], (long)t->jobs[k]->end_time,
			share_of(t->jobs[k]), is_whole(t->jobs[k]) ? " whole" : "");
	}
}

/* Parts of nodes that a job would have then; empty: of a cluster without jobs. */
static void check_plan(const struct trial *t, const struct select_request *q,
	const job_resources_t *r, time_t when, bool empty)
{
	const job_record_t *job = q->job;
	uint32_t i, core, k = 0, cpus = 0;

	if (!r)
		return;
	SHOULD(t->kind.parts && r->core_bitmap && !is_whole(job));
	SHOULD(bit_equal(r->node_bitmap, q->nodes));
	for (i = 0; i < t->c.conf->nodes_count; i++) {
		const node_record_t *node = &t->c.nodes[i];
		uint32_t cores = 0;

		for (core = 0; core < node->tot_cores; core++) {
			if (!bit_test(r->core_bitmap, (bitoff_t)node->core_offset + core))
				continue;
			SHOULD(bit_test(q->nodes, i));
			SHOULD(empty ? !is_excepted(t, i, core)
				     : core_is_free(t, job, i, core, when));
			cores++;
		}
		if (!bit_test(q->nodes, i))
			continue;
		SHOULD(cores > 0 && r->cpus[k] == cores * node->threads);
		SHOULD(!has_param(CR_MEMORY) ||
			r->memory_allocated[k] + (empty ? 0 : memory_used(t, i, when)) <=
				node->real_memory);
		cpus += r->cpus[k++];
	}
	SHOULD(cpus >= job->details->min_cpus && cpus == r->ncpus);
}

static void check_times(struct trial *t, struct select_request *q, const bitstr_t *given)
{
	job_resources_t *resources = NULL;
	struct err err = ERR_INIT;
	time_t when;
	bool is_now;
	int r;

	q->not_before = below(2) ? 0 : slurm_now() + (time_t)between(0, 8) * 60;
	q->resources = below(2) ? &resources : NULL;
	when = earliest(t, q, given, q->not_before);
	q->job->start_time = 0;
	r = select_test(t->c.select, q, SELECT_MODE_WILL_RUN, &err);
	SHOULD((r == 0) == (when >= 0));
	SHOULD(r == 0 || r == -EBUSY);
	SHOULD(r < 0 || q->job->start_time == when);
	SHOULD(r < 0 || bit_super_set(q->nodes, given));
	SHOULD(!q->job->job_resrcs);
	/* where it is now, some may have to end first that should have */
	is_now = when <= slurm_now() && can_run(t, q, given, 0, false);
	if (r == 0)
		check_plan(t, q, resources, is_now ? 0 : when, false);
	use_resources_free(resources);
	q->resources = NULL;
	bit_copybits(q->nodes, given);
}

static void check_ever(struct trial *t, struct select_request *q, const bitstr_t *given)
{
	bool ever = can_run(t, q, given, 0, true);
	job_resources_t *resources = NULL;
	struct err err = ERR_INIT;
	int r;

	q->resources = below(2) ? &resources : NULL;
	r = select_test(t->c.select, q, SELECT_MODE_TEST_ONLY, &err);
	SHOULD((r == 0) == ever);
	SHOULD(r == 0 || r == -EINVAL);
	SHOULD(!q->job->job_resrcs);
	if (r == 0)
		check_plan(t, q, resources, 0, true);
	use_resources_free(resources);
	q->resources = NULL;
	bit_copybits(q->nodes, given);
}

/* Those given nodes that have something for the job now. */
static uint32_t count_offers(
	const struct trial *t, const struct select_request *q, const bitstr_t *given)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->c.conf->nodes_count; i++)
		n += bit_test(given, i) && offer(t, q->job, i, 0, false) > 0;
	return n;
}

/* Starts it, if it can. */
static bool check_request(struct trial *t, struct select_request *q)
{
	bitstr_t *given = bit_copy(q->nodes);
	struct err err = ERR_INIT;
	uint32_t offers;
	bool now;
	int r;

	describe(t, q);
	now = can_run(t, q, given, 0, false);
	offers = count_offers(t, q, given);
	check_ever(t, q, given);
	check_times(t, q, given);
	r = select_test(t->c.select, q, SELECT_MODE_RUN_NOW, &err);
	SHOULD((r == 0) == now);
	SHOULD(r == 0 || r == -EBUSY);
	SHOULD(t->jobs_count > 0 || now == can_run(t, q, given, 0, true));
	if (r == 0)
		check_given(t, q, given);
	/* as many nodes as possible, where one is not tried beside others first */
	if (r == 0 && q->job->bit_flags & SPREAD_JOB && share_of(q->job) == 1 &&
		!q->job->details->contiguous)
		SHOULD((uint32_t)bit_set_count(q->nodes) ==
			(offers < q->req_nodes ? offers : q->req_nodes));
	if (r == 0 && t->exc_cores && t->kind.parts)
		SHOULD(!bit_overlap_any(q->job->job_resrcs->core_bitmap, t->exc_cores));
	bit_free(given);
	return r == 0;
}

static void begin(struct trial *t, job_record_t *job)
{
	struct err err = ERR_INIT;

	job->job_state = JOB_RUNNING;
	job->end_time = below(10) == 0 ? 0 : slurm_now() - 60 + (time_t)between(0, 8) * 60;
	SHOULD(select_job_begin(t->c.select, job, &err) == 0);
	SHOULD(select_job_ready(t->c.select, job, &err) == 1);
	t->jobs[t->jobs_count++] = job;
}

static void forget(struct trial *t, uint32_t k)
{
	cluster_free_job(t->jobs[k]);
	t->jobs[k] = t->jobs[--t->jobs_count];
}

static void end_job(struct trial *t, uint32_t k)
{
	struct err err = ERR_INIT;

	SHOULD(select_job_fini(t->c.select, t->jobs[k], &err) == 0);
	forget(t, k);
}

static void toggle_job(struct trial *t, uint32_t k)
{
	job_record_t *job = t->jobs[k];
	struct err err = ERR_INIT;
	bool suspend = job->job_state == JOB_RUNNING;

	/* what it had may be another's by now: linear does not count it */
	if (!suspend && !t->kind.parts && has_param(CR_MEMORY)) {
		end_job(t, k);
		return;
	}
	SHOULD((suspend ? select_job_suspend(t->c.select, job, true, &err)
			: select_job_resume(t->c.select, job, true, &err)) == 0);
	job->job_state = suspend ? JOB_SUSPENDED : JOB_RUNNING;
}

static void shrink_job(struct trial *t, uint32_t k)
{
	job_record_t *job = t->jobs[k];
	struct err err = ERR_INIT;
	bitoff_t node;

	if (job->job_resrcs->nhosts < 2)
		return;
	node = bit_ffs_from_bit(job->job_resrcs->node_bitmap, below((uint32_t)node_record_count));
	if (node < 0)
		node = bit_ffs(job->job_resrcs->node_bitmap);
	SHOULD(select_job_resized(t->c.select, job, &t->c.nodes[node], &err) == 0);
	SHOULD(!is_on(job, (uint32_t)node));
}

/* The first one gets what the other has, if both have it in the same way. */
static void merge_jobs(struct trial *t, uint32_t to, uint32_t from)
{
	struct err err = ERR_INIT;

	if (to == from || share_of(t->jobs[to]) != share_of(t->jobs[from]) ||
		is_whole(t->jobs[to]) != is_whole(t->jobs[from]) ||
		t->jobs[to]->job_state != t->jobs[from]->job_state || share_of(t->jobs[to]) > 1)
		return;
	SHOULD(select_job_expand(t->c.select, t->jobs[from], t->jobs[to], &err) == 0);
	SHOULD(!t->jobs[from]->job_resrcs);
	SHOULD(select_job_fini(t->c.select, t->jobs[from], &err) == 0);
	forget(t, from);
}

static void disturb(struct trial *t)
{
	uint32_t k = below(t->jobs_count);

	if (t->jobs_count == 0)
		return;
	switch (below(8)) {
	case 0:
	case 1:
	case 2:
		end_job(t, k);
		break;
	case 3:
	case 4:
		toggle_job(t, k);
		break;
	case 5:
		shrink_job(t, k);
		break;
	case 6:
		merge_jobs(t, k, below(t->jobs_count));
		break;
	default:
		break;
	}
}

/* Cores that are booked or reserved for others; NULL: none. */
static bitstr_t *random_cores(const struct trial *t)
{
	const node_record_t *last = &t->c.nodes[t->c.conf->nodes_count - 1];
	bitstr_t *cores = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
	uint32_t often = between(2, 8);
	bitoff_t i;

	for (i = 0; i < bit_size(cores); i++) {
		if (below(often) == 0)
			bit_set(cores, i);
	}
	return cores;
}

static void one_request(struct trial *t)
{
	struct select_request q;
	job_record_t *job = random_job(t);
	bitstr_t *some = below(4) ? NULL : random_nodes(t, 2);

	t->exc_cores = t->kind.parts && below(3) == 0 ? random_cores(t) : NULL;
	cluster_request(&t->c, job, &q);
	q.exc_cores = t->exc_cores;
	if (some)
		bit_and(q.nodes, some);
	if (job->details->req_node_bitmap) /* always among those that it is given */
		bit_or(q.nodes, job->details->req_node_bitmap);
	if (q.req_nodes < q.min_nodes)
		q.req_nodes = q.min_nodes;
	if (check_request(t, &q) && t->jobs_count < JOBS_MAX && below(5))
		begin(t, job);
	else
		cluster_free_job(job);
	bit_free(q.nodes);
	bit_free(some);
	FREE_NULL_BITMAP(t->exc_cores);
	check_cores(t);
	check_memory(t);
	if (below(3) == 0)
		disturb(t);
	check_nodes_use(t);
}

static void run_kind(const struct kind *kind, uint32_t requests)
{
	struct trial t;
	uint32_t i;

	for (i = 0; i < requests;) {
		uint32_t some = between(1, 40), n;

		make_cluster(&t, kind);
		for (n = 0; n < some && i < requests; n++, i++)
			one_request(&t);
		while (t.jobs_count > 0)
			end_job(&t, t.jobs_count - 1);
		check_nodes_use(&t);
		cluster_clear(&t.c);
	}
}

static void test_random(void **state)
{
	static const struct kind plugins[] = {
		{.plugin = "linear"},
		{.plugin = "cons_res", .param = "CR_CPU", .parts = true},
		{.plugin = "cons_tres", .param = "CR_Core", .parts = true},
		{.plugin = "cons_res", .param = "CR_Socket", .parts = true},
	};
	static const char *const shares[] = {"NO", "YES:2", "FORCE:3", "EXCLUSIVE"};
	uint32_t requests = rounds_get("JOBD_SELECT_REQUESTS", 10240) / 32, i;

	(void)state;
	first_seed = rounds_get("JOBD_SELECT_SEED", 20261);
	seed = first_seed;
	print_message("# JOBD_SELECT_SEED=%u, %u requests\n", first_seed, 32 * requests);
	for (i = 0; i < 32; i++) {
		struct kind kind = plugins[i % 4];

		kind.memory = i / 4 % 2;
		kind.share = shares[i / 8];
		run_kind(&kind, requests);
	}
}

/* ---- the choices of a real Slurm
 * ----------------------------------------------------------------- */

/* Rows in which the plugins choose otherwise; select(7) has the reasons. */
static const struct {
	const char *file, *request;
} deviations[] = {
	/* a range of nodes is not contiguous in Slurm although that is wanted */
	{"E2-line-constres-cpu", "-N2-4 --contiguous"},
	/* five CPUs of one task are spread over two nodes' eight */
	{"E10-cores-constres-CR_Core", "-n4 -c5"},
	{"E14-cores-constres-LLN", "-n4 -c5"},
	{"E18-cores-constres-Socket", "-n4 -c5"},
};

static bool is_deviation(const char *file, const char *request)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(deviations); i++) {
		if (strcmp(deviations[i].file, file) == 0 &&
			strcmp(deviations[i].request, request) == 0)
			return true;
	}
	return false;
}

static void take_nodes_option(const char *value, job_details_t *d)
{
	char *end;

	d->min_nodes = (uint32_t)strtoul(value, &end, 10);
	d->max_nodes = *end == '-' ? (uint32_t)strtoul(end + 1, NULL, 10) : d->min_nodes;
}

/* One option of salloc's, and its value: false where this test does not know it. */
static bool take_option(struct cluster *c, job_record_t *job, const char *word, const char *value)
{
	job_details_t *d = job->details;
	size_t i;

	if (strncmp(word, "-N", 2) == 0)
		take_nodes_option(word + 2, d);
	else if (strncmp(word, "-n", 2) == 0)
		d->num_tasks = (uint32_t)atoi(word + 2);
	else if (strncmp(word, "-c", 2) == 0)
		d->cpus_per_task = (uint16_t)atoi(word + 2);
	else if (strcmp(word, "-w") == 0)
		d->req_node_bitmap = cluster_nodes(c, value);
	else if (strncmp(word, "--nodelist=", 11) == 0)
		d->req_node_bitmap = cluster_nodes(c, word + 11);
	else if (strncmp(word, "--exclude=", 10) == 0)
		d->exc_node_bitmap = cluster_nodes(c, word + 10);
	else if (strcmp(word, "--contiguous") == 0)
		d->contiguous = 1;
	else if (strcmp(word, "--exclusive") == 0)
		d->whole_node = 1;
	else if (strcmp(word, "--oversubscribe") == 0)
		d->share_res = JOB_SHARED_OK;
	else if (strncmp(word, "--mem=", 6) == 0)
		d->pn_min_memory = (uint64_t)atoi(word + 6);
	else if (strncmp(word, "--mem-per-cpu=", 14) == 0)
		d->pn_min_memory = MEM_PER_CPU | (uint64_t)atoi(word + 14);
	else if (strncmp(word, "--ntasks-per-node=", 18) == 0)
		d->ntasks_per_node = (uint16_t)atoi(word + 18);
	else if (strncmp(word, "--ntasks-per-socket=", 20) == 0)
		d->ntasks_per_socket = (uint16_t)atoi(word + 20);
	else if (strncmp(word, "--ntasks-per-core=", 18) == 0)
		d->ntasks_per_core = (uint16_t)atoi(word + 18);
	else if (strcmp(word, "-m") == 0)
		return request_parse_distribution(value, &d->task_dist, &d->plane_size, NULL) == 0;
	else if (strcmp(word, "--spread-job") == 0)
		job->bit_flags |= SPREAD_JOB;
	else if (strcmp(word, "--use-min-nodes") == 0)
		job->bit_flags |= USE_MIN_NODES;
	else if (strcmp(word, "-p") != 0)
		return false;
	for (i = 0; strcmp(word, "-p") == 0 && i < c->conf->parts_count; i++) {
		if (strcmp(c->parts[i].name, value) == 0)
			job->part_ptr = &c->parts[i];
	}
	return true;
}

/* NULL: it has an option that is not known here. */
static job_record_t *parse_request(struct cluster *c, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	job_record_t *job = cluster_add_job(c, &c->parts[0]);
	job_details_t *d = job->details;
	char *rest = copy, *word;

	while ((word = strsep(&rest, " "))) {
		bool pair = strcmp(word, "-w") == 0 || strcmp(word, "-p") == 0 ||
			strcmp(word, "-m") == 0;

		if (!take_option(c, job, word, pair ? strsep(&rest, " ") : NULL)) {
			cluster_free_job(job);
			return NULL;
		}
	}
	d->min_cpus = (d->num_tasks ? d->num_tasks : d->min_nodes) * d->cpus_per_task;
	return job;
}

struct replay {
	struct cluster c;
	const char *file;
	bool kept, waiting; /* each job stays; one waits, and others behind it */
	int equal, different, left_out;
};

static void clear_jobs(struct replay *r)
{
	while (!list_is_empty(job_list)) {
		job_record_t *job = list_peek(job_list);

		struct err err = ERR_INIT;

		if (job->job_resrcs)
			assert_int_equal(select_job_fini(r->c.select, job, &err), 0);
		cluster_free_job(job);
	}
	r->kept = r->waiting = false;
}

/* Nodes, and the CPUs of each, one behind the other; or why not. */
static void try_job(struct replay *r, job_record_t *job, bool keep, char *text, size_t size)
{
	struct err err = ERR_INIT;
	struct select_request q;
	bitoff_t i;
	size_t at = 0;
	int ret;

	cluster_request(&r->c, job, &q);
	ret = select_test(r->c.select, &q, SELECT_MODE_TEST_ONLY, &err);
	if (ret == 0) {
		bit_free(q.nodes);
		cluster_request(&r->c, job, &q);
		ret = select_test(r->c.select, &q, SELECT_MODE_RUN_NOW, &err);
	}
	if (ret < 0)
		(void)snprintf(text, size, "%s", ret == -EINVAL ? "rejected" : "pending");
	for (i = 0; ret == 0 && (i = bit_ffs_from_bit(q.nodes, i)) >= 0; i++) {
		const node_record_t *n = &r->c.nodes[i];
		bitstr_t *cores = bit_alloc(n->tot_cores);
		char numbers[64] = "";
		uint32_t k;

		for (k = 0; job->job_resrcs->core_bitmap && k < n->tot_cores; k++) {
			if (bit_test(job->job_resrcs->core_bitmap, (bitoff_t)n->core_offset + k))
				bit_set(cores, k);
		}
		at += (size_t)snprintf(text + at, size - at, "%s:%s ", n->name,
			bit_fmt(numbers, sizeof(numbers), cores));
		bit_free(cores);
	}
	bit_free(q.nodes);
	if (ret == 0 && keep) {
		job->job_state = JOB_RUNNING;
		assert_int_equal(select_job_begin(r->c.select, job, &err), 0);
	} else {
		cluster_free_job(job);
	}
}

struct wanted {
	char *text;
	size_t size, at;
	const char *cpus;
};

static int add_wanted(const char *name, void *userdata)
{
	struct wanted *w = userdata;

	w->at += (size_t)snprintf(w->text + w->at, w->size - w->at, "%s:%s ", name, w->cpus);
	return 0;
}

static void list_wanted(const json_t *row, char *text, size_t size)
{
	struct wanted w = {.text = text, .size = size, .cpus = ""};
	const json_t *alloc = json_object_get(row, "alloc"), *one;
	size_t i;

	text[0] = '\0';
	if (json_object_get(row, "rejected") || json_object_get(row, "pending")) {
		(void)snprintf(text, size, "%s",
			json_object_get(row, "rejected") ? "rejected" : "pending");
		return;
	}
	if (!alloc)
		assert_int_equal(hostlist_each(json_string_value(json_object_get(row, "nodes")),
					 100, add_wanted, &w),
			0);
	json_array_foreach (alloc, i, one) {
		w.cpus = json_string_value(json_object_get(one, "cpus"));
		assert_int_equal(hostlist_each(json_string_value(json_object_get(one, "nodes")),
					 100, add_wanted, &w),
			0);
	}
}

static void keep_job(struct replay *r, const char *request)
{
	char text[256];
	job_record_t *job = parse_request(&r->c, request);

	assert_non_null(job);
	try_job(r, job, true, text, sizeof(text));
	assert_string_not_equal(text, "pending");
}

/* A row that says what is there before those that follow. */
static void set_scene(struct replay *r, const json_t *row)
{
	const char *busy = json_string_value(json_object_get(row, "busy"));
	const char *sequence = json_string_value(json_object_get(row, "sequence"));
	char text[128];

	clear_jobs(r);
	if (busy && strcmp(busy, "free") != 0) {
		(void)snprintf(text, sizeof(text), "--exclusive -w n[%s]", busy);
		keep_job(r, text);
	}
	r->kept = sequence && strstr(sequence, "kept");
	if (sequence && strstr(sequence, "pre-load")) {
		keep_job(r, "-n6 -w n1");
		keep_job(r, "-n4 -w n2");
		keep_job(r, "-n2 -w n3");
	}
}

static void replay_row(struct replay *r, const json_t *row)
{
	const char *request = json_string_value(json_object_get(row, "request"));
	const char *pending = json_string_value(json_object_get(row, "pending"));
	char wanted[1024], got[1024] = "";
	job_record_t *job;

	if (!request) {
		set_scene(r, row);
		return;
	}
	job = pending && strcmp(pending, "(Priority)") == 0 ? NULL : parse_request(&r->c, request);
	if (!job) { /* it waits for another, or has options that are not the plugin's */
		r->left_out++;
		return;
	}
	list_wanted(row, wanted, sizeof(wanted));
	try_job(r, job, r->kept, got, sizeof(got));
	if (strcmp(got, wanted) == 0) {
		r->equal++;
	} else {
		r->different++;
		if (!is_deviation(r->file, request))
			fail_msg("%s: %s: got %s, Slurm chose %s", r->file, request, got, wanted);
	}
}

/* Its "conf" as the lines of a slurm.conf. */
static void write_conf(const json_t *conf, char *text, size_t size)
{
	const char *key;
	json_t *value, *one;
	size_t i, at = 0;

	json_object_foreach ((json_t *)conf, key, value) {
		if (json_is_string(value))
			at += (size_t)snprintf(
				text + at, size - at, "%s=%s\n", key, json_string_value(value));
	}
	json_array_foreach (json_object_get(conf, "nodes"), i, one)
		at += (size_t)snprintf(
			text + at, size - at, "NodeName=%s\n", json_string_value(one));
	json_array_foreach (json_object_get(conf, "partitions"), i, one)
		at += (size_t)snprintf(
			text + at, size - at, "PartitionName=%s\n", json_string_value(one));
}

static void replay_case(const char *file, int equal, int different)
{
	struct replay r = {.file = file};
	char path[512], text[4096];
	json_t *recorded, *row;
	size_t i;

	(void)snprintf(
		path, sizeof(path), "%s/tests/data/jobd/%s.json", getenv("top_srcdir"), file);
	recorded = json_load_file(path, 0, NULL);
	assert_non_null(recorded);
	write_conf(json_object_get(recorded, "conf"), text, sizeof(text));
	cluster_make(&r.c, text, NULL, NULL);
	json_array_foreach (json_object_get(recorded, "expect"), i, row)
		replay_row(&r, row);
	print_message("# %s: %d equal, %d different, %d left out\n", file, r.equal, r.different,
		r.left_out);
	assert_int_equal(r.equal, equal);
	assert_int_equal(r.different, different);
	clear_jobs(&r);
	cluster_clear(&r.c);
	json_decref(recorded);
}

static void test_recorded(void **state)
{
	(void)state;
	replay_case("E1-line-linear", 106, 0);
	replay_case("E2-line-constres-cpu", 102, 4);
	replay_case("E10-cores-constres-CR_Core", 57, 1);
	replay_case("E14-cores-constres-LLN", 55, 1);
	replay_case("E18-cores-constres-Socket", 53, 1);
}

/* ---- --distribution and the like ----------------------------------------------------------------
 */

/* On four nodes of this kind, alone or beside a job. */
struct placed {
	const char *beside; /* NULL: alone */
	const char *request, *wanted;
};

static void check_placed(
	const char *param, const char *hardware, const struct placed *rows, size_t n)
{
	struct replay r = {.file = param};
	char conf[512], got[512];
	size_t i;

	(void)snprintf(conf, sizeof(conf),
		"SelectType=select/cons_tres\nSelectTypeParameters=%s\nNodeName=n[1-4] %s\n"
		"PartitionName=p Nodes=ALL\n",
		param, hardware);
	cluster_make(&r.c, conf, NULL, NULL);
	for (i = 0; i < n; i++) {
		job_record_t *job;

		if (rows[i].beside)
			keep_job(&r, rows[i].beside);
		job = parse_request(&r.c, rows[i].request);
		assert_non_null(job);
		got[0] = '\0';
		try_job(&r, job, false, got, sizeof(got));
		if (strcmp(got, rows[i].wanted) != 0)
			fail_msg("%s: %s: got %s, not %s", param, rows[i].request, got,
				rows[i].wanted);
		clear_jobs(&r);
	}
	cluster_clear(&r.c);
}

#define CHECK_PLACED(param, hardware, ...)                                                         \
	check_placed(param, hardware, (const struct placed[]){__VA_ARGS__},                        \
		ARRAY_SIZE(((const struct placed[]){__VA_ARGS__})))

#define TWO_SOCKETS "Sockets=2 CoresPerSocket=4"
#define TWO_THREADS "Sockets=2 CoresPerSocket=4 ThreadsPerCore=2"

static void test_distribution(void **state)
{
	(void)state;
	CHECK_PLACED("CR_Core", TWO_SOCKETS, {NULL, "-n3", "n1:0-1,4 "},
		{NULL, "-n3 -m block", "n1:0-1,4 "}, {NULL, "-n3 -m cyclic", "n1:0-1,4 "},
		{NULL, "-n3 -m block:block", "n1:0-2 "}, {NULL, "-n3 -m plane=2", "n1:0-2 "},
		{NULL, "-n3 -m plane=2:cyclic", "n1:0-1,4 "}, {NULL, "-n5 -m *:block", "n1:0-4 "},
		{NULL, "-n2 -c2", "n1:0-1,4-5 "}, {NULL, "-n2 -c2 -m *:block", "n1:0-3 "},
		{NULL, "-n1 -c2", "n1:0-1 "}, {NULL, "-n1 -c2 -m *:fcyclic", "n1:0,4 "},
		/* as few sockets as possible: the one with the least that suffices, else the most
		 */
		{"-n3 -m *:block", "-w n1 -n2 -m *:block", "n1:4-5 "},
		{"-n3 -m *:block", "-w n1 -n1 -m *:block", "n1:3 "},
		{"-n3 -m *:block", "-w n1 -n5 -m *:block", "n1:3-7 "},
		{"-n3 -m *:block", "-w n1 -n2 -m *:cyclic", "n1:3-4 "});
	CHECK_PLACED("CR_Core,CR_CORE_DEFAULT_DIST_BLOCK", TWO_SOCKETS, {NULL, "-n3", "n1:0-2 "},
		{NULL, "-n3 -m *:cyclic", "n1:0-1,4 "}, {NULL, "-n3 -m cyclic", "n1:0-2 "},
		{"-n3", "-w n1 -n2", "n1:4-5 "});
	CHECK_PLACED("CR_CPU", TWO_SOCKETS, {NULL, "-n3", "n1:0-2 "},
		{NULL, "-n3 -m *:cyclic", "n1:0-1,4 "}, {"-n3", "-w n1 -n2", "n1:3-4 "},
		{"-n3", "-w n1 -n2 -m *:block", "n1:4-5 "});
	CHECK_PLACED("CR_Socket", TWO_SOCKETS, {NULL, "-n4", "n1:0-7 "},
		{NULL, "-n4 -m *:block", "n1:0-3 "}, {NULL, "-n5 -m *:block", "n1:0-7 "});
}

static void test_tasks_per_socket(void **state)
{
	(void)state;
	CHECK_PLACED("CR_Core", TWO_SOCKETS, {NULL, "-n4 --ntasks-per-socket=2", "n1:0-1,4-5 "},
		{NULL, "-n4 --ntasks-per-socket=1", "n1:0,4 n2:0,4 "},
		{NULL, "-n3 --ntasks-per-socket=2 -m *:block", "n1:0-1,4 "},
		{NULL, "-n2 --ntasks-per-socket=1 -c3", "n1:0-2,4-6 "},
		/* no task is on two sockets, unless it is larger than one */
		{"-n2", "-w n1 -N1 -n1 -c4 --ntasks-per-socket=1", "pending"},
		{"-n2", "-w n1 -N1 -n2 -c3 --ntasks-per-socket=1", "n1:1-3,5-7 "},
		{NULL, "-n2 -c5 --ntasks-per-socket=1", "n1:0-2,4-5 n2:0-2,4-5 "},
		{NULL, "-n4 --ntasks-per-socket=1 --exclusive", "n1:0-7 n2:0-7 "},
		{NULL, "-N1 -n4 --ntasks-per-socket=1", "rejected"});
	CHECK_PLACED("CR_CPU", TWO_SOCKETS, {NULL, "-n3 --ntasks-per-socket=2", "n1:0-1,4 "});
	CHECK_PLACED("CR_Core", TWO_THREADS, {NULL, "-n2", "n1:0 "},
		{NULL, "-n2 --ntasks-per-socket=1", "n1:0,4 "},
		{NULL, "-n4 --ntasks-per-socket=2", "n1:0,4 "});
}

static void test_tasks_per_core(void **state)
{
	(void)state;
	CHECK_PLACED("CR_Core", TWO_THREADS, {NULL, "-n4", "n1:0,4 "},
		{NULL, "-n4 --ntasks-per-core=2", "n1:0,4 "},
		{NULL, "-n4 --ntasks-per-core=1", "n1:0-1,4-5 "},
		{NULL, "-n3 --ntasks-per-core=1 -m *:block", "n1:0-2 "},
		{NULL, "-n9 --ntasks-per-core=1", "n1:0-7 n2:0 "},
		/* a task of three CPUs begins on a core of its own */
		{NULL, "-N1 -n2 -c3 -m *:block", "n1:0-2 "},
		{NULL, "-N1 -n2 -c3 -m *:block --ntasks-per-core=1", "n1:0-3 "},
		{NULL, "-n6 --ntasks-per-core=1 --ntasks-per-socket=2", "n1:0-1,4-5 n2:0,4 "});
	CHECK_PLACED("CR_Core", TWO_SOCKETS, {NULL, "-n4 --ntasks-per-core=1", "n1:0-1,4-5 "});
}

static void test_spread(void **state)
{
	(void)state;
	CHECK_PLACED("CR_Core", TWO_SOCKETS, {NULL, "-n1 --spread-job", "n1:0 "},
		{NULL, "-n2 --spread-job", "n1:0 n2:0 "},
		{NULL, "-n7 --spread-job", "n1:0,4 n2:0,4 n3:0,4 n4:0 "},
		{NULL, "-N2 -n6 --spread-job", "n1:0-1,4 n2:0-1,4 "},
		{NULL, "-N1-3 -n9 --spread-job", "n1:0-1,4 n2:0-1,4 n3:0-1,4 "},
		{NULL, "-n2 -c4 --spread-job", "n1:0-3 n2:0-3 "},
		{NULL, "-n33 --spread-job", "rejected"},
		/* evenly, as far as there are CPUs */
		{"-n7 -w n2", "-n10 --spread-job", "n1:0-1,4 n2:7 n3:0-1,4 n4:0-1,4 "},
		{"--exclusive -w n2", "-n4 --spread-job", "n1:0,4 n3:0 n4:0 "},
		{"--exclusive -w n2", "-n4 --spread-job --contiguous", "n3:0,4 n4:0,4 "},
		{NULL, "-n2 --spread-job --exclusive", "n1:0-7 n2:0-7 "});
	CHECK_PLACED("CR_Core,CR_LLN", TWO_SOCKETS,
		{"-n4 -w n1", "-n3 --spread-job", "n2:0 n3:0 n4:0 "});
}

static void test_fewest_nodes(void **state)
{
	(void)state;
	CHECK_PLACED("CR_Core", TWO_SOCKETS, {NULL, "-N1-4 -n4", "n1:0 n2:0 n3:0 n4:0 "},
		{NULL, "-N1-4 -n4 --use-min-nodes", "n1:0-1,4-5 "},
		{NULL, "-N2-4 -n4 --use-min-nodes", "n1:0-1,4 n2:0 "},
		{NULL, "-N1-4 -n12 --use-min-nodes", "n1:0-7 n2:0-1,4-5 "});
}

/* The guide: where "sharing has been configured" the selector "does some load-balancing": jobs come
 * one after the other, and take the nodes with the fewest. */
static void test_balance(void **state)
{
	static const struct {
		const char *select;
		struct {
			const char *request, *wanted;
		} jobs[9];
	} rows[] = {
		{"SelectType=select/linear\n",
			{{"-N1", "n1: "}, {"-N1", "n2: "}, {"-N2", "n1: n3: "}, {"-N1", "n2: "},
				{"-N2", "n1: n3: "}, {"-N2 --contiguous", "n2: n3: "},
				{"-N1", "pending"}}},
		{"SelectType=select/linear\n",
			{{"-N1 -w n2", "n2: "}, {"-N2 --contiguous", "n1: n2: "}, {"-N1", "n3: "},
				{"-N1-3", "n1: n3: "}, {"-N1 -w n1", "n1: "}, {"-n6", "pending"},
				{"-n4", "n2: n3: "}}},
		{"SelectType=select/cons_res\nSelectTypeParameters=CR_Core\n",
			{{"-n2", "n1:0-1 "}, {"-n2", "n2:0-1 "}, {"-n2", "n3:0-1 "},
				{"-n2 -w n1", "n1:0-1 "}, {"-n2", "n2:0-1 "}}},
	};
	struct replay r = {.file = "balance"};
	char conf[512], got[256];
	size_t i, k;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(conf, sizeof(conf),
			"%sNodeName=n[1-3] CPUs=2\nPartitionName=p Nodes=ALL "
			"OverSubscribe=FORCE:3\n",
			rows[i].select);
		cluster_make(&r.c, conf, NULL, NULL);
		for (k = 0; rows[i].jobs[k].request; k++) {
			got[0] = '\0';
			try_job(&r, parse_request(&r.c, rows[i].jobs[k].request), true, got,
				sizeof(got));
			if (strcmp(got, rows[i].jobs[k].wanted) != 0)
				fail_msg("row %zu, job %zu: %s: got %s, not %s", i, k,
					rows[i].jobs[k].request, got, rows[i].jobs[k].wanted);
		}
		clear_jobs(&r);
		cluster_clear(&r.c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded),
		cmocka_unit_test(test_balance),
		cmocka_unit_test(test_distribution),
		cmocka_unit_test(test_tasks_per_socket),
		cmocka_unit_test(test_tasks_per_core),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_fewest_nodes),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
