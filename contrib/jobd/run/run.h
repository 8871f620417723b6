/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Real jobs: an agent, "stepd serve", for each node of a job. The first node of a batch job has a
 * batch step with its script, each other node an extern step, which holds what steps put there. A
 * job without a script has no processes. The nodes are names on this machine; those of other hosts
 * are reached by a launcher, a command of the site.
 *
 * All of it happens in the loop's thread, and nothing blocks: functions of the engine's runner only
 * note what is wanted, and the loop does it. An agent needs no jobd: it leads its own session and
 * has no pipe to it. jobd writes the agent's pid into the store before the agent gets its spec.
 * Without a spec it starts nothing, so that after a restart an agent is found again by that pid, or
 * was never one, and nothing is started twice.
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
	const char *state_dir;   /* absolute, and there */
	const char *stepd;       /* the agent's program: absolute, NULL: found as steprun does */
	const char *runtime_dir; /* of agents, absolute; NULL: their default */
	const char *plugin_dir;  /* likewise */
	const char *cgroup_root; /* absolute; NULL: found by the agents */
	/* A command for sh(1) that runs another one on a host: %h is the host, %c the command, %q
	 * the command as one argument. NULL: all nodes are names on this machine; else all but
	 * those with this host's name are reached by it. */
	const char *launcher;
	/* What steprun in a job uses as its launcher, STEPRUN_LAUNCHER; NULL: "local", with
	 * launcher "exec:" and that. */
	const char *step_launcher;
	const char *cluster_name; /* NULL: "cluster" */
	const struct log *log;
	/* The engine was notified of something, from the loop: engine_advance() is due. */
	void (*on_report)(void *userdata);
	void *userdata;
};

/* What struct engine_options wants as its runner, with the struct run as runner_data. */
extern const struct engine_runner run_functions;

/* The directory of files is made if it is missing. -EINVAL: a bad launcher; else what the system
 * calls fail with. */
int run_new(const struct run_options *options, struct run **ret_run, struct err *err) _must_check_;

/* Before the loop runs: the engine that it reports to. */
void run_set_engine(struct run *run, struct engine *engine);

/* After engine_begin(), once: jobs that the engine has as started are taken over where their agents
 * live, reported as ended where they have a result, started where they never were, and else
 * reported by engine_node_failed(). Reports come from the loop. Removes files of jobs that are
 * gone. */
int run_recover(struct run *run, struct err *err) _must_check_;

/* Agents go on. After engine_free(), which forgets its jobs here. NULL is fine. Returns NULL. */
struct run *run_free(struct run *run);
DEFINE_CLEANUP(struct run *, run_free);
#define _cleanup_run_ _cleanup_(run_free_p)

#endif
