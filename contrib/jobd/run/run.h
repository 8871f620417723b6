/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Real jobs: an agent, "stepd serve", for each node of a job. The first node of a batch job has a
 * batch step with its script, each other node an extern step, which holds the processes of other
 * steps there. A job without a script has no processes. The nodes are names on this machine; other
 * hosts are reached by a launcher, a command of the site.
 *
 * All of it happens in the loop's thread, and nothing blocks: functions of the engine's runner only
 * note requests, and the loop performs them. An agent needs no jobd: it leads its own session and
 * has no pipe to it. jobd writes the agent's pid into the store before the agent gets its spec.
 * Without a spec it starts nothing. So after a restart each agent that could have started something
 * is found again by its pid, and nothing is started twice.
 *
 * Files are in STATE_DIR/run, which is root's: JOB.RESTARTS.NODE.result and .log.
 */
#ifndef JOBD_RUN_RUN_H
#define JOBD_RUN_RUN_H

#include "contrib/jobd/engine/engine.h"
#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

struct ev_loop;
struct log;
struct run;
struct store;

/* Texts are borrowed for as long as the runner lives. */
struct run_options {
	struct ev_loop *loop;    /* with or without libev's own handler of SIGCHLD */
	struct store *store;     /* NULL: no job is found again after a restart */
	const char *state_dir;   /* absolute; must exist */
	const char *stepd;       /* the agent's program, absolute; NULL: found like steprun's */
	const char *runtime_dir; /* of agents, absolute; NULL: their default */
	const char *plugin_dir;  /* likewise */
	const char *cgroup_root; /* absolute; NULL: found by the agents */
	/* A command for sh(1) that runs another one on a host: %h is the host, %c the command, %q
	 * the command as one argument. NULL: all nodes are names on this machine; else all nodes
	 * are reached by it, but those with this host's name. */
	const char *launcher;
	/* STEPRUN_LAUNCHER of jobs, the launcher of steprun; NULL: "local", or with a launcher
	 * "exec:" and that. */
	const char *step_launcher;
	bool allow_swap;          /* jobs whose memory is limited may use swap */
	const char *cluster_name; /* NULL: "cluster" */
	const struct log *log;
	/* The engine was notified of something, from the loop: engine_advance() is due. */
	void (*on_report)(void *userdata);
	void *userdata;
};

/* engine_options.runner, with the struct run as runner_data. */
extern const struct engine_runner run_functions;

/* The directory of files is made if it is missing. -EINVAL: a bad launcher; or an error of the
 * system calls. */
int run_new(const struct run_options *options, struct run **ret_run, struct err *err) _must_check_;

/* Sets the engine that gets the reports, before the loop runs. */
void run_set_engine(struct run *run, struct engine *engine);

/* To be called once, after engine_begin(). Of the jobs that are started for the engine, those whose
 * agents live are taken over, those with a result are reported as ended, those that were never
 * started are started, and all others are reported by engine_node_failed(). Reports come from the
 * loop. Removes files of forgotten jobs. */
int run_recover(struct run *run, struct err *err) _must_check_;

/* Agents continue. To be called after engine_free(), which makes the runner forget the jobs. NULL
 * is fine. Returns NULL. */
struct run *run_free(struct run *run);
DEFINE_CLEANUP(struct run *, run_free);
#define _cleanup_run_ _cleanup_(run_free_p)

#endif
