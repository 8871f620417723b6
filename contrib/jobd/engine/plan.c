/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What makes a plan fast: slots only have counts, so that a search skips those that lack nodes or
 * CPUs, and makes bitmaps only for a slot that may do (plan_find_space()). The releases of running
 * jobs by then are a checkpoint's bitmap and a few jobs more (releases.h); bookings are removed by
 * blocks of time, or one after the other (bookings.h). Nodes with shares are tested one by one, the
 * others by words of a bitmap. And a job that needs as much as one for which a start was found
 * begins its search there.
 */
#include "contrib/jobd/engine/plan.h"

#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/abi/bits.h"
#include "contrib/jobd/engine/bookings.h"
#include "contrib/jobd/engine/grow.h"
#include "contrib/jobd/engine/releases.h"

struct running {
	time_t end;
	const struct job *job;
	uint32_t booking;   /* its place; 0: it has all of its nodes */
	struct slot counts; /* these, when it has ended */
};

/* A node with shares, while the jobs of now end one after the other. */
struct left {
	uint32_t cpus; /* free */
	uint32_t jobs;
};

/* The first start that was found for a job. */
struct found {
	const struct job *job;
	struct plan_need need;
	time_t start;
};

struct plan {
	struct engine *e;
	time_t resolution_s, window_end;
	LIST(struct slot) slots; /* the first begins now, the last one has no end */
	LIST(struct running) running;
	struct releases releases;
	bitstr_t *some, *clear; /* as they are at the time of the last space */
	time_t space_begin;     /* that */
	bitstr_t *first;        /* nodes of which something was free first */
	bitstr_t *unclear;      /* nodes of jobs that have started meanwhile, and share them */
	struct bookings bookings;
	struct left *left;       /* by node */
	LIST(uint32_t) free_now; /* nodes */
	LIST(struct found) found;

	/* of all nodes that are up */
	bitstr_t *up;
	bool all_up;
	struct slot full;
};

/* ---- life ---------------------------------------------------------------------------------------
 */

struct plan *plan_new(struct engine *e)
{
	struct plan *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->e = e;
	p->left = calloc((size_t)node_record_count + 1, sizeof(*p->left));
	if (!p->left || bookings_make(&p->bookings) < 0)
		return plan_free(p);
	p->some = bit_alloc(node_record_count);
	p->clear = bit_alloc(node_record_count);
	p->up = bit_alloc(node_record_count);
	p->first = bit_alloc(node_record_count);
	p->unclear = bit_alloc(node_record_count);
	return p;
}

struct plan *plan_free(struct plan *p)
{
	if (!p)
		return NULL;
	free(p->slots.items);
	free(p->running.items);
	releases_clear(&p->releases);
	bookings_clear(&p->bookings);
	free(p->free_now.items);
	free(p->found.items);
	free(p->left);
	bit_free(p->some);
	bit_free(p->clear);
	bit_free(p->up);
	bit_free(p->first);
	bit_free(p->unclear);
	free(p);
	return NULL;
}

/* ---- counts -------------------------------------------------------------------------------------
 */

/* Levels that a node with so many free CPUs has: the first one from 1 on, ... */
static unsigned levels_of(uint32_t cpus)
{
	unsigned n = 0;

	while (n < PLAN_LEVELS && cpus >> (2 * n))
		n++;
	return n;
}

static void count_free(struct slot *slot, uint32_t cpus, uint32_t nodes)
{
	unsigned n = levels_of(cpus), i;

	for (i = 0; i < n; i++)
		slot->nodes[i] += nodes;
	slot->cpus += (uint64_t)nodes * cpus;
}

/* One count less another: what was not seen in time must not make it wrap. */
static uint32_t less(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

static void add_counts(struct slot *slot, const struct slot *more)
{
	unsigned i;

	for (i = 0; i < PLAN_LEVELS; i++)
		slot->nodes[i] += more->nodes[i];
	slot->cpus += more->cpus;
}

static void take_counts(struct slot *slot, const struct slot *some)
{
	unsigned i;

	for (i = 0; i < PLAN_LEVELS; i++)
		slot->nodes[i] = less(slot->nodes[i], some->nodes[i]);
	slot->cpus -= some->cpus < slot->cpus ? some->cpus : slot->cpus;
}

/* A node has fewer CPUs free than before. */
static void count_change(struct slot *slot, uint32_t before, uint32_t after)
{
	unsigned i, n = levels_of(before);

	for (i = levels_of(after); i < n; i++)
		slot->nodes[i] = less(slot->nodes[i], 1);
	slot->cpus -= before - after < slot->cpus ? before - after : slot->cpus;
}

/* Nodes go up and down seldom. */
static void count_up(struct plan *p)
{
	bitoff_t i = 0;

	if (p->full.cpus && bit_equal(p->up, p->e->up_nodes))
		return;
	bit_copybits(p->up, p->e->up_nodes);
	p->all_up = bit_set_count(p->up) == node_record_count;
	p->full = (struct slot){.begin = 0};
	for (; (i = bit_ffs_from_bit(p->up, i)) >= 0; i++)
		count_free(&p->full, node_record_table_ptr[i].cpus, 1);
}

/* ---- jobs that run ------------------------------------------------------------------------------
 */

static int compare_ends(const void *a, const void *b)
{
	const struct running *x = a, *y = b;

	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->job->record.job_id < y->job->record.job_id
		? -1
		: x->job->record.job_id > y->job->record.job_id;
}

static time_t not_past(const struct engine *e, time_t end)
{
	return end > engine_now(e) ? end : engine_now(e) + 1;
}

static int add_running(void *item, void *userdata)
{
	const struct job *job = item; /* record is its first member */
	struct plan *p = userdata;

	if (job_has_nodes(job))
		ADD(&p->running,
			(struct running){.end = not_past(p->e, job->record.end_time), .job = job});
	return 0;
}

/* It leaves nothing of its nodes to others. */
static bool has_all(const struct plan *p, const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;
	bitoff_t i = 0;
	uint32_t k = 0;

	if (p->e->conf->preempt_mode & PREEMPT_MODE_GANG)
		return false;
	if (r->node_req != NODE_CR_ONE_ROW)
		return r->node_req == NODE_CR_RESERVED;
	while (k < r->nhosts && r->cpus[k] >= p->e->most_cpus)
		k++;
	if (k == r->nhosts)
		return true;
	for (k = 0; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		if (r->cpus[k] < node_record_table_ptr[i].cpus)
			return false;
	}
	return true;
}

/* Nodes that are up, by what is free of them when the job has ended. */
static struct slot count_nodes(const struct plan *p, const job_resources_t *r)
{
	struct slot counts = {.freed = r->nhosts};
	bitoff_t i = 0;
	uint32_t k, end;

	for (k = 0; p->all_up && k < r->nhosts; k = end) {
		for (end = k + 1; end < r->nhosts && r->cpus[end] == r->cpus[k]; end++)
			;
		count_free(&counts, r->cpus[k], end - k);
	}
	for (; !p->all_up && (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++) {
		if (bits_test(p->up, i))
			count_free(&counts, node_record_table_ptr[i].cpus, 1);
	}
	return counts;
}

/* Jobs that can be suspended for others, or that share their CPUs, hold none. */
static bool holds_cpus(const struct plan *p, const job_resources_t *r)
{
	return !(p->e->conf->preempt_mode & PREEMPT_MODE_GANG) && r->node_req != NODE_CR_AVAILABLE;
}

static void add_running_shares(struct plan *p, struct running *running)
{
	const struct job *job = running->job;
	const job_resources_t *r = job->record.job_resrcs;
	uint32_t k = 0;
	bitoff_t i = 0;

	running->booking = bookings_add(&p->bookings, engine_now(p->e), running->end, true);
	for (; (i = bit_ffs_from_bit(r->node_bitmap, i)) >= 0; i++, k++) {
		struct share *share;

		if (!bits_test(p->bookings.shared, i))
			p->left[i].jobs = 0;
		p->left[i].jobs++;
		share = bookings_add_share(
			&p->bookings, running->booking, (uint32_t)i, r, k, holds_cpus(p, r));
		if (job_base_state(job) == JOB_SUSPENDED)
			share->memory = 0; /* plugins differ in that */
	}
}

/* Releases a job's part of a node at the begin of this slot. */
static void release_share(struct plan *p, struct slot *slot, const struct part *part)
{
	struct left *left = &p->left[part->node];
	uint32_t before = left->cpus;
	uint32_t after = before + bookings_get_share(&p->bookings, part)->cpus;
	bool all = --left->jobs == 0, some = before == 0 && after > 0;
	unsigned i;

	left->cpus = after;
	if (!bits_test(p->up, part->node))
		return;
	slot->freed++;
	for (i = levels_of(before); i < levels_of(after); i++)
		slot->nodes[i]++;
	slot->cpus += after - before;
	if (all || some)
		releases_add(&p->releases,
			&(struct release){
				.when = slot->begin, .node = part->node, .some = some, .all = all});
}

/* Releases the nodes of a running job at the begin of this slot, its end or soon after it. */
static void release_job(struct plan *p, struct slot *slot, const struct running *running)
{
	const job_resources_t *r = running->job->record.job_resrcs;
	const struct part *parts;
	uint32_t k, n;

	if (!running->booking) {
		add_counts(slot, &running->counts);
		slot->freed += running->counts.freed;
		releases_add(&p->releases,
			&(struct release){.when = slot->begin, .nodes = r->node_bitmap});
		return;
	}
	parts = bookings_get_parts(&p->bookings, running->booking, &n);
	for (k = 0; k < n; k++)
		release_share(p, slot, &parts[k]);
}

/* A slot for each time at which some have ended. */
static void list_slots(struct plan *p)
{
	size_t i = 0, k;

	while (i < p->running.count) {
		time_t first = p->running.items[i].end;
		struct slot slot = p->slots.items[p->slots.count - 1];

		for (k = i;
			k < p->running.count && p->running.items[k].end - first < p->resolution_s;
			k++)
			;
		slot.begin = p->running.items[k - 1].end;
		slot.freed = 0;
		for (; i < k; i++)
			release_job(p, &slot, &p->running.items[i]);
		ADD(&p->slots, slot);
	}
}

/* The resources of running jobs are not free now. */
static void take_running(struct plan *p)
{
	struct slot *now = &p->slots.items[0];
	bitoff_t node = 0;
	size_t i;

	for (i = 0; i < p->running.count; i++) {
		struct running *running = &p->running.items[i];

		if (has_all(p, running->job)) {
			running->counts = count_nodes(p, running->job->record.job_resrcs);
			take_counts(now, &running->counts);
		} else {
			add_running_shares(p, running);
		}
	}
	for (; (node = bit_ffs_from_bit(p->bookings.shared, node)) >= 0; node++) {
		uint32_t cpus = bookings_get_free(&p->bookings, (uint32_t)node, engine_now(p->e));

		p->left[node].cpus = cpus;
		if (!bits_test(p->up, node))
			continue;
		count_change(now, node_record_table_ptr[node].cpus, cpus);
		if (cpus > 0)
			bits_set(p->some, node);
	}
}

static void list_free_now(struct plan *p)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(p->some, i)) >= 0; i++) {
		if (!bits_test(p->e->completing_nodes, i))
			ADD(&p->free_now, (uint32_t)i);
	}
}

void plan_begin(struct plan *p, time_t window_s)
{
	const struct conf_scheduler *s = &p->e->conf->scheduler;
	time_t now = engine_now(p->e), t = now;

	p->slots.count = p->running.count = p->free_now.count = p->found.count = 0;
	bit_clear_all(p->unclear);
	bookings_begin(&p->bookings, now);
	count_up(p);
	p->resolution_s = s->bf_resolution_s ? s->bf_resolution_s : 1;
	p->window_end = now + window_s;
	(void)list_for_each(job_list, add_running, p); /* none stops it */
	if (p->running.count > 0)
		qsort(p->running.items, p->running.count, sizeof(*p->running.items), compare_ends);
	bit_copybits(p->clear, p->up);
	bit_and_not(p->clear, p->e->used_nodes);
	bit_copybits(p->some, p->clear);
	ADD(&p->slots, p->full);
	p->slots.items[0].begin = now;
	take_running(p);
	releases_begin(&p->releases, p->some, p->clear, p->all_up ? NULL : p->up);
	list_free_now(p);
	list_slots(p);
	while ((t = reservations_next_change(p->e, t)) && t < p->window_end)
		(void)plan_split(p, t);
}

/* ---- the row of slots ---------------------------------------------------------------------------
 */

bool plan_has_shares(const struct plan *p)
{
	return p->bookings.shares.count > 0;
}

size_t plan_count(const struct plan *p)
{
	return p->slots.count;
}

const struct slot *plan_get_slot(const struct plan *p, size_t i)
{
	return &p->slots.items[i];
}

bool plan_is_in_window(const struct plan *p, time_t t)
{
	return t < p->window_end;
}

size_t plan_find_slot(const struct plan *p, time_t t)
{
	size_t low = 0, high = p->slots.count, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (p->slots.items[middle].begin <= t)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Behind slot i, with the same that is free. */
static void insert_slot(struct plan *p, size_t i, time_t begin)
{
	struct slot slot = p->slots.items[i];

	slot.begin = begin;
	slot.freed = 0;
	ADD(&p->slots, slot); /* there is a place */
	memmove(p->slots.items + i + 2, p->slots.items + i + 1,
		(p->slots.count - i - 2) * sizeof(slot));
	p->slots.items[i + 1] = slot;
}

size_t plan_split(struct plan *p, time_t t)
{
	size_t i = plan_find_slot(p, t);

	if (p->slots.items[i].begin >= t)
		return i;
	if (i + 1 == p->slots.count || p->slots.items[i + 1].begin - t >= p->resolution_s)
		insert_slot(p, i, t);
	return i + 1;
}

/* ---- what a job needs ---------------------------------------------------------------------------
 */

struct plan_need plan_make_need(const struct engine *e, struct job *job)
{
	const job_details_t *d = &job->details;
	const struct select_request q = job_make_request(e, job, NULL, NULL);
	uint32_t most = e->most_cpus;
	struct plan_need need = {.nodes = (d->min_cpus + most - 1) / most,
		.each = d->pn_min_cpus > d->cpus_per_task ? d->pn_min_cpus : d->cpus_per_task,
		.cpus = d->min_cpus,
		.duration = job_duration(job)};
	/* the largest number of CPUs that the other ones can give it */
	uint64_t others = (uint64_t)(q.max_nodes - 1) * most;

	need.most_nodes = q.max_nodes;
	if (need.nodes < q.min_nodes)
		need.nodes = q.min_nodes;
	if (need.each == 0)
		need.each = 1;
	if (need.cpus > others && need.cpus - others > need.each)
		need.each = (uint32_t)(need.cpus - others);
	if (e->conf->select_type_param & CR_MEMORY)
		need.memory = d->pn_min_memory & MEM_PER_CPU
			? (d->pn_min_memory & ~MEM_PER_CPU) * need.each
			: d->pn_min_memory;
	if (e->conf->select_type_param & CR_MEMORY && need.memory == 0)
		need.memory = UINT64_MAX;
	return need;
}

/* Whether the memory of the node that it needs is free. */
static bool has_memory(
	const struct plan *p, const struct plan_need *need, uint32_t node, time_t from)
{
	uint64_t memory = need->memory;

	if (memory == 0)
		return true;
	if (memory == UINT64_MAX)
		memory = node_memory_limit(&node_record_table_ptr[node]);
	return bookings_get_memory(&p->bookings, node, from, from + need->duration) >= memory;
}

static bool has_enough(const struct slot *slot, const struct plan_need *need, unsigned level)
{
	return slot->nodes[level] >= need->nodes && slot->cpus >= need->cpus;
}

size_t plan_skip(const struct plan *p, const struct plan_need *need, size_t i)
{
	unsigned level = levels_of(need->each) - 1;
	const struct slot *slots = p->slots.items;
	size_t k = i;

	if (p->e->options.plain || need->preempts)
		return i;
	while (i < p->slots.count && k < p->slots.count &&
		slots[k].begin < slots[i].begin + need->duration) {
		if (!has_enough(&slots[k], need, level))
			i = k + 1;
		k++;
	}
	return i;
}

#define FOUND_MAX 64u

/* Any nodes of its partition do for it, if they have enough. */
static bool takes_any(const struct job *job)
{
	const job_details_t *d = &job->details;

	return !d->contiguous && !d->req_node_bitmap && !d->exc_node_bitmap && !d->features &&
		!job->failed_nodes && !job->request.reservation && !job->het;
}

/* Both want nodes in the same way, but for how many and how long. */
static bool is_like(const struct job *a, const struct job *b)
{
	return a->record.part_ptr == b->record.part_ptr &&
		a->details.cpus_per_task == b->details.cpus_per_task &&
		a->details.ntasks_per_node == b->details.ntasks_per_node &&
		a->details.ntasks_per_socket == b->details.ntasks_per_socket &&
		a->details.ntasks_per_core == b->details.ntasks_per_core &&
		a->details.pn_min_cpus == b->details.pn_min_cpus &&
		a->details.pn_min_memory == b->details.pn_min_memory &&
		a->details.share_res == b->details.share_res &&
		a->details.whole_node == b->details.whole_node;
}

/* Whether a job with this need could replace one with the other need, on all of its nodes or on
 * some. */
static bool needs_no_more(const struct plan_need *need, const struct plan_need *other)
{
	return need->nodes <= other->nodes && need->each <= other->each &&
		need->cpus <= other->cpus && need->duration <= other->duration &&
		(need->most_nodes >= other->most_nodes ||
			(need->most_nodes <= other->nodes &&
				need->cpus <= (uint64_t)need->most_nodes * other->each));
}

time_t plan_get_earliest(const struct plan *p, const struct job *job, const struct plan_need *need)
{
	time_t latest = 0;
	size_t i;

	if (p->e->options.plain || need->preempts || !takes_any(job))
		return 0;
	for (i = 0; i < p->found.count; i++) {
		const struct found *found = &p->found.items[i];

		if (found->start > latest && is_like(found->job, job) &&
			needs_no_more(&found->need, need))
			latest = found->start;
	}
	return latest;
}

void plan_note_earliest(
	struct plan *p, const struct job *job, const struct plan_need *need, time_t start)
{
	struct found found = {.job = job, .need = *need, .start = start}, *one;
	size_t i;

	if (need->preempts || !takes_any(job))
		return;
	/* in place of one that implies less, else of the oldest */
	for (i = 0; i < p->found.count; i++) {
		one = &p->found.items[i];
		if (one->start <= start && is_like(one->job, job) &&
			needs_no_more(need, &one->need))
			break;
	}
	if (i == p->found.count && i == FOUND_MAX) {
		memmove(p->found.items, p->found.items + 1, (FOUND_MAX - 1) * sizeof(found));
		i--;
	}
	if (i == p->found.count)
		ADD(&p->found, found);
	else
		p->found.items[i] = found;
}

/* CPUs of a node that the job could have now, and memory enough; 0: none. What others have of it a
 * job that preempts may get: then all counts of which something is free. */
static uint32_t count_for(struct plan *p, const struct plan_need *need, uint32_t node)
{
	time_t now = engine_now(p->e), end = now + need->duration;
	uint32_t cpus = node_record_table_ptr[node].cpus;

	if (!bits_test(p->bookings.shared, node))
		return bookings_is_booked(&p->bookings, node, now, end) ? 0 : cpus;
	if (need->preempts)
		return cpus;
	cpus = bookings_get_cpus(&p->bookings, node, now, end);
	return cpus >= need->each && has_memory(p, need, node, now) ? cpus : 0;
}

bool plan_may_start(struct plan *p, const struct plan_need *need, const bitstr_t *part_nodes)
{
	uint32_t nodes = 0, cpus;
	uint64_t sum = 0;
	size_t i;

	if (p->free_now.count < need->nodes)
		return false;
	for (i = 0; i < p->free_now.count; i++) {
		if (!bits_test(part_nodes, p->free_now.items[i]))
			continue;
		cpus = count_for(p, need, p->free_now.items[i]);
		nodes += cpus > 0;
		sum += cpus;
		if (nodes >= need->nodes && sum >= need->cpus)
			return true;
	}
	return false;
}

/* ---- what is free when --------------------------------------------------------------------------
 */

/* Nodes that could be the job's, as far as they have been counted, and CPUs of them. */
struct count {
	uint32_t nodes;
	uint64_t cpus;
};

static bool is_enough(const struct count *count, const struct plan_need *need)
{
	return count->nodes >= need->nodes && count->cpus >= need->cpus;
}

/* Counts nodes with shares, until there are enough. Those on which the job's memory is not free
 * leave nodes, if somebody has booked it: the plugin knows nothing of that. */
static void count_shared(struct plan *p, const struct plan_need *need, time_t from, bitstr_t *nodes,
	struct count *count)
{
	struct bookings *b = &p->bookings;
	time_t to = from + need->duration;
	uint32_t cpus;
	bitoff_t i = 0;

	for (; (need->memory || !is_enough(count, need)) &&
		(i = bit_ffs_from_bit(b->shared, i)) >= 0;
		i++) {
		if (!bits_test(nodes, i))
			continue;
		if (!has_memory(p, need, (uint32_t)i, from)) {
			if (bookings_is_booked(b, (uint32_t)i, from, to))
				bits_clear(nodes, i);
			continue;
		}
		cpus = bookings_get_cpus(b, (uint32_t)i, from, to);
		count->nodes += cpus >= need->each;
		count->cpus += cpus >= need->each ? cpus : 0;
	}
}

/* The first slot behind i by which so many nodes may have come free. */
static size_t skip_by_freed(const struct plan *p, size_t i, uint32_t missing)
{
	uint32_t freed = 0;

	for (i++; i < p->slots.count; i++) {
		freed += p->slots.items[i].freed;
		if (freed >= missing)
			break;
	}
	return i;
}

bool plan_find_space(struct plan *p, const struct plan_need *need, size_t i,
	const bitstr_t *possible, struct plan_space *space)
{
	time_t from = p->slots.items[i].begin;
	struct count count;

	p->space_begin = from;
	releases_get(&p->releases, from, p->some, p->clear);
	bit_copybits(space->nodes, p->some);
	bit_and(space->nodes, possible);
	space->exc_cores = bookings_leave(&p->bookings, from, from + need->duration, space->nodes);
	count.nodes = (uint32_t)bit_set_count(space->nodes);
	if (plan_has_shares(p))
		count.nodes -= (uint32_t)bit_overlap(space->nodes, p->bookings.shared);
	count.cpus = (uint64_t)count.nodes * p->e->most_cpus;
	if (plan_has_shares(p) && !need->preempts)
		count_shared(p, need, from, space->nodes, &count);
	space->all_clear =
		bit_super_set(space->nodes, p->clear) && !bit_overlap_any(space->nodes, p->unclear);
	space->next = i + 1;
	if (p->e->options.plain || need->preempts)
		return true;
	if (count.nodes < need->nodes)
		space->next = skip_by_freed(p, i, need->nodes - count.nodes);
	return is_enough(&count, need);
}

bool plan_find_clear(
	struct plan *p, const struct plan_need *need, const bitstr_t *nodes, bitstr_t *clear)
{
	bool found;

	bit_copybits(clear, nodes);
	bit_and(clear, p->clear);
	bit_and_not(clear, p->unclear);
	found = releases_find(&p->releases, p->space_begin, clear, need->nodes, p->first);
	bit_and(clear, p->first);
	return found;
}

/* ---- what is booked -----------------------------------------------------------------------------
 */

bool plan_is_free(const struct plan *p, const bitstr_t *nodes, const job_resources_t *r,
	time_t from, time_t to, uint32_t *ret_node)
{
	const struct bookings *b = &p->bookings;
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++, k++) {
		*ret_node = (uint32_t)i;
		if (!bits_test(b->shared, i))
			continue; /* it is not booked: else it was not in the space */
		if (bookings_is_share(r, (uint32_t)i, k)
				? !bookings_has_capacity(b, r, (uint32_t)i, k, from, to)
				: bookings_is_booked(b, (uint32_t)i, from, to))
			return false;
	}
	return true;
}

/* From slot i to before end a node has so many CPUs fewer that are free; those of each slot are
 * different where there are shares of it. */
static void count_booked(struct plan *p, uint32_t node, uint32_t cpus, size_t i, size_t end)
{
	for (; i < end; i++) {
		struct slot *slot = &p->slots.items[i];
		uint32_t before = bookings_get_free(&p->bookings, node, slot->begin);

		count_change(slot, before, less(before, cpus));
	}
}

/* From slot i to before end: all of these nodes, or what r has of them. */
static void add_booked(
	struct plan *p, const bitstr_t *nodes, const job_resources_t *r, size_t i, size_t end)
{
	struct bookings *b = &p->bookings;
	uint32_t booking =
		bookings_add(b, p->slots.items[i].begin, p->slots.items[end].begin, false);
	struct slot counts = {.begin = 0};
	bitoff_t node = 0;
	uint32_t k = 0;

	for (; (node = bit_ffs_from_bit(nodes, node)) >= 0; node++, k++) {
		bool share = bookings_is_share(r, (uint32_t)node, k);
		uint32_t cpus = share ? r->cpus[k] : node_record_table_ptr[node].cpus;

		if (share || bits_test(b->shared, node))
			count_booked(p, (uint32_t)node, cpus, i, end);
		else
			count_free(&counts, cpus, 1);
		if (share)
			(void)bookings_add_share(b, booking, (uint32_t)node, r, k, true);
		else
			bookings_add_node(b, booking, (uint32_t)node);
	}
	p->slots.items[end].freed += k;
	for (; i < end; i++)
		take_counts(&p->slots.items[i], &counts);
}

void plan_book(
	struct plan *p, const bitstr_t *nodes, const job_resources_t *r, time_t from, time_t to)
{
	size_t i = plan_find_slot(p, from);

	if (from - p->slots.items[i].begin >= p->resolution_s)
		i = plan_split(p, from);
	add_booked(p, nodes, r, i, plan_split(p, to > from ? to : from + 1));
}

void plan_start(struct plan *p, const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;
	time_t now = engine_now(p->e);

	if (!job_has_nodes(job))
		return; /* its begin has failed */
	if (r->node_req == NODE_CR_AVAILABLE)
		bit_or(p->unclear, r->node_bitmap);
	else
		plan_book(p, r->node_bitmap, r, now, now + job_duration(job));
}
