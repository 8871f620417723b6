/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/cons_res, and select/cons_tres: CPUs, cores or sockets, and memory inside of nodes.
 * How it chooses is what Slurm 22.05 was seen to do (select(7)):
 *
 *	nodes    neighbours that may be taken are a set: the smallest set that suffices, else the
 *	         largest first; in a set one node that suffices by itself with the least left, else
 *	         from the lowest on. With CR_LLN those with the most idle CPUs.
 *	CPUs     each node is filled, with one task left for each node to come; where whole
 *	         sockets are given, with a socket's
 *	cores    one task after the other on each socket in turn; with CR_CPU or
 *	         CR_CORE_DEFAULT_DIST_BLOCK from the lowest on
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/select/use.h"

/* Either name is the other's. */
#ifdef JOBD_CONS_TRES
const char plugin_type[] = "select/cons_tres";
#else
const char plugin_type[] = "select/cons_res";
#endif
const char plugin_name[] = "CPUs, cores, sockets and memory of nodes";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
	use_clear(&use_now);
}

/* Candidates that the gang scheduler suspends, by their addresses. */
struct suspendable {
	const job_record_t **jobs;
	size_t count;
};

/* One attempt to find a place for a job. */
struct attempt {
	const job_record_t *job;
	const struct use *use;     /* NULL: of nodes without jobs */
	const bitstr_t *exc_cores; /* NULL: none */
	uint32_t min_nodes, max_nodes, req_nodes;
	uint32_t most;                  /* that it may ever share a core with, and itself */
	uint32_t share;                 /* jobs of the partition on a core, with this one */
	uint32_t most_met;              /* of those that it could share a core with */
	struct suspendable suspendable; /* jobs that give way by being suspended */
	bool suspends;                  /* they do */
	bool in_gang;                   /* it shares cores for having preempted */
	bool least;                     /* and with none but those that are suspendable */
	bool whole;                     /* it shares its nodes with nobody */
};

enum offer_state {
	OFFER_NONE,
	OFFER_LEFT,  /* it can be taken */
	OFFER_TAKEN, /* it is */
};

/* What a node can give to the job. */
struct offer {
	uint16_t cpus; /* 0: nothing */
	uint16_t taken;
	uint8_t state; /* enum offer_state */
};

static bool has_param(uint32_t param)
{
	return slurm_conf.select_type_param & param;
}

/* ---- what is free on a node --------------------------------------------------------------------
 */

static int by_address(const void *a, const void *b)
{
	const job_record_t *x = *(const job_record_t *const *)a;
	const job_record_t *y = *(const job_record_t *const *)b;

	return (x > y) - (x < y);
}

static bool gives_way(const struct attempt *a, const job_record_t *other)
{
	return bsearch(
		&other, a->suspendable.jobs, a->suspendable.count, sizeof(other), by_address);
}

/* Whether the other job leaves its cores to this one, or gives way to it. With preempt/qos jobs of
 * one partition take turns instead, for which there is one more place on a core. */
static bool is_in_the_way(const struct attempt *a, const job_record_t *other)
{
	if (slurm_conf.preempt_by_qos && other->part_ptr == a->job->part_ptr)
		return true;
	return !a->suspends || !gives_way(a, other);
}

#define NEVER UINT16_MAX /* jobs on a core that this one can't share */

static bool can_share_with(const struct attempt *a, const struct use_job *other)
{
	return !other->alone && other->job->part_ptr == a->job->part_ptr &&
		((a->in_gang && (!a->least || gives_way(a, other->job))) ||
			other->job->job_resrcs->node_req == NODE_CR_AVAILABLE);
}

/* How many jobs have each core of a node, one job after the other. */
static void count_by_job(const struct attempt *a, const node_record_t *node, uint16_t *count)
{
	const struct use_node *use = &a->use->nodes[node->index];
	uint32_t i, core;

	memset(count, 0, node->tot_cores * sizeof(*count));
	for (i = 0; i < use->count; i++) {
		const bitstr_t *cores = use->jobs[i].job->job_resrcs->core_bitmap;
		bool shares = can_share_with(a, &use->jobs[i]);

		if (!is_in_the_way(a, use->jobs[i].job))
			continue;
		for (core = 0; core < node->tot_cores; core++) {
			if (cores && !bit_test(cores, (bitoff_t)node->core_offset + core))
				continue;
			if (!shares)
				count[core] = NEVER;
			else if (count[core] < NEVER - 1)
				count[core]++;
		}
	}
}

/* What the jobs on a node are to this one. */
struct others {
	bool any, closed, sharing, not_sharing, giving_way;
};

static struct others look_at_jobs(const struct attempt *a, const struct use_node *use)
{
	struct others o = {.any = false};
	uint32_t i;

	for (i = 0; i < use->count; i++) {
		if (!is_in_the_way(a, use->jobs[i].job)) {
			o.giving_way = true;
			continue;
		}
		o.any = true;
		o.closed |= use->jobs[i].alone;
		if (can_share_with(a, &use->jobs[i]))
			o.sharing = true;
		else
			o.not_sharing = true;
	}
	return o;
}

/* Of a node that others are on: count[core] becomes 1 where the job may have it, else 0. */
static void find_between(
	struct attempt *a, const node_record_t *node, const struct others *o, uint16_t *count)
{
	const struct use_node *use = &a->use->nodes[node->index];
	uint32_t core;

	if (o->giving_way || use->whole_jobs || (o->sharing && o->not_sharing)) {
		count_by_job(a, node, count);
	} else {
		memcpy(count, &a->use->core_jobs[node->core_offset],
			node->tot_cores * sizeof(*count));
		for (core = 0; o->not_sharing && core < node->tot_cores; core++)
			count[core] = count[core] ? NEVER : 0;
	}
	for (core = 0; core < node->tot_cores; core++) {
		if (count[core] != NEVER && count[core] > a->most_met)
			a->most_met = count[core];
		count[core] = count[core] < a->share;
	}
}

/* The cores that the job may have: free_core[core], 1 or 0. Returns how many. */
static uint32_t find_free_cores(struct attempt *a, const node_record_t *node, uint16_t *free_core)
{
	const struct use_node *use = a->use ? &a->use->nodes[node->index] : NULL;
	bitoff_t first = node->core_offset;
	uint32_t core, socket, n = 0;
	struct others o = {.any = false};

	if (use && use->count > 0)
		o = look_at_jobs(a, use);
	if (o.closed || (a->whole && o.any)) {
		memset(free_core, 0, node->tot_cores * sizeof(*free_core));
		return 0;
	}
	if (o.any)
		find_between(a, node, &o, free_core);
	for (core = 0; !o.any && core < node->tot_cores; core++)
		free_core[core] = 1;
	for (core = 0; a->exc_cores && core < node->tot_cores; core++)
		free_core[core] &= !bit_test(a->exc_cores, first + core);
	for (socket = 0; has_param(CR_SOCKET) && socket < node->tot_sockets; socket++) {
		uint16_t *its = free_core + (size_t)socket * node->cores;

		for (core = 0; core < node->cores && its[core]; core++)
			;
		if (core < node->cores)
			memset(its, 0, node->cores * sizeof(*its));
	}
	for (core = 0; core < node->tot_cores; core++)
		n += free_core[core];
	return a->whole && n < node->tot_cores ? 0 : n;
}

static uint64_t free_memory(const struct attempt *a, const node_record_t *node)
{
	uint64_t limit = use_memory_limit(node), used = 0;

	if (a->use)
		used = use_memory(&a->use->nodes[node->index], true);
	return used < limit ? limit - used : 0;
}

static uint32_t threads_for_tasks(const node_record_t *node)
{
	return has_param(CR_ONE_TASK_PER_CORE) ? 1u : node->threads;
}

/* CPUs for the job among those of so many cores: whole tasks, as far as the memory goes. */
static uint32_t count_cpus(const struct attempt *a, const node_record_t *node, uint32_t cores)
{
	const job_details_t *d = a->job->details;
	uint32_t cpus = cores * threads_for_tasks(node), tasks;
	uint64_t memory = has_param(CR_MEMORY) ? free_memory(a, node) : use_memory_limit(node);
	uint64_t per_cpu = d->pn_min_memory & MEM_PER_CPU ? d->pn_min_memory & ~MEM_PER_CPU : 0;

	if (per_cpu && !has_param(CR_MEMORY))
		cpus = per_cpu <= memory ? cpus : 0;
	else if (per_cpu && memory / per_cpu < cpus)
		cpus = (uint32_t)(memory / per_cpu);
	if (!per_cpu && d->pn_min_memory && d->pn_min_memory > memory)
		return 0;
	if (!per_cpu && !d->pn_min_memory && has_param(CR_MEMORY) &&
		memory < use_memory_limit(node))
		return 0; /* it wants all */
	if (cpus < d->pn_min_cpus)
		return 0;
	tasks = cpus / d->cpus_per_task;
	if (d->ntasks_per_node && tasks > d->ntasks_per_node)
		tasks = d->ntasks_per_node;
	return tasks * d->cpus_per_task;
}

static uint32_t offer_of(struct attempt *a, bitoff_t i, uint16_t *space)
{
	const node_record_t *node = &node_record_table_ptr[i];
	uint32_t cores = find_free_cores(a, node, space);

	return cores ? count_cpus(a, node, cores) : 0;
}

/* Those of a row of nodes, from first to before end. known: what nodes without jobs offer, by their
 * shape; -1: not known yet. */
static void make_row(struct attempt *a, struct offer *offers, bitoff_t first, bitoff_t end,
	uint16_t *space, int32_t *known)
{
	bitoff_t i;

	for (i = first; i < end; i++) {
		uint16_t shape = use_now.shapes[i];
		bool is_idle = !a->exc_cores && shape != USE_NO_SHAPE &&
			(!a->use || a->use->nodes[i].count == 0);

		if (!is_idle)
			offers[i].cpus = (uint16_t)offer_of(a, i, space);
		else if (known[shape] >= 0)
			offers[i].cpus = (uint16_t)known[shape];
		else
			offers[i].cpus = (uint16_t)(known[shape] = (int32_t)offer_of(a, i, space));
	}
}

static struct offer *make_offers(struct attempt *a, bitstr_t *nodes)
{
	struct offer *offers = xmalloc((size_t)bit_size(nodes) * sizeof(*offers));
	uint16_t *space = xmalloc(use_now.most_cores * sizeof(*space));
	int32_t *known = xmalloc((use_now.shapes_count + 1) * sizeof(*known));
	bitoff_t i, end;

	memset(known, 0xff, (use_now.shapes_count + 1) * sizeof(*known));
	if (a->use && a->most <= 1 && !a->suspends)
		bit_and_not(nodes, a->use->full);
	for (i = 0; (i = bit_ffs_from_bit(nodes, i)) >= 0; i = end) {
		end = bit_ffc_from_bit(nodes, i);
		end = end < 0 ? bit_size(nodes) : end;
		make_row(a, offers, i, end, space, known);
	}
	xfree(known);
	xfree(space);
	return offers;
}

/* ---- which nodes -------------------------------------------------------------------------------
 */

/* What is chosen by now, and what is missing. */
struct choice {
	const struct attempt *a;
	struct offer *offers;
	bitoff_t size; /* nodes of the cluster */
	uint32_t count;
	int64_t cpus_missing;
	bool keeps_sockets; /* of nodes to come, not only a task of each */
};

/* For each node that must come: a task, or all of a socket where whole sockets are given. */
static int64_t kept_cpus(const struct choice *c, bitoff_t node)
{
	const uint32_t task = c->a->job->details->cpus_per_task;
	const uint32_t socket = c->keeps_sockets ? node_record_table_ptr[node].cores : 0;

	return task > socket ? task : socket;
}

/* As many CPUs as there are, but some for each node that must come. */
static void take_node(struct choice *c, bitoff_t node)
{
	struct offer *offer = &c->offers[node];
	uint32_t task = c->a->job->details->cpus_per_task;
	int64_t to_come = (int64_t)c->a->min_nodes - c->count - 1;
	int64_t most = c->cpus_missing - (to_come > 0 ? to_come * kept_cpus(c, node) : 0);

	offer->state = OFFER_TAKEN;
	c->count++;
	most = (most + task - 1) / task * task; /* whole tasks */
	if (most < task)
		most = task;
	offer->taken = (uint16_t)((int64_t)offer->cpus < most ? offer->cpus : most);
	c->cpus_missing -= offer->taken;
}

static bool wants_more(const struct choice *c)
{
	return c->count < c->a->max_nodes && (c->count < c->a->req_nodes || c->cpus_missing > 0);
}

static uint32_t nodes_missing(const struct choice *c)
{
	return c->count < c->a->min_nodes ? c->a->min_nodes - c->count : 0;
}

/* Nodes that can be taken, one after the other: first to last. */
struct set {
	bitoff_t first, last;
	uint32_t count;
	uint64_t cpus;
	bool required; /* a node that must be taken stands in it, or beside it */
};

static bool is_left(const struct choice *c, bitoff_t node)
{
	return c->offers[node].state == OFFER_LEFT;
}

/* The set that begins at the first node from here on that is left. */
static bool next_set(const struct choice *c, bitoff_t from, struct set *ret)
{
	const bitstr_t *required = c->a->job->details->req_node_bitmap;
	const struct offer *offers = c->offers;
	bitoff_t i = from;

	while (i < c->size && offers[i].state != OFFER_LEFT)
		i++;
	if (i >= c->size)
		return false;
	*ret = (struct set){.first = i, .last = i};
	/* a node that is taken already stands between two that are left */
	for (; i < c->size && offers[i].state != OFFER_NONE; i++) {
		if (offers[i].state == OFFER_TAKEN)
			continue;
		ret->last = i;
		ret->count++;
		ret->cpus += offers[i].cpus;
	}
	for (i = ret->first > 0 ? ret->first - 1 : 0; required && i <= ret->last + 1 && i < c->size;
		i++)
		ret->required |= offers[i].state == OFFER_TAKEN && bit_test(required, i);
	return true;
}

static bool suffices(const struct choice *c, const struct set *s)
{
	return s->count >= nodes_missing(c) && (int64_t)s->cpus >= c->cpus_missing;
}

/* Sets beside required nodes first; the smallest that suffices, else the largest. */
static bool is_better(const struct choice *c, const struct set *s, const struct set *best)
{
	bool enough = suffices(c, s), best_enough = suffices(c, best);

	if (enough != best_enough)
		return enough;
	if (s->required != best->required)
		return s->required;
	return enough ? s->cpus < best->cpus : s->cpus > best->cpus;
}

static struct set *list_sets(const struct choice *c, size_t *ret_n)
{
	struct set *sets = NULL, *grown, s;
	size_t n = 0, capacity = 0;
	bitoff_t from = 0;

	for (; next_set(c, from, &s); from = s.last + 1) {
		if (n == capacity) {
			capacity = capacity ? 2 * capacity : 16;
			grown = xmalloc(capacity * sizeof(*grown));
			if (n > 0)
				memcpy(grown, sets, n * sizeof(*grown));
			free(sets);
			sets = grown;
		}
		sets[n++] = s;
	}
	*ret_n = n;
	return sets;
}

/* NULL: all are taken. */
static struct set *find_best_set(const struct choice *c, struct set *sets, size_t n)
{
	struct set *best = NULL;
	size_t i;

	for (i = 0; i < n; i++) {
		if (sets[i].count > 0 && (!best || is_better(c, &sets[i], best)))
			best = &sets[i];
	}
	return best;
}

/* One node that has all that is missing, with the least left; -1: none. */
static bitoff_t find_single(const struct choice *c, const struct set *s)
{
	bitoff_t i, best = -1;

	if (nodes_missing(c) > 1 || c->a->req_nodes > c->count + 1)
		return -1;
	for (i = s->first; i <= s->last; i++) {
		if (is_left(c, i) && (int64_t)c->offers[i].cpus >= c->cpus_missing &&
			(best < 0 || c->offers[i].cpus < c->offers[best].cpus))
			best = i;
	}
	return best;
}

/* From a required node upwards, then downwards; without one from the lowest on. */
static void take_from_set(struct choice *c, const struct set *s)
{
	bitoff_t single = find_single(c, s), start = s->first, i;

	if (single >= 0) {
		take_node(c, single);
		return;
	}
	for (i = s->first > 0 ? s->first - 1 : 0; s->required && i <= s->last + 1 && i < c->size;
		i++) {
		if (c->offers[i].state == OFFER_TAKEN) {
			start = i;
			break;
		}
	}
	for (i = start; i <= s->last && wants_more(c); i++) {
		if (is_left(c, i))
			take_node(c, i);
	}
	for (i = start - 1; i >= s->first && wants_more(c); i--) {
		if (is_left(c, i))
			take_node(c, i);
	}
}

/* A set of which not all is taken is the last one. */
static void take_neighbours(struct choice *c)
{
	size_t n;
	struct set *sets = list_sets(c, &n), *best;

	while (wants_more(c) && (best = find_best_set(c, sets, n))) {
		take_from_set(c, best);
		best->count = 0;
	}
	free(sets);
}

/* Those with the most CPUs first: all with as many before the next ones. */
static void take_largest(struct choice *c)
{
	uint32_t now = UINT32_MAX, next;
	bitoff_t i;

	for (; wants_more(c) && now > 0; now = next) {
		next = 0;
		for (i = 0; wants_more(c) && i < c->size; i++) {
			if (!is_left(c, i))
				continue;
			if (c->offers[i].cpus == now)
				take_node(c, i);
			else if (c->offers[i].cpus < now && c->offers[i].cpus > next)
				next = c->offers[i].cpus;
		}
	}
}

/* One set has all of them. */
static void take_contiguous(struct choice *c)
{
	struct set s, best = {.count = 0};
	bitoff_t from = 0;
	bool found = false;

	for (; next_set(c, from, &s); from = s.last + 1) {
		if (suffices(c, &s) && (c->count == 0 || s.required) &&
			(!found || s.cpus < best.cpus)) {
			best = s;
			found = true;
		}
	}
	if (found)
		take_from_set(c, &best);
}

/* The first row with as few nodes as possible that is enough. Of a row both ends only move upwards.
 */
static void take_window(struct choice *c)
{
	const bitstr_t *required = c->a->job->details->req_node_bitmap;
	bool any = required && bit_ffs(required) >= 0;
	bitoff_t lowest = any ? bit_ffs(required) : c->size;
	bitoff_t highest = any ? bit_fls(required) : -1, first, end = 0;
	int64_t cpus = 0;

	for (first = 0; first <= lowest && first < c->size; first++) {
		if (!is_left(c, first))
			continue;
		if (end <= first) { /* another row */
			end = first;
			cpus = 0;
		}
		while (end < c->size && is_left(c, end) &&
			(end - first < c->a->min_nodes || cpus < c->cpus_missing || end <= highest))
			cpus += c->offers[end++].cpus;
		if (end > highest && end - first >= c->a->min_nodes &&
			end - first <= c->a->max_nodes && cpus >= c->cpus_missing) {
			while (first < end)
				take_node(c, first++);
			return;
		}
		cpus -= end > first ? c->offers[first].cpus : 0;
	}
}

/* False: one of them can give nothing. */
static bool take_required(struct choice *c, const bitstr_t *nodes)
{
	const bitstr_t *required = c->a->job->details->req_node_bitmap;
	bitoff_t i = 0;

	for (; required && (i = bit_ffs_from_bit(required, i)) >= 0; i++) {
		if (!bit_test(nodes, i) || c->offers[i].cpus == 0)
			return false;
		take_node(c, i);
	}
	return true;
}

/* Nodes up to this weight that can give something are left to take. Returns the next weight. */
static uint32_t leave_up_to(struct choice *c, uint32_t weight)
{
	uint32_t next = UINT32_MAX;
	bitoff_t i;

	for (i = 0; i < c->size; i++) {
		struct offer *offer = &c->offers[i];
		uint32_t its;

		if (offer->cpus == 0 || offer->state == OFFER_TAKEN)
			continue;
		its = use_now.order ? node_record_table_ptr[i].weight : 0;
		if (its <= weight)
			offer->state = OFFER_LEFT;
		else if (its < next)
			next = its;
	}
	return next;
}

/* Nodes of less weight are looked at first: those of the next weight are only added where that
 * does not do. */
static void take_by_weight(struct choice *c)
{
	uint32_t weight =
		use_now.order ? node_record_table_ptr[use_now.order[0]].weight : UINT32_MAX - 1;

	do {
		weight = leave_up_to(c, weight);
		if (c->a->job->details->contiguous)
			take_contiguous(c);
		else if (has_param(CR_LLN))
			take_largest(c);
		else
			take_neighbours(c);
	} while (wants_more(c) && weight != UINT32_MAX);
}

/* One row of nodes, if that is what the job wants. */
static bool is_enough(const struct choice *c)
{
	uint32_t rows = 0;
	bitoff_t i;

	if (c->count < c->a->min_nodes || c->count > c->a->max_nodes || c->cpus_missing > 0)
		return false;
	for (i = 0; c->a->job->details->contiguous && i < c->size; i++)
		rows += c->offers[i].state == OFFER_TAKEN &&
			(i == 0 || c->offers[i - 1].state != OFFER_TAKEN);
	return rows <= 1;
}

static void take_none(struct choice *c)
{
	bitoff_t i;

	for (i = 0; i < c->size; i++)
		c->offers[i].state = OFFER_NONE;
	c->count = 0;
	c->cpus_missing = c->a->job->details->min_cpus;
}

/* Where the usual choice was not enough, the one that is if any is: the job may have so few nodes
 * that only the largest do. */
static void take_last_resort(struct choice *c, const bitstr_t *nodes)
{
	take_none(c);
	(void)leave_up_to(c, UINT32_MAX - 1);
	if (c->a->job->details->contiguous)
		take_window(c);
	else if (take_required(c, nodes))
		take_largest(c);
}

static bool take_all(struct choice *c, const bitstr_t *nodes)
{
	c->keeps_sockets = has_param(CR_SOCKET);
	if (!take_required(c, nodes))
		return false;
	take_by_weight(c);
	if (c->keeps_sockets && !is_enough(c)) { /* nodes to come had less */
		c->keeps_sockets = false;
		take_none(c);
		if (!take_required(c, nodes))
			return false;
		take_by_weight(c);
	}
	if (is_enough(c))
		return true;
	if (c->count < c->a->max_nodes && !c->a->job->details->contiguous)
		return false; /* it has all that there is */
	take_last_resort(c, nodes);
	return is_enough(c);
}

/* Nodes becomes what the job gets, and *ret_offers what of each. */
static bool choose_nodes(struct attempt *a, bitstr_t *nodes, struct offer **ret_offers)
{
	struct choice c = {
		.a = a,
		.offers = make_offers(a, nodes),
		.size = bit_size(nodes),
		.cpus_missing = a->job->details->min_cpus,
	};
	bool found = take_all(&c, nodes);
	bitoff_t i;

	if (found)
		bit_clear_all(nodes);
	for (i = 0; found && i < c.size; i++) {
		if (c.offers[i].state == OFFER_TAKEN)
			bit_set(nodes, i);
	}
	*ret_offers = c.offers;
	return found;
}

/* ---- CPUs and cores ----------------------------------------------------------------------------
 */

/* The job's tasks go round the nodes, one on each that has CPUs left of those that it gave: what
 * a node has more than its tasks need is not taken. */
static void lay_out_tasks(const job_record_t *job, job_resources_t *r, const struct offer *offers)
{
	uint32_t task = job->details->cpus_per_task, k, before;
	int64_t missing = job->details->min_cpus;
	bitoff_t i;

	do {
		before = r->ncpus;
		for (i = 0, k = 0; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
			if (r->cpus[k] + task > offers[i].taken || (missing <= 0 && r->cpus[k]))
				continue;
			r->cpus[k] = (uint16_t)(r->cpus[k] + task);
			r->ncpus += task;
			missing -= task;
		}
	} while (r->ncpus > before && missing > 0);
}

/* The first core of this socket that is free; UINT32_MAX: none. */
static uint32_t next_core(const node_record_t *node, const uint16_t *free_core, uint32_t socket)
{
	uint32_t core = socket * node->cores, end = core + node->cores;

	for (; core < end; core++) {
		if (free_core[core])
			return core;
	}
	return UINT32_MAX;
}

static void take_core(
	const node_record_t *node, uint16_t *free_core, uint32_t core, bitstr_t *cores)
{
	free_core[core] = 0;
	bit_set(cores, (bitoff_t)node->core_offset + core);
}

static uint32_t count_free(const node_record_t *node, const uint16_t *free_core, uint32_t socket)
{
	uint32_t core, n = 0;

	for (core = 0; core < node->cores; core++)
		n += free_core[socket * node->cores + core];
	return n;
}

/* So many cores for one task: of one socket if that has them, else one of each in turn. */
static void take_for_task(const node_record_t *node, uint16_t *free_core, uint32_t wanted,
	uint32_t *socket, bitstr_t *cores)
{
	uint32_t tries, core, idle = 0;
	bool by_core;

	for (tries = 0; tries < node->tot_sockets; tries++) {
		if (count_free(node, free_core, *socket) >= wanted)
			break;
		*socket = (*socket + 1) % node->tot_sockets;
	}
	by_core = tries == node->tot_sockets;
	while (wanted > 0 && idle < node->tot_sockets) {
		core = next_core(node, free_core, *socket);
		if (core != UINT32_MAX) {
			take_core(node, free_core, core, cores);
			wanted--;
			idle = 0;
		} else {
			idle++;
		}
		if (by_core || core == UINT32_MAX)
			*socket = (*socket + 1) % node->tot_sockets;
	}
	if (!by_core)
		*socket = (*socket + 1) % node->tot_sockets;
}

static void take_from_lowest(
	const node_record_t *node, uint16_t *free_core, uint32_t wanted, bitstr_t *cores)
{
	uint32_t core;

	for (core = 0; core < node->tot_cores && wanted > 0; core++) {
		if (!free_core[core])
			continue;
		take_core(node, free_core, core, cores);
		wanted--;
	}
}

/* Whole sockets of those that have a core taken. */
static void complete_sockets(const node_record_t *node, bitstr_t *cores)
{
	uint32_t socket;

	for (socket = 0; socket < node->tot_sockets; socket++) {
		bitoff_t first = (bitoff_t)node->core_offset + (bitoff_t)socket * node->cores;

		if (bit_set_count_range(cores, first, first + node->cores) > 0)
			bit_nset(cores, first, first + node->cores - 1);
	}
}

static void take_cores(struct attempt *a, const node_record_t *node, uint32_t cpus,
	uint16_t *free_core, bitstr_t *cores)
{
	const job_details_t *d = a->job->details;
	uint32_t threads = threads_for_tasks(node);
	uint32_t wanted = (cpus + threads - 1) / threads, task = d->cpus_per_task, socket = 0;

	(void)find_free_cores(a, node, free_core);
	task = (task + threads - 1) / threads;
	if (has_param(CR_CPU | CR_CORE_DEFAULT_DIST_BLOCK)) {
		take_from_lowest(node, free_core, wanted, cores);
	} else {
		for (; wanted > 0; wanted -= task < wanted ? task : wanted)
			take_for_task(
				node, free_core, task < wanted ? task : wanted, &socket, cores);
	}
	if (has_param(CR_SOCKET))
		complete_sockets(node, cores);
}

/* Never more than is left: a socket or node that it gets as a whole has CPUs that no task needs. */
static uint64_t memory_for(const struct attempt *a, const node_record_t *node, uint32_t cpus)
{
	uint64_t wanted = use_memory_wanted(a->job, node, cpus), left = free_memory(a, node);

	if (!has_param(CR_MEMORY))
		return 0;
	return wanted < left ? wanted : left;
}

static void give(
	struct attempt *a, job_record_t *job, const bitstr_t *nodes, const struct offer *offers)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	job_resources_t *r = use_resources_new(nodes);
	uint16_t *free_core = xmalloc(use_now.most_cores * sizeof(*free_core));
	bitoff_t i = 0;
	uint32_t k = 0;

	r->core_bitmap = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
	lay_out_tasks(job, r, offers);
	r->ncpus = 0;
	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++, k++) {
		const node_record_t *node = &node_record_table_ptr[i];
		bitoff_t first = node->core_offset, end = first + node->tot_cores;

		if (a->whole)
			bit_nset(r->core_bitmap, first, end - 1);
		else
			take_cores(a, node, r->cpus[k], free_core, r->core_bitmap);
		r->cpus[k] = (uint16_t)((uint32_t)bit_set_count_range(r->core_bitmap, first, end) *
			node->threads);
		r->ncpus += r->cpus[k];
		r->memory_allocated[k] = memory_for(a, node, r->cpus[k]);
	}
	r->whole_node = a->whole;
	r->node_req = a->whole ? NODE_CR_RESERVED
		: a->most > 1  ? NODE_CR_AVAILABLE
			       : NODE_CR_ONE_ROW;
	xfree(free_core);
	use_resources_free(job->job_resrcs);
	job->job_resrcs = r;
}

/* ---- attempts ----------------------------------------------------------------------------------
 */

/* On cores with one job more at a time, as far as there are cores with so many. */
static bool find_shared_place(
	struct attempt *a, const bitstr_t *nodes, bitstr_t *tried, struct offer **ret_offers)
{
	a->most_met = 0;
	for (a->share = 1; a->share <= a->most && a->share <= a->most_met + 1; a->share++) {
		bit_copybits(tried, nodes);
		if (choose_nodes(a, tried, ret_offers))
			return true;
		xfree(*ret_offers);
	}
	return false;
}

/* Beside the jobs that run, then on cores that several may have. */
static bool find_beside(struct attempt *a, bitstr_t *nodes, struct offer **ret_offers)
{
	bitstr_t *tried = bit_copy(nodes);
	bool found = find_shared_place(a, nodes, tried, ret_offers);

	if (found)
		bit_copybits(nodes, tried);
	bit_free(tried);
	return found;
}

static bool fits_later(const struct use *later, bitstr_t *nodes, void *userdata)
{
	struct attempt a = *(const struct attempt *)userdata;
	struct offer *offers = NULL;
	bool found;

	a.use = later;
	found = find_beside(&a, nodes, &offers);
	xfree(offers);
	return found;
}

/* In place of jobs that must end for it. */
static bool find_by_ends(struct attempt *a, bitstr_t *nodes, List candidates, List *preempted)
{
	return use_preempt(nodes, candidates, PREEMPT_MODE_CANCEL | PREEMPT_MODE_REQUEUE,
		fits_later, a, preempted);
}

/* ---- as few as possible ------------------------------------------------------------------------
 */

static bool fits_with(const bool *gone, const bitstr_t *nodes, void *userdata)
{
	struct attempt a = *(const struct attempt *)userdata;
	const struct suspendable all = a.suspendable;
	bitstr_t *tried = bit_copy(nodes);
	struct offer *offers = NULL;
	bool found;
	size_t i;

	a.suspendable = (struct suspendable){
		.jobs = xmalloc((all.count + 1) * sizeof(*all.jobs)), .count = 0};
	for (i = 0; i < all.count; i++) {
		if (gone[i])
			a.suspendable.jobs[a.suspendable.count++] = all.jobs[i];
	}
	found = find_beside(&a, tried, &offers);
	xfree(offers);
	xfree(a.suspendable.jobs);
	bit_free(tried);
	return found;
}

/* Those whose cores it would get. */
static void list_stopped(
	struct attempt *a, const bitstr_t *nodes, const struct offer *offers, bool *gone)
{
	job_record_t trial = *a->job;
	size_t i;

	trial.job_resrcs = NULL;
	give(a, &trial, nodes, offers);
	for (i = 0; i < a->suspendable.count; i++) {
		const job_resources_t *r = a->suspendable.jobs[i]->job_resrcs;

		gone[i] = r &&
			(r->core_bitmap ? bit_overlap_any(
						  r->core_bitmap, trial.job_resrcs->core_bitmap)
					: bit_overlap_any(r->node_bitmap, nodes));
	}
	use_resources_free(trial.job_resrcs);
}

/* CR_Least_Preempt: given are the nodes to choose from, nodes and *offers the usual choice. False:
 * there is none any more. */
static bool put_least_aside(
	struct attempt *a, const bitstr_t *given, bitstr_t *nodes, struct offer **offers)
{
	bool *gone, found = true;
	size_t i, n = 0;

	if (!has_param(CR_LEAST_PREEMPT))
		return true;
	gone = xmalloc(a->suspendable.count + 1);
	list_stopped(a, nodes, *offers, gone);
	a->least = true;
	if (use_least(a->suspendable.jobs, a->suspendable.count, gone, given, fits_with, a)) {
		for (i = 0; i < a->suspendable.count; i++) {
			if (gone[i])
				a->suspendable.jobs[n++] = a->suspendable.jobs[i];
		}
		a->suspendable.count = n;
		xfree(*offers);
		bit_copybits(nodes, given);
		found = find_beside(a, nodes, offers);
	} else {
		a->least = false;
	}
	xfree(gone);
	return found;
}

/* With preempt/qos the gang scheduler lets a preemptor share cores with those that it preempts: one
 * job more than the partition has otherwise. */
static bool find_in_gang(struct attempt *a, bitstr_t *nodes, struct offer **ret_offers)
{
	bitstr_t *given;
	bool found;

	if (!slurm_conf.preempt_by_qos || a->suspendable.count == 0 || a->whole)
		return false;
	a->most++;
	a->in_gang = true;
	given = bit_copy(nodes);
	found = find_beside(a, nodes, ret_offers) && put_least_aside(a, given, nodes, ret_offers);
	bit_free(given);
	a->in_gang = found;
	if (!found)
		a->most--;
	return found;
}

/* In place of all jobs that can be suspended, as Slurm's cons_res has it: none of them is in the
 * way, and those whose cores it gets stand still. */
static bool find_by_suspension(struct attempt *a, bitstr_t *nodes, struct offer **ret_offers)
{
	bitstr_t *given;
	bool found;

	if (a->suspendable.count == 0)
		return false;
	a->suspends = true;
	given = bit_copy(nodes);
	found = find_beside(a, nodes, ret_offers) && put_least_aside(a, given, nodes, ret_offers);
	bit_free(given);
	a->suspends = found;
	return found;
}

static void list_suspendable(struct suspendable *s, List candidates)
{
	ListIterator i = list_iterator_create(candidates);
	const job_record_t *job;

	s->jobs = xmalloc((size_t)(list_count(candidates) + 1) * sizeof(*s->jobs));
	while ((job = list_next(i))) {
		if (slurm_job_preempt_mode(job) & PREEMPT_MODE_SUSPEND)
			s->jobs[s->count++] = job;
	}
	list_iterator_destroy(i);
	qsort(s->jobs, s->count, sizeof(*s->jobs), by_address);
}

/* *ret_offers: NULL where jobs must end for it first. */
static bool find_place(struct attempt *a, bitstr_t *nodes, List candidates, List *preempted,
	struct offer **ret_offers)
{
	return find_beside(a, nodes, ret_offers) || find_in_gang(a, nodes, ret_offers) ||
		find_by_suspension(a, nodes, ret_offers) ||
		(candidates && find_by_ends(a, nodes, candidates, preempted));
}

int select_p_job_test(job_record_t *job, bitstr_t *bitmap, uint32_t min_nodes, uint32_t max_nodes,
	uint32_t req_nodes, uint32_t mode, List candidates, List *preempted, bitstr_t *exc_cores)
{
	struct attempt a = {.job = job,
		.use = mode == SELECT_MODE_TEST_ONLY ? NULL : &use_now,
		.exc_cores = mode == SELECT_MODE_TEST_ONLY ? NULL : exc_cores,
		.min_nodes = min_nodes,
		.max_nodes = max_nodes,
		.req_nodes = req_nodes,
		.most = use_max_share(job),
		.whole = job->details->whole_node || job->part_ptr->max_share == 0};
	struct offer *offers = NULL;
	time_t start = slurm_now();
	bool found;

	if (preempted)
		*preempted = NULL;
	if (candidates && a.use)
		list_suspendable(&a.suspendable, candidates);
	found = find_place(&a, bitmap, a.use ? candidates : NULL, preempted, &offers);
	if (!found && mode == SELECT_MODE_WILL_RUN)
		found = use_find_start(bitmap, fits_later, &a, &start);
	if (found && mode == SELECT_MODE_RUN_NOW && offers)
		give(&a, job, bitmap, offers);
	else if (found && mode == SELECT_MODE_WILL_RUN)
		job->start_time = start;
	xfree(offers);
	xfree(a.suspendable.jobs);
	if (found)
		return SLURM_SUCCESS;
	errno = mode == SELECT_MODE_TEST_ONLY ? EINVAL : EBUSY;
	return SLURM_ERROR;
}

/* ---- reservations, and information -------------------------------------------------------------
 */

/* So many cores of a node that are not excepted. False: it has not as many. */
static bool reserve_cores(
	const node_record_t *node, uint32_t wanted, const bitstr_t *exc_cores, bitstr_t *cores)
{
	bitoff_t i = node->core_offset, end = i + node->tot_cores;

	for (; i < end && wanted > 0; i++) {
		if (exc_cores && bit_test(exc_cores, i))
			continue;
		bit_set(cores, i);
		wanted--;
	}
	return wanted == 0;
}

/* The lowest nodes that have as many cores as are wanted of each. */
bitstr_t *select_p_resv_test(resv_desc_msg_t *resv_desc_ptr, uint32_t node_cnt,
	bitstr_t *avail_bitmap, bitstr_t **core_bitmap)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	bitstr_t *nodes = bit_alloc(bit_size(avail_bitmap));
	bitstr_t *cores = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
	const uint32_t *counts = resv_desc_ptr->core_cnt;
	uint32_t n = 0;
	bitoff_t i = 0;

	for (; n < node_cnt && (i = bit_ffs_from_bit(avail_bitmap, i)) >= 0; i++) {
		const node_record_t *node = &node_record_table_ptr[i];
		uint32_t wanted = counts ? *counts : node->tot_cores;

		if (!reserve_cores(node, wanted, core_bitmap ? *core_bitmap : NULL, cores)) {
			bit_nclear(cores, node->core_offset,
				(bitoff_t)node->core_offset + node->tot_cores - 1);
			continue;
		}
		bit_set(nodes, i);
		n++;
		counts += counts && counts[1]; /* the last one is for all others */
	}
	if (n < node_cnt) {
		FREE_NULL_BITMAP(nodes);
		errno = EBUSY;
	} else if (core_bitmap) {
		bit_free(*core_bitmap);
		*core_bitmap = cores;
		cores = NULL;
	}
	bit_free(cores);
	return nodes;
}

int select_p_get_info_from_plugin(
	enum select_plugindata_info dinfo, job_record_t *job_ptr, void *data)
{
	(void)job_ptr;
	return use_get_info(dinfo, 1, data);
}
