/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The engine's life, and its clock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/plan.h"
#include "contrib/jobd/preempt/host.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"

/* ---- timers -------------------------------------------------------------------------------------
 */

/* A binary heap; a job knows its place in it, timer_index, from 1 on: 0 is none. */
static void timer_put(struct engine *e, size_t i, struct job *job)
{
	e->timers[i] = job;
	job->timer_index = i + 1;
}

static void timer_sift(struct engine *e, size_t i)
{
	struct job *job = e->timers[i];
	size_t child;

	for (; i > 0 && e->timers[(i - 1) / 2]->due_ms > job->due_ms; i = (i - 1) / 2)
		timer_put(e, i, e->timers[(i - 1) / 2]);
	for (; (child = 2 * i + 1) < e->timers_count; i = child) {
		if (child + 1 < e->timers_count &&
			e->timers[child + 1]->due_ms < e->timers[child]->due_ms)
			child++;
		if (e->timers[child]->due_ms >= job->due_ms)
			break;
		timer_put(e, i, e->timers[child]);
	}
	timer_put(e, i, job);
}

static void timer_remove(struct engine *e, struct job *job)
{
	size_t i = job->timer_index - 1;
	struct job *last = e->timers[--e->timers_count];

	job->timer_index = 0;
	if (last == job)
		return;
	timer_put(e, i, last);
	timer_sift(e, i);
}

void timer_set(struct engine *e, struct job *job, uint64_t due_ms)
{
	job->due_ms = due_ms;
	if (due_ms == NEVER_MS) {
		if (job->timer_index)
			timer_remove(e, job);
		return;
	}
	if (!job->timer_index) {
		/* job_add() has allocated an entry for each job */
		timer_put(e, e->timers_count++, job);
	}
	timer_sift(e, job->timer_index - 1);
}

/* ---- the store ----------------------------------------------------------------------------------
 */

void job_changed(struct engine *e, struct job *job)
{
	const struct engine_store *store = e->options.store;
	struct err err = ERR_INIT;

	if (store && store->job_changed(job, e->options.store_data, &err) < 0)
		log_error(e->log, "%s", err.text);
}

bool changes_begin(struct engine *e)
{
	const struct engine_store *store = e->options.store;
	struct err err = ERR_INIT;

	if (!store)
		return false;
	if (store->begin(e->options.store_data, &err) == 0)
		return true;
	log_error(e->log, "%s", err.text);
	return false;
}

void changes_end(struct engine *e, bool begun)
{
	struct err err = ERR_INIT;

	if (begun && e->options.store->commit(e->options.store_data, &err) < 0)
		log_error(e->log, "%s", err.text);
}

/* ---- life ---------------------------------------------------------------------------------------
 */

static void set_slurm_conf(const struct conf *conf)
{
	slurm_conf = (slurm_conf_t){
		.cluster_name = conf->cluster_name,
		.select_type_param = conf->select_type_param,
		.preempt_mode = conf->preempt_mode,
		.preempt_reorder_count = conf->scheduler.preempt_reorder_count,
		.preempt_strict_order = conf->scheduler.preempt_strict_order,
		.preempt_by_qos = strcmp(conf->preempt_type, "qos") == 0,
		.def_mem_per_cpu = conf->def_mem,
		.max_mem_per_cpu = conf->max_mem,
		.kill_wait = conf->kill_wait_s,
	};
}

static int compare_tiers(const void *a, const void *b, void *parts)
{
	const part_record_t *x = (part_record_t *)parts + *(const size_t *)a,
			    *y = (part_record_t *)parts + *(const size_t *)b;

	if (x->priority_tier != y->priority_tier)
		return x->priority_tier > y->priority_tier ? -1 : 1;
	return x < y ? -1 : x > y;
}

static uint32_t count_cpus(const bitstr_t *nodes)
{
	uint32_t n = 0;
	bitoff_t i = 0;

	for (; (i = bit_ffs_from_bit(nodes, i)) >= 0; i++)
		n += node_record_table_ptr[i].cpus;
	return n;
}

static void fill_part(part_record_t *part, const struct conf_part *conf)
{
	*part = (part_record_t){
		.name = conf->name,
		.node_bitmap = conf->nodes,
		.total_nodes = (uint32_t)bit_set_count(conf->nodes),
		.total_cpus = count_cpus(conf->nodes),
		.min_nodes = conf->min_nodes,
		.max_nodes = conf->max_nodes,
		.max_time = conf->max_time_min,
		.default_time = conf->default_time_min,
		.def_mem_per_cpu = conf->def_mem,
		.max_mem_per_cpu = conf->max_mem,
		.max_share = conf->max_share,
		.priority_tier = conf->priority_tier,
		.priority_job_factor = conf->priority_job_factor,
		.preempt_mode = conf->preempt_mode,
		.grace_time = conf->grace_time_s,
		.preempt_exempt_time = conf->exempt_time_s,
	};
}

/* The records stay where they are: jobs point to them. */
void engine_fill_parts(struct engine *e)
{
	size_t i;

	for (i = 0; i < e->parts_count; i++) {
		fill_part(&e->parts[i], &e->conf->parts[i]);
		e->parts_by_tier[i] = i;
	}
	qsort_r(e->parts_by_tier, e->parts_count, sizeof(*e->parts_by_tier), compare_tiers,
		e->parts);
	set_slurm_conf(e->conf);
}

static int make_parts(struct engine *e)
{
	size_t n = e->conf->parts_count, i;

	e->parts = calloc(n + 1, sizeof(*e->parts));
	e->queues = calloc(n + 1, sizeof(*e->queues));
	e->gangs = calloc(n + 1, sizeof(*e->gangs));
	e->parts_by_tier = calloc(n + 1, sizeof(*e->parts_by_tier));
	if (!e->parts || !e->queues || !e->gangs || !e->parts_by_tier)
		return -ENOMEM;
	e->parts_count = n;
	engine_fill_parts(e);
	part_list = list_create(NULL);
	for (i = 0; i < n; i++)
		(void)list_append(part_list, &e->parts[i]);
	return 0;
}

int engine_make_qos(const struct conf *conf, qos_record_t **ret_qos)
{
	qos_record_t *qos = calloc(conf->qos_count + 1, sizeof(*qos));
	size_t i;

	if (!qos)
		return -ENOMEM;
	for (i = 0; i < conf->qos_count; i++)
		qos[i] = (qos_record_t){.id = (uint32_t)i,
			.name = conf->qos[i].name,
			.priority = conf->qos[i].priority,
			.preempt_bitstr = conf->qos[i].preempts,
			.preempt_mode = conf->qos[i].preempt_mode,
			.grace_time = conf->qos[i].grace_time_s,
			.preempt_exempt_time = conf->qos[i].exempt_time_s,
			.flags = conf->qos[i].flags};
	*ret_qos = qos;
	return 0;
}

qos_record_t *engine_find_qos(const struct engine *e, const char *name)
{
	int i = name ? conf_find_qos(e->conf, name) : -1;

	return i < 0 ? NULL : &e->qos[i];
}

int engine_new(const struct engine_options *options, struct engine **ret_engine, struct err *err)
{
	struct engine *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return err_set(err, -ENOMEM, "make the engine");
	e->options = *options;
	e->conf = options->conf;
	e->select = options->select;
	e->preempt = options->preempt;
	e->log = options->log;
	e->now_ms = options->now_ms;
	e->changes = 1;
	e->next_job_id = e->conf->first_job_id;
	if (options->next_job_id > e->next_job_id && options->next_job_id <= e->conf->max_job_id)
		e->next_job_id = options->next_job_id;
	e->pass_due_ms = NEVER_MS;
	e->full_pass_due_ms = e->now_ms + MS_PER_S * e->conf->scheduler.sched_interval_s;
	e->backfill_due_ms = e->slice_due_ms = NEVER_MS;
	e->backfilled_ms = e->now_ms;
	preempt_set(e);
	select_clock = engine_now(e);
	job_list = list_create(NULL);
	r = nodes_make(e, err);
	if (r == 0 && (make_parts(e) < 0 || engine_make_qos(e->conf, &e->qos) < 0))
		r = err_set(err, -ENOMEM, "make the engine");
	if (r < 0) {
		e->conf = NULL; /* still the caller's */
		e->select = NULL;
		e->preempt = NULL;
		(void)engine_free(e);
		return r;
	}
	*ret_engine = e;
	return 0;
}

int engine_begin(struct engine *e, char *state_dir, struct err *err)
{
	_cleanup_free_ const char **kept = nodes_kept_states(e);
	size_t i;
	int r = kept ? select_begin(e->select, state_dir, kept, err)
		     : err_set(err, -ENOMEM, "begin with %d nodes", node_record_count);

	if (r < 0)
		return r;
	nodes_compare(e);
	nodes_count_alone(e);
	for (i = 0; i < e->jobs_count; i++) {
		struct job *job = e->jobs[i];

		if (job && job_is_pending(job))
			queue_place(e, job);
		if (job && job->launched)
			job->step_info = select_jobinfo_new(e->select);
		if (job && job_is_completing(job) && job->record.job_resrcs)
			job_fini_plugin(e, job); /* once more */
	}
	preempt_restore(e);
	het_restore(e);
	gang_restore(e);
	engine_want_pass(e);
	return 0;
}

int engine_end(struct engine *e, char *state_dir, struct err *err)
{
	return select_save(e->select, state_dir, err);
}

struct engine *engine_free(struct engine *e)
{
	size_t i;

	if (!e)
		return NULL;
	for (i = 0; i < e->jobs_count; i++) {
		if (e->jobs[i] && e->jobs[i]->runner_data)
			e->options.runner->forget(e->jobs[i], e->options.runner_data);
		job_free(e, e->jobs[i]);
	}
	if (e->select)
		select_end(e->select);
	(void)select_close(e->select);
	(void)preempt_close(e->preempt);
	e->preempt = NULL;
	preempt_set(e);
	gang_free(e);
	queue_clear(e);
	reservations_clear(e);
	e->plan = plan_free(e->plan);
	nodes_free(e);
	FREE_NULL_LIST(part_list);
	FREE_NULL_LIST(job_list);
	free(e->jobs);
	free(e->timers);
	free(e->parts);
	free(e->qos);
	free(e->queues);
	free(e->parts_by_tier);
	(void)conf_free(e->conf);
	free(e);
	return NULL;
}

/* ---- the clock ----------------------------------------------------------------------------------
 */

void engine_want_pass_for(struct engine *e, struct job *job)
{
	job->refused = 0;
	e->pass_due_ms = e->now_ms;
	e->backfill_wanted = true;
}

void engine_want_pass(struct engine *e)
{
	e->changes++;
	e->pass_due_ms = e->now_ms;
	e->backfill_wanted = true;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool has_queue(const struct engine *e)
{
	size_t i;

	for (i = 0; i < e->parts_count; i++) {
		if (e->queues[i].count)
			return true;
	}
	return false;
}

/* A quick pass when something has changed, one over all jobs now and then, and backfill in its
 * own intervals, as long as anybody waits and something has changed. */
static void run_passes(struct engine *e)
{
	const struct conf_scheduler *s = &e->conf->scheduler;
	bool full = e->now_ms >= e->full_pass_due_ms;

	if (e->waiting_changed)
		queue_recheck(e);
	if (full || e->now_ms >= e->pass_due_ms) {
		e->pass_due_ms = NEVER_MS;
		if (full)
			e->full_pass_due_ms = e->now_ms + MS_PER_S * s->sched_interval_s;
		pass_run(e, full);
		/* what waits for a job's start */
		if (e->waiting_changed)
			queue_recheck(e);
	}
	/* Time alone lets no job start: what is in the way only comes nearer. */
	if (!e->conf->backfill || !e->backfill_wanted || !has_queue(e)) {
		e->backfill_due_ms = NEVER_MS;
		return;
	}
	e->backfill_due_ms = e->backfilled_ms + MS_PER_S * s->bf_interval_s;
	if (e->now_ms < e->backfill_due_ms)
		return;
	e->backfilled_ms = e->now_ms;
	e->backfill_wanted = false;
	e->backfill_due_ms = NEVER_MS;
	backfill_run(e);
}

/* It never goes back: a clock that is set back by hand stands still for the engine. */
void engine_set_time(struct engine *e, uint64_t now_ms)
{
	if (now_ms > e->now_ms)
		e->now_ms = now_ms;
	select_clock = engine_now(e);
}

uint64_t engine_advance(struct engine *e, uint64_t now_ms)
{
	struct job *job;
	time_t change;
	uint64_t next;

	engine_set_time(e, now_ms);
	if (e->memory_unconfirmed)
		nodes_confirm_memory(e); /* the runner has its jobs again by now */
	reservations_expire(e);
	while (e->timers_count && e->timers[0]->due_ms <= e->now_ms) {
		job = e->timers[0];
		timer_remove(e, job);
		job_due(e, job);
	}
	if (e->gang_changed)
		gang_settle(e);
	if (e->slice_due_ms <= e->now_ms)
		gang_slice(e);
	run_passes(e);
	if (e->gang_changed)
		gang_settle(e); /* jobs have started */
	next = earliest(e->pass_due_ms, e->backfill_due_ms);
	if (has_queue(e))
		next = earliest(next, e->full_pass_due_ms);
	if (e->timers_count)
		next = earliest(next, e->timers[0]->due_ms);
	next = earliest(next, e->gang_changed ? e->now_ms : e->slice_due_ms);
	change = reservations_next_change(e, engine_now(e));
	return change ? earliest(next, MS_PER_S * (uint64_t)change) : next;
}

time_t engine_get_time(const struct engine *e)
{
	return engine_now(e);
}

const struct engine_stats *engine_get_stats(const struct engine *e)
{
	return &e->stats;
}

const struct conf *engine_get_conf(const struct engine *e)
{
	return e->conf;
}
