/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/select/use.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct use use_now;

/* ---- the table ---------------------------------------------------------------------------------
 */

static uint32_t count_cores(uint32_t nodes_count)
{
	const node_record_t *last;

	if (nodes_count == 0)
		return 0;
	last = &node_record_table_ptr[nodes_count - 1];
	return last->core_offset + last->tot_cores;
}

void use_make(struct use *use, uint32_t nodes_count)
{
	*use = (struct use){.nodes = xmalloc(nodes_count * sizeof(*use->nodes)),
		.nodes_count = nodes_count,
		.core_jobs = xmalloc(count_cores(nodes_count) * sizeof(*use->core_jobs)),
		.shapes = xmalloc(nodes_count * sizeof(*use->shapes)),
		.full = bit_alloc(nodes_count),
		.shared = bit_alloc(nodes_count),
		.opened = bit_alloc(nodes_count),
		.idle = bit_alloc(nodes_count)};
	bit_set_all(use->idle);
	use_note_nodes(use);
}

void use_clear(struct use *use)
{
	uint32_t i;

	for (i = 0; i < use->nodes_count; i++)
		free(use->nodes[i].jobs);
	free(use->nodes);
	free(use->core_jobs);
	free(use->order);
	free(use->shapes);
	FREE_NULL_BITMAP(use->full);
	FREE_NULL_BITMAP(use->shared);
	FREE_NULL_BITMAP(use->opened);
	free(use->held);
	FREE_NULL_BITMAP(use->idle);
	*use = (struct use){.nodes = NULL};
}

static int by_weight(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t wx = node_record_table_ptr[x].weight, wy = node_record_table_ptr[y].weight;

	return wx != wy ? (wx > wy) - (wx < wy) : (x > y) - (x < y);
}

static void order_nodes(struct use *use)
{
	uint32_t i;

	xfree(use->order);
	for (i = 1; i < use->nodes_count; i++) {
		if (node_record_table_ptr[i].weight != node_record_table_ptr[0].weight)
			break;
	}
	if (i >= use->nodes_count)
		return;
	use->order = xmalloc(use->nodes_count * sizeof(*use->order));
	for (i = 0; i < use->nodes_count; i++)
		use->order[i] = i;
	qsort(use->order, use->nodes_count, sizeof(*use->order), by_weight);
}

static bool is_alike(const node_record_t *a, const node_record_t *b)
{
	return a->tot_sockets == b->tot_sockets && a->cores == b->cores &&
		a->threads == b->threads && a->cpus == b->cpus &&
		a->real_memory == b->real_memory && a->mem_spec_limit == b->mem_spec_limit &&
		a->weight == b->weight;
}

static void shape_nodes(struct use *use)
{
	uint32_t *first = use->shape_nodes, i, k = 0;

	use->shapes_count = 0;
	use->has_shapeless = false;
	use->most_cores = 0;
	use->most_cpus = 1;
	use->same_cpus = true;
	for (i = 0; i < use->nodes_count; i++) {
		const node_record_t *node = &node_record_table_ptr[i];

		if (node->tot_cores > use->most_cores)
			use->most_cores = node->tot_cores;
		if (node->cpus > use->most_cpus)
			use->most_cpus = node->cpus;
		use->same_cpus &= node->cpus == node_record_table_ptr[0].cpus;
		if (k >= use->shapes_count || !is_alike(node, &node_record_table_ptr[first[k]])) {
			for (k = 0; k < use->shapes_count; k++) {
				if (is_alike(node, &node_record_table_ptr[first[k]]))
					break;
			}
		}
		if (k == use->shapes_count && k < USE_SHAPES_MAX)
			first[use->shapes_count++] = i;
		use->shapes[i] = k < use->shapes_count ? (uint16_t)k : USE_NO_SHAPE;
		use->has_shapeless |= k >= use->shapes_count;
	}
}

void use_note_nodes(struct use *use)
{
	order_nodes(use);
	shape_nodes(use);
}

/* ---- jobs on nodes -----------------------------------------------------------------------------
 */

/* So many cores in a row have one job more, or less. Returns how many are busy instead of free. */
static uint32_t count_row(uint16_t *core_jobs, bitoff_t n, bool more)
{
	uint32_t changed = 0;
	bitoff_t i;

	for (i = 0; more && i < n; i++)
		changed += core_jobs[i]++ == 0;
	for (i = 0; !more && i < n; i++)
		changed += --core_jobs[i] == 0;
	return changed;
}

/* The job's cores of this node have one job more, or less. */
static void count_cores_of(struct use *use, const job_record_t *job, uint32_t index, bool more)
{
	const bitstr_t *cores = job->job_resrcs->core_bitmap;
	struct use_node *node = &use->nodes[index];
	const node_record_t *record;
	bitoff_t i, end, stop;

	if (!cores) {
		node->whole_jobs += more ? 1u : -1u;
		return;
	}
	record = &node_record_table_ptr[index];
	end = (bitoff_t)record->core_offset + record->tot_cores;
	for (i = record->core_offset; (i = bit_ffs_from_bit(cores, i)) >= 0 && i < end; i = stop) {
		uint32_t changed;

		stop = bit_ffc_from_bit(cores, i);
		stop = stop < 0 || stop > end ? end : stop;
		changed = count_row(&use->core_jobs[i], stop - i, more);
		node->busy_cores += more ? changed : -changed;
	}
	if (more && node->busy_cores == record->tot_cores)
		bit_set(use->full, index);
	else if (!more && node->busy_cores < record->tot_cores)
		bit_clear(use->full, index);
}

static void add_to(struct use *use, uint32_t index, const struct use_job *job)
{
	struct use_node *node = &use->nodes[index];
	struct use_job *grown;

	if (node->count == node->capacity) {
		node->capacity = node->capacity ? 2 * node->capacity : 2;
		grown = xmalloc(node->capacity * sizeof(*grown));
		if (node->count)
			memcpy(grown, node->jobs, node->count * sizeof(*grown));
		free(node->jobs);
		node->jobs = grown;
	}
	node->jobs[node->count++] = *job;
	if (node->count == 2) {
		bit_set(use->shared, index);
		use->shared_count++;
	}
	node->memory += job->memory;
	bit_clear(use->idle, index);
	count_cores_of(use, job->job, index, true);
}

void use_remove_job_from(struct use *use, const job_record_t *job, uint32_t index)
{
	struct use_node *node = &use->nodes[index];
	uint32_t i;

	for (i = 0; i < node->count; i++) {
		if (node->jobs[i].job != job)
			continue;
		node->memory -= node->jobs[i].memory;
		node->jobs[i] = node->jobs[--node->count];
		if (node->count == 1) {
			bit_clear(use->shared, index);
			use->shared_count--;
		}
		if (node->count == 0)
			bit_set(use->idle, index);
		count_cores_of(use, job, index, false);
		return;
	}
}

static void put_on_nodes(struct use *use, const job_record_t *job)
{
	const job_resources_t *resources = job->job_resrcs;
	struct use_job one = {.job = job, .alone = resources->node_req == NODE_CR_RESERVED};
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(resources->node_bitmap, i)) >= 0; i++, k++) {
		one.cpus = resources->cpus[k];
		one.memory = resources->memory_allocated[k];
		add_to(use, (uint32_t)i, &one);
	}
}

static void take_from_nodes(struct use *use, const job_record_t *job)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(job->job_resrcs->node_bitmap, i)) >= 0; i++)
		use_remove_job_from(use, job, (uint32_t)i);
}

static size_t find_held(const struct use *use, const job_record_t *job)
{
	size_t i;

	for (i = 0; i < use->held_count && use->held[i] != job; i++)
		;
	return i;
}

void use_add_job(struct use *use, const job_record_t *job)
{
	const job_record_t **grown;

	use_remove_job(use, job);
	if (use->held_count == use->held_capacity) {
		use->held_capacity = use->held_capacity ? 2 * use->held_capacity : 64;
		grown = xmalloc(use->held_capacity * sizeof(*grown));
		if (use->held_count)
			memcpy(grown, use->held, use->held_count * sizeof(*grown));
		free(use->held);
		use->held = grown;
	}
	use->held[use->held_count++] = job;
	put_on_nodes(use, job);
}

void use_remove_job(struct use *use, const job_record_t *job)
{
	size_t i = find_held(use, job);

	if (i == use->held_count)
		return;
	if (job->job_resrcs)
		take_from_nodes(use, job);
	use->held_count--;
	memmove(&use->held[i], &use->held[i + 1], (use->held_count - i) * sizeof(*use->held));
}

/* ---- hidden jobs -------------------------------------------------------------------------------
 */

static void set_hidden(struct use *use, uint32_t index, const job_record_t *job, bool hidden)
{
	struct use_node *node = &use->nodes[index];
	struct use_job *one = node->jobs;
	uint64_t memory;

	while (one->job != job)
		one++;
	memory = hidden ? -one->memory : one->memory; /* modulo 2^64 */
	one->hidden = hidden;
	node->hidden += hidden ? 1u : -1u;
	node->memory += memory;
	if (node->hidden == 0)
		bit_clear(use->opened, index);
	else
		bit_set(use->opened, index);
	if (node->hidden < node->count)
		bit_clear(use->idle, index);
}

/* On nodes that others have, too. */
static void set_hidden_among_others(struct use *use, const job_record_t *job, bool hidden)
{
	const bitstr_t *nodes = job->job_resrcs->node_bitmap;
	bitoff_t i = 0;

	if (use->shared_count == 0 || !bit_overlap_any(nodes, use->shared))
		return;
	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		if (bit_test(use->shared, i))
			set_hidden(use, (uint32_t)i, job, hidden);
	}
}

void use_hide(struct use *use, const job_record_t *job)
{
	bit_or(use->idle, job->job_resrcs->node_bitmap);
	set_hidden_among_others(use, job, true);
}

void use_show(struct use *use, const job_record_t *job)
{
	bit_and_not(use->idle, job->job_resrcs->node_bitmap);
	set_hidden_among_others(use, job, false);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

uint64_t use_memory(const struct use *use, bitoff_t node)
{
	/* of an idle node it is that of hidden jobs at most */
	return bit_test(use->idle, node) ? 0 : use->nodes[node].memory;
}

uint64_t use_memory_limit(const node_record_t *node)
{
	return node->real_memory > node->mem_spec_limit ? node->real_memory - node->mem_spec_limit
							: 0;
}

uint64_t use_memory_wanted(const job_record_t *job, const node_record_t *node, uint32_t cpus)
{
	uint64_t wanted = job->details->pn_min_memory;

	if (wanted & MEM_PER_CPU)
		return (wanted & ~MEM_PER_CPU) * cpus;
	return wanted ? wanted : use_memory_limit(node); /* all of it */
}

/* ---- sharing -----------------------------------------------------------------------------------
 */

uint32_t use_max_share(const job_record_t *job)
{
	uint16_t max_share = job->part_ptr->max_share;

	if (job->details->whole_node || job->details->share_res == JOB_SHARED_NONE ||
		max_share <= 1)
		return 1;
	if (max_share & SHARED_FORCE)
		return max_share & ~SHARED_FORCE;
	return job->details->share_res == JOB_SHARED_OK ? max_share : 1;
}

void use_note_sharing(struct use *use)
{
	struct use_job *one;
	size_t i, k;

	for (i = 0; i < use->held_count; i++) {
		job_resources_t *r = use->held[i]->job_resrcs;

		if (use_max_share(use->held[i]) > 1)
			r->node_req = NODE_CR_AVAILABLE;
		else
			r->node_req = r->whole_node ? NODE_CR_RESERVED : NODE_CR_ONE_ROW;
	}
	for (i = 0; i < use->nodes_count; i++) {
		for (k = 0; k < use->nodes[i].count; k++) {
			one = &use->nodes[i].jobs[k];
			one->alone = one->job->job_resrcs->node_req == NODE_CR_RESERVED;
		}
	}
}

/* ---- jobs that are suspended for others --------------------------------------------------------
 */

static int by_address(const void *a, const void *b)
{
	const job_record_t *x = *(const job_record_t *const *)a;
	const job_record_t *y = *(const job_record_t *const *)b;

	return (x > y) - (x < y);
}

void use_list_suspendable(struct use_suspendable *s, List candidates)
{
	ListIterator i;
	const job_record_t *job;

	*s = (struct use_suspendable){.jobs = NULL};
	if (!candidates)
		return;
	s->jobs = xmalloc((size_t)(list_count(candidates) + 1) * sizeof(*s->jobs));
	i = list_iterator_create(candidates);
	while ((job = list_next(i))) {
		if (slurm_job_preempt_mode(job) & PREEMPT_MODE_SUSPEND)
			s->jobs[s->count++] = job;
	}
	list_iterator_destroy(i);
	if (s->count > 0)
		qsort(s->jobs, s->count, sizeof(*s->jobs), by_address);
}

bool use_is_suspendable(const struct use_suspendable *s, const job_record_t *job)
{
	return s->count > 0 && bsearch(&job, s->jobs, s->count, sizeof(job), by_address);
}

/* ---- the order of ends -------------------------------------------------------------------------
 */

/* Jobs without an end are the last. */
static int by_end(const void *a, const void *b)
{
	time_t x = (*(const job_record_t *const *)a)->end_time;
	time_t y = (*(const job_record_t *const *)b)->end_time;

	if (x == 0 || y == 0)
		return (x == 0) - (y == 0);
	return (x > y) - (x < y);
}

/* Limits change seldom, so that the order of the last search mostly stands. Returns how many jobs
 * have an end. */
static size_t sort_by_end(struct use *use)
{
	size_t i;

	for (i = 1; i < use->held_count; i++) {
		if (by_end(&use->held[i - 1], &use->held[i]) > 0)
			break;
	}
	if (i < use->held_count)
		qsort(use->held, use->held_count, sizeof(*use->held), by_end);
	for (i = use->held_count; i > 0 && use->held[i - 1]->end_time == 0; i--)
		;
	return i;
}

/* ---- which jobs must go ------------------------------------------------------------------------
 */

/* So many of them are hidden. */
static void row_hide(struct use_row *row, size_t wanted)
{
	for (; row->hidden < wanted; row->hidden++)
		use_hide(&use_now, row->jobs[row->hidden]);
	for (; row->hidden > wanted; row->hidden--)
		use_show(&use_now, row->jobs[row->hidden - 1]);
}

void use_row_clear(struct use_row *row)
{
	row_hide(row, 0);
	xfree(row->jobs);
	row->count = 0;
}

/* The first step with which there are enough nodes, if each one that a hidden job has is another;
 * n: none. */
static size_t skip_hopeless(const struct use_row *row, const size_t *steps, size_t n,
	const struct use_need *need, const bitstr_t *nodes)
{
	uint64_t have = need->have;
	size_t done = 0, k;

	for (k = 0; k < n; k++) {
		for (; done < steps[k] && have < need->nodes; done++)
			have += (uint32_t)bit_overlap(
				row->jobs[done]->job_resrcs->node_bitmap, nodes);
		if (have >= need->nodes)
			break;
	}
	return k;
}

/* At each step so many jobs of the row are hidden. The first one at which the job fits, which is
 * among the first that are possible for most jobs: searched in steps that double, and then by
 * halves. found: what it takes then. n: none. */
static size_t find_step(struct use_row *row, const size_t *steps, size_t n,
	const struct use_need *need, const bitstr_t *nodes, bitstr_t *found)
{
	size_t low = skip_hopeless(row, steps, n, need, nodes), high = n, step = 1;
	bitstr_t *tried = bit_copy(nodes);

	while (low < high) { /* the first one is from low to high */
		size_t middle = low + (high - low) / 2;

		if (high == n && low + step - 1 < middle)
			middle = low + step - 1;
		step *= 2;
		row_hide(row, steps[middle]);
		bit_copybits(tried, nodes);
		if (need->fits(tried, need->userdata)) {
			high = middle;
			bit_copybits(found, tried);
		} else {
			low = middle + 1;
		}
	}
	bit_free(tried);
	return high;
}

/* ---- when --------------------------------------------------------------------------------------
 */

/* Those that have ended by then, and how many have at each of the different ends after it, in their
 * order. Returns how many of these there are. */
static size_t list_ends(const struct use_row *row, time_t then, size_t **ret_ended)
{
	size_t *ended = xmalloc((row->count + 1) * sizeof(*ended)), n = 1, i;

	if (then > slurm_now()) { /* else those that should have ended have not */
		while (ended[0] < row->count && row->jobs[ended[0]]->end_time <= then)
			ended[0]++;
	}
	for (i = ended[0]; i < row->count; i++) {
		if (i + 1 == row->count || row->jobs[i + 1]->end_time != row->jobs[i]->end_time)
			ended[n++] = i + 1;
	}
	*ret_ended = ended;
	return n;
}

bool use_find_start(struct use_row *row, bitstr_t *nodes, const struct use_need *need,
	time_t not_before, time_t *ret_start)
{
	size_t most = sort_by_end(&use_now), n, k, i, *ended;
	bitstr_t *found = bit_copy(nodes);

	*row = (struct use_row){.jobs = xmalloc((most + 1) * sizeof(*row->jobs)), .count = most};
	for (i = 0; i < most; i++)
		row->jobs[i] = use_now.held[i];
	n = list_ends(row, not_before, &ended);
	k = find_step(row, ended, n, need, nodes, found);
	if (k < n) {
		row_hide(row, ended[k]);
		bit_copybits(nodes, found);
		*ret_start = k > 0 ? row->jobs[ended[k] - 1]->end_time : not_before;
		if (*ret_start < slurm_now())
			*ret_start = slurm_now();
	}
	xfree(ended);
	bit_free(found);
	return k < n;
}

/* ---- which jobs are preempted ------------------------------------------------------------------
 */

struct candidate {
	const job_record_t *job;
	bool last; /* without it the job did not fit */
	int32_t overlap;
	uint32_t place;
};

struct preemption {
	struct candidate *candidates;
	size_t count;
	const struct use_need *need;
};

/* How many of them must go, in their order. 0: it does not even fit without all. found: what it
 * takes then. */
static size_t count_needed(const struct preemption *p, const bitstr_t *nodes, bitstr_t *found)
{
	struct use_row row = {
		.jobs = xmalloc((p->count + 1) * sizeof(*row.jobs)), .count = p->count};
	size_t *steps = xmalloc((p->count + 1) * sizeof(*steps)), i;

	for (i = 0; i < p->count; i++) {
		row.jobs[i] = p->candidates[i].job;
		steps[i] = i + 1;
	}
	i = find_step(&row, steps, p->count, p->need, nodes, found);
	use_row_clear(&row);
	xfree(steps);
	return i < p->count ? i + 1 : 0;
}

static int by_overlap(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->last != y->last)
		return x->last ? -1 : 1;
	if (x->overlap != y->overlap)
		return x->overlap > y->overlap ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

/* Of those that were needed, chosen being what the job took. */
static void reorder(struct preemption *p, size_t needed, const bitstr_t *chosen)
{
	size_t i;

	for (i = 0; i < needed; i++) {
		struct candidate *c = &p->candidates[i];

		c->last = i + 1 == needed;
		c->place = (uint32_t)i;
		c->overlap = slurm_conf.preempt_strict_order
			? 0
			: bit_overlap(c->job->node_bitmap, chosen);
	}
	if (needed > 0)
		qsort(p->candidates, needed, sizeof(*p->candidates), by_overlap);
}

static void list_candidates(struct preemption *p, List candidates, uint16_t modes)
{
	ListIterator i = list_iterator_create(candidates);
	const job_record_t *job;

	p->candidates = xmalloc((size_t)(list_count(candidates) + 1) * sizeof(*p->candidates));
	while ((job = list_next(i))) {
		if (job->job_resrcs && (slurm_job_preempt_mode(job) & modes))
			p->candidates[p->count++] = (struct candidate){.job = job};
	}
	list_iterator_destroy(i);
}

/* Of those that are gone, the ones that have some of these nodes. */
static List list_preempted(const struct preemption *p, const bool *gone, const bitstr_t *chosen)
{
	List list = list_create(NULL);
	size_t i;

	for (i = 0; i < p->count; i++) {
		job_record_t *job = (job_record_t *)p->candidates[i].job;

		if (gone[i] && bit_overlap_any(job->node_bitmap, chosen))
			(void)list_append(list, job);
	}
	return list;
}

/* ---- as few as possible ------------------------------------------------------------------------
 */

static uint64_t run_node_s(const job_record_t *job)
{
	time_t until = (job->job_state & JOB_STATE_BASE) == JOB_SUSPENDED ? job->suspend_time
									  : slurm_now();
	time_t ran = until - job->start_time - job->tot_sus_time;

	return ran > 0 ? (uint64_t)ran * job->node_cnt : 0;
}

/* All components of a heterogeneous job go with one. */
static bool goes(const job_record_t *const *jobs, size_t n, const bool *gone, size_t i)
{
	size_t k;

	if (gone[i] || !jobs[i]->het_job_id)
		return gone[i];
	for (k = 0; k < n; k++) {
		if (gone[k] && jobs[k]->het_job_id == jobs[i]->het_job_id)
			return true;
	}
	return false;
}

struct use_loss use_loss_of(const job_record_t *const *jobs, size_t n, const bool *gone)
{
	struct use_loss loss = {.jobs = 0};
	size_t i;

	for (i = 0; i < n; i++) {
		if (!goes(jobs, n, gone, i))
			continue;
		loss.jobs++;
		loss.node_s += run_node_s(jobs[i]);
	}
	return loss;
}

static bool is_less(const struct use_loss *a, const struct use_loss *b)
{
	return a->jobs <= b->jobs && a->node_s <= b->node_s &&
		(a->jobs < b->jobs || a->node_s < b->node_s);
}

struct spared {
	uint64_t worth;
	uint32_t job_id;
	size_t index;
};

static int by_worth(const void *a, const void *b)
{
	const struct spared *x = a, *y = b;

	if (x->worth != y->worth)
		return x->worth > y->worth ? -1 : 1;
	return (x->job_id > y->job_id) - (x->job_id < y->job_id);
}

/* The order in which jobs are left out: those first that have run most, or else the smallest. */
static struct spared *list_spared(const struct use_least *l, bool smallest)
{
	struct spared *list = xmalloc((l->count + 1) * sizeof(*list));
	size_t i;

	for (i = 0; i < l->count; i++)
		list[i] = (struct spared){.worth = smallest ? UINT32_MAX - l->jobs[i]->node_cnt
							    : run_node_s(l->jobs[i]),
			.job_id = l->jobs[i]->job_id,
			.index = i};
	if (l->count > 0)
		qsort(list, l->count, sizeof(*list), by_worth);
	return list;
}

/* One after the other stays if it fits all the same. False: it does not even fit without all. */
static bool spare(const struct use_least *l, const struct spared *list, bool *gone)
{
	size_t i;

	if (!l->fits(gone, l->nodes, l->userdata))
		return false;
	for (i = 0; i < l->count; i++) {
		bool *its = &gone[list[i].index];

		if (!*its)
			continue;
		*its = false;
		if (!l->fits(gone, l->nodes, l->userdata))
			*its = true;
	}
	return true;
}

/* Of all jobs that lose something. */
static struct use_loss add_losses(const struct use_least *l, const bool *gone)
{
	struct use_loss loss = use_loss_of(l->jobs, l->count, gone), more;

	if (l->more) {
		more = l->more(gone, l->nodes, l->userdata);
		loss.jobs += more.jobs;
		loss.node_s += more.node_s;
	}
	return loss;
}

bool use_least(const struct use_least *l, bool *gone)
{
	struct spared *by_time = list_spared(l, false), *by_size = list_spared(l, true);
	struct use_loss least = add_losses(l, gone), loss;
	bool *tried = xmalloc(l->count + 1), better = false;
	int turn;

	/* of those that were chosen, then of all */
	for (turn = 0; turn < 3; turn++) {
		memcpy(tried, gone, l->count);
		if (turn > 0)
			memset(tried, true, l->count);
		if (!spare(l, turn == 2 ? by_size : by_time, tried))
			continue;
		loss = add_losses(l, tried);
		if (!is_less(&loss, &least))
			continue;
		least = loss;
		memcpy(gone, tried, l->count);
		better = true;
	}
	xfree(tried);
	xfree(by_time);
	xfree(by_size);
	return better;
}

struct least_preemption {
	const struct preemption *p;
	bool *hidden; /* who is now */
	bitstr_t *tried;
};

static void set_gone(struct least_preemption *l, const bool *gone)
{
	size_t i;

	for (i = 0; i < l->p->count; i++) {
		bool wanted = gone && gone[i];

		if (wanted && !l->hidden[i])
			use_hide(&use_now, l->p->candidates[i].job);
		else if (!wanted && l->hidden[i])
			use_show(&use_now, l->p->candidates[i].job);
		l->hidden[i] = wanted;
	}
}

static bool fits_without(const bool *gone, const bitstr_t *nodes, void *userdata)
{
	struct least_preemption *l = userdata;

	set_gone(l, gone);
	bit_copybits(l->tried, nodes);
	return l->p->need->fits(l->tried, l->p->need->userdata);
}

static struct use_loss lose_more(const bool *gone, const bitstr_t *nodes, void *userdata)
{
	struct least_preemption *l = userdata;

	set_gone(l, gone);
	return l->p->need->more(nodes, l->p->need->userdata);
}

/* found becomes what it takes then. */
static void preempt_least(
	const struct preemption *p, bool *gone, const bitstr_t *nodes, bitstr_t *found)
{
	struct least_preemption l = {
		.p = p, .hidden = xmalloc(p->count + 1), .tried = bit_copy(nodes)};
	const job_record_t **jobs = xmalloc((p->count + 1) * sizeof(*jobs));
	const struct use_least least = {.jobs = jobs,
		.count = p->count,
		.nodes = nodes,
		.fits = fits_without,
		.more = p->need->more ? lose_more : NULL,
		.userdata = &l};
	size_t i;

	for (i = 0; i < p->count; i++)
		jobs[i] = p->candidates[i].job;
	if (use_least(&least, gone) && fits_without(gone, nodes, &l))
		bit_copybits(found, l.tried);
	set_gone(&l, NULL);
	bit_free(l.tried);
	xfree(l.hidden);
	xfree(jobs);
}

bool use_preempt(bitstr_t *nodes, List candidates, uint16_t modes, const struct use_need *need,
	List *ret_preempted)
{
	struct preemption p = {.need = need};
	uint32_t turn = 0;
	bitstr_t *found;
	size_t needed, i;
	bool *gone;

	if (!candidates)
		return false;
	list_candidates(&p, candidates, modes);
	gone = xmalloc(p.count + 1);
	found = bit_copy(nodes);
	needed = count_needed(&p, nodes, found);
	for (; needed > 1 && turn < slurm_conf.preempt_reorder_count; turn++) {
		reorder(&p, needed, found);
		needed = count_needed(&p, nodes, found);
	}
	for (i = 0; i < needed; i++)
		gone[i] = bit_overlap_any(p.candidates[i].job->node_bitmap, found);
	if (needed && slurm_conf.select_type_param & CR_LEAST_PREEMPT)
		preempt_least(&p, gone, nodes, found);
	if (needed && ret_preempted)
		*ret_preempted = list_preempted(&p, gone, found);
	if (needed)
		bit_copybits(nodes, found);
	bit_free(found);
	xfree(gone);
	xfree(p.candidates);
	return needed > 0;
}

/* ---- information -------------------------------------------------------------------------------
 */

static void free_text(void *text)
{
	free(text);
}

int use_get_info(enum select_plugindata_info dinfo, uint32_t gives_parts, void *data)
{
	switch (dinfo) {
	case SELECT_CR_PLUGIN:
		*(uint32_t *)data = gives_parts;
		return SLURM_SUCCESS;
	case SELECT_CONFIG_INFO:
		*(List *)data = list_create(free_text);
		return SLURM_SUCCESS;
	case SELECT_SINGLE_JOB_TEST:
		*(uint32_t *)data = 0;
		return SLURM_SUCCESS;
	}
	errno = EINVAL;
	return SLURM_ERROR;
}
