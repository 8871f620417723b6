/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/cons_res, and select/cons_tres: CPUs, cores or sockets, and memory inside of nodes.
 * How it chooses is what Slurm 22.05 was seen to do (select(7)):
 *
 *	nodes    neighbours that may be taken are a set: the smallest set that suffices, else the
 *	         largest first; in a set one node that suffices by itself with the least left, else
 *	         from the lowest on. With CR_LLN those with the most idle CPUs.
 *	CPUs     each node is filled, with one task left for each node to come; where whole
 *	         sockets are given, with a socket's. With --spread-job a task of each in turn
 *	cores    one task after the other on each socket in turn, or on as few sockets as possible
 *	         (enum core_order); with CR_CPU from the lowest on
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

/* One attempt to find a place for a job. */
struct attempt {
	const job_record_t *job;
	const struct use *use;     /* NULL: of nodes without jobs */
	const bitstr_t *exc_cores; /* NULL: none */
	bitstr_t *exc_nodes;       /* that have some of these */
	uint32_t min_nodes, max_nodes, req_nodes;
	uint32_t most;                      /* that it may ever share a core with, and itself */
	uint32_t share;                     /* jobs of the partition on a core, with this one */
	uint32_t most_met;                  /* of those that it could share a core with */
	struct use_suspendable suspendable; /* jobs that it may preempt by suspension */
	bool suspends;                      /* they leave their cores to it */
	bool in_gang;                       /* or it shares their cores, one job more than else */
	bool whole;                         /* it shares its nodes with nobody */
	bool limited;                       /* tasks on a socket or core are */
	bool spreads;                       /* --spread-job */
	bool plans;                         /* it does not start now */
};

enum offer_state {
	OFFER_NONE,  /* it can't, by now */
	OFFER_LEFT,  /* it can be taken */
	OFFER_TAKEN, /* it is */
};

/* What a node can give to the job: there is none of a node that can give nothing. */
struct offer {
	uint32_t node;
	uint16_t cpus, taken;
	uint8_t state; /* enum offer_state */
};

static bool has_param(uint32_t param)
{
	return slurm_conf.select_type_param & param;
}

/* ---- what is free on a node --------------------------------------------------------------------
 */

/* With preempt/qos jobs of one partition take turns, if none of them has its nodes alone. */
static bool takes_turns(const struct attempt *a, const struct use_job *other)
{
	return slurm_conf.preempt_by_qos && !a->whole && !other->alone &&
		other->job->part_ptr == a->job->part_ptr;
}

/* Whether the other job does not leave its cores to this one. */
static bool is_in_the_way(const struct attempt *a, const struct use_job *other)
{
	return takes_turns(a, other) || !a->suspends ||
		!use_is_suspendable(&a->suspendable, other->job);
}

/* It preempts this one by sharing its cores, in the additional row. */
static bool gives_turns(const struct attempt *a, const job_record_t *other)
{
	return a->in_gang && use_is_suspendable(&a->suspendable, other);
}

#define NEVER UINT16_MAX /* jobs on a core that this one can't share */

static bool can_share_with(const struct attempt *a, const struct use_job *other)
{
	return !other->alone && other->job->part_ptr == a->job->part_ptr &&
		(gives_turns(a, other->job) ||
			other->job->job_resrcs->node_req == NODE_CR_AVAILABLE);
}

/* How many jobs more have each core of a node: those that give turns to this one, or the others. */
static void count_jobs(
	const struct attempt *a, const node_record_t *node, bool giving, uint16_t *count)
{
	const struct use_node *use = &a->use->nodes[node->index];
	uint32_t i, core;

	for (i = 0; i < use->count; i++) {
		const bitstr_t *cores = use->jobs[i].job->job_resrcs->core_bitmap;
		bool shares = can_share_with(a, &use->jobs[i]);

		if (use->jobs[i].hidden || !is_in_the_way(a, &use->jobs[i]) ||
			gives_turns(a, use->jobs[i].job) != giving)
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

/* How many jobs have each core of a node, one job after the other. The additional row is only where
 * the others leave one of the partition's rows: so it is one that is preempted that has a partner
 * more. */
static void count_by_job(const struct attempt *a, const node_record_t *node, uint16_t *count)
{
	uint32_t core;

	memset(count, 0, node->tot_cores * sizeof(*count));
	count_jobs(a, node, false, count);
	if (!a->in_gang)
		return;
	for (core = 0; core < node->tot_cores; core++) {
		if (count[core] + 1u >= a->most)
			count[core] = NEVER;
	}
	count_jobs(a, node, true, count);
}

/* What the jobs on a node are to this one. */
struct others {
	bool any, closed, sharing, not_sharing, giving_way;
};

static struct others survey_jobs(const struct attempt *a, const struct use_node *use)
{
	struct others o = {.any = false};
	uint32_t i;

	for (i = 0; i < use->count; i++) {
		if (use->jobs[i].hidden)
			continue;
		if (!is_in_the_way(a, &use->jobs[i])) {
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

	if (o->giving_way || use->whole_jobs || use->hidden || a->in_gang ||
		(o->sharing && o->not_sharing)) {
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
	bool is_used = a->use && !bit_test(a->use->idle, node->index);
	bitoff_t first = node->core_offset;
	uint32_t core, socket, n = 0;
	struct others o = {.any = false};

	if (is_used)
		o = survey_jobs(a, &a->use->nodes[node->index]);
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
		used = use_memory(a->use, node->index);
	return used < limit ? limit - used : 0;
}

static uint32_t threads_for_tasks(const node_record_t *node)
{
	return has_param(CR_ONE_TASK_PER_CORE) ? 1u : node->threads;
}

static uint32_t divide_up(uint32_t n, uint32_t by)
{
	return (n + by - 1) / by;
}

/* With --ntasks-per-core: tasks that one core may have. 0: a task is larger than a core. */
static uint32_t tasks_of_core(const job_details_t *d, uint32_t threads)
{
	uint32_t fit = threads / d->cpus_per_task;

	return fit < d->ntasks_per_core ? fit : d->ntasks_per_core;
}

/* Tasks that so many cores have CPUs for. With --ntasks-per-core none begins in the middle of a
 * core that it does not end on. */
static uint32_t tasks_on(const job_details_t *d, const node_record_t *node, uint32_t cores)
{
	uint32_t threads = threads_for_tasks(node), each;

	if (!d->ntasks_per_core)
		return cores * threads / d->cpus_per_task;
	each = tasks_of_core(d, threads);
	return each ? cores * each : cores / divide_up(d->cpus_per_task, threads);
}

static uint32_t cores_for(const job_details_t *d, const node_record_t *node, uint32_t tasks)
{
	uint32_t threads = threads_for_tasks(node), each;

	if (!d->ntasks_per_core)
		return divide_up(tasks * d->cpus_per_task, threads);
	each = tasks_of_core(d, threads);
	return each ? divide_up(tasks, each) : tasks * divide_up(d->cpus_per_task, threads);
}

static uint32_t count_free(const node_record_t *node, const uint16_t *free_core, uint32_t socket)
{
	uint32_t core, n = 0;

	for (core = 0; core < node->cores; core++)
		n += free_core[socket * node->cores + core];
	return n;
}

/* Each task has its place on one socket: with --ntasks-per-socket, but for tasks larger than one.
 */
static bool has_socket_tasks(const job_details_t *d, const node_record_t *node)
{
	return d->ntasks_per_socket && cores_for(d, node, 1) <= node->cores;
}

static uint32_t tasks_on_socket(const job_details_t *d, const node_record_t *node,
	const uint16_t *free_core, uint32_t socket)
{
	uint32_t tasks = tasks_on(d, node, count_free(node, free_core, socket));

	return tasks < d->ntasks_per_socket ? tasks : d->ntasks_per_socket;
}

/* Tasks of a job that is limited on these cores. */
static uint32_t count_limited(const job_details_t *d, const node_record_t *node,
	const uint16_t *free_core, uint32_t cores)
{
	uint32_t tasks = 0, socket, most;

	if (has_socket_tasks(d, node)) {
		for (socket = 0; socket < node->tot_sockets; socket++)
			tasks += tasks_on_socket(d, node, free_core, socket);
		return tasks;
	}
	tasks = tasks_on(d, node, cores);
	if (!d->ntasks_per_socket)
		return tasks;
	/* each is on several sockets */
	most = (uint32_t)node->tot_sockets * d->ntasks_per_socket /
		divide_up(cores_for(d, node, 1), node->cores);
	return tasks < most ? tasks : most;
}

/* CPUs for the job among those of its free cores, which are so many: whole tasks, as far as the
 * memory goes. */
static uint32_t count_cpus(const struct attempt *a, const node_record_t *node,
	const uint16_t *free_core, uint32_t cores)
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
	if (a->limited) {
		uint32_t most = count_limited(d, node, free_core, cores);

		tasks = tasks < most ? tasks : most;
	}
	return tasks * d->cpus_per_task;
}

static uint32_t offer_of(struct attempt *a, bitoff_t i, uint16_t *space)
{
	const node_record_t *node = &node_record_table_ptr[i];
	uint32_t cores = find_free_cores(a, node, space);

	return cores ? count_cpus(a, node, space, cores) : 0;
}

/* Takes out of nodes those that are seen at once to have nothing. */
static void drop_full(const struct attempt *a, bitstr_t *nodes)
{
	bitstr_t *closed;

	if (!a->use || a->most > 1 || a->suspends)
		return;
	closed = bit_copy(a->use->full);
	bit_and_not(closed, a->use->idle);
	bit_and_not(closed, a->use->opened);
	bit_and_not(nodes, closed);
	bit_free(closed);
}

static void add_offer(struct offer *offers, uint32_t *n, bitoff_t node, int32_t cpus)
{
	if (cpus > 0)
		offers[(*n)++] = (struct offer){.node = (uint32_t)node,
			.cpus = (uint16_t)cpus,
			.state = use_now.order ? OFFER_NONE : OFFER_LEFT};
}

/* A row of nodes without jobs, and without cores that are excepted, from first to before end: all
 * of a shape offer the same. known: what; -1: not known yet. */
static void add_row(struct attempt *a, struct offer *offers, uint32_t *n, bitoff_t first,
	bitoff_t end, int32_t *known, uint16_t *space)
{
	bitoff_t i;

	for (i = first; i < end; i++) {
		uint16_t shape = use_now.shapes[i];

		if (shape == USE_NO_SHAPE)
			add_offer(offers, n, i, (int32_t)offer_of(a, i, space));
		else if (known[shape] >= 0)
			add_offer(offers, n, i, known[shape]);
		else
			add_offer(offers, n, i, known[shape] = (int32_t)offer_of(a, i, space));
	}
}

/* Of each of these nodes that has one, by their numbers. */
static struct offer *make_offers(struct attempt *a, bitstr_t *nodes, uint32_t *ret_n)
{
	struct offer *offers;
	uint16_t *space = xmalloc(use_now.most_cores * sizeof(*space));
	bitstr_t *untouched;
	int32_t known[USE_SHAPES_MAX];
	bitoff_t i, end;

	memset(known, 0xff, sizeof(known));
	drop_full(a, nodes);
	untouched = bit_copy(nodes);
	if (a->use)
		bit_and(untouched, a->use->idle);
	if (a->exc_nodes)
		bit_and_not(untouched, a->exc_nodes);
	offers = xmalloc(((size_t)bit_set_count(nodes) + 1) * sizeof(*offers));
	*ret_n = 0;
	for (i = 0; (i = bit_ffs_from_bit(nodes, i)) >= 0; i = end) {
		end = i + 1;
		if (bit_test(untouched, i)) {
			end = bit_ffc_from_bit(untouched, i);
			end = end < 0 ? bit_size(nodes) : end;
			add_row(a, offers, ret_n, i, end, known, space);
		} else {
			add_offer(offers, ret_n, i, (int32_t)offer_of(a, i, space));
		}
	}
	bit_free(untouched);
	xfree(space);
	return offers;
}

/* ---- which nodes -------------------------------------------------------------------------------
 */

/* What is chosen by now, and what is missing. */
struct choice {
	const struct attempt *a;
	struct offer *offers; /* by the numbers of their nodes */
	uint32_t size;        /* offers */
	uint32_t count;
	int64_t cpus_missing;
	bool keeps_sockets; /* of nodes to come, not only a task of each */
};

/* For each node that must come: a task, or all of a socket where whole sockets are given. */
static int64_t kept_cpus(const struct choice *c, uint32_t node)
{
	const uint32_t task = c->a->job->details->cpus_per_task;
	const uint32_t socket = c->keeps_sockets ? node_record_table_ptr[node].cores : 0;

	return task > socket ? task : socket;
}

/* As many CPUs as there are, but some for each node that must come. */
static void take_offer(struct choice *c, uint32_t i)
{
	struct offer *offer = &c->offers[i];
	uint32_t task = c->a->job->details->cpus_per_task;
	int64_t to_come = (int64_t)c->a->min_nodes - c->count - 1;
	int64_t most = c->cpus_missing - (to_come > 0 ? to_come * kept_cpus(c, offer->node) : 0);

	offer->state = OFFER_TAKEN;
	c->count++;
	most = (most + task - 1) / task * task; /* whole tasks */
	if (most < task)
		most = task;
	if (c->a->spreads) /* lay_out_tasks() takes of each in turn */
		most = offer->cpus;
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

/* Nodes that can be taken, one after the other: first to last, by their offers. */
struct set {
	uint32_t first, last;
	uint32_t count;
	uint64_t cpus;
	bool required; /* a node that must be taken stands in it, or beside it */
};

static bool is_left(const struct choice *c, uint32_t i)
{
	return c->offers[i].state == OFFER_LEFT;
}

static bool is_taken(const struct choice *c, uint32_t i)
{
	return c->offers[i].state == OFFER_TAKEN;
}

/* Whether the nodes of these two offers, one behind the other in the list, are neighbours. */
static bool are_neighbours(const struct choice *c, uint32_t i, uint32_t k)
{
	return c->offers[i].node + 1 == c->offers[k].node;
}

/* A node that must be taken, and is. */
static bool is_required(const struct choice *c, uint32_t i)
{
	return is_taken(c, i) && bit_test(c->a->job->details->req_node_bitmap, c->offers[i].node);
}

/* The set that begins at the first offer from here on that is left. */
static bool next_set(const struct choice *c, uint32_t from, struct set *ret)
{
	const struct offer *offers = c->offers;
	uint32_t i = from, behind;

	while (i < c->size && offers[i].state != OFFER_LEFT)
		i++;
	if (i >= c->size)
		return false;
	*ret = (struct set){.first = i, .last = i};
	/* a node that is taken already stands between two that are left */
	for (; i < c->size && offers[i].state != OFFER_NONE &&
		(i == ret->first || are_neighbours(c, i - 1, i));
		i++) {
		if (offers[i].state == OFFER_TAKEN)
			continue;
		ret->last = i;
		ret->count++;
		ret->cpus += offers[i].cpus;
	}
	if (!c->a->job->details->req_node_bitmap)
		return true;
	i = ret->first > 0 && are_neighbours(c, ret->first - 1, ret->first) ? ret->first - 1
									    : ret->first;
	behind = ret->last + 1;
	behind += behind < c->size && are_neighbours(c, ret->last, behind);
	for (; i < behind; i++)
		ret->required |= is_required(c, i);
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
	uint32_t from = 0;

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

/* As is_better() has them where none suffices. */
static int by_size(const void *a, const void *b)
{
	const struct set *x = a, *y = b;

	if (x->required != y->required)
		return x->required ? -1 : 1;
	if (x->cpus != y->cpus)
		return x->cpus > y->cpus ? -1 : 1;
	return x->first < y->first ? -1 : 1;
}

/* One node that has all that is missing, with the least left; c->size: none. */
static uint32_t find_single(const struct choice *c, const struct set *s)
{
	uint32_t i, best = c->size;

	if (nodes_missing(c) > 1 || c->a->req_nodes > c->count + 1)
		return c->size;
	for (i = s->first; i <= s->last; i++) {
		if (is_left(c, i) && (int64_t)c->offers[i].cpus >= c->cpus_missing &&
			(best == c->size || c->offers[i].cpus < c->offers[best].cpus))
			best = i;
	}
	return best;
}

/* Where a set is begun: at the first node of it, or before it, that is taken already. */
static uint32_t find_taken(const struct choice *c, const struct set *s)
{
	uint32_t i = s->first, behind = s->last + 1;

	i -= i > 0 && are_neighbours(c, i - 1, i);
	behind += behind < c->size && are_neighbours(c, s->last, behind);
	for (; i < behind; i++) {
		if (is_taken(c, i))
			return i;
	}
	return s->first;
}

/* From a required node upwards, then downwards; without one from the lowest on. */
static void take_from_set(struct choice *c, const struct set *s)
{
	uint32_t single = find_single(c, s), start = s->required ? find_taken(c, s) : s->first, i;

	if (single < c->size) {
		take_offer(c, single);
		return;
	}
	for (i = start; i <= s->last && wants_more(c); i++) {
		if (is_left(c, i))
			take_offer(c, i);
	}
	for (i = start; i-- > s->first && wants_more(c);) {
		if (is_left(c, i))
			take_offer(c, i);
	}
}

/* A set of which not all is taken is the last one. As long as not even the largest can suffice it
 * is the next one. */
static void take_neighbours(struct choice *c)
{
	size_t n, largest = 0, i;
	struct set *sets = list_sets(c, &n), *best;
	uint64_t most = 0;

	if (n > 0)
		qsort(sets, n, sizeof(*sets), by_size);
	for (i = 0; i < n; i++)
		most = sets[i].cpus > most ? sets[i].cpus : most;
	while (wants_more(c)) {
		while (largest < n && sets[largest].count == 0)
			largest++;
		if (largest == n)
			break;
		best = (int64_t)most < c->cpus_missing ? &sets[largest] : find_best_set(c, sets, n);
		take_from_set(c, best);
		best->count = 0;
	}
	free(sets);
}

/* Those with the most CPUs first: all with as many before the next ones. */
static void take_largest(struct choice *c)
{
	uint32_t now = UINT32_MAX, next, i;

	for (; wants_more(c) && now > 0; now = next) {
		next = 0;
		for (i = 0; wants_more(c) && i < c->size; i++) {
			if (!is_left(c, i))
				continue;
			if (c->offers[i].cpus == now)
				take_offer(c, i);
			else if (c->offers[i].cpus < now && c->offers[i].cpus > next)
				next = c->offers[i].cpus;
		}
	}
}

/* Of two sets that suffice. */
static bool is_preferred(const struct choice *c, const struct set *s, const struct set *best)
{
	uint32_t count = s->count < c->a->req_nodes ? s->count : c->a->req_nodes;
	uint32_t best_count = best->count < c->a->req_nodes ? best->count : c->a->req_nodes;

	if (c->a->spreads && count != best_count)
		return count > best_count;
	return s->cpus < best->cpus;
}

/* One set has all of them. */
static void take_contiguous(struct choice *c)
{
	struct set s, best = {.count = 0};
	uint32_t from = 0;
	bool found = false;

	for (; next_set(c, from, &s); from = s.last + 1) {
		if (suffices(c, &s) && (c->count == 0 || s.required) &&
			(!found || is_preferred(c, &s, &best))) {
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
	bitoff_t lowest = required ? bit_ffs(required) : -1;
	bitoff_t highest = required ? bit_fls(required) : -1;
	uint32_t first, end = 0;
	int64_t cpus = 0;

	for (first = 0; first < c->size && (lowest < 0 || c->offers[first].node <= lowest);
		first++) {
		if (!is_left(c, first))
			continue;
		if (end <= first) { /* another row */
			end = first;
			cpus = 0;
		}
		while (end < c->size && is_left(c, end) &&
			(end == first || are_neighbours(c, end - 1, end)) &&
			(end - first < c->a->min_nodes || cpus < c->cpus_missing ||
				c->offers[end].node <= highest))
			cpus += c->offers[end++].cpus;
		if (end > first && c->offers[end - 1].node >= highest &&
			end - first >= c->a->min_nodes && end - first <= c->a->max_nodes &&
			cpus >= c->cpus_missing) {
			while (first < end)
				take_offer(c, first++);
			return;
		}
		cpus -= end > first ? c->offers[first].cpus : 0;
	}
}

/* Of this node; c->size: none. */
static uint32_t find_offer(const struct choice *c, uint32_t node)
{
	uint32_t low = 0, high = c->size, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (c->offers[middle].node < node)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->size && c->offers[low].node == node ? low : c->size;
}

/* False: one of them can give nothing. */
static bool take_required(struct choice *c)
{
	const bitstr_t *required = c->a->job->details->req_node_bitmap;
	bitoff_t i = 0;

	for (; required && (i = bit_ffs_from_bit(required, i)) >= 0; i++) {
		uint32_t offer = find_offer(c, (uint32_t)i);

		if (offer == c->size)
			return false;
		take_offer(c, offer);
	}
	return true;
}

/* Nodes up to this weight are left to take. Returns the next weight; UINT32_MAX: there is none, as
 * from the beginning where all have the same. */
static uint32_t leave_up_to(struct choice *c, uint32_t weight)
{
	uint32_t next = UINT32_MAX, i;

	for (i = 0; use_now.order && i < c->size; i++) {
		struct offer *offer = &c->offers[i];
		uint32_t its;

		if (offer->state == OFFER_TAKEN)
			continue;
		its = node_record_table_ptr[offer->node].weight;
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
	uint32_t rows = 0, i;

	if (c->count < c->a->min_nodes || c->count > c->a->max_nodes || c->cpus_missing > 0)
		return false;
	for (i = 0; c->a->job->details->contiguous && i < c->size; i++)
		rows += is_taken(c, i) &&
			(i == 0 || !is_taken(c, i - 1) || !are_neighbours(c, i - 1, i));
	return rows <= 1;
}

static void take_none(struct choice *c)
{
	uint32_t i;

	for (i = 0; i < c->size; i++)
		c->offers[i].state = use_now.order ? OFFER_NONE : OFFER_LEFT;
	c->count = 0;
	c->cpus_missing = c->a->job->details->min_cpus;
}

/* Where the usual choice was not enough, the one that is if any is: the job may have so few nodes
 * that only the largest do. */
static void take_last_resort(struct choice *c)
{
	take_none(c);
	(void)leave_up_to(c, UINT32_MAX - 1);
	if (c->a->job->details->contiguous)
		take_window(c);
	else if (take_required(c))
		take_largest(c);
}

static bool take_all(struct choice *c)
{
	c->keeps_sockets = has_param(CR_SOCKET);
	if (!take_required(c))
		return false;
	take_by_weight(c);
	if (c->keeps_sockets && !is_enough(c)) { /* nodes to come had less */
		c->keeps_sockets = false;
		take_none(c);
		if (!take_required(c))
			return false;
		take_by_weight(c);
	}
	if (is_enough(c))
		return true;
	if (c->count < c->a->max_nodes && !c->a->job->details->contiguous)
		return false; /* it has all that there is */
	take_last_resort(c);
	return is_enough(c);
}

/* Nodes becomes what the job gets, and *ret_offers what of each, in their order. */
static bool choose_nodes(struct attempt *a, bitstr_t *nodes, struct offer **ret_offers)
{
	struct choice c = {.a = a, .cpus_missing = a->job->details->min_cpus};
	uint32_t i, n = 0;
	bool found;

	c.offers = make_offers(a, nodes, &c.size);
	found = c.size >= a->min_nodes && take_all(&c);
	if (found)
		bit_clear_all(nodes);
	for (i = 0; found && n < c.count; i++) {
		if (!is_taken(&c, i))
			continue;
		bit_set(nodes, c.offers[i].node);
		c.offers[n++] = c.offers[i];
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

	do {
		before = r->ncpus;
		for (k = 0; k < r->nhosts; k++) {
			if (r->cpus[k] + task > offers[k].taken || (missing <= 0 && r->cpus[k]))
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

/* In which order the cores of a node are taken. */
enum core_order {
	CORES_LOWEST,
	CORES_BLOCK,  /* on as few sockets as possible */
	CORES_CYCLIC, /* a task on each socket in turn */
	CORES_CFULL,  /* a core of each socket in turn */
};

static enum core_order get_core_order(const job_details_t *d)
{
	switch (d->task_dist & SLURM_DIST_SOCKMASK) {
	case SLURM_DIST_SOCKBLOCK:
		return CORES_BLOCK;
	case SLURM_DIST_SOCKCYCLIC:
		return CORES_CYCLIC;
	case SLURM_DIST_SOCKCFULL:
		return CORES_CFULL;
	default:
		break;
	}
	if (has_param(CR_CPU))
		return CORES_LOWEST;
	if ((d->task_dist & SLURM_DIST_NODEMASK) == SLURM_DIST_PLANE ||
		has_param(CR_CORE_DEFAULT_DIST_BLOCK))
		return CORES_BLOCK;
	return CORES_CYCLIC;
}

/* So many tasks, or cores, on the sockets of a node. */
struct sockets {
	uint16_t *capacities; /* that each can have */
	uint16_t *counts;     /* that each has */
};

static void sockets_init(struct sockets *s, const node_record_t *node)
{
	s->capacities = xmalloc(node->tot_sockets * sizeof(*s->capacities));
	s->counts = xmalloc(node->tot_sockets * sizeof(*s->counts));
}

static void sockets_clear(struct sockets *s)
{
	xfree(s->capacities);
	xfree(s->counts);
}

/* Where as few as possible are to be used: that with the least capacity that suffices, else that
 * with the most. */
static uint32_t choose_socket(const struct sockets *s, const node_record_t *node, uint32_t wanted)
{
	const uint16_t *has = s->capacities;
	uint32_t best = 0, i;

	for (i = 1; i < node->tot_sockets; i++) {
		bool enough = has[i] >= wanted, best_enough = has[best] >= wanted;

		if (enough && (!best_enough || has[i] < has[best]))
			best = i;
		if (!enough && !best_enough && has[i] > has[best])
			best = i;
	}
	return best;
}

/* One socket after the other gets as many as it can have. */
static void fill_sockets(
	struct sockets *s, const node_record_t *node, enum core_order order, uint32_t wanted)
{
	uint32_t i, socket, n;

	for (i = 0; i < node->tot_sockets && wanted > 0; i++) {
		socket = order == CORES_BLOCK ? choose_socket(s, node, wanted) : i;
		n = wanted < s->capacities[socket] ? wanted : s->capacities[socket];
		s->counts[socket] = (uint16_t)n;
		s->capacities[socket] = 0;
		wanted -= n;
	}
}

/* Each socket in turn gets one. */
static void deal_to_sockets(struct sockets *s, const node_record_t *node, uint32_t wanted)
{
	uint32_t before, socket;

	do {
		before = wanted;
		for (socket = 0; socket < node->tot_sockets && wanted > 0; socket++) {
			if (s->counts[socket] == s->capacities[socket])
				continue;
			s->counts[socket]++;
			wanted--;
		}
	} while (wanted > 0 && wanted < before);
}

/* So many cores of this socket. */
static void take_in_socket(const node_record_t *node, uint16_t *free_core, uint32_t socket,
	uint32_t wanted, bitstr_t *cores)
{
	uint32_t core;

	while (wanted-- > 0 && (core = next_core(node, free_core, socket)) != UINT32_MAX)
		take_core(node, free_core, core, cores);
}

/* On as few sockets as possible. */
static void take_blocks(
	const node_record_t *node, uint16_t *free_core, uint32_t wanted, bitstr_t *cores)
{
	struct sockets s;
	uint32_t socket;

	sockets_init(&s, node);
	for (socket = 0; socket < node->tot_sockets; socket++)
		s.capacities[socket] = (uint16_t)count_free(node, free_core, socket);
	fill_sockets(&s, node, CORES_BLOCK, wanted);
	for (socket = 0; socket < node->tot_sockets; socket++)
		take_in_socket(node, free_core, socket, s.counts[socket], cores);
	sockets_clear(&s);
}

/* Each task on one socket, and on none more than may be. */
static void take_by_socket(const job_details_t *d, const node_record_t *node, uint32_t tasks,
	uint16_t *free_core, bitstr_t *cores)
{
	enum core_order order = get_core_order(d);
	struct sockets s;
	uint32_t socket;

	sockets_init(&s, node);
	for (socket = 0; socket < node->tot_sockets; socket++)
		s.capacities[socket] = (uint16_t)tasks_on_socket(d, node, free_core, socket);
	if (order == CORES_LOWEST || order == CORES_BLOCK)
		fill_sockets(&s, node, order, tasks);
	else
		deal_to_sockets(&s, node, tasks);
	for (socket = 0; socket < node->tot_sockets; socket++)
		take_in_socket(
			node, free_core, socket, cores_for(d, node, s.counts[socket]), cores);
	sockets_clear(&s);
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

/* So many cores of a plan: first those that jobs have now. Those that are free now are left to jobs
 * that can start beside it. */
static void take_busy_first(
	const node_record_t *node, uint16_t *free_core, uint32_t wanted, bitstr_t *cores)
{
	const uint16_t *jobs = use_now.core_jobs + node->core_offset;
	uint32_t core;

	for (core = 0; core < node->tot_cores && wanted > 0; core++) {
		if (!free_core[core] || !jobs[core])
			continue;
		take_core(node, free_core, core, cores);
		wanted--;
	}
	take_from_lowest(node, free_core, wanted, cores);
}

static void take_in_order(const job_details_t *d, const node_record_t *node, uint32_t wanted,
	uint16_t *free_core, bitstr_t *cores)
{
	enum core_order order = get_core_order(d);
	uint32_t at_once =
		order == CORES_CYCLIC ? divide_up(d->cpus_per_task, threads_for_tasks(node)) : 1;
	uint32_t socket = 0, n;

	switch (order) {
	case CORES_LOWEST:
		take_from_lowest(node, free_core, wanted, cores);
		break;
	case CORES_BLOCK:
		take_blocks(node, free_core, wanted, cores);
		break;
	case CORES_CYCLIC:
	case CORES_CFULL:
		for (; wanted > 0; wanted -= n) {
			n = at_once < wanted ? at_once : wanted;
			take_for_task(node, free_core, n, &socket, cores);
		}
		break;
	}
}

static void take_cores(struct attempt *a, const node_record_t *node, uint32_t cpus,
	uint16_t *free_core, bitstr_t *cores)
{
	const job_details_t *d = a->job->details;
	uint32_t tasks = cpus / d->cpus_per_task, wanted = cores_for(d, node, tasks);

	(void)find_free_cores(a, node, free_core);
	if (has_socket_tasks(d, node))
		take_by_socket(d, node, tasks, free_core, cores);
	else if (a->plans && !has_param(CR_SOCKET))
		take_busy_first(node, free_core, wanted, cores);
	else
		take_in_order(d, node, wanted, free_core, cores);
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

/* A plan of whole nodes, which needs no more than their names. */
static bool fills_nodes(const struct attempt *a, const struct offer *offers, uint32_t n)
{
	uint64_t taken = 0;
	uint32_t k;

	for (k = 0; k < n && !a->whole; k++) {
		const node_record_t *node = &node_record_table_ptr[offers[k].node];

		if (offers[k].taken < node->tot_cores * threads_for_tasks(node))
			return false;
		taken += offers[k].taken;
	}
	return a->whole || taken <= a->job->details->min_cpus;
}

static void give_cores(struct attempt *a, job_resources_t *r)
{
	const node_record_t *last = &node_record_table_ptr[node_record_count - 1];
	uint16_t *free_core = xmalloc(use_now.most_cores * sizeof(*free_core));
	bitoff_t i = 0;
	uint32_t k = 0;

	r->core_bitmap = bit_alloc((bitoff_t)last->core_offset + last->tot_cores);
	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		const node_record_t *node = &node_record_table_ptr[i];
		bitoff_t first = node->core_offset, end = first + node->tot_cores;

		if (a->whole)
			bit_nset(r->core_bitmap, first, end - 1);
		else
			take_cores(a, node, r->cpus[k], free_core, r->core_bitmap);
		r->cpus[k] = (uint16_t)((uint32_t)bit_set_count_range(r->core_bitmap, first, end) *
			node->threads);
	}
	xfree(free_core);
}

/* Offers are those of the nodes, in their order. */
static void give(
	struct attempt *a, job_record_t *job, const bitstr_t *nodes, const struct offer *offers)
{
	job_resources_t *r;
	bitoff_t i = 0;
	uint32_t k = 0;

	if (a->plans && fills_nodes(a, offers, (uint32_t)bit_set_count(nodes)))
		return;
	r = use_resources_new(nodes);
	lay_out_tasks(job, r, offers);
	give_cores(a, r);
	r->ncpus = 0;
	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++, k++) {
		r->ncpus += r->cpus[k];
		r->memory_allocated[k] = memory_for(a, &node_record_table_ptr[i], r->cpus[k]);
	}
	r->whole_node = a->whole;
	r->node_req = a->whole ? NODE_CR_RESERVED
		: a->most > 1  ? NODE_CR_AVAILABLE
			       : NODE_CR_ONE_ROW;
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

/* The last attempt beside jobs that are left when others have ended. */
struct later {
	const struct attempt *a;
	struct attempt done;
	struct offer *offers; /* NULL: none has succeeded yet */
};

static bool fits_later(bitstr_t *nodes, void *userdata)
{
	struct later *l = userdata;
	struct attempt a = *l->a;
	struct offer *offers = NULL;
	bool found = find_beside(&a, nodes, &offers);

	if (found) {
		xfree(l->offers);
		l->offers = offers;
		l->done = a;
	}
	return found;
}

static struct use_need count_need(const struct attempt *a, const bitstr_t *nodes, struct later *l)
{
	uint32_t by_cpus = (a->job->details->min_cpus + use_now.most_cpus - 1) / use_now.most_cpus;
	bitstr_t *left = bit_copy(nodes);
	struct use_need need = {.nodes = by_cpus > a->min_nodes ? by_cpus : a->min_nodes,
		.fits = fits_later,
		.userdata = l};

	drop_full(a, left);
	need.have = (uint32_t)bit_set_count(left);
	bit_free(left);
	return need;
}

/* ---- as few as possible ------------------------------------------------------------------------
 */

static bool fits_with(const bool *gone, const bitstr_t *nodes, void *userdata)
{
	struct attempt a = *(const struct attempt *)userdata;
	const struct use_suspendable all = a.suspendable;
	bitstr_t *tried = bit_copy(nodes);
	struct offer *offers = NULL;
	bool found;
	size_t i;

	a.suspendable = (struct use_suspendable){
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
	const struct attempt *a, const bitstr_t *nodes, const struct offer *offers, bool *gone)
{
	struct attempt now = *a;
	job_record_t trial = *a->job;
	size_t i;

	now.plans = false; /* the cores that it would get are wanted */
	trial.job_resrcs = NULL;
	give(&now, &trial, nodes, offers);
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
	const struct use_least least = {.jobs = a->suspendable.jobs,
		.count = a->suspendable.count,
		.nodes = given,
		.fits = fits_with,
		.userdata = a};
	bool *gone, found = true;
	size_t i, n = 0;

	if (!has_param(CR_LEAST_PREEMPT))
		return true;
	gone = xmalloc(a->suspendable.count + 1);
	list_stopped(a, nodes, *offers, gone);
	if (use_least(&least, gone)) {
		for (i = 0; i < a->suspendable.count; i++) {
			if (gone[i])
				a->suspendable.jobs[n++] = a->suspendable.jobs[i];
		}
		a->suspendable.count = n;
		xfree(*offers);
		bit_copybits(nodes, given);
		found = find_beside(a, nodes, offers);
	}
	xfree(gone);
	return found;
}

/* ---- in place of others ------------------------------------------------------------------------
 */

/* With preempt/qos the gang scheduler lets a preemptor share cores with those that it preempts: one
 * job more than the partition has otherwise. A job that has its nodes alone shares none. */
static bool can_join_gang(const struct attempt *a)
{
	return slurm_conf.preempt_by_qos && !a->whole;
}

static void set_way(struct attempt *a, bool in_gang, bool suspends)
{
	a->most -= a->in_gang;
	a->in_gang = in_gang;
	a->most += a->in_gang;
	a->suspends = suspends;
}

static bool find_by_way(
	struct attempt *a, bool in_gang, bool suspends, bitstr_t *nodes, struct offer **ret_offers)
{
	bitstr_t *given = bit_copy(nodes);
	bool found;

	set_way(a, in_gang, suspends);
	found = find_beside(a, nodes, ret_offers) && put_least_aside(a, given, nodes, ret_offers);
	if (!found)
		set_way(a, false, false);
	bit_free(given);
	return found;
}

/* In place of all jobs that can be suspended, as Slurm's cons_res has it: none of them is in the
 * way, and those whose cores it gets stand still. Taking turns with jobs of the own partition comes
 * first, then suspending others, then both. */
static bool find_by_suspension(struct attempt *a, bitstr_t *nodes, struct offer **ret_offers)
{
	if (a->suspendable.count == 0)
		return false;
	if (!can_join_gang(a))
		return find_by_way(a, false, true, nodes, ret_offers);
	return find_by_way(a, true, false, nodes, ret_offers) ||
		find_by_way(a, false, true, nodes, ret_offers) ||
		find_by_way(a, true, true, nodes, ret_offers);
}

/* What jobs lose that it suspends when those that are hidden have ended. */
static struct use_loss lose_by_suspension(const bitstr_t *nodes, void *userdata)
{
	const struct later *l = userdata;
	struct attempt a = *l->a;
	const struct use_suspendable all = a.suspendable;
	struct use_loss loss = {.jobs = 0};
	bitstr_t *tried = bit_copy(nodes);
	struct offer *offers = NULL;
	bool *gone = xmalloc(all.count + 1);

	a.suspendable.jobs = xmalloc((all.count + 1) * sizeof(*all.jobs));
	memcpy(a.suspendable.jobs, all.jobs, all.count * sizeof(*all.jobs));
	set_way(&a, false, false);
	if (find_by_suspension(&a, tried, &offers)) {
		list_stopped(&a, tried, offers, gone);
		loss = use_loss_of(a.suspendable.jobs, a.suspendable.count, gone);
	}
	xfree(offers);
	xfree(gone);
	xfree(a.suspendable.jobs);
	bit_free(tried);
	return loss;
}

/* In place of jobs that must end for it; of those that can be suspended as a says. */
static bool find_by_ends(const struct attempt *a, bitstr_t *nodes, List candidates, List *preempted)
{
	struct later later = {.a = a};
	struct use_need need = count_need(a, nodes, &later);
	bool found;

	if (a->suspends)
		need.more = lose_by_suspension;
	found = use_preempt(
		nodes, candidates, PREEMPT_MODE_CANCEL | PREEMPT_MODE_REQUEUE, &need, preempted);
	xfree(later.offers);
	return found;
}

/* It is tried again when they have ended, and suspends the others then. */
static bool find_by_both(const struct attempt *a, bitstr_t *nodes, List candidates, List *preempted)
{
	struct attempt both = *a;

	if (a->suspendable.count == 0)
		return false;
	set_way(&both, can_join_gang(a), true);
	return find_by_ends(&both, nodes, candidates, preempted);
}

/* *ret_offers: NULL where jobs must end for it first. */
static bool find_place(struct attempt *a, bitstr_t *nodes, List candidates, List *preempted,
	struct offer **ret_offers)
{
	return find_beside(a, nodes, ret_offers) || find_by_suspension(a, nodes, ret_offers) ||
		(candidates &&
			(find_by_ends(a, nodes, candidates, preempted) ||
				find_by_both(a, nodes, candidates, preempted)));
}

/* SELECT_MODE_WILL_RUN: in place of others now, or beside them when some have ended. */
static bool find_start(
	struct attempt *a, job_record_t *job, bitstr_t *nodes, List candidates, List *preempted)
{
	time_t not_before = job->start_time > slurm_now() ? job->start_time : slurm_now();
	struct offer *offers = NULL;
	struct later later = {.a = a};
	struct use_need need;
	struct use_row row;
	bool found;

	job->start_time = not_before;
	if (candidates && find_place(a, nodes, candidates, preempted, &offers)) {
		if (offers)
			give(a, job, nodes, offers);
		xfree(offers);
		return true;
	}
	need = count_need(a, nodes, &later);
	found = use_find_start(&row, nodes, &need, not_before, &job->start_time);
	if (found)
		give(&later.done, job, nodes, later.offers);
	use_row_clear(&row);
	xfree(later.offers);
	return found;
}

/* Nodes that have some of these cores. */
static bitstr_t *find_nodes_of(const bitstr_t *cores)
{
	bitstr_t *nodes = bit_alloc(node_record_count);
	bitoff_t core = 0;
	int i = 0, low, high;

	for (; (core = bit_ffs_from_bit(cores, core)) >= 0; core++) {
		/* the last node that begins at or before the core, from the last one found on */
		for (low = i, high = node_record_count; high - low > 1;) {
			int middle = low + (high - low) / 2;

			if (node_record_table_ptr[middle].core_offset <= core)
				low = middle;
			else
				high = middle;
		}
		i = low;
		bit_set(nodes, i);
		core = (bitoff_t)node_record_table_ptr[i].core_offset +
			node_record_table_ptr[i].tot_cores - 1;
	}
	return nodes;
}

int select_p_job_test(job_record_t *job, bitstr_t *bitmap, uint32_t min_nodes, uint32_t max_nodes,
	uint32_t req_nodes, uint32_t mode, List candidates, List *preempted, bitstr_t *exc_cores)
{
	struct attempt a = {.job = job,
		.use = mode == SELECT_MODE_TEST_ONLY ? NULL : &use_now,
		.exc_cores = exc_cores,
		.exc_nodes = exc_cores ? find_nodes_of(exc_cores) : NULL,
		.min_nodes = min_nodes,
		.max_nodes = max_nodes,
		.req_nodes = req_nodes,
		.most = use_max_share(job),
		.whole = job->details->whole_node || job->part_ptr->max_share == 0,
		.limited = job->details->ntasks_per_socket || job->details->ntasks_per_core,
		.spreads = job->bit_flags & SPREAD_JOB,
		.plans = mode != SELECT_MODE_RUN_NOW};
	struct offer *offers = NULL;
	bool found;

	if (preempted)
		*preempted = NULL;
	use_list_suspendable(&a.suspendable, a.use ? candidates : NULL);
	if (mode == SELECT_MODE_WILL_RUN)
		found = find_start(&a, job, bitmap, candidates, preempted);
	else
		found = find_place(&a, bitmap, a.use ? candidates : NULL, preempted, &offers);
	if (found && offers)
		give(&a, job, bitmap, offers);
	xfree(offers);
	xfree(a.suspendable.jobs);
	bit_free(a.exc_nodes);
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
