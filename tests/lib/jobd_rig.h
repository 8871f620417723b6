/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For tests and benchmarks of the engine: one with a virtual clock, a configuration as text, and a
 * store in memory. What fails here ends the program with a line on why.
 */
#ifndef TESTS_LIB_JOBD_RIG_H
#define TESTS_LIB_JOBD_RIG_H

#include "contrib/jobd/sim/sim.h"

#define RIG_BEGIN_S 1000000000

/* What the store was given last of each; and how often. */
struct rig_store {
	json_t *jobs, *nodes, *reservations; /* by id or name; jobs have their request */
	uint32_t changes, commits, rollbacks;
	bool fails;
	bool no_payload; /* the script and its like are not kept */
	bool open;       /* between begin() and its end */
	uint32_t most; /* the program is killed after so many changes: later ones are lost; 0: it is
			* not */
	bool killed;   /* one was lost */
	struct rig_left *left; /* processes of jobs at that moment */
	size_t left_count;
	json_t *begun_jobs; /* jobs as they were at begin() */
};

struct rig {
	struct sim *sim;
	struct engine *e;
	struct rig_store store;
	uint32_t starts;
	uint64_t history; /* a hash of who has started when on which nodes and cores */
};

/* A job, as far as it is not one of one node that runs until it is cancelled. */
struct rig_job {
	const char *name, *partition, *nodelist, *exclude, *features, *array, *reservation, *qos;
	const char *distribution;
	const char *signal; /* its user warning signal */
	const char *script; /* NULL: it has none, and so no step */
	uint32_t nodes, max_nodes, tasks, cpus_per_task, minutes, priority, run_s;
	uint32_t ntasks_per_node, ntasks_per_socket, ntasks_per_core;
	uint32_t term_s;          /* to its end after SIGTERM; NO_VAL: it ignores it */
	int exit_status, begin_s; /* begin_s: from now on */
	uint64_t memory_mb;
	bool hold, exclusive, oversubscribe, contiguous, singleton, requeue, no_requeue;
	bool spread_job, use_min_nodes;
	enum job_dependency_kind kind;
	uint32_t after; /* a job; 0: none */
	bool of_task;   /* of this array only: */
	uint32_t task, delay_min;
	uid_t uid;
	const char *fault; /* "node=2", "start", "suspend", "resume" */
};

/* The directory of plugins, in that of the build; NULL: the product's. */
extern const char *rig_plugins;

/* As those of struct engine_options. */
extern bool rig_no_plans, rig_plain;

/* now_s: since RIG_BEGIN_S. The engine has begun. */
void rig_make(struct rig *rig, const char *conf_text);

/* The same without engine_begin(), at another time: for what was kept. */
void rig_make_at(struct rig *rig, const char *conf_text, uint32_t now_s);
void rig_clear(struct rig *rig);

struct conf *rig_conf(const char *conf_text); /* conf_free(); lines of QOS come last */

/* Returns what engine_submit() does. */
int rig_try(struct rig *rig, const struct rig_job *job, uint32_t *ret_id, struct err *err);

/* Likewise engine_will_run(). */
int rig_test(struct rig *rig, const struct rig_job *job, struct engine_start *ret_start,
	struct err *err);

/* Likewise engine_submit_components(), of at most 8. */
int rig_try_components(
	struct rig *rig, const struct rig_job *jobs, size_t n, uint32_t *ret_id, struct err *err);

/* One that is accepted, and what follows at once. */
struct job *rig_add(struct rig *rig, struct rig_job job);
#define rig_submit(rig, ...) rig_add(rig, (struct rig_job){__VA_ARGS__})

/* Seconds since the begin. */
void rig_run(struct rig *rig, uint32_t until_s);
uint32_t rig_now(const struct rig *rig);

/* All of it into another engine, as if the program had been killed: at once, or so many seconds
 * later, in which processes go on, or stand still if they were left so. */
void rig_restore(struct rig *from, struct rig *ret_to, const char *conf_text);
void rig_restore_later(
	struct rig *from, struct rig *ret_to, const char *conf_text, uint32_t seconds);

#endif
