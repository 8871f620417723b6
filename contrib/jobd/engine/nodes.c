/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes: the table that plugins see, their states, and lists of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/err.h"
#include "stepd/base/hostlist.h"
#include "stepd/base/json.h"

/* ---- the table ----------------------------------------------------------------------------------
 */

static void fill_node(node_record_t *node, const struct conf_node *conf)
{
	node->name = conf->name;
	node->node_state = conf->state;
	node->cpus = conf->cpus;
	node->tot_sockets = conf->sockets;
	node->cores = conf->cores_per_socket;
	node->threads = conf->threads_per_core;
	node->tot_cores = (uint32_t)conf->sockets * conf->cores_per_socket;
	node->real_memory = conf->real_memory;
	node->mem_spec_limit = conf->mem_spec_limit;
	node->weight = conf->weight;
	node->features = conf->features;
}

static bool is_up(const node_record_t *node)
{
	return (node->node_state & NODE_STATE_BASE) != NODE_STATE_DOWN &&
		!(node->node_state & NODE_STATE_DRAIN);
}

static void fill_nodes(const struct conf *conf)
{
	uint32_t cores = 0;
	size_t i;

	for (i = 0; i < conf->nodes_count; i++) {
		node_record_t *node = &node_record_table_ptr[i];

		fill_node(node, &conf->nodes[i]);
		node->index = (uint32_t)i;
		node->core_offset = cores;
		cores += node->tot_cores;
	}
}

static int compare_ranks(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const uint32_t x_rank = node_record_table_ptr[x].node_rank;
	const uint32_t y_rank = node_record_table_ptr[y].node_rank;

	if (x_rank != y_rank)
		return x_rank < y_rank ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Nodes that are close to each other are to be neighbours in bitmaps: the plugin may know. */
static int order_nodes(struct engine *e)
{
	size_t n = e->conf->nodes_count, i;

	if (!select_rank_nodes(e->select))
		return 0;
	e->node_order = calloc(n + 1, sizeof(*e->node_order));
	if (!e->node_order)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		e->node_order[i] = (uint32_t)i;
	qsort(e->node_order, n, sizeof(*e->node_order), compare_ranks);
	if (conf_order_nodes(e->conf, e->node_order) < 0)
		return -ENOMEM;
	fill_nodes(e->conf);
	return 0;
}

int nodes_make(struct engine *e, struct err *err)
{
	size_t n = e->conf->nodes_count, i;

	node_record_table_ptr = calloc(n + 1, sizeof(*node_record_table_ptr));
	e->nodes = calloc(n + 1, sizeof(*e->nodes));
	if (!node_record_table_ptr || !e->nodes)
		return err_set(err, -ENOMEM, "make %zu nodes", n);
	node_record_count = (int)n;
	e->most_cpus = 1;
	e->up_nodes = bit_alloc((bitoff_t)n);
	e->completing_nodes = bit_alloc((bitoff_t)n);
	e->used_nodes = bit_alloc((bitoff_t)n);
	fill_nodes(e->conf);
	if (order_nodes(e) < 0)
		return err_set(err, -ENOMEM, "sort %zu nodes", n);
	for (i = 0; i < n; i++) {
		const node_record_t *node = &node_record_table_ptr[i];
		const char *reason = e->conf->nodes[i].reason;

		if (node->cpus > e->most_cpus)
			e->most_cpus = node->cpus;
		if (is_up(node))
			bit_set(e->up_nodes, (bitoff_t)i);
		e->nodes[i].reason = reason ? strdup(reason) : NULL;
		e->nodes[i].reason_uid = e->options.uid;
	}
	return 0;
}

/* Plugins have freed select_nodeinfo by then. */
void nodes_free(struct engine *e)
{
	int i;

	for (i = 0; e->nodes && i < node_record_count; i++) {
		free(e->nodes[i].reason);
		free(e->nodes[i].kept_state);
	}
	free(e->nodes);
	free(e->node_order);
	bit_free(e->up_nodes);
	bit_free(e->completing_nodes);
	bit_free(e->used_nodes);
	free(node_record_table_ptr);
	node_record_table_ptr = NULL;
	node_record_count = 0;
}

/* ---- lists --------------------------------------------------------------------------------------
 */

/* Lists mostly go up, as the table does: the search goes on where it stood. */
struct node_search {
	bitstr_t *nodes;
	int next;
};

static int find_node(const char *name, void *userdata)
{
	struct node_search *search = userdata;
	int tries, i;

	for (tries = 0; tries < node_record_count; tries++) {
		i = (search->next + tries) % node_record_count;
		if (strcmp(node_record_table_ptr[i].name, name) != 0)
			continue;
		bit_set(search->nodes, i);
		search->next = i + 1;
		return 0;
	}
	return -ENOENT;
}

int nodes_parse(const char *text, bitstr_t **ret_nodes)
{
	struct node_search search = {.nodes = bit_alloc(node_record_count)};

	if (strcasecmp(text, "ALL") == 0)
		bit_set_all(search.nodes);
	else if (hostlist_each(text, (size_t)node_record_count, find_node, &search) < 0)
		FREE_NULL_BITMAP(search.nodes);
	*ret_nodes = search.nodes;
	return search.nodes ? 0 : -EINVAL;
}

char *nodes_text(const bitstr_t *nodes)
{
	size_t n = (size_t)bit_set_count(nodes), k = 0;
	char **names = calloc(n + 1, sizeof(*names)), *text;
	bitoff_t i = 0;

	if (!names)
		return NULL;
	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++)
		names[k++] = node_record_table_ptr[i].name;
	text = hostlist_make(names, n);
	free(names);
	return text;
}

/* ---- features -----------------------------------------------------------------------------------
 */

static bool has_one(const char *features, const char *wanted, size_t size)
{
	const char *f = features, *end;

	for (; f && *f; f = *end ? end + 1 : end) {
		end = strchrnul(f, ',');
		if ((size_t)(end - f) == size && strncmp(f, wanted, size) == 0)
			return true;
	}
	return false;
}

/* "a&b|c" from left to right, as sbatch(1) has it. */
bool node_has_features(const node_record_t *node, const char *wanted)
{
	const char *w = wanted;
	bool has = true, or = false;

	for (;;) {
		size_t size = strcspn(w, "&|");
		bool one = has_one(node->features, w, size);

		has = or ? has || one : has && one;
		w += size;
		if (!*w)
			return has;
		or = *w++ == '|';
	}
}

int features_check(const char *wanted, struct err *err)
{
	const char *w = wanted;

	if (strpbrk(wanted, "[]()*"))
		return err_set_text(err, -EINVAL,
			"--constraint=%.100s: features are joined by & and | here, without "
			"brackets and counts",
			wanted);
	for (;;) {
		size_t size = strcspn(w, "&|");

		if (size == 0)
			return err_set_text(
				err, -EINVAL, "--constraint=%.100s: a feature is missing", wanted);
		w += size;
		if (!*w++)
			return 0;
	}
}

/* ---- what jobs do to their states ---------------------------------------------------------------
 */

static bool is_alone(const struct job *job)
{
	return job->record.job_resrcs->node_req == NODE_CR_RESERVED;
}

/* Of a node that is not down: by what jobs have of it. */
static void set_state(struct engine *e, node_record_t *node)
{
	uint32_t flags = node->node_state & ~NODE_STATE_BASE, state = NODE_STATE_IDLE;
	uint64_t memory;
	uint16_t cpus;

	if ((node->node_state & NODE_STATE_BASE) == NODE_STATE_DOWN)
		return;
	if (node->run_job_cnt + node->sus_job_cnt > 0) {
		select_node_use(e->select, node, &cpus, &memory);
		state = node->no_share_job_cnt || cpus >= node->cpus ? NODE_STATE_ALLOCATED
								     : NODE_STATE_MIXED;
	}
	node->node_state = state | flags;
}

static void count_job(struct engine *e, const struct job *job, int n)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(job->record.node_bitmap, i)) >= 0; i++) {
		node_record_t *node = &node_record_table_ptr[i];
		uint16_t *count = job_base_state(job) == JOB_SUSPENDED ? &node->sus_job_cnt
								       : &node->run_job_cnt;

		*count = (uint16_t)(*count + n);
		if (node->run_job_cnt + node->sus_job_cnt > 0)
			bit_set(e->used_nodes, i);
		else
			bit_clear(e->used_nodes, i);
		if (is_alone(job))
			node->no_share_job_cnt = (uint16_t)(node->no_share_job_cnt + n);
		set_state(e, node);
	}
}

void nodes_set_states(struct engine *e)
{
	int i;

	for (i = 0; i < node_record_count; i++)
		set_state(e, &node_record_table_ptr[i]);
}

void nodes_add_job(struct engine *e, const struct job *job)
{
	count_job(e, job, 1);
}

void nodes_remove_job(struct engine *e, const struct job *job)
{
	count_job(e, job, -1);
}

void nodes_count_alone(struct engine *e)
{
	bitoff_t i;
	size_t k;

	for (i = 0; i < node_record_count; i++)
		node_record_table_ptr[i].no_share_job_cnt = 0;
	for (k = 0; k < e->jobs_count; k++) {
		const struct job *job = e->jobs[k];

		if (!job || !job_has_nodes(job) || !is_alone(job))
			continue;
		for (i = 0; (i = bit_ffs_from_bit(job->record.node_bitmap, i)) >= 0; i++)
			node_record_table_ptr[i].no_share_job_cnt++;
	}
	nodes_set_states(e);
}

void nodes_begin_completing(struct engine *e, const bitstr_t *nodes)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		e->nodes[i].completing++;
		bit_set(e->completing_nodes, i);
		node_record_table_ptr[i].node_state |= NODE_STATE_COMPLETING;
	}
}

void nodes_end_completing(struct engine *e, const bitstr_t *nodes)
{
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++) {
		if (--e->nodes[i].completing > 0)
			continue;
		bit_clear(e->completing_nodes, i);
		node_record_table_ptr[i].node_state &= ~NODE_STATE_COMPLETING;
	}
}

/* ---- what operators do to them ------------------------------------------------------------------
 */

static void node_changed(struct engine *e, node_record_t *node, const char *reason, uid_t by)
{
	const struct engine_store *store = e->options.store;
	struct node_extra *extra = &e->nodes[node->index];
	struct err err = ERR_INIT;

	free(extra->reason);
	extra->reason = reason ? strdup(reason) : NULL;
	extra->reason_time = reason ? engine_now(e) : 0;
	extra->reason_uid = by;
	if (is_up(node))
		bit_set(e->up_nodes, node->index);
	else
		bit_clear(e->up_nodes, node->index);
	select_node_changed(e->select, node);
	if (store && store->node_changed(node, e->options.store_data, &err) < 0)
		log_error(e->log, "%s", err.text);
	engine_want_pass(e);
}

void nodes_drain(struct engine *e, uint32_t i, const char *reason)
{
	node_record_t *node = &node_record_table_ptr[i];

	if (node->node_state & NODE_STATE_DRAIN)
		return;
	log_error(e->log, "node %s is drained: %s", node->name, reason);
	node->node_state |= NODE_STATE_DRAIN;
	node_changed(e, node, reason, e->options.uid);
}

static void fail_jobs(struct engine *e, uint32_t node)
{
	size_t i;

	for (i = 0; i < e->jobs_count; i++) {
		struct job *job = e->jobs[i];

		if (job && job_has_nodes(job) && bit_test(job->record.node_bitmap, node))
			job_terminate(e, job, job->may_requeue ? JOB_PENDING : JOB_NODE_FAIL);
	}
}

static void change_node(struct engine *e, node_record_t *node, enum node_change change,
	const char *reason, uid_t by)
{
	switch (change) {
	case NODE_CHANGE_DOWN:
		node->node_state = NODE_STATE_DOWN |
			(node->node_state & ~(NODE_STATE_BASE | NODE_STATE_DRAIN));
		fail_jobs(e, node->index);
		break;
	case NODE_CHANGE_DRAIN:
		node->node_state |= NODE_STATE_DRAIN;
		break;
	case NODE_CHANGE_RESUME:
		node->node_state &= ~NODE_STATE_DRAIN;
		if ((node->node_state & NODE_STATE_BASE) == NODE_STATE_DOWN)
			node->node_state = NODE_STATE_IDLE | (node->node_state & ~NODE_STATE_BASE);
		set_state(e, node);
		reason = NULL;
		break;
	}
	node_changed(e, node, reason, by);
}

int engine_update_nodes(struct engine *e, const char *nodes, enum node_change change,
	const char *reason, uid_t by, struct err *err)
{
	bitstr_t *which;
	bitoff_t i = 0;

	if (change != NODE_CHANGE_RESUME && (!reason || !*reason))
		return err_set_text(err, -EINVAL,
			"a reason is needed to set nodes %.100s down or drained", nodes);
	if (nodes_parse(nodes, &which) < 0)
		return err_set_text(err, -EINVAL, "there are no nodes %.200s", nodes);
	for (; (i = bit_ffs_from_bit(which, i)) >= 0; i++)
		change_node(e, &node_record_table_ptr[i], change, reason, by);
	bit_free(which);
	return 0;
}

const char *engine_get_node_reason(const struct engine *e, const node_record_t *node)
{
	return e->nodes[node->index].reason;
}

/* ---- after a restart ----------------------------------------------------------------------------
 */

static void restore_extra(struct node_extra *extra, const json_t *json)
{
	const char *reason = json_get_text(json, "reason", NULL);
	const char *kept = json_get_text(json, "select_state", NULL);

	free(extra->reason);
	extra->reason = reason ? strdup(reason) : NULL;
	extra->reason_time = (time_t)json_get_int(json, "reason_changed_at", 0);
	extra->reason_uid = (uid_t)json_get_int(json, "reason_set_by_user", 0);
	free(extra->kept_state);
	extra->kept_state = kept ? strdup(kept) : NULL;
	extra->kept_cpus = (uint16_t)json_get_int(json, "cpus", 0);
	extra->kept_memory = (uint64_t)json_get_int(json, "real_memory_mb", 0);
}

int engine_restore_node(struct engine *e, const json_t *json, struct err *err)
{
	const char *name = json_string_value(json_object_get(json, "name"));
	const char *state = json_string_value(json_object_get(json, "state"));
	json_t *flags = json_object_get(json, "state_flags"), *flag;
	struct node_search search = {.nodes = bit_alloc(node_record_count)};
	int r = name ? find_node(name, &search) : -EINVAL;
	node_record_t *node;
	size_t i;

	bit_free(search.nodes);
	if (r < 0)
		return err_set_text(
			err, r, "node %.100s is no longer configured", name ? name : "?");
	node = &node_record_table_ptr[search.next - 1];
	json_array_foreach (flags, i, flag) {
		if (strcmp(json_string_value(flag) ? json_string_value(flag) : "", "DRAIN") == 0)
			node->node_state |= NODE_STATE_DRAIN;
	}
	if (state && strcmp(state, "DOWN") == 0)
		node->node_state = NODE_STATE_DOWN | (node->node_state & ~NODE_STATE_BASE);
	if (!is_up(node))
		bit_clear(e->up_nodes, node->index);
	restore_extra(&e->nodes[node->index], json);
	return 0;
}

const char **nodes_kept_states(const struct engine *e)
{
	const char **kept = calloc((size_t)node_record_count + 1, sizeof(*kept));
	int i;

	for (i = 0; kept && i < node_record_count; i++)
		kept[i] = e->nodes[i].kept_state;
	return kept;
}

static void store_nodes(struct engine *e, const bitstr_t *which)
{
	const struct engine_store *store = e->options.store;
	void *data = e->options.store_data;
	struct err err = ERR_INIT;
	bitoff_t i = 0;
	int r;

	if (!store || bit_ffs(which) < 0)
		return;
	r = store->begin(data, &err);
	for (; r == 0 && (i = bit_ffs_from_bit(which, i)) >= 0; i++)
		r = store->node_changed(&node_record_table_ptr[i], data, &err);
	if (r == 0)
		r = store->commit(data, &err);
	else
		store->rollback(data);
	if (r < 0)
		log_error(e->log, "%s", err.text); /* the next start tries again */
}

void nodes_compare(struct engine *e)
{
	bitstr_t *others = bit_alloc(node_record_count);
	int i;

	for (i = 0; i < node_record_count; i++) {
		node_record_t *node = &node_record_table_ptr[i];
		struct node_extra *extra = &e->nodes[i];

		free(extra->kept_state); /* the plugin has it */
		extra->kept_state = NULL;
		if (extra->kept_cpus == node->cpus && extra->kept_memory == node->real_memory)
			continue;
		bit_set(others, i);
		if (extra->kept_cpus == 0)
			continue; /* it is new */
		log_info(e->log, "node %s: it has %u CPUs and %llu MB now, and had %u and %llu",
			node->name, node->cpus, (unsigned long long)node->real_memory,
			extra->kept_cpus, (unsigned long long)extra->kept_memory);
		select_node_configured(e->select, node);
		e->memory_unconfirmed = true;
	}
	store_nodes(e, others);
	bit_free(others);
}

void nodes_confirm_memory(struct engine *e)
{
	size_t i;

	e->memory_unconfirmed = false;
	for (i = 0; i < e->jobs_count; i++) {
		struct job *job = e->jobs[i];

		if (!job || !job_has_nodes(job) || job_is_completing(job) ||
			select_job_mem_confirm(e->select, &job->record))
			continue;
		log_error(e->log, "job %u ends: its nodes have less memory now than it was given",
			job->record.job_id);
		job_terminate(e, job, het_leader(job)->may_requeue ? JOB_PENDING : JOB_NODE_FAIL);
	}
}
