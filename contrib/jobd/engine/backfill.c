/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backfill: finds the start of each pending job, in the order of the queue, and starts those that
 * can start now without delaying earlier ones. plan.h has the resources of all jobs over time. The
 * select plugin chooses among the free ones: on nodes without running jobs as on an empty cluster
 * (SELECT_MODE_TEST_ONLY), else for a time (SELECT_MODE_WILL_RUN), which takes it longer. Only the
 * parts of nodes that it has chosen are booked, if it reports them.
 *
 * The plan of a simulation is not shown. There a cycle ends as soon as no job is left that could
 * start at once (no_plans), as plans of later jobs have no effect.
 */
#include <errno.h>
#include <stdlib.h>

#include "contrib/jobd/engine/plan.h"
#include "contrib/jobd/select/use.h"

/* NULL: no memory. */
static struct plan *get_plan(struct engine *e)
{
	if (!e->plan)
		e->plan = plan_new(e);
	return e->plan;
}

void backfill_forget(struct job *job)
{
	job->planned_start = 0;
	FREE_NULL_BITMAP(job->planned_nodes);
	use_resources_free(job->planned_resrcs);
	job->planned_resrcs = NULL;
}

/* ---- one job ------------------------------------------------------------------------------------
 */

struct search {
	struct plan *p;
	struct engine *e;
	struct job *job;
	struct plan_need need;
	const bitstr_t *possible;
	bitstr_t *own_possible; /* NULL: all of the partition */
	struct plan_space space;
	bool no_start; /* only the time is searched */

	bitstr_t *nodes; /* what was found */
	job_resources_t *resources;
	time_t start;
	bool started;
	bool preempted; /* others, which changes what is free when: nothing was found */
};

/* Whether it may have jobs preempted now. */
static bool may_preempt(const struct engine *e, const struct job *job)
{
	List candidates = preempt_candidates(e, job);
	bool any = candidates != NULL;

	FREE_NULL_LIST(candidates);
	return any;
}

/* possible: NULL, all that it may have. */
static void search_begin(struct search *s, struct plan *p, struct engine *e, struct job *job,
	const bitstr_t *possible)
{
	const bitstr_t *all = job->record.part_ptr->node_bitmap;

	*s = (struct search){.p = p, .e = e, .job = job, .need = plan_make_need(e, job)};
	if (!possible &&
		(job->details.exc_node_bitmap || job->failed_nodes || job->details.features))
		possible = s->own_possible = job_possible_nodes(e, job);
	s->possible = possible ? possible : all;
	s->space.nodes = bit_alloc(node_record_count);
	s->nodes = bit_alloc(node_record_count);
	/* it only matters if the counts of nodes do not suffice */
	s->need.preempts = e->preempt && plan_has_shares(p) && may_preempt(e, job);
}

static void search_end(struct search *s)
{
	bit_free(s->own_possible);
	bit_free(s->space.nodes);
	bit_free(s->nodes);
	use_resources_free(s->resources);
}

/* The plugin's answer for a start at t, or as soon as possible after it, on some of s->nodes: these
 * become what it takes. False: there is none. */
static bool test(struct search *s, uint32_t mode, time_t t, time_t *ret_start)
{
	job_record_t *record = &s->job->record;
	time_t before = record->start_time;
	bitstr_t *exc_cores = NULL;
	struct select_request q;
	bool found;

	use_resources_free(s->resources);
	s->resources = NULL;
	(void)reservations_apply(s->e, s->job, t, s->nodes, &exc_cores);
	if (exc_cores && s->space.exc_cores)
		bit_or(exc_cores, s->space.exc_cores);
	q = job_make_request(
		s->e, s->job, s->nodes, exc_cores ? exc_cores : (bitstr_t *)s->space.exc_cores);
	q.not_before = t;
	q.resources = &s->resources;
	found = job_test(s->e, &q, mode, NULL) == 0 &&
		(uint32_t)bit_set_count(s->nodes) <= q.max_nodes;
	*ret_start = mode == SELECT_MODE_WILL_RUN ? record->start_time : t;
	record->start_time = before;
	bit_free(exc_cores);
	return found;
}

/* Whether the resources that the plugin has chosen are not booked, from then on for the job's
 * duration. */
static bool is_free(const struct search *s, time_t t)
{
	uint32_t node;

	return plan_is_free(s->p, s->nodes, s->resources, t, t + s->need.duration, &node);
}

/* On nodes of slot 0, as they are free now. What the plugin knows nothing of is booked memory. */
static bool start_now(struct search *s)
{
	struct engine *e = s->e;
	job_record_t *record = &s->job->record;
	time_t now = engine_now(e);
	bitstr_t *exc_cores = NULL;
	uint32_t node;
	int r;

	do {
		bit_free(exc_cores);
		exc_cores = s->space.exc_cores ? bit_copy(s->space.exc_cores) : NULL;
		bit_copybits(s->nodes, s->space.nodes);
		bit_and_not(s->nodes, e->completing_nodes);
		(void)reservations_apply(e, s->job, now, s->nodes, &exc_cores);
		r = job_choose(e, s->job, s->nodes, exc_cores, NULL);
		if (r < 0 ||
			plan_is_free(s->p, s->nodes, record->job_resrcs, now,
				now + s->need.duration, &node))
			break;
		use_resources_free(record->job_resrcs);
		record->job_resrcs = NULL;
		bit_clear(s->space.nodes, node);
	} while (true);
	bit_free(exc_cores);
	s->preempted = r == -EINPROGRESS;
	if (r < 0)
		return false;
	job_start(e, s->job);
	e->stats.backfilled++;
	return true;
}

/* It leaves nothing of its nodes to others. */
static bool fills_nodes(const struct search *s)
{
	return s->job->details.whole_node || s->job->record.part_ptr->max_share == 0 ||
		s->need.cpus >= (uint64_t)s->need.nodes * s->e->most_cpus;
}

/* On nodes without any job of now. A job that needs parts of nodes goes beside others if it can. */
static bool test_clear(struct search *s, time_t t)
{
	time_t start;

	if (!fills_nodes(s) && !s->space.all_clear)
		return false;
	return plan_find_clear(s->p, &s->need, s->space.nodes, s->nodes) &&
		test(s, SELECT_MODE_TEST_ONLY, t, &start) && is_free(s, t);
}

/* Whether the job starts at the begin of slot i, on some of what is free from then on. */
static bool try_slot(struct search *s, size_t i)
{
	time_t t = plan_get_slot(s->p, i)->begin, start;

	s->started = i == 0 && !s->no_start && start_now(s);
	s->start = t;
	if (s->preempted)
		return false;
	if (s->started || test_clear(s, t))
		return true;
	bit_copybits(s->nodes, s->space.nodes);
	return test(s, SELECT_MODE_WILL_RUN, t, &start) && start <= t && is_free(s, t);
}

/* The first start from slot i on at which what the plugin takes is free as long as the job needs
 * it. Where that is now it starts. False: not in the window of backfill. */
static bool search_slots(struct search *s, size_t i)
{
	struct plan *p = s->p;

	while ((i = plan_skip(p, &s->need, i)) < plan_count(p) &&
		plan_is_in_window(p, plan_get_slot(p, i)->begin)) {
		if (!plan_find_space(p, &s->need, i, s->possible, &s->space))
			i = s->space.next;
		else if (try_slot(s, i))
			return true;
		else if (s->preempted)
			return false;
		else
			i++;
	}
	return false;
}

/* Books the start that was found, in the plan. */
static void book(struct search *s, struct job *job, time_t start)
{
	job->planned_start = start;
	job->planned_nodes = bit_copy(s->nodes);
	job->planned_resrcs = s->resources;
	s->resources = NULL;
	plan_book(s->p, job->planned_nodes, job->planned_resrcs, start, start + job_duration(job));
}

/* ---- heterogeneous jobs -------------------------------------------------------------------------
 */

struct het_search {
	struct plan *p;
	struct engine *e;
	time_t from, latest; /* the latest start of a component that begins from then on */
	job_resources_t *resources[ENGINE_COMPONENTS_MAX]; /* by their offsets */
};

static void het_search_forget(struct het_search *h)
{
	uint32_t i;

	for (i = 0; i < ENGINE_COMPONENTS_MAX; i++) {
		use_resources_free(h->resources[i]);
		h->resources[i] = NULL;
	}
}

static int plan_component(struct job *one, bitstr_t *nodes, bitstr_t *exc_cores, void *userdata)
{
	struct het_search *h = userdata;
	struct search s;
	bool found;

	(void)exc_cores;
	search_begin(&s, h->p, h->e, one, nodes);
	s.no_start = true;
	found = search_slots(&s, plan_split(h->p, h->from));
	if (found) {
		bit_copybits(nodes, s.nodes);
		h->resources[one->record.het_job_offset] = s.resources;
		s.resources = NULL;
		if (s.start > h->latest)
			h->latest = s.start;
	}
	search_end(&s);
	return found ? 0 : -EBUSY;
}

/* The first time at which all components have nodes: each later start of one is tried for all. */
static bool find_het_start(struct het_search *h, const struct job *job, struct het_nodes *n)
{
	int r;

	do {
		h->from = h->latest;
		het_search_forget(h);
		het_nodes_make(n, h->e, job, NULL);
		r = het_choose(n, job, plan_component, h);
		if (r < 0 || h->latest != h->from)
			het_nodes_clear(n);
	} while (r == 0 && h->latest != h->from);
	return r == 0;
}

/* Those with cores that it may not have: whether their memory suffices is known too late here. */
static void leave_shared(bitstr_t *nodes, const bitstr_t *exc_cores)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		const node_record_t *node = &node_record_table_ptr[i];
		bitoff_t first = node->core_offset;

		if (bit_set_count_range(exc_cores, first, first + node->tot_cores) > 0)
			bit_clear(nodes, i);
	}
}

/* Nodes and cores for one of them that are free now, and remain so. */
static void find_het_nodes(
	struct plan *p, struct engine *e, struct job *one, bitstr_t *nodes, bitstr_t **exc_cores)
{
	struct search s;

	search_begin(&s, p, e, one, nodes);
	(void)plan_find_space(p, &s.need, 0, s.possible, &s.space);
	bit_copybits(nodes, s.space.nodes);
	bit_and_not(nodes, e->completing_nodes);
	if (s.space.exc_cores) {
		*exc_cores = bit_copy(s.space.exc_cores);
		if (s.need.memory)
			leave_shared(nodes, *exc_cores);
	}
	(void)reservations_apply(e, one, engine_now(e), nodes, exc_cores);
	search_end(&s);
}

/* 0: it has started. -EINPROGRESS: others were preempted. */
static int start_het_now(struct plan *p, struct engine *e, struct job *job)
{
	struct het_nodes n;
	uint32_t i;
	int r;

	het_nodes_make(&n, e, job, NULL);
	for (i = 0; i < n.count; i++)
		find_het_nodes(p, e, engine_get_component(job, i), n.nodes[i], &n.exc_cores[i]);
	r = het_try(e, job, &n, NULL);
	het_nodes_clear(&n);
	e->stats.backfilled += r == 0;
	return r;
}

static bool plan_het(struct plan *p, struct engine *e, struct job *job)
{
	struct het_search h = {.p = p, .e = e, .latest = engine_now(e)};
	int r = start_het_now(p, e, job);
	struct het_nodes n;
	uint32_t i;

	for (i = 0; r == 0 && i < engine_count_components(job); i++)
		plan_start(p, engine_get_component(job, i));
	if (r == 0 || r == -EINPROGRESS)
		return r == 0;
	if (find_het_start(&h, job, &n)) {
		for (i = 0; i < n.count; i++) {
			struct search s = {
				.p = p, .nodes = n.nodes[i], .resources = h.resources[i]};

			h.resources[i] = NULL;
			book(&s, engine_get_component(job, i), h.latest);
		}
		het_nodes_clear(&n);
	}
	het_search_forget(&h);
	return true;
}

/* False: others were preempted, so that the plan is to be begun anew, and the job planned again. */
static bool plan_job(struct plan *p, struct engine *e, struct job *job)
{
	struct search s;
	time_t earliest;
	bool preempted;
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++)
		backfill_forget(engine_get_component(job, i));
	if (job->het)
		return plan_het(p, e, job);
	search_begin(&s, p, e, job, NULL);
	earliest = plan_get_earliest(p, job, &s.need);
	if (search_slots(&s, earliest ? plan_find_slot(p, earliest) : 0) && !s.started)
		book(&s, job, s.start);
	else if (s.started)
		plan_start(p, job);
	if (job->planned_start)
		plan_note_earliest(p, job, &s.need, job->planned_start);
	preempted = s.preempted;
	search_end(&s);
	return !preempted;
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
	struct plan_need *needs;
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
		.needs = calloc(most + 1, sizeof(*c->needs))};
	while (at && c->jobs && c->needs && c->count < most && (job = next_job(e, at, &part))) {
		at[part]++;
		if (is_over_limit(&counts, &users, job->record.user_id, s->bf_max_job_user))
			continue;
		c->needs[c->count] = plan_make_need(e, job);
		c->jobs[c->count++] = job;
	}
	free(at);
	free(counts);
	return at && c->jobs && c->needs;
}

static void cycle_clear(struct cycle *c)
{
	free(c->jobs);
	free(c->needs);
}

static bool may_start(const struct cycle *c, const struct engine *e, struct plan *p, size_t i)
{
	const bitstr_t *nodes = c->jobs[i]->record.part_ptr->node_bitmap;
	struct plan_need need = c->needs[i];

	if (plan_may_start(p, &need, nodes))
		return true;
	if (!e->preempt || !plan_has_shares(p))
		return false;
	need.preempts = true;
	return plan_may_start(p, &need, nodes) && may_preempt(e, c->jobs[i]);
}

/* How many jobs of it must be planned: up to the last one that could start now. */
static size_t find_last(
	const struct cycle *c, const struct engine *e, struct plan *p, size_t from, size_t last)
{
	while (last > from && !may_start(c, e, p, last - 1))
		last--;
	return last;
}

/* The planned resources of a job, or of its components. */
static void book_planned(struct plan *p, const struct engine *e, const struct job *job)
{
	time_t now = engine_now(e), start;
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (!one->planned_start)
			continue;
		start = one->planned_start > now ? one->planned_start : now;
		plan_book(p, one->planned_nodes, one->planned_resrcs, start,
			start + job_duration(one));
	}
}

/* With what the first n jobs were planned to have. */
static void begin_plan(struct plan *p, const struct engine *e, const struct cycle *c, size_t n)
{
	size_t i;

	plan_begin(p, (time_t)e->conf->scheduler.bf_window_min * 60);
	for (i = 0; i < n; i++)
		book_planned(p, e, c->jobs[i]);
}

void backfill_run(struct engine *e)
{
	struct plan *p = get_plan(e);
	bool stops = e->options.no_plans && !e->options.plain;
	uint64_t started = e->stats.started;
	struct cycle cycle;
	size_t i = 0, last;

	if (!cycle_list(&cycle, e) || !p) {
		cycle_clear(&cycle);
		return; /* the next cycle comes */
	}
	begin_plan(p, e, &cycle, 0);
	last = stops ? find_last(&cycle, e, p, 0, cycle.count) : cycle.count;
	for (; i < last; i++) {
		while (!plan_job(p, e, cycle.jobs[i]))
			begin_plan(p, e, &cycle, i);
		/* one behind it may preempt a job that has started now */
		if (e->stats.started != started)
			last = cycle.count;
		started = e->stats.started;
		if (stops)
			last = find_last(&cycle, e, p, i + 1, last);
	}
	e->stats.backfill_cycles++;
	e->stats.last_backfill_jobs = i;
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

/* Books the last cycle's plans of the jobs before this one. */
static void take_planned(struct plan *p, const struct engine *e, const struct job *job)
{
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->queues[i].count; k++) {
			if (is_before(e->queues[i].jobs[k], job))
				book_planned(p, e, e->queues[i].jobs[k]);
		}
	}
}

int backfill_find_start(struct engine *e, struct job *job, bitstr_t *nodes, time_t *ret_start)
{
	struct plan *p = get_plan(e);
	struct search s;
	size_t first = 0;
	bool found;

	if (!p)
		return -ENOMEM;
	plan_begin(p, FOR_EVER_S);
	take_planned(p, e, job);
	if (job->begin_time > engine_now(e))
		first = plan_split(p, job->begin_time);
	search_begin(&s, p, e, job, NULL);
	s.no_start = true;
	found = search_slots(&s, first);
	if (found) {
		bit_copybits(nodes, s.nodes);
		*ret_start = s.start;
	}
	search_end(&s);
	return found ? 0 : -EBUSY;
}
