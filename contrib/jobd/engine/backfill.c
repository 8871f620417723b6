/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backfill: when each job that waits will start, in the order of the queue, and those that can
 * start now without delaying one before them do. The plan is a row of times with the nodes that
 * may be free from each to the next. Planned jobs have whole nodes in it. Of running jobs it has
 * those that leave nothing of a node for others, and when they have left each; all else about them
 * the plugin knows (SELECT_MODE_WILL_RUN). That simulates all running jobs, so it is only asked
 * where there are not enough nodes without any (SELECT_MODE_TEST_ONLY). Times that are less than
 * bf_resolution apart are one, the later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"

#define FOR_EVER_S ((time_t)365 * 24 * 3600)

/* From its begin to the next one's. */
struct slot {
	time_t begin;
	bitstr_t *nodes;
	uint32_t free; /* how many these are */
};

struct plan {
	struct engine *e;
	struct slot *slots; /* the first begins now, the last one has no end */
	size_t count, capacity;
	struct slot *clear; /* nodes on which no job of now runs any more from a time on */
	size_t clear_count;
	time_t resolution_s, window_end;
};

/* ---- the row of times ---------------------------------------------------------------------------
 */

/* The slot in which a time lies. */
static size_t slot_at(const struct plan *p, time_t t)
{
	size_t low = 0, high = p->count, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (p->slots[middle].begin <= t)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Behind slot i, with the same nodes. */
static void slot_insert(struct plan *p, size_t i, time_t begin)
{
	if (p->count == p->capacity) {
		p->capacity *= 2;
		p->slots = reallocarray(p->slots, p->capacity, sizeof(*p->slots));
		if (!p->slots)
			abort(); /* as the bitmaps do */
	}
	memmove(p->slots + i + 2, p->slots + i + 1, (p->count - i - 1) * sizeof(*p->slots));
	p->slots[i + 1] = (struct slot){
		.begin = begin, .nodes = bit_copy(p->slots[i].nodes), .free = p->slots[i].free};
	p->count++;
}

/* The slot that begins at this time from now on, or soon after it. */
static size_t split_at(struct plan *p, time_t t)
{
	size_t i = slot_at(p, t);

	if (p->slots[i].begin >= t)
		return i;
	if (i + 1 == p->count || p->slots[i + 1].begin - t >= p->resolution_s)
		slot_insert(p, i, t);
	return i + 1;
}

/* From the slot in which one time lies to another time. */
static void plan_take(struct plan *p, time_t from, time_t to, const bitstr_t *nodes)
{
	size_t i = slot_at(p, from), end;
	uint32_t count = (uint32_t)bit_set_count(nodes);

	if (from - p->slots[i].begin >= p->resolution_s)
		i = split_at(p, from);
	for (end = split_at(p, to > from ? to : from + 1); i < end; i++) {
		struct slot *slot = &p->slots[i];
		bool has_all = bit_super_set(nodes, slot->nodes);

		/* counting takes longer than all else here */
		bit_and_not(slot->nodes, nodes);
		slot->free = has_all ? slot->free - count : (uint32_t)bit_set_count(slot->nodes);
	}
}

/* Nodes that are free from one time to another, of those that nodes has. */
static void plan_keep(const struct plan *p, time_t from, time_t to, bitstr_t *nodes)
{
	size_t i;

	for (i = slot_at(p, from); i < p->count && p->slots[i].begin < to; i++)
		bit_and(nodes, p->slots[i].nodes);
}

/* ---- nodes that running jobs hold ---------------------------------------------------------------
 */

struct held_node {
	time_t until; /* something of it may be free from then on */
	int index;
};

static int compare_ends(const void *a, const void *b)
{
	const job_record_t *x = &(*(struct job *const *)a)->record,
			   *y = &(*(struct job *const *)b)->record;

	if (x->end_time != y->end_time)
		return x->end_time < y->end_time ? -1 : 1;
	return x->job_id < y->job_id ? -1 : x->job_id > y->job_id;
}

struct node_load {
	uint32_t cpus; /* that jobs have alone */
	time_t first_end, until, last_end;
};

static void add_load(struct node_load *loads, const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;
	time_t end = job->record.end_time;
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		struct node_load *load = &loads[i];

		if (end > load->last_end)
			load->last_end = end;
		if (r->node_req == NODE_CR_RESERVED && end > load->until)
			load->until = end;
		if (r->node_req != NODE_CR_ONE_ROW)
			continue;
		if (load->cpus == 0 || end < load->first_end)
			load->first_end = end;
		load->cpus += r->cpus[k];
	}
}

/* What jobs that have nodes have, sorted by their ends. */
struct running {
	struct job **jobs;
	size_t count;
	struct node_load *loads; /* by node */
};

static void running_clear(struct running *r)
{
	free(r->jobs);
	free(r->loads);
}

static bool running_list(struct running *r, const struct engine *e)
{
	size_t k;

	*r = (struct running){.jobs = calloc(e->jobs_count + 1, sizeof(struct job *)),
		.loads = calloc((size_t)node_record_count + 1, sizeof(*r->loads))};
	if (!r->jobs || !r->loads) {
		running_clear(r);
		return false;
	}
	for (k = 0; k < e->jobs_count; k++) {
		if (!e->jobs[k] || !job_has_nodes(e->jobs[k]))
			continue;
		add_load(r->loads, e->jobs[k]);
		r->jobs[r->count++] = e->jobs[k];
	}
	qsort(r->jobs, r->count, sizeof(struct job *), compare_ends);
	return true;
}

/* Until when jobs leave nothing of a node; of those that give way to others, by suspension, none
 * does. */
static time_t held_until(const struct engine *e, const struct node_load *load, int node)
{
	time_t until = load->until;

	if (e->conf->preempt_mode & PREEMPT_MODE_GANG)
		return 0;
	if (load->cpus >= node_record_table_ptr[node].cpus && load->first_end > until)
		until = load->first_end;
	return until > engine_now(e) ? until : 0;
}

static time_t not_past(const struct engine *e, time_t end)
{
	return end > engine_now(e) ? end : engine_now(e) + 1;
}

/* Until when there is any job on a node. */
static time_t used_until(const struct engine *e, const struct node_load *load, int node)
{
	(void)node;
	if (load->last_end == 0)
		return 0;
	return not_past(e, load->last_end);
}

typedef time_t (*until_fn)(const struct engine *e, const struct node_load *load, int node);

/* In the order of these times, which are ends of jobs: of each, the nodes that have it for theirs.
 */
static size_t list_held(
	const struct engine *e, const struct running *r, until_fn until, struct held_node *held)
{
	bitstr_t *done = bit_alloc(node_record_count);
	size_t n = 0, k;

	for (k = 0; k < r->count; k++) {
		const job_record_t *job = &r->jobs[k]->record;
		bitoff_t i = 0;

		for (; (i = bit_ffs_from_bit(job->job_resrcs->node_bitmap, i)) >= 0; i++) {
			time_t t = until(e, &r->loads[i], (int)i);

			if (t == 0 || t > not_past(e, job->end_time) || bit_test(done, i))
				continue;
			bit_set(done, i);
			held[n++] = (struct held_node){.until = t, .index = (int)i};
		}
	}
	bit_free(done);
	return n;
}

/* A slot for each time at which some of them come free, from the first, which has none of them. */
static struct slot *list_slots(const struct plan *p, const struct held_node *held, size_t n,
	size_t *ret_count, size_t *ret_capacity)
{
	size_t capacity = n + 64, count = 1, i, k;
	struct slot *slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		abort(); /* as the bitmaps do */
	slots[0] = (struct slot){.begin = engine_now(p->e), .nodes = bit_copy(p->e->up_nodes)};
	for (i = 0; i < n; i++)
		bit_clear(slots[0].nodes, held[i].index);
	slots[0].free = (uint32_t)bit_set_count(slots[0].nodes);
	for (i = 0; i < n; count++) {
		struct slot *slot = &slots[count];

		for (k = i; k < n && held[k].until - held[i].until < p->resolution_s; k++)
			;
		*slot = (struct slot){.begin = held[k - 1].until,
			.nodes = bit_copy(slots[count - 1].nodes),
			.free = slots[count - 1].free};
		for (; i < k; i++) {
			if (!bit_test(p->e->up_nodes, held[i].index))
				continue;
			bit_set(slot->nodes, held[i].index);
			slot->free++;
		}
	}
	*ret_count = count;
	*ret_capacity = capacity;
	return slots;
}

static void free_slots(struct slot *slots, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		bit_free(slots[i].nodes);
	free(slots);
}

/* ---- its begin and end --------------------------------------------------------------------------
 */

static bool plan_begin(struct plan *p, struct engine *e, time_t window_s)
{
	const struct conf_scheduler *s = &e->conf->scheduler;
	struct held_node *held = calloc((size_t)node_record_count + 1, sizeof(*held));
	struct running running;
	time_t now = engine_now(e), t = now;
	size_t capacity, n;

	*p = (struct plan){.e = e,
		.resolution_s = s->bf_resolution_s ? s->bf_resolution_s : 1,
		.window_end = now + window_s};
	if (!held || !running_list(&running, e)) {
		free(held);
		return false;
	}
	n = list_held(e, &running, held_until, held);
	p->slots = list_slots(p, held, n, &p->count, &p->capacity);
	n = list_held(e, &running, used_until, held);
	p->clear = list_slots(p, held, n, &p->clear_count, &capacity);
	free(held);
	running_clear(&running);
	while ((t = reservations_next_change(e, t)) && t < p->window_end)
		(void)split_at(p, t);
	return true;
}

static void plan_end(struct plan *p)
{
	free_slots(p->slots, p->count);
	free_slots(p->clear, p->clear_count);
}

/* ---- one job ------------------------------------------------------------------------------------
 */

static time_t duration_of(const struct job *job)
{
	uint32_t limit = job->record.time_limit;

	return limit == INFINITE || limit == NO_VAL ? FOR_EVER_S : (time_t)limit * 60;
}

/* Fewer nodes than these are never enough for the job. */
static uint32_t least_nodes(const struct plan *p, struct job *job, bitstr_t *possible)
{
	uint32_t n = job_make_request(p->e, job, possible, NULL).min_nodes, by_cpus;
	uint32_t most = p->e->most_cpus;

	by_cpus = (job->details.min_cpus + most - 1) / most;
	return by_cpus > n ? by_cpus : n;
}

/* The plugin's answer for a start at t, or as soon as possible after it, on these nodes, which are
 * free for so long from t on. False: there is none. */
static bool test_at(struct plan *p, struct job *job, time_t t, bitstr_t *nodes, time_t *ret_start)
{
	struct engine *e = p->e;
	time_t before = job->record.start_time;
	bitstr_t *exc_cores = NULL;
	struct select_request q;
	int r;

	(void)reservations_apply(e, job, t, nodes, &exc_cores);
	q = job_make_request(e, job, nodes, exc_cores);
	r = job_test(e, &q, SELECT_MODE_WILL_RUN, NULL);
	*ret_start = job->record.start_time;
	job->record.start_time = before;
	bit_free(exc_cores);
	return r == 0;
}

static bool is_free(const struct plan *p, const struct job *job, const bitstr_t *nodes, time_t t)
{
	bitstr_t *still = bit_copy(nodes), *exc_cores = NULL;
	bool whole;

	plan_keep(p, t, t + duration_of(job), still);
	(void)reservations_apply(p->e, job, t, still, &exc_cores);
	whole = bit_equal(still, nodes);
	bit_free(still);
	bit_free(exc_cores);
	return whole;
}

struct search {
	struct plan *p;
	struct job *job;
	const bitstr_t *possible;
	bitstr_t *nodes; /* out */
	uint32_t least;
	time_t duration;
	bool no_start; /* it is only looked for */
	bool started;
};

static bool is_enough(const struct search *s)
{
	return (uint32_t)bit_set_count(s->nodes) >= s->least;
}

/* The first slot from i on in which there are enough nodes as long as the job needs, each slot seen
 * by itself. */
static size_t skip_full(const struct search *s, size_t i)
{
	const struct plan *p = s->p;
	size_t k = i;

	while (i < p->count && k < p->count &&
		p->slots[k].begin < p->slots[i].begin + s->duration) {
		if (p->slots[k].free < s->least)
			i = k + 1;
		k++;
	}
	return i;
}

/* Fills nodes with those that are free from slot i on as long as the job needs. Returns i; else the
 * slot from which to search on: where too few are the same from one slot to another, no start
 * before both is possible. */
static size_t intersect(const struct search *s, size_t i)
{
	const struct plan *p = s->p;
	size_t k;

	bit_copybits(s->nodes, s->possible);
	for (k = i; k < p->count && p->slots[k].begin < p->slots[i].begin + s->duration; k++) {
		bit_and(s->nodes, p->slots[k].nodes);
		if (!is_enough(s))
			break;
	}
	if (k == p->count || p->slots[k].begin >= p->slots[i].begin + s->duration)
		return i;
	bit_copybits(s->nodes, s->possible);
	for (k++; k > i + 1 && is_enough(s); k--)
		bit_and(s->nodes, p->slots[k - 1].nodes);
	return is_enough(s) ? i + 1 : k + 1;
}

/* On nodes of slot 0, as they are free now. */
static bool start_now(const struct search *s)
{
	struct engine *e = s->p->e;
	bitstr_t *nodes = bit_copy(s->nodes), *exc_cores = NULL;
	bool started;

	bit_and_not(nodes, e->completing_nodes);
	(void)reservations_apply(e, s->job, engine_now(e), nodes, &exc_cores);
	started = job_try(e, s->job, nodes, exc_cores, NULL) == 0;
	bit_free(exc_cores);
	bit_free(nodes);
	e->stats.backfilled += started;
	return started;
}

/* Among the rows, the first with enough of these nodes: those that come free first. SIZE_MAX: none
 * until t has. */
static size_t find_clear(const struct search *s, time_t t, bitstr_t *nodes)
{
	const struct plan *p = s->p;
	size_t low = 0, high = 0, middle;

	while (high < p->clear_count && p->clear[high].begin <= t)
		high++;
	if (high == 0 || (uint32_t)bit_overlap(p->clear[high - 1].nodes, s->nodes) < s->least)
		return SIZE_MAX;
	for (high--; low < high;) {
		middle = low + (high - low) / 2;
		if ((uint32_t)bit_overlap(p->clear[middle].nodes, s->nodes) >= s->least)
			high = middle;
		else
			low = middle + 1;
	}
	bit_copybits(nodes, s->nodes);
	bit_and(nodes, p->clear[low].nodes);
	return low;
}

/* On nodes without any job at t: what the plugin would take of an empty cluster. True: s->nodes are
 * those. */
static bool test_clear(const struct search *s, time_t t)
{
	struct engine *e = s->p->e;
	bitstr_t *nodes = bit_copy(s->nodes), *exc_cores = NULL;
	struct select_request q;
	bool found = find_clear(s, t, nodes) != SIZE_MAX;

	if (found) {
		(void)reservations_apply(e, s->job, t, nodes, &exc_cores);
		q = job_make_request(e, s->job, nodes, exc_cores);
		found = !exc_cores && job_test(e, &q, SELECT_MODE_TEST_ONLY, NULL) == 0 &&
			bit_set_count(nodes) <= (int32_t)q.max_nodes;
	}
	if (found)
		bit_copybits(s->nodes, nodes);
	bit_free(exc_cores);
	bit_free(nodes);
	return found;
}

/* What the plugin says to the nodes that are free from slot i on. *ret_i: the slot to go on with.
 */
static bool try_slot(struct search *s, size_t i, time_t *ret_start, size_t *ret_i)
{
	struct plan *p = s->p;
	time_t t = p->slots[i].begin, start = 0;

	*ret_i = i + 1;
	*ret_start = t;
	s->started = i == 0 && !s->no_start && start_now(s);
	if (s->started || test_clear(s, t))
		return true;
	if (!test_at(p, s->job, t, s->nodes, &start))
		return false;
	if (start <= t)
		return true;
	/* running jobs are in the way until then, others may be after it */
	*ret_start = start;
	if (start < p->window_end && is_free(p, s->job, s->nodes, start))
		return true;
	if (slot_at(p, start) > *ret_i)
		*ret_i = slot_at(p, start);
	return false;
}

/* From slot i on. */
static bool search_slots(struct search *s, size_t i, time_t *ret_start)
{
	const struct plan *p = s->p;
	bool found = false;
	size_t next;

	while (!found) {
		i = skip_full(s, i);
		if (i >= p->count || p->slots[i].begin >= p->window_end)
			break;
		next = intersect(s, i);
		if (next == i)
			found = try_slot(s, i, ret_start, &next);
		i = next;
	}
	return found;
}

/* The first start at which the nodes that the plugin takes are free as long as the job needs them.
 * Where that is now it starts. False: not in the window of backfill. */
static bool find_start(
	struct plan *p, struct job *job, bitstr_t *nodes, time_t *ret_start, bool *ret_started)
{
	bitstr_t *possible = job_possible_nodes(p->e, job);
	struct search s = {.p = p,
		.job = job,
		.possible = possible,
		.nodes = nodes,
		.least = least_nodes(p, job, possible),
		.duration = duration_of(job)};
	bool found = search_slots(&s, 0, ret_start);

	bit_free(possible);
	*ret_started = s.started;
	return found;
}

/* What a job that has just started leaves nothing of. Of other nodes the plugin knows: it is asked
 * again where they are not clear of jobs. */
static void take_started(struct plan *p, const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;
	time_t now = engine_now(p->e), end = now + duration_of(job);
	bitstr_t *nodes;
	bitoff_t node = 0;
	uint32_t k = 0;
	size_t i;

	if (!job_has_nodes(job))
		return; /* its begin has failed */
	nodes = bit_copy(r->node_bitmap);
	for (i = 0; i < p->clear_count && p->clear[i].begin < end; i++)
		bit_and_not(p->clear[i].nodes, nodes);
	for (; r->node_req != NODE_CR_RESERVED && (node = bit_ffs_from_bit(nodes, node)) >= 0;
		node++, k++) {
		if (r->node_req != NODE_CR_ONE_ROW || r->cpus[k] < node_record_table_ptr[node].cpus)
			bit_clear(nodes, node);
	}
	plan_take(p, now, end, nodes);
	bit_free(nodes);
}

/* ---- heterogeneous jobs -------------------------------------------------------------------------
 */

struct het_search {
	struct plan *p;
	time_t from, latest; /* the latest start of a component that begins from then on */
};

static int plan_component(struct job *one, bitstr_t *nodes, bitstr_t *exc_cores, void *userdata)
{
	struct het_search *h = userdata;
	bitstr_t *possible = bit_copy(nodes);
	struct search s = {.p = h->p,
		.job = one,
		.possible = possible,
		.nodes = nodes,
		.least = least_nodes(h->p, one, possible),
		.duration = duration_of(one),
		.no_start = true};
	time_t start = 0;
	bool found = search_slots(&s, split_at(h->p, h->from), &start);

	(void)exc_cores;
	bit_free(possible);
	if (found && start > h->latest)
		h->latest = start;
	return found ? 0 : -EBUSY;
}

/* The first time at which all components have nodes: each later start of one is tried for all. */
static bool find_het_start(
	struct plan *p, const struct job *job, struct het_nodes *n, time_t *ret_start)
{
	struct het_search h = {.p = p, .latest = engine_now(p->e)};
	int r;

	do {
		h.from = h.latest;
		het_nodes_make(n, p->e, job, NULL);
		r = het_choose(n, job, plan_component, &h);
		if (r < 0 || h.latest != h.from)
			het_nodes_clear(n);
	} while (r == 0 && h.latest != h.from);
	*ret_start = h.latest;
	return r == 0;
}

static bool start_het_now(const struct plan *p, struct job *job)
{
	struct engine *e = p->e;
	time_t now = engine_now(e);
	struct het_nodes n;
	bool started;
	uint32_t i;

	het_nodes_make(&n, e, job, NULL);
	for (i = 0; i < n.count; i++) {
		const struct job *one = engine_get_component(job, i);

		plan_keep(p, now, now + duration_of(one), n.nodes[i]);
		bit_and_not(n.nodes[i], e->completing_nodes);
		(void)reservations_apply(e, one, now, n.nodes[i], &n.exc_cores[i]);
	}
	started = het_try(e, job, &n, NULL) == 0;
	het_nodes_clear(&n);
	e->stats.backfilled += started;
	return started;
}

static void forget_plan(struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		one->planned_start = 0;
		FREE_NULL_BITMAP(one->planned_nodes);
	}
}

static void plan_het(struct plan *p, struct job *job)
{
	struct het_nodes n;
	time_t start = 0;
	uint32_t i;

	if (start_het_now(p, job)) {
		for (i = 0; i < engine_count_components(job); i++)
			take_started(p, engine_get_component(job, i));
		return;
	}
	if (!find_het_start(p, job, &n, &start))
		return;
	for (i = 0; i < n.count; i++) {
		struct job *one = engine_get_component(job, i);

		one->planned_start = start;
		one->planned_nodes = bit_copy(n.nodes[i]);
		plan_take(p, start, start + duration_of(one), n.nodes[i]);
	}
	het_nodes_clear(&n);
}

static void plan_job(struct plan *p, struct job *job)
{
	bitstr_t *nodes;
	bool started = false;
	time_t start = 0;

	forget_plan(job);
	if (job->het) {
		plan_het(p, job);
		return;
	}
	nodes = bit_alloc(node_record_count);
	if (find_start(p, job, nodes, &start, &started) && !started) {
		job->planned_start = start;
		job->planned_nodes = bit_copy(nodes);
		plan_take(p, start, start + duration_of(job), nodes);
	}
	if (started)
		take_started(p, job);
	bit_free(nodes);
}

/* ---- all of them --------------------------------------------------------------------------------
 */

struct user_count {
	uid_t uid;
	uint32_t count;
};

/* bf_max_job_user: true, this user's have been tested as often as that. */
static bool is_over_limit(struct user_count **counts, size_t *n, uid_t uid, uint32_t most)
{
	struct user_count *grown;
	size_t i;

	if (most == 0)
		return false;
	for (i = 0; i < *n; i++) {
		if ((*counts)[i].uid == uid)
			return (*counts)[i].count++ >= most;
	}
	grown = reallocarray(*counts, *n + 1, sizeof(*grown));
	if (!grown)
		return true;
	*counts = grown;
	grown[(*n)++] = (struct user_count){.uid = uid, .count = 1};
	return false;
}

/* The job that comes next in the order of all queues: by tier, priority and id. */
static struct job *next_job(const struct engine *e, size_t *at, size_t *ret_part)
{
	struct job *best = NULL;
	size_t i;

	for (i = 0; i < e->parts_count; i++) {
		size_t part = e->parts_by_tier[i];
		const struct queue *q = &e->queues[part];
		struct job *job = at[part] < q->count ? q->jobs[at[part]] : NULL;

		if (!job || !e->conf->parts[part].is_up)
			continue;
		if (best &&
			best->record.part_ptr->priority_tier > job->record.part_ptr->priority_tier)
			break;
		if (!best || job->record.priority > best->record.priority ||
			(job->record.priority == best->record.priority &&
				job->record.job_id < best->record.job_id)) {
			best = job;
			*ret_part = part;
		}
	}
	return best;
}

/* The jobs of a cycle, in their order. */
struct cycle {
	struct job **jobs;
	uint32_t *least; /* nodes that the job or any behind it needs */
	size_t count;
};

static size_t count_queued(const struct engine *e)
{
	size_t n = 0, i;

	for (i = 0; i < e->parts_count; i++)
		n += e->queues[i].count;
	return n;
}

static bool cycle_list(struct cycle *c, const struct engine *e)
{
	const struct conf_scheduler *s = &e->conf->scheduler;
	size_t *at = calloc(e->parts_count + 1, sizeof(*at)), users = 0, part = 0;
	size_t most = count_queued(e);
	struct user_count *counts = NULL;
	struct job *job;

	most = most < s->bf_max_job_test ? most : s->bf_max_job_test;
	*c = (struct cycle){.jobs = calloc(most + 1, sizeof(struct job *)),
		.least = calloc(most + 1, sizeof(*c->least))};
	while (at && c->jobs && c->count < most && (job = next_job(e, at, &part))) {
		at[part]++;
		if (!is_over_limit(&counts, &users, job->record.user_id, s->bf_max_job_user))
			c->jobs[c->count++] = job;
	}
	free(at);
	free(counts);
	return at && c->jobs && c->least;
}

static void cycle_clear(struct cycle *c)
{
	free(c->jobs);
	free(c->least);
}

static void cycle_fill_least(struct cycle *c, const struct plan *p)
{
	size_t i;

	for (i = c->count; i > 0; i--) {
		uint32_t n = least_nodes(p, c->jobs[i - 1], NULL);

		c->least[i - 1] = i < c->count && c->least[i] < n ? c->least[i] : n;
	}
}

void backfill_run(struct engine *e)
{
	struct cycle cycle;
	struct plan plan;
	size_t i;

	if (!cycle_list(&cycle, e) ||
		!plan_begin(&plan, e, (time_t)e->conf->scheduler.bf_window_min * 60)) {
		cycle_clear(&cycle);
		return; /* the next cycle comes */
	}
	cycle_fill_least(&cycle, &plan);
	for (i = 0; i < cycle.count; i++) {
		/* none behind it finds enough nodes now */
		if (e->options.no_plans && plan.slots[0].free < cycle.least[i])
			break;
		plan_job(&plan, cycle.jobs[i]);
	}
	e->stats.backfill_cycles++;
	e->stats.last_backfill_jobs = i;
	plan_end(&plan);
	cycle_clear(&cycle);
}

/* ---- one that is in no queue --------------------------------------------------------------------
 */

static bool is_before(const struct job *a, const struct job *b)
{
	const uint16_t tier = a->record.part_ptr->priority_tier,
		       other = b->record.part_ptr->priority_tier;

	return tier != other ? tier > other : a->record.priority >= b->record.priority;
}

static void take_plan(struct plan *p, const struct job *job)
{
	time_t start = job->planned_start, now = engine_now(p->e);

	if (!start)
		return;
	if (start < now)
		start = now;
	plan_take(p, start, start + duration_of(job), job->planned_nodes);
}

/* What the last cycle has planned for those that come before the job. */
static void take_planned(struct plan *p, const struct job *job)
{
	const struct engine *e = p->e;
	size_t i, k;
	uint32_t n;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->queues[i].count; k++) {
			const struct job *other = e->queues[i].jobs[k];

			for (n = 0; is_before(other, job) && n < engine_count_components(other);
				n++)
				take_plan(p, engine_get_component(other, n));
		}
	}
}

int backfill_find_start(struct engine *e, struct job *job, bitstr_t *nodes, time_t *ret_start)
{
	bitstr_t *possible;
	struct plan plan;
	struct search s;
	size_t first = 0;
	bool found;

	if (!plan_begin(&plan, e, FOR_EVER_S))
		return -ENOMEM;
	take_planned(&plan, job);
	if (job->begin_time > engine_now(e))
		first = split_at(&plan, job->begin_time);
	possible = job_possible_nodes(e, job);
	s = (struct search){.p = &plan,
		.job = job,
		.possible = possible,
		.nodes = nodes,
		.least = least_nodes(&plan, job, possible),
		.duration = duration_of(job),
		.no_start = true};
	found = search_slots(&s, first, ret_start);
	bit_free(possible);
	plan_end(&plan);
	return found ? 0 : -EBUSY;
}
