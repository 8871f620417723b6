/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The gang scheduler, with PreemptMode=GANG: chooses which of the jobs with the same cores runs.
 * For each partition it has a list of jobs, and an active bitmap of the cores (or nodes, if the
 * select plugin gives whole ones) of the jobs that run. Jobs of higher tiers cast their shadows on
 * the bitmap first, and with preempt/qos those that may preempt, of other partitions or where one
 * of the two has its nodes alone; then each job of the list that still fits becomes active, and all
 * others are suspended. A shadow lasts from the
 * job's start to its end. At the end of a time slice the jobs that ran go to the end of the list.
 * If one component of a heterogeneous job does not fit, none of them runs; each has the place of
 * its own partition's list.
 *
 * A job is only started or resumed when all jobs that have to stop for it are suspended: the runner
 * suspends a job on all of its nodes or on none, which takes time. A job without the turn when it
 * is given its cores begins suspended, without a process.
 */
#include <stdlib.h>

#include "contrib/jobd/engine/engine_impl.h"

static bool is_on(const struct engine *e)
{
	return e->conf->preempt_mode & PREEMPT_MODE_GANG;
}

static const bitstr_t *parts_of(const struct job *job)
{
	const job_resources_t *r = job->record.job_resrcs;

	return r->core_bitmap ? r->core_bitmap : r->node_bitmap;
}

static struct gang *gang_of(const struct engine *e, const struct job *job)
{
	return &e->gangs[job->record.part_ptr - e->parts];
}

/* ---- the choice of jobs -------------------------------------------------------------------------
 */

/* A job that a user has suspended has no turn, and leaves its cores to the others. */
static bool has_turns(const struct job *job)
{
	return job->record.job_resrcs && !job_is_completing(job) &&
		(job_base_state(job) != JOB_SUSPENDED || job->gang_stopped);
}

/* A job that is ending has its cores until it has ended. */
static bool is_ending(const struct job *job)
{
	return job->record.job_resrcs && job_is_completing(job) && job->gang_active;
}

/* A preempted job has its grace time to use: it runs, whoever has the turn, also beside others that
 * are preempted for the same cores. Jobs of its partition that are not keep off them. */
static bool is_in_grace(const struct job *job)
{
	return job->preempted && has_turns(job);
}

static bool has_no_turns(const struct job *job)
{
	return is_ending(job) || is_in_grace(job);
}

/* It keeps others off its cores. */
static bool holds_cores(const struct job *job)
{
	return has_turns(job) || is_ending(job);
}

/* Of a partition: what its jobs that are to run have, and what those before them have from their
 * start to their end, whether they run or not. */
struct part_choice {
	bitstr_t *active;
	bitstr_t *shadow;  /* of jobs of higher tiers */
	bitstr_t **of_qos; /* with preempt/qos in its place, for jobs of a QOS that share their
			    * nodes, and for those that don't; NULL: not made yet */
};

struct choice {
	const struct engine *e;
	struct part_choice *parts; /* by partition */
};

static struct part_choice *part_of(const struct choice *c, const struct job *job)
{
	return &c->parts[job->record.part_ptr - c->e->parts];
}

static void add_parts(const struct gang *g, bool (*is)(const struct job *job), bitstr_t *into)
{
	size_t i;

	for (i = 0; i < g->count; i++) {
		if (is(g->jobs[i]))
			bit_or(into, parts_of(g->jobs[i]));
	}
}

static uint16_t tier_of(const struct engine *e, size_t i)
{
	return e->parts[e->parts_by_tier[i]].priority_tier;
}

/* Partitions of one tier cast no shadows on each other. */
static struct choice choice_make(const struct engine *e, bitoff_t size)
{
	struct choice c = {.e = e, .parts = xmalloc(e->parts_count * sizeof(*c.parts))};
	bitstr_t *shadow = bit_alloc(size);
	size_t from, to;

	for (from = 0; from < e->parts_count; from = to) {
		for (to = from; to < e->parts_count && tier_of(e, to) == tier_of(e, from); to++) {
			size_t i = e->parts_by_tier[to];

			c.parts[i] = (struct part_choice){.active = bit_alloc(size),
				.shadow = bit_copy(shadow),
				.of_qos =
					xmalloc(2 * (e->conf->qos_count + 1) * sizeof(bitstr_t *))};
			add_parts(&e->gangs[i], has_no_turns, c.parts[i].active);
		}
		for (; from < to; from++)
			add_parts(&e->gangs[e->parts_by_tier[from]], holds_cores, shadow);
	}
	bit_free(shadow);
	return c;
}

static void choice_clear(struct choice *c)
{
	size_t i, k;

	for (i = 0; i < c->e->parts_count; i++) {
		bit_free(c->parts[i].active);
		bit_free(c->parts[i].shadow);
		for (k = 0; k < 2 * c->e->conf->qos_count; k++)
			bit_free(c->parts[i].of_qos[k]);
		xfree(c->parts[i].of_qos);
	}
	xfree(c->parts);
}

static bool is_alone(const struct job *job)
{
	return job->record.job_resrcs->node_req == NODE_CR_RESERVED;
}

/* Jobs of one partition take turns, if they share their nodes. */
static bool take_turns(const struct job *a, const struct job *b)
{
	return a->record.part_ptr == b->record.part_ptr && !is_alone(a) && !is_alone(b);
}

/* On jobs with the QOS of this one, of those that may preempt it and take no turns with it. */
static bitstr_t *make_qos_shadow(const struct engine *e, const struct job *job)
{
	bitstr_t *shadow = bit_alloc(bit_size(parts_of(job)));
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++) {
			const struct job *other = e->gangs[i].jobs[k];

			if (holds_cores(other) && !take_turns(other, job) &&
				preempt_casts_shadow(e, other, job))
				bit_or(shadow, parts_of(other));
		}
	}
	return shadow;
}

static bool is_shadowed(const struct choice *c, const struct job *job)
{
	const qos_record_t *qos = job->record.qos_ptr;
	bitstr_t **shadow;

	if (!slurm_conf.preempt_by_qos)
		return bit_overlap_any(part_of(c, job)->shadow, parts_of(job));
	if (!qos)
		return false;
	shadow = &part_of(c, job)->of_qos[2 * qos->id + is_alone(job)];
	if (!*shadow)
		*shadow = make_qos_shadow(c->e, job);
	return bit_overlap_any(*shadow, parts_of(job));
}

static bool fits(const struct choice *c, const struct job *job)
{
	return !job->gang_active && !is_shadowed(c, job) &&
		!bit_overlap_any(part_of(c, job)->active, parts_of(job));
}

/* Of a heterogeneous job: all components that have turns. */
static bool fits_whole(const struct choice *c, const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && has_turns(one) && !fits(c, one))
			return false;
	}
	return true;
}

/* One of its components that have turns is in a shadow. */
static bool is_any_shadowed(const struct choice *c, const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && has_turns(one) && is_shadowed(c, one))
			return true;
	}
	return false;
}

static void choose(const struct choice *c, struct job *job)
{
	uint32_t i;

	if (!has_turns(job) || !fits_whole(c, job))
		return;
	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		if (!one || !has_turns(one))
			continue;
		one->gang_active = true;
		bit_or(part_of(c, one)->active, parts_of(one));
	}
}

/* A component that does not fit has no turn, and so the others have none. */
static void pass_over(const struct choice *c, const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		if (one && one->gang_place == GANG_RESERVED)
			bit_and_not(part_of(c, one)->active, parts_of(one));
		if (one)
			one->gang_place = GANG_PASSED;
	}
}

/* Each component keeps its cores when its turn comes in its own partition, so that it is not before
 * its equals there; when all of them have theirs, they run. */
static void choose_component(const struct choice *c, struct job *job)
{
	uint32_t i;

	if (!has_turns(job) || job->gang_active || job->gang_place == GANG_PASSED)
		return;
	if (!fits(c, job)) {
		pass_over(c, job);
		return;
	}
	job->gang_place = GANG_RESERVED;
	bit_or(part_of(c, job)->active, parts_of(job));
	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && has_turns(one) && !one->gang_active && one->gang_place != GANG_RESERVED)
			return;
	}
	for (i = 0; i < engine_count_components(job); i++) {
		struct job *one = engine_get_component(job, i);

		if (one && has_turns(one))
			one->gang_active = true;
	}
}

static const struct job *any_job(const struct engine *e)
{
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++) {
			if (e->gangs[i].jobs[k]->record.job_resrcs)
				return e->gangs[i].jobs[k];
		}
	}
	return NULL;
}

/* In the order of tiers and turns; then those that fit on what heterogeneous jobs have left that
 * have no turn. */
static void choose_all(const struct engine *e, const struct job *any)
{
	struct choice c = choice_make(e, bit_size(parts_of(any)));
	bool passed = false;
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++) {
			e->gangs[i].jobs[k]->gang_active = has_no_turns(e->gangs[i].jobs[k]);
			e->gangs[i].jobs[k]->gang_place = GANG_OPEN;
		}
	}
	for (i = 0; i < e->parts_count; i++) {
		const struct gang *g = &e->gangs[e->parts_by_tier[i]];

		for (k = 0; k < g->count; k++) {
			if (g->jobs[k]->het)
				choose_component(&c, g->jobs[k]);
			else
				choose(&c, g->jobs[k]);
			passed |= g->jobs[k]->gang_place == GANG_PASSED;
		}
	}
	for (i = 0; passed && i < e->parts_count; i++) {
		const struct gang *g = &e->gangs[e->parts_by_tier[i]];

		for (k = 0; k < g->count; k++)
			choose(&c, g->jobs[k]);
	}
	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++) {
			struct job *job = e->gangs[i].jobs[k];

			job->gang_shaded =
				has_turns(job) && !job->gang_active && is_any_shadowed(&c, job);
		}
	}
	choice_clear(&c);
}

/* ---- what follows of it -------------------------------------------------------------------------
 */

static bool stands(const struct job *job)
{
	return job_base_state(job) == JOB_SUSPENDED && job->change == JOB_STEADY;
}

/* Of a heterogeneous job all components do, that have not ended. */
static bool stands_whole(const struct job *job)
{
	uint32_t i;

	for (i = 0; i < engine_count_components(job); i++) {
		const struct job *one = engine_get_component(job, i);

		if (one && job_has_nodes(one) && has_turns(one) && !stands(one))
			return false;
	}
	return true;
}

/* For a second at least: else that was no turn. */
static bool has_run(const struct engine *e, const struct job *job)
{
	const job_record_t *r = &job->record;
	time_t since = r->suspend_time > r->start_time ? r->suspend_time : r->start_time;

	return job->launched && job_base_state(job) == JOB_RUNNING && engine_now(e) > since;
}

void gang_stops(struct engine *e, struct job *job)
{
	job->gang_ran = job->gang_ran || has_run(e, job);
}

static void stop_job(struct engine *e, struct job *job)
{
	if (job->gang_active || job_base_state(job) != JOB_RUNNING || job->change != JOB_STEADY ||
		job->gang_refused)
		return;
	job->gang_stopped = true;
	if (job->launched)
		job_begin_suspension(e, job);
	else
		job_stand(e, job); /* it has no process yet */
}

static void let_go(struct engine *e, struct job *job)
{
	if (job->launched) {
		job_begin_resumption(e, job);
		return;
	}
	if (job_base_state(job) == JOB_SUSPENDED)
		job_go_on(e, job);
	job->gang_stopped = false;
	job_launch(e, job);
}

static bool waits_to_go(const struct job *job)
{
	return has_turns(job) && job->gang_active && !job->gang_refused &&
		job->change == JOB_STEADY &&
		(job_base_state(job) == JOB_SUSPENDED || job->gang_waits);
}

typedef void (*job_fn)(struct engine *e, struct job *job);

static void each_job(struct engine *e, job_fn fn)
{
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++)
			fn(e, e->gangs[i].jobs[k]);
	}
}

/* Cores of those that are to stand still, and do not yet. */
static bitstr_t *cores_still_used(const struct engine *e, const struct job *any)
{
	bitstr_t *used = bit_alloc(bit_size(parts_of(any)));
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++) {
			const struct job *job = e->gangs[i].jobs[k];

			if (has_turns(job) && !job->gang_active && !stands_whole(job))
				bit_or(used, parts_of(job));
		}
	}
	return used;
}

/* Jobs whose cores are free. A launch can fail at once, and change the lists: then this starts
 * anew. */
static void let_all_go(struct engine *e, const bitstr_t *used)
{
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		const struct gang *g = &e->gangs[i];

		for (k = 0; k < g->count; k++) {
			struct job *job = g->jobs[k];
			size_t count = g->count;

			if (!waits_to_go(job) ||
				(!is_in_grace(job) && bit_overlap_any(used, parts_of(job))))
				continue;
			job->gang_waits = false;
			let_go(e, job);
			if (g->count < count)
				k = SIZE_MAX; /* begins anew */
		}
	}
}

/* One that still waits for others to stand still. */
static void store_waiting(struct engine *e, struct job *job)
{
	if (job->gang_new && job->gang_waits)
		job_changed(e, job);
	job->gang_new = false;
}

static bool is_standing_for_others(const struct engine *e)
{
	size_t i, k;

	for (i = 0; i < e->parts_count; i++) {
		for (k = 0; k < e->gangs[i].count; k++) {
			const struct job *job = e->gangs[i].jobs[k];

			if (has_turns(job) && (!job->gang_active || job->gang_refused))
				return true;
		}
	}
	return false;
}

/* Ticks are the same for all partitions, however late the first job comes. */
static uint64_t next_tick_ms(const struct engine *e, uint64_t after_ms)
{
	uint64_t slice_ms = MS_PER_S * (uint64_t)e->conf->sched_time_slice_s;

	return (after_ms / slice_ms + 1) * slice_ms;
}

/* The first one that counts is a whole slice later: who runs when another one comes has a turn of
 * one to two slices. A slurmctld skips the first tick, too. */
static void plan_slice(struct engine *e)
{
	uint64_t slice_ms = MS_PER_S * (uint64_t)e->conf->sched_time_slice_s;

	if (!is_standing_for_others(e))
		e->slice_due_ms = NEVER_MS;
	else if (e->slice_due_ms == NEVER_MS)
		e->slice_due_ms = next_tick_ms(e, e->now_ms + slice_ms - 1);
}

void gang_settle(struct engine *e)
{
	const struct job *any = any_job(e);
	bitstr_t *used;

	e->gang_changed = false;
	if (!any) {
		e->slice_due_ms = NEVER_MS;
		return;
	}
	choose_all(e, any);
	each_job(e, stop_job);
	used = cores_still_used(e, any);
	let_all_go(e, used);
	bit_free(used);
	each_job(e, store_waiting);
	plan_slice(e);
}

/* ---- jobs come and go ---------------------------------------------------------------------------
 */

bool gang_add(struct engine *e, struct job *job)
{
	struct gang *g = gang_of(e, job);
	struct job **grown;

	if (!is_on(e))
		return false;
	if (g->count == g->capacity) {
		g->capacity = g->capacity ? 2 * g->capacity : 16;
		grown = reallocarray(g->jobs, g->capacity, sizeof(struct job *));
		if (!grown)
			abort(); /* as the bitmaps do */
		g->jobs = grown;
	}
	g->jobs[g->count++] = job;
	job->gang_new = true;
	e->gang_changed = true;
	return true;
}

bool gang_takes(const struct engine *e, const struct job *job)
{
	const struct gang *g = gang_of(e, job);
	size_t i;

	for (i = 0; i < g->count && g->jobs[i] != job; i++)
		;
	return i < g->count;
}

void gang_remove(struct engine *e, struct job *job)
{
	struct gang *g = gang_of(e, job);
	size_t i, n = 0;

	for (i = 0; i < g->count; i++) {
		if (g->jobs[i] != job)
			g->jobs[n++] = g->jobs[i];
	}
	job->gang_active = job->gang_stopped = job->gang_waits = job->gang_refused = false;
	job->gang_ran = job->gang_new = false;
	if (n == g->count)
		return;
	g->count = n;
	e->gang_changed = true; /* the others go on once this one has given its cores back */
}

void gang_refused(struct engine *e, struct job *job)
{
	uint32_t i;

	job->gang_stopped = job_base_state(job) == JOB_SUSPENDED;
	for (i = 0; i < engine_count_components(job); i++) {
		if (engine_get_component(job, i))
			engine_get_component(job, i)->gang_refused =
				true; /* until the next slice */
	}
	e->gang_changed = true;
}

/* ---- time slices --------------------------------------------------------------------------------
 */

/* 0: it stood still in this time slice; 1: it ran, and had to stop, for a shadow or one that was
 * resumed by hand; 2: it runs. */
static unsigned rank_in_slice(const struct engine *e, const struct job *job)
{
	if (job->gang_active && has_run(e, job))
		return 2;
	return job->gang_ran;
}

/* Those that ran go to the end, also those that do not now: else they would come first again. */
static void turn(const struct engine *e, struct gang *g)
{
	struct job **turned = calloc(g->count + 1, sizeof(struct job *));
	size_t i, n = 0;
	unsigned rank;

	if (!turned)
		return; /* the next slice comes */
	for (rank = 0; rank <= 2; rank++) {
		for (i = 0; i < g->count; i++) {
			if (rank_in_slice(e, g->jobs[i]) == rank)
				turned[n++] = g->jobs[i];
		}
	}
	for (i = 0; i < n; i++) {
		g->jobs[i] = turned[i];
		g->jobs[i]->gang_refused = false;
	}
	free(turned);
}

static void begin_slice(struct engine *e, struct job *job)
{
	(void)e;
	job->gang_ran = false;
}

void gang_slice(struct engine *e)
{
	size_t i;

	e->slice_due_ms = next_tick_ms(e, e->now_ms);
	for (i = 0; i < e->parts_count; i++)
		turn(e, &e->gangs[i]);
	gang_settle(e);
	each_job(e, begin_slice); /* those that were stopped now ran in the last one */
}

/* As the turns were: first those that run, then those that have stood still longest. */
static int compare_turns(const void *a, const void *b)
{
	const struct job *x = *(struct job *const *)a, *y = *(struct job *const *)b;
	bool stood = job_base_state(x) == JOB_SUSPENDED;

	if (stood != (job_base_state(y) == JOB_SUSPENDED))
		return stood ? 1 : -1;
	if (stood && x->record.suspend_time != y->record.suspend_time)
		return x->record.suspend_time < y->record.suspend_time ? -1 : 1;
	return x->record.job_id < y->record.job_id ? -1 : x->record.job_id > y->record.job_id;
}

/* The runner has no processes to suspend or resume yet: engine_advance() settles it. */
void gang_restore(struct engine *e)
{
	size_t i;

	for (i = 0; is_on(e) && i < e->jobs_count; i++) {
		struct job *job = e->jobs[i];

		if (!job || !job_has_nodes(job) || !gang_add(e, job))
			continue;
		job->gang_new = false;
		if (!(job->record.job_state & JOB_CONFIGURING))
			continue;
		job->gang_waits = true;
		timer_set(e, job, NEVER_MS);
	}
	for (i = 0; i < e->parts_count; i++) {
		struct gang *g = &e->gangs[i];

		if (g->count)
			qsort(g->jobs, g->count, sizeof(*g->jobs), compare_turns);
	}
	if (is_on(e))
		e->slice_due_ms =
			next_tick_ms(e, e->now_ms); /* a turn goes on, and is no new one */
}

void gang_free(struct engine *e)
{
	size_t i;

	for (i = 0; e->gangs && i < e->parts_count; i++)
		free(e->gangs[i].jobs);
	free(e->gangs);
}
