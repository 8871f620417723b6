/* SPDX-License-Identifier: BSD-3-Clause
 *
 * select/linear: whole nodes, those with the lowest numbers, or with --contiguous the first
 * consecutive ones that suffice, as was observed with Slurm 22.05 (select(7)). Partitions with
 * OverSubscribe let several jobs share a node: those with the fewest jobs are taken first. Memory
 * is counted with CR_Memory, that of suspended jobs included.
 */
#include <errno.h>
#include <stdlib.h>

#include "contrib/jobd/select/use.h"

/* select/cray_aries has its own. */
#ifndef JOBD_CRAY_ARIES
const char plugin_type[] = "select/linear";
const char plugin_name[] = "whole nodes on a line";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
	use_clear(&use_now);
}
#endif

/* The requirements of a job on a set of nodes. */
struct wish {
	const job_record_t *job;
	const struct use *use; /* NULL: of nodes without jobs */
	uint32_t min_nodes, max_nodes, req_nodes;
	uint32_t most;                      /* jobs that may ever share a node, with this one */
	uint32_t share;                     /* that may now */
	uint32_t most_met;                  /* of the nodes that it could share */
	struct use_suspendable suspendable; /* those that retain their memory if they are hidden */
	bool can[USE_SHAPES_MAX];           /* by shape: node_can() */
};

static uint32_t cpus_of(bitoff_t node)
{
	return node_record_table_ptr[node].cpus;
}

/* ---- which nodes it may have -------------------------------------------------------------------
 */

static bool counts_memory(void)
{
	return slurm_conf.select_type_param & CR_MEMORY;
}

/* Whether the node, free of jobs, has what the job needs of each. */
static bool node_can(const job_record_t *job, const node_record_t *node)
{
	const job_details_t *d = job->details;
	uint64_t wanted;

	if (d->pn_min_cpus > node->cpus || d->cpus_per_task > node->cpus)
		return false;
	if (!counts_memory())
		return true;
	wanted = use_memory_wanted(job, node, node->cpus);
	return wanted <= use_memory_limit(node);
}

static bool can_share(struct wish *w, const struct use_node *node)
{
	uint32_t same = 0, i;

	for (i = 0; i < node->count; i++) {
		const struct use_job *other = &node->jobs[i];

		if (other->hidden)
			continue;
		if (other->alone || w->most <= 1 || other->job->part_ptr != w->job->part_ptr)
			return false;
		same++;
	}
	if (same > w->most_met)
		w->most_met = same;
	return same < w->share;
}

/* Jobs that are hidden leave the node, but those that are suspended retain their memory. */
static bool retains_memory(const struct wish *w)
{
	return w->suspendable.count > 0 && counts_memory();
}

static uint64_t retained_memory(const struct wish *w, bitoff_t i)
{
	const struct use_node *node = &w->use->nodes[i];
	bool all = bit_test(w->use->idle, i);
	uint64_t memory = 0;
	uint32_t k;

	for (k = 0; k < node->count; k++) {
		const struct use_job *one = &node->jobs[k];

		if ((all || one->hidden) && use_is_suspendable(&w->suspendable, one->job))
			memory += one->memory;
	}
	return memory;
}

static bool has_memory(const struct wish *w, bitoff_t i)
{
	const node_record_t *node = &node_record_table_ptr[i];
	uint64_t used;

	if (!counts_memory())
		return true;
	used = use_memory(w->use, i) + (retains_memory(w) ? retained_memory(w, i) : 0);
	return used + use_memory_wanted(w->job, node, node->cpus) <= use_memory_limit(node);
}

/* Properties that all nodes of a shape share are computed once. */
static void note_shapes(struct wish *w)
{
	uint32_t i;

	for (i = 0; i < use_now.shapes_count; i++)
		w->can[i] = node_can(w->job, &node_record_table_ptr[use_now.shape_nodes[i]]);
}

static bool shape_can(const struct wish *w, bitoff_t i)
{
	uint16_t shape = use_now.shapes[i];

	return shape == USE_NO_SHAPE ? node_can(w->job, &node_record_table_ptr[i]) : w->can[shape];
}

/* Whether the job can have the node, with the jobs that are on it. */
static bool is_possible(struct wish *w, bitoff_t i)
{
	if (!shape_can(w, i))
		return false;
	if (!w->use)
		return true;
	if (bit_test(w->use->idle, i))
		return !retains_memory(w) || has_memory(w, i);
	return w->most > 1 && can_share(w, &w->use->nodes[i]) && has_memory(w, i);
}

/* Takes out of nodes those that are seen at once not to be possible. True: the others are. */
static bool drop_busy(const struct wish *w, bitstr_t *nodes)
{
	uint32_t i;

	if (w->use && w->most <= 1)
		bit_and(nodes, w->use->idle);
	for (i = 0; i < use_now.shapes_count && w->can[i]; i++)
		;
	return i == use_now.shapes_count && !use_now.has_shapeless &&
		(!w->use || (w->most <= 1 && !retains_memory(w)));
}

/* Takes out all that are not. */
static void keep_possible(struct wish *w, bitstr_t *nodes)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		if (!is_possible(w, i))
			bit_clear(nodes, i);
	}
}

/* ---- which of them it gets ---------------------------------------------------------------------
 */

struct choice {
	bitstr_t *nodes;
	uint32_t count;
	uint64_t cpus;
};

static void choose(struct choice *c, bitoff_t node)
{
	if (bit_test(c->nodes, node))
		return;
	bit_set(c->nodes, node);
	c->count++;
	c->cpus += cpus_of(node);
}

static void choose_none(struct choice *c)
{
	bit_clear_all(c->nodes);
	c->count = 0;
	c->cpus = 0;
}

static bool wants_more(const struct wish *w, const struct choice *c)
{
	return c->count < w->max_nodes &&
		(c->count < w->req_nodes || c->cpus < w->job->details->min_cpus);
}

static bool is_enough(const struct wish *w, const struct choice *c)
{
	return c->count >= w->min_nodes && c->count <= w->max_nodes &&
		c->cpus >= w->job->details->min_cpus;
}

/* False: one of them is not possible. */
static bool choose_required(struct wish *w, const bitstr_t *nodes, struct choice *c)
{
	const bitstr_t *required = w->job->details->req_node_bitmap;
	bitoff_t i = 0;

	for (; required && (i = bit_ffs_from_bit(required, i)) >= 0; i++) {
		if (!bit_test(nodes, i) || !is_possible(w, i))
			return false;
		choose(c, i);
	}
	return true;
}

/* Nodes of less weight first, then by number. */
static void choose_lowest(struct wish *w, const bitstr_t *nodes, struct choice *c)
{
	uint32_t k;
	bitoff_t i;

	if (!use_now.order) {
		for (i = 0; wants_more(w, c) && (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
			if (is_possible(w, i))
				choose(c, i);
		}
		return;
	}
	for (k = 0; wants_more(w, c) && k < use_now.nodes_count; k++) {
		i = use_now.order[k];
		if (bit_test(nodes, i) && is_possible(w, i))
			choose(c, i);
	}
}

static int by_cpus(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint32_t cx = cpus_of(x), cy = cpus_of(y);

	return cx != cy ? (cx < cy) - (cx > cy) : (x > y) - (x < y);
}

/* Those with the most CPUs, where as many of the lowest as it may have do not have enough. */
static void choose_largest(struct wish *w, const bitstr_t *nodes, struct choice *c)
{
	uint32_t *order = xmalloc((size_t)bit_size(nodes) * sizeof(*order)), n = 0, k;
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		if (is_possible(w, i))
			order[n++] = (uint32_t)i;
	}
	qsort(order, n, sizeof(*order), by_cpus);
	for (k = 0; k < n && wants_more(w, c); k++)
		choose(c, order[k]);
	free(order);
}

static void choose_anywhere(struct wish *w, const bitstr_t *nodes, struct choice *c)
{
	if (!choose_required(w, nodes, c))
		return;
	if (w->share > 1) { /* all that have fewer jobs: they do not suffice by themselves */
		w->share--;
		choose_lowest(w, nodes, c);
		w->share++;
	}
	choose_lowest(w, nodes, c);
	if (is_enough(w, c) || c->count < w->max_nodes)
		return;
	choose_none(c);
	if (choose_required(w, nodes, c))
		choose_largest(w, nodes, c);
}

/* The first neighbours that suffice, from *ret_first to *ret_last. */
static bool find_neighbours(
	const struct wish *w, const bitstr_t *nodes, bitoff_t *ret_first, bitoff_t *ret_last)
{
	const bitstr_t *required = w->job->details->req_node_bitmap;
	bitoff_t first = 0, end, i;

	for (; (first = bit_ffs_from_bit(nodes, first)) >= 0; first = end) {
		uint64_t cpus = 0;

		end = bit_ffc_from_bit(nodes, first);
		end = end < 0 ? bit_size(nodes) : end;
		for (i = first; i < end; i++)
			cpus += cpus_of(i);
		if (end - first < w->min_nodes || cpus < w->job->details->min_cpus)
			continue;
		if (required &&
			bit_set_count(required) != bit_set_count_range(required, first, end))
			continue;
		*ret_first = first;
		*ret_last = end - 1;
		return true;
	}
	return false;
}

/* As many of a row as are wanted, with all that are required. */
static void choose_neighbours(const struct wish *w, const bitstr_t *nodes, struct choice *c)
{
	const bitstr_t *required = w->job->details->req_node_bitmap;
	bitoff_t first, last, from, to, i;

	if (!find_neighbours(w, nodes, &first, &last))
		return;
	from = required && bit_ffs(required) >= 0 ? bit_ffs(required) : first;
	to = required && bit_ffs(required) >= 0 ? bit_fls(required) : first;
	for (i = from; i <= to; i++)
		choose(c, i);
	while (wants_more(w, c) && to < last)
		choose(c, ++to);
	while (wants_more(w, c) && from > first)
		choose(c, --from);
}

/* If those are not enough, the first sequence that is, with as few nodes as possible. Both ends of
 * a sequence only move upwards. */
static void choose_window(const struct wish *w, const bitstr_t *nodes, struct choice *c)
{
	const bitstr_t *required = w->job->details->req_node_bitmap;
	bool any = required && bit_ffs(required) >= 0;
	bitoff_t lowest = any ? bit_ffs(required) : bit_size(nodes);
	bitoff_t highest = any ? bit_fls(required) : -1, first = 0, end = 0;
	uint64_t cpus = 0;

	for (; first <= lowest && (first = bit_ffs_from_bit(nodes, first)) >= 0; first++) {
		if (end <= first) { /* another row */
			end = first;
			cpus = 0;
		}
		while (end < bit_size(nodes) && bit_test(nodes, end) &&
			(end - first < w->min_nodes || cpus < w->job->details->min_cpus ||
				end <= highest))
			cpus += cpus_of(end++);
		if (first <= lowest && end > highest && end - first >= w->min_nodes &&
			end - first <= w->max_nodes && cpus >= w->job->details->min_cpus) {
			while (first < end)
				choose(c, first++);
			return;
		}
		cpus -= end > first ? cpus_of(first) : 0;
	}
}

static void choose_contiguous(struct wish *w, bitstr_t *nodes, struct choice *c)
{
	const bitstr_t *required = w->job->details->req_node_bitmap;

	keep_possible(w, nodes);
	if (required && !bit_super_set(required, nodes))
		return;
	choose_neighbours(w, nodes, c);
	if (is_enough(w, c))
		return;
	choose_none(c);
	choose_window(w, nodes, c);
}

/* The position behind the first n of these bits, which there are. */
static bitoff_t find_behind(const bitstr_t *nodes, uint32_t n)
{
	bitoff_t low = 0, high = bit_size(nodes), middle;

	while (low < high) {
		uint32_t count;

		middle = low + (high - low) / 2;
		count = (uint32_t)bit_set_count_range(nodes, low, middle + 1);
		if (count >= n) {
			high = middle;
		} else {
			n -= count;
			low = middle + 1;
		}
	}
	return low + 1;
}

/* If all nodes are equal, as many as it needs, from the lowest number on. */
static bool pick_equals(const struct wish *w, bitstr_t *nodes)
{
	uint32_t cpus = cpus_of(0), n = (w->job->details->min_cpus + cpus - 1) / cpus;
	bitoff_t behind;

	n = n > w->req_nodes ? n : w->req_nodes;
	n = n < w->max_nodes ? n : w->max_nodes;
	if ((uint32_t)bit_set_count(nodes) < n)
		n = (uint32_t)bit_set_count(nodes);
	if (n < w->min_nodes || (uint64_t)n * cpus < w->job->details->min_cpus)
		return false;
	behind = find_behind(nodes, n);
	if (behind < bit_size(nodes))
		bit_nclear(nodes, behind, bit_size(nodes) - 1);
	return true;
}

/* Nodes becomes what the job gets, none with more jobs than w->share: true if that is enough. */
static bool pick_shared(struct wish *w, bitstr_t *nodes)
{
	bool all_possible = drop_busy(w, nodes), found;
	struct choice c = {.nodes = NULL};

	if ((uint32_t)bit_set_count(nodes) < w->min_nodes)
		return false;
	if (all_possible && use_now.same_cpus && !use_now.order && !w->job->details->contiguous &&
		!w->job->details->req_node_bitmap)
		return pick_equals(w, nodes);
	c.nodes = bit_alloc(bit_size(nodes));
	if (w->job->details->contiguous)
		choose_contiguous(w, nodes, &c);
	else
		choose_anywhere(w, nodes, &c);
	found = is_enough(w, &c);
	if (found)
		bit_copybits(nodes, c.nodes);
	bit_free(c.nodes);
	return found;
}

/* Of nodes with one job more at a time, as far as there are nodes with so many. */
static bool pick(struct wish *w, bitstr_t *nodes)
{
	bitstr_t *given;
	bool found = false;

	w->share = 1;
	w->most_met = 0;
	if (w->most <= 1)
		return pick_shared(w, nodes);
	given = bit_copy(nodes);
	for (; !found && w->share <= w->most && w->share <= w->most_met + 1; w->share++) {
		bit_copybits(nodes, given);
		found = pick_shared(w, nodes);
	}
	bit_free(given);
	return found;
}

static void give(job_record_t *job, const bitstr_t *nodes)
{
	job_resources_t *r = use_resources_new(nodes);
	bitoff_t i = 0;
	uint32_t k = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++, k++) {
		const node_record_t *node = &node_record_table_ptr[i];

		r->cpus[k] = node->cpus;
		r->ncpus += node->cpus;
		if (counts_memory())
			r->memory_allocated[k] = use_memory_wanted(job, node, node->cpus);
	}
	r->whole_node = 1;
	r->node_req = use_max_share(job) > 1 ? NODE_CR_AVAILABLE : NODE_CR_RESERVED;
	use_resources_free(job->job_resrcs);
	job->job_resrcs = r;
}

#define ANY_MODE (PREEMPT_MODE_SUSPEND | PREEMPT_MODE_REQUEUE | PREEMPT_MODE_CANCEL)

/* ---- when --------------------------------------------------------------------------------------
 */

static bool fits(bitstr_t *nodes, void *userdata)
{
	return pick(userdata, nodes);
}

static struct use_need count_need(struct wish *w, const bitstr_t *nodes)
{
	uint32_t by_cpus = (w->job->details->min_cpus + use_now.most_cpus - 1) / use_now.most_cpus;

	return (struct use_need){.nodes = by_cpus > w->min_nodes ? by_cpus : w->min_nodes,
		.have = (uint32_t)(w->most > 1 ? bit_set_count(nodes)
					       : bit_overlap(nodes, use_now.idle)),
		.fits = fits,
		.userdata = w};
}

/* On nodes that are free, else on those of jobs that are preempted, also by suspension, since
 * here the gang scheduler only carries out what is decided now. */
static bool find_place(struct wish *w, bitstr_t *nodes, List candidates, List *preempted)
{
	const struct use_need need = count_need(w, nodes);
	bitstr_t *tried = bit_copy(nodes);
	bool found = pick(w, tried);

	if (found)
		bit_copybits(nodes, tried);
	else if (w->use && candidates)
		found = use_preempt(nodes, candidates, ANY_MODE, &need, preempted);
	bit_free(tried);
	return found;
}

/* SELECT_MODE_WILL_RUN. What it gets are whole nodes, so that there is no need for job_resrcs. */
static bool find_start(
	struct wish *w, job_record_t *job, bitstr_t *nodes, List candidates, List *preempted)
{
	const struct use_need need = count_need(w, nodes);
	time_t not_before = job->start_time > slurm_now() ? job->start_time : slurm_now();
	struct use_row row;
	bool found;

	job->start_time = not_before;
	if (candidates && find_place(w, nodes, candidates, preempted))
		return true;
	w->suspendable.count = 0; /* those that are hidden have ended */
	found = use_find_start(&row, nodes, &need, not_before, &job->start_time);
	use_row_clear(&row);
	return found;
}

int select_p_job_test(job_record_t *job, bitstr_t *bitmap, uint32_t min_nodes, uint32_t max_nodes,
	uint32_t req_nodes, uint32_t mode, List candidates, List *preempted, bitstr_t *exc_cores)
{
	struct wish w = {.job = job,
		.use = mode == SELECT_MODE_TEST_ONLY ? NULL : &use_now,
		.min_nodes = min_nodes,
		.max_nodes = max_nodes,
		.req_nodes = req_nodes,
		.most = use_max_share(job)};
	bool found;

	(void)exc_cores; /* of whole nodes there is nothing to except */
	if (preempted)
		*preempted = NULL;
	note_shapes(&w);
	use_list_suspendable(&w.suspendable, w.use ? candidates : NULL);
	found = mode == SELECT_MODE_WILL_RUN ? find_start(&w, job, bitmap, candidates, preempted)
					     : find_place(&w, bitmap, candidates, preempted);
	xfree(w.suspendable.jobs);
	if (!found) {
		errno = mode == SELECT_MODE_TEST_ONLY ? EINVAL : EBUSY;
		return SLURM_ERROR;
	}
	if (mode == SELECT_MODE_RUN_NOW)
		give(job, bitmap);
	return SLURM_SUCCESS;
}

/* ---- reservations, and information -------------------------------------------------------------
 */

/* The lowest ones. */
bitstr_t *select_p_resv_test(resv_desc_msg_t *resv_desc_ptr, uint32_t node_cnt,
	bitstr_t *avail_bitmap, bitstr_t **core_bitmap)
{
	bitstr_t *nodes = bit_alloc(bit_size(avail_bitmap));
	bitoff_t i = 0;
	uint32_t n = 0;

	(void)core_bitmap;
	if (resv_desc_ptr->core_cnt)
		n = UINT32_MAX; /* there are no parts of nodes here */
	for (; n < node_cnt && (i = bit_ffs_from_bit(avail_bitmap, i)) >= 0; i++, n++)
		bit_set(nodes, i);
	if (n != node_cnt) {
		FREE_NULL_BITMAP(nodes);
		errno = n == UINT32_MAX ? EOPNOTSUPP : EBUSY;
	}
	return nodes;
}

int select_p_get_info_from_plugin(
	enum select_plugindata_info dinfo, job_record_t *job_ptr, void *data)
{
	(void)job_ptr;
	return use_get_info(dinfo, 0, data);
}
