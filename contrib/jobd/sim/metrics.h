/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The measurements of a simulation: when each job was submitted, started, suspended, preempted and
 * ended, and the sums of all jobs, of a partition's, a QOS's and a user's. It does not know the
 * engine: times are arguments, in ms of one clock that never goes back.
 */
#ifndef JOBD_SIM_METRICS_H
#define JOBD_SIM_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contrib/jobd/sim/trace.h"

#define METRICS_NONE UINT32_MAX

/* The least run time of the bounded slowdown: max(1, response / max(run, this)). */
#define METRICS_BOUND_MS 10000u

enum metrics_state {
	METRICS_WAITS,
	METRICS_RUNS,
	METRICS_STANDS,
	METRICS_ENDED,
};

/* An interval on nodes, for pictures and lists. */
struct metrics_run {
	uint64_t begin_ms, end_ms;
	char *nodes; /* "n[1-4]" */
	uint32_t cpus;
	size_t next; /* of the same job; SIZE_MAX: none */
	bool stands; /* suspended there */
	bool lost;   /* its work must be repeated, or is lost */
};

struct metrics_job {
	const struct trace_job *trace; /* NULL: no job has this id */
	uint32_t task_id;              /* in an array that is one row of the trace */
	uint32_t part, qos;            /* the caller's numbers; METRICS_NONE: none */
	enum metrics_state state;
	uint32_t end_state; /* JOB_COMPLETE, ... */
	uint32_t cpus;
	bool has_started;
	uint64_t submit_ms, start_ms, end_ms;
	uint64_t since_ms; /* of its state */
	uint64_t run_ms;   /* of its last run, until since_ms, without suspension */
	uint64_t stood_ms; /* in all */
	uint64_t cpu_ms, lost_cpu_ms;
	uint32_t preemptions;       /* ended, queued again or suspended for others */
	uint32_t suspensions;       /* for others or for its next turn */
	size_t first_run, last_run; /* SIZE_MAX: none */
};

struct metrics {
	bool keeps_runs;
	struct metrics_job *jobs; /* by the engine's id */
	size_t count, capacity;
	struct metrics_run *runs;
	size_t runs_count, runs_capacity;
	uint32_t waiting, most_waiting;
	uint64_t first_ms, last_ms; /* first submission, last end; first_ms UINT64_MAX: none */
};

void metrics_init(struct metrics *m, bool keeps_runs);
void metrics_clear(struct metrics *m);

/* A job with this id waits from now on. The pointer is valid until the next call. */
struct metrics_job *metrics_submit(
	struct metrics *m, uint32_t id, const struct trace_job *trace, uint64_t now_ms);
struct metrics_job *metrics_find(const struct metrics *m, uint32_t id); /* NULL: none */

/* A pending or suspended job runs from now on. */
void metrics_run(struct metrics *m, struct metrics_job *job, uint32_t cpus, const char *nodes,
	uint64_t now_ms);
/* A job that ran, or is about to run for the first time, is suspended. is_preempted: for jobs that
 * may preempt it, and not for its next turn. */
void metrics_stand(struct metrics *m, struct metrics_job *job, bool is_preempted, uint64_t now_ms);
/* It was preempted and waits again. */
void metrics_queue_again(struct metrics *m, struct metrics_job *job, uint64_t now_ms);
void metrics_end(struct metrics *m, struct metrics_job *job, uint32_t state, uint64_t now_ms);

/* ---- the summary --------------------------------------------------------------------------------
 *
 * All but counts are in seconds. Waits are those of jobs that have started, until their first
 * start; slowdowns are those of jobs that ended by themselves or at their limit. A quantile is the
 * least value that so many values do not exceed.
 */
struct metrics_summary {
	uint64_t jobs, completed, failed, timed_out, preempted, waiting;
	uint64_t preemptions, suspensions;
	double wait_mean_s, wait_median_s, wait_p95_s, wait_max_s;
	double slowdown_mean, slowdown_median;
	double stood_s, cpu_s, lost_cpu_s; /* lost_cpu_s is in cpu_s, too */
	double utilisation;                /* the share that cpu_s has of the capacity */
};

/* capacity_cpu_s: the time of all CPUs together; 0: the utilisation is 0. */
void metrics_summarise(const struct metrics_job *const *jobs, size_t n, double capacity_cpu_s,
	struct metrics_summary *ret_summary);

/* Lists of all jobs, sorted by a key. */
enum metrics_key {
	METRICS_BY_PART,
	METRICS_BY_QOS,
	METRICS_BY_USER,
	METRICS_KEY_MAX,
};
uint32_t metrics_key(const struct metrics_job *job, enum metrics_key key);
const struct metrics_job **metrics_list(const struct metrics *m, size_t *ret_count); /* free() */
void metrics_sort(const struct metrics_job **jobs, size_t n, enum metrics_key key);

#endif
