/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs of a virtual clock: an engine whose runner has no processes, only their ends. Time goes from
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
	uint64_t run_ms;     /* they end by themselves after that; what is suspended does not count.
			      * SIM_NEVER: they don't */
	bool sleeps;         /* it does count, as for sleep(1), whose time goes on meanwhile */
	uint64_t term_ms;    /* after SIGTERM they end so much later; SIM_NEVER: they ignore it */
	int exit_status;     /* of an end by themselves, as wait(2) has it */
	uint64_t suspend_ms; /* a suspension takes so long, and a resumption */
	int suspend_error;   /* 0, or -errno: they can't be suspended; resume_error likewise */
	int resume_error;
	int start_error; /* -errno: they can't be started at all */
	int failed_node; /* the node whose agent can't be started; -1: none */
};

/* Fills *plan, which has a job that runs for ever and ends with SIGTERM. Called at each start. */
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

/* engine_begin() is the caller's, after engine_restore_...(). */
int sim_new(const struct sim_options *options, struct sim **ret_sim, struct err *err) _must_check_;

/* With its engine. NULL is fine. Returns NULL. */
struct sim *sim_free(struct sim *sim);
DEFINE_CLEANUP(struct sim *, sim_free);
#define _cleanup_sim_ _cleanup_(sim_free_p)

struct engine *sim_get_engine(const struct sim *sim);
uint64_t sim_get_time_ms(const struct sim *sim);

/* Everything that is due until then has happened, and that is the time. What was submitted before
 * is looked at first. */
void sim_run_until(struct sim *sim, uint64_t now_ms);

/* Until nothing is due any more, or that time has come. False: it has. */
bool sim_run_all(struct sim *sim, uint64_t until_ms);

/* A job that was restored: its processes have run as long as it has. engine_begin() was before. */
int sim_adopt(struct sim *sim, struct job *job) _must_check_;

#endif
