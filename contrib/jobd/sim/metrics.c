/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/sim/metrics.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Without memory there is no simulation: as with the bitmaps, it ends there. */
static void *must_have(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void metrics_init(struct metrics *m, bool keeps_runs)
{
	*m = (struct metrics){.keeps_runs = keeps_runs, .first_ms = UINT64_MAX};
}

void metrics_clear(struct metrics *m)
{
	size_t i;

	for (i = 0; i < m->runs_count; i++)
		free(m->runs[i].nodes);
	free(m->runs);
	free(m->jobs);
	metrics_init(m, false);
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

struct metrics_job *metrics_find(const struct metrics *m, uint32_t id)
{
	return id < m->count && m->jobs[id].trace ? &m->jobs[id] : NULL;
}

static void waits(struct metrics *m)
{
	m->waiting++;
	if (m->waiting > m->most_waiting)
		m->most_waiting = m->waiting;
}

struct metrics_job *metrics_submit(
	struct metrics *m, uint32_t id, const struct trace_job *trace, uint64_t now_ms)
{
	size_t wanted = m->capacity ? m->capacity : 1024;

	while (wanted <= id)
		wanted *= 2;
	if (wanted > m->capacity) {
		m->jobs = must_have(reallocarray(m->jobs, wanted, sizeof(*m->jobs)));
		memset(m->jobs + m->capacity, 0, (wanted - m->capacity) * sizeof(*m->jobs));
		m->capacity = wanted;
	}
	if (id >= m->count)
		m->count = (size_t)id + 1;
	m->jobs[id] = (struct metrics_job){.trace = trace,
		.task_id = trace->task_id,
		.part = METRICS_NONE,
		.qos = METRICS_NONE,
		.submit_ms = now_ms,
		.since_ms = now_ms,
		.first_run = SIZE_MAX,
		.last_run = SIZE_MAX};
	if (now_ms < m->first_ms)
		m->first_ms = now_ms;
	if (now_ms > m->last_ms)
		m->last_ms = now_ms;
	waits(m);
	return &m->jobs[id];
}

/* ---- runs --------------------------------------------------------------------------------------
 */

static void begin_run(
	struct metrics *m, struct metrics_job *job, const char *nodes, bool stands, uint64_t now_ms)
{
	size_t i = m->runs_count;

	if (!m->keeps_runs)
		return;
	if (i == m->runs_capacity) {
		m->runs_capacity = m->runs_capacity ? 2 * m->runs_capacity : 1024;
		m->runs = must_have(reallocarray(m->runs, m->runs_capacity, sizeof(*m->runs)));
	}
	m->runs_count++;
	m->runs[i] = (struct metrics_run){.begin_ms = now_ms,
		.end_ms = now_ms,
		.nodes = must_have(strdup(nodes)),
		.cpus = job->cpus,
		.next = SIZE_MAX,
		.stands = stands};
	if (job->last_run == SIZE_MAX)
		job->first_run = i;
	else
		m->runs[job->last_run].next = i;
	job->last_run = i;
}

static void end_run(struct metrics *m, const struct metrics_job *job, uint64_t now_ms)
{
	if (job->last_run != SIZE_MAX)
		m->runs[job->last_run].end_ms = now_ms;
}

/* Its work since its start is lost: marks its runs back to the last one that was lost before. */
static void lose_run(struct metrics *m, struct metrics_job *job)
{
	size_t i = job->first_run, from = SIZE_MAX;

	job->lost_cpu_ms += job->run_ms * job->cpus;
	for (; i != SIZE_MAX; i = m->runs[i].next) {
		if (from == SIZE_MAX && !m->runs[i].lost)
			from = i;
	}
	for (i = from; i != SIZE_MAX; i = m->runs[i].next)
		m->runs[i].lost = true;
}

/* Its time in the state that it leaves. */
static void leave_state(struct metrics *m, struct metrics_job *job, uint64_t now_ms)
{
	uint64_t ms = now_ms - job->since_ms;

	assert(now_ms >= job->since_ms);
	job->since_ms = now_ms;
	switch (job->state) {
	case METRICS_WAITS:
		m->waiting--;
		break;
	case METRICS_RUNS:
		job->run_ms += ms;
		job->cpu_ms += ms * job->cpus;
		end_run(m, job, now_ms);
		break;
	case METRICS_STANDS:
		job->stood_ms += ms;
		end_run(m, job, now_ms);
		break;
	case METRICS_ENDED:
		break;
	}
}

void metrics_run(struct metrics *m, struct metrics_job *job, uint32_t cpus, const char *nodes,
	uint64_t now_ms)
{
	if (job->state == METRICS_RUNS || job->state == METRICS_ENDED)
		return;
	leave_state(m, job, now_ms);
	if (!job->has_started)
		job->start_ms = now_ms;
	job->has_started = true;
	job->state = METRICS_RUNS;
	job->cpus = cpus;
	begin_run(m, job, nodes, false, now_ms);
}

/* A job that begins suspended has not started yet, and waits. */
void metrics_stand(struct metrics *m, struct metrics_job *job, bool is_preempted, uint64_t now_ms)
{
	if (job->state != METRICS_RUNS)
		return;
	leave_state(m, job, now_ms);
	job->state = METRICS_STANDS;
	job->suspensions++;
	job->preemptions += is_preempted;
	begin_run(m, job, job->last_run == SIZE_MAX ? "" : m->runs[job->last_run].nodes, true,
		now_ms);
}

void metrics_queue_again(struct metrics *m, struct metrics_job *job, uint64_t now_ms)
{
	if (job->state == METRICS_WAITS || job->state == METRICS_ENDED)
		return;
	leave_state(m, job, now_ms);
	lose_run(m, job);
	job->run_ms = 0;
	job->preemptions++;
	job->state = METRICS_WAITS;
	waits(m);
}

void metrics_end(struct metrics *m, struct metrics_job *job, uint32_t state, uint64_t now_ms)
{
	if (job->state == METRICS_ENDED)
		return;
	leave_state(m, job, now_ms);
	job->state = METRICS_ENDED;
	job->end_state = state;
	job->end_ms = now_ms;
	if (now_ms > m->last_ms)
		m->last_ms = now_ms;
	if (state != JOB_PREEMPTED)
		return;
	lose_run(m, job);
	job->preemptions++;
}

/* ---- what it comes to --------------------------------------------------------------------------
 */

uint32_t metrics_key(const struct metrics_job *job, enum metrics_key key)
{
	switch (key) {
	case METRICS_BY_PART:
		return job->part;
	case METRICS_BY_QOS:
		return job->qos;
	case METRICS_BY_USER:
		return job->trace->user;
	case METRICS_KEY_MAX:
		break;
	}
	return METRICS_NONE;
}

const struct metrics_job **metrics_list(const struct metrics *m, size_t *ret_count)
{
	const struct metrics_job **list = must_have(calloc(m->count + 1, sizeof(*list)));
	size_t i, n = 0;

	for (i = 0; i < m->count; i++) {
		if (m->jobs[i].trace)
			list[n++] = &m->jobs[i];
	}
	*ret_count = n;
	return list;
}

/* Jobs of a table: those that came first are first. */
static int compare_keys(const void *a, const void *b, void *userdata)
{
	const struct metrics_job *x = *(const struct metrics_job *const *)a,
				 *y = *(const struct metrics_job *const *)b;
	const enum metrics_key *key = userdata;
	uint32_t m = metrics_key(x, *key), n = metrics_key(y, *key);

	return m != n ? (m > n) - (m < n) : (x > y) - (x < y);
}

void metrics_sort(const struct metrics_job **jobs, size_t n, enum metrics_key key)
{
	qsort_r(jobs, n, sizeof(*jobs), compare_keys, &key);
}

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct values {
	double *v;
	size_t n;
};

static double mean_of(const struct values *values)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < values->n; i++)
		sum += values->v[i];
	return values->n ? sum / (double)values->n : 0;
}

/* Of sorted ones: the least that percent of them are not above. */
static double quantile_of(const struct values *values, size_t percent)
{
	size_t rank = (values->n * percent + 99) / 100;

	return values->n ? values->v[rank ? rank - 1 : 0] : 0;
}

static double seconds(uint64_t ms)
{
	return (double)ms / 1000;
}

static bool ended_by_itself(const struct metrics_job *job)
{
	return job->state == METRICS_ENDED && job->has_started &&
		(job->end_state == JOB_COMPLETE || job->end_state == JOB_FAILED ||
			job->end_state == JOB_TIMEOUT);
}

static double slowdown_of(const struct metrics_job *job)
{
	uint64_t run_ms = job->run_ms > METRICS_BOUND_MS ? job->run_ms : METRICS_BOUND_MS;
	double slowdown = (double)(job->end_ms - job->submit_ms) / (double)run_ms;

	return slowdown > 1 ? slowdown : 1;
}

static void add_job(struct metrics_summary *s, const struct metrics_job *job)
{
	s->jobs++;
	s->waiting += job->state != METRICS_ENDED;
	s->preemptions += job->preemptions;
	s->suspensions += job->suspensions;
	s->stood_s += seconds(job->stood_ms);
	s->cpu_s += seconds(job->cpu_ms);
	s->lost_cpu_s += seconds(job->lost_cpu_ms);
	if (job->state != METRICS_ENDED)
		return;
	s->completed += job->end_state == JOB_COMPLETE;
	s->failed += job->end_state == JOB_FAILED;
	s->timed_out += job->end_state == JOB_TIMEOUT;
	s->preempted += job->end_state == JOB_PREEMPTED;
}

void metrics_summarise(const struct metrics_job *const *jobs, size_t n, double capacity_cpu_s,
	struct metrics_summary *ret_summary)
{
	struct metrics_summary s = {.jobs = 0};
	struct values waits_s = {.v = must_have(calloc(n + 1, sizeof(double)))};
	struct values slowdowns = {.v = must_have(calloc(n + 1, sizeof(double)))};
	size_t i;

	for (i = 0; i < n; i++) {
		add_job(&s, jobs[i]);
		if (jobs[i]->has_started)
			waits_s.v[waits_s.n++] = seconds(jobs[i]->start_ms - jobs[i]->submit_ms);
		if (ended_by_itself(jobs[i]))
			slowdowns.v[slowdowns.n++] = slowdown_of(jobs[i]);
	}
	if (capacity_cpu_s > 0)
		s.utilisation = s.cpu_s / capacity_cpu_s;
	if (waits_s.n > 0)
		qsort(waits_s.v, waits_s.n, sizeof(double), compare_values);
	if (slowdowns.n > 0)
		qsort(slowdowns.v, slowdowns.n, sizeof(double), compare_values);
	s.wait_mean_s = mean_of(&waits_s);
	s.wait_median_s = quantile_of(&waits_s, 50);
	s.wait_p95_s = quantile_of(&waits_s, 95);
	s.wait_max_s = quantile_of(&waits_s, 100);
	s.slowdown_mean = mean_of(&slowdowns);
	s.slowdown_median = quantile_of(&slowdowns, 50);
	free(waits_s.v);
	free(slowdowns.v);
	*ret_summary = s;
}
