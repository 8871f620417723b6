/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs in virtual time: an engine whose runner has no processes, only their ends. Time goes from
 * one event to the next, so that a month takes seconds; the same jobs and times give the same
 * result in each run.
 *
 * Times are ms of the engine's clock.
 */
#ifndef JOBD_SIM_SIM_H
#define JOBD_SIM_SIM_H

#include "contrib/jobd/engine/engine.h"

#define SIM_NEVER UINT64_MAX

struct sim;

/* How the processes of a job behave, from one start of it on. */
struct sim_job_plan {
	uint64_t run_ms;     /* they end by themselves after that time, without suspensions.
			      * SIM_NEVER: they don't */
	bool sleeps;         /* suspensions count, as the time of sleep(1) goes on meanwhile */
	uint64_t term_ms;    /* from SIGTERM to their end; SIM_NEVER: they ignore it */
	int exit_status;     /* if they end by themselves, as in wait(2) */
	uint64_t suspend_ms; /* duration of a suspension or resumption */
	int suspend_error;   /* 0, or -errno: they can't be suspended; resume_error likewise */
	int resume_error;
	int start_error; /* -errno: they can't be started at all */
	int failed_node; /* the node whose agent can't be started; -1: none */
};

/* Fills *plan, which by default has a job that runs for ever and ends by SIGTERM. Called at each
 * start. */
typedef void (*sim_plan_fn)(const struct job *job, struct sim_job_plan *plan, void *userdata);

struct sim_options {
	struct conf *conf;      /* the engine's, once sim_new() has returned 0 */
	const char *plugin_dir; /* of the select plugin that conf names */
	const struct log *log;
	const struct engine_store *store; /* NULL: nothing is kept */
	void *store_data;
	uint64_t now_ms;
	bool no_plans, plain; /* as the engine's */
	sim_plan_fn plan;
	void *plan_data;
};

/* The caller calls engine_restore_...(), then engine_begin(). */
int sim_new(const struct sim_options *options, struct sim **ret_sim, struct err *err) _must_check_;

/* With its engine. NULL is fine. Returns NULL. */
struct sim *sim_free(struct sim *sim);
DEFINE_CLEANUP(struct sim *, sim_free);
#define _cleanup_sim_ _cleanup_(sim_free_p)

struct engine *sim_get_engine(const struct sim *sim);
uint64_t sim_get_time_ms(const struct sim *sim);

/* Does all that is due until now_ms, which is the time then. Begins with what was submitted
 * before. */
void sim_run_until(struct sim *sim, uint64_t now_ms);

/* Runs until nothing is due any more, or until until_ms: false. */
bool sim_run_all(struct sim *sim, uint64_t until_ms);

/* What the processes of a job do: a program that is killed leaves them behind, whatever the store
 * has of them. */
struct sim_processes {
	uint64_t left_ms;  /* to run, at since_ms */
	uint64_t since_ms; /* they run, or stand still, since then */
	bool stopped;
};

/* False: the job has none. */
bool sim_get_processes(const struct job *job, struct sim_processes *ret_processes);

/* Adopts a restored job, after engine_begin(), with its processes as they were left (NULL: that is
 * not known, and they have run as long as the job). As the agents' runner does it, they are
 * suspended or resumed to match the job. */
int sim_adopt(struct sim *sim, struct job *job, const struct sim_processes *processes) _must_check_;

#endif
