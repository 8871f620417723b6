/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of this folder share:
 *
 *	run.c      what is wanted of jobs is noted, and done from the loop; their ends
 *	agent.c    an agent: its process, spec, end and result
 *	call.c     calls to an agent, one after the other
 *	spec.c     the document of a job on a node
 *	recover.c  after a restart
 *
 * All that is reported to the engine is reported by on_work() of run.c: the engine calls back into
 * this folder while it is called.
 */
#ifndef JOBD_RUN_RUN_IMPL_H
#define JOBD_RUN_RUN_IMPL_H

#include <ev.h>
#include <jansson.h>
#include <limits.h>

#include "contrib/jobd/run/run.h"
#include "contrib/jobd/store/store.h"
#include "stepd/api/client.h"
#include "stepd/base/buffer.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"

/* Slurm's numbers of these steps. */
#define STEP_ID_EXTERN 0xfffffffcu
#define STEP_ID_BATCH  0xfffffffbu

#define BOOT_ID_SIZE 40

/* For each call to an agent. */
#define CALL_TIMEOUT_MS 60000u

struct run {
	struct run_options options;
	struct engine *engine;
	ev_timer work_timer;
	struct run_job *work, **work_end; /* those that on_work() is to look at */
	struct run_job *forgotten;        /* whose memory and files go next */
	char *stepd, *stepctl, *runtime_dir, *host;
	char *cluster_name; /* NULL: none */
	char *dir;          /* of files: STATE_DIR/run */
	int dir_fd;
	char boot_id[BOOT_ID_SIZE];
	uint32_t *cpus; /* of this machine, by their logical numbers */
	size_t cpus_count;
	bool has_cpuset, has_memory; /* the controllers */
	bool reported;               /* something, to the engine */
};

/* ---- calls -------------------------------------------------------------------------------------
 */

enum call_kind {
	CALL_SIGNAL,
	CALL_SIGNAL_SCRIPT, /* to the script's process alone */
	CALL_SIGNAL_STEPS,  /* to the stepruns of a script, which pass it on to their tasks */
	CALL_SUSPEND,
	CALL_RESUME,
	CALL_TERMINATE,
	CALL_LIMITS, /* those that the job has on the node now */
};

struct call {
	struct call *next;
	enum call_kind kind;
	int signal;
	pid_t pid; /* with CALL_SIGNAL: to this process alone; 0: to all */
};

/* To one agent, in the order in which they were added. The first one is under way, or waits for the
 * agent to be ready. */
struct calls {
	struct call *first, **end;
	struct stepd_client *client; /* NULL: not connected */
	int watch_fd;                /* -1, or for changes while the agent does not listen yet */
	struct pidref command;       /* of a launcher: stepctl on the host */
	ev_io io;                    /* of one of these */
	ev_timer timer;              /* the next attempt to connect, or the limit of the call */
	uint64_t begun_ms;           /* 0: the first call is not under way */
};

/* ---- agents ------------------------------------------------------------------------------------
 */

enum agent_state {
	AGENT_NONE,     /* it was not started */
	AGENT_WAITS,    /* for its spec */
	AGENT_STARTING, /* it gets its spec, and starts its step */
	AGENT_RUNNING,
	AGENT_ENDED,
};

struct agent {
	struct run_job *job;
	const node_record_t *node;
	bool batch, remote; /* remote: the process is that of the launcher */
	bool leaves;        /* the job has given up the node: it is to end */
	bool stands;        /* its processes do: suspended */
	bool stored;        /* its pid is */
	unsigned adoptions; /* by agents that took its step over */
	bool found;         /* after a restart, and it may not have got its spec */
	enum agent_state state;
	struct pidref process;
	ev_io exit_io, ready_io, spec_io;
	int ready_fd, spec_fd;
	struct buffer spec;
	struct calls calls;
	unsigned changes;       /* calls that suspend or resume it, and have not ended */
	bool seen;              /* its end */
	int exit_code;          /* of its process, where that was a child of this one; else -1 */
	int status;             /* as wait(2) has it, of the script */
	bool out_of_memory;     /* likewise */
	bool lost, users_fault; /* it has no result, or could not start its step */
	char why[512];          /* of these two */
};

enum change {
	CHANGE_NONE,
	CHANGE_SUSPEND,
	CHANGE_RESUME,
};

/* A job that the engine has started. */
struct run_job {
	struct run *run;
	struct job *job; /* NULL: forgotten */
	uint32_t id, restarts;
	struct run_job *next_work, *next_forgotten;
	bool has_work;
	bool begun;            /* its agents were started */
	bool ending, ended;    /* nothing is started any more; no agent is left */
	bool refused;          /* it could not be started, and no node is to blame */
	int status;            /* as wait(2) has it */
	bool out_of_memory;    /* the kernel has killed a process of its step for that */
	struct agent **agents; /* that of its script is the first one */
	uint32_t count;
	enum change change;
	bool taken_back; /* one agent has refused it: the others become as before */
	int change_error;
};

/* Looks at the job from the loop, soon. */
void run_want_work(struct run_job *j);

/* Whether a node is reached by the launcher. */
bool run_is_remote(const struct run *run, const node_record_t *node);

/* With an agent for each of its nodes, and each that it gives up. NULL: no memory. */
struct run_job *run_job_new(struct run *run, struct job *job, struct err *err);

/* A call that suspends or resumes it. */
void run_change_agent(struct agent *a, bool suspend);

/* A call has ended. r: 0, or -errno with its reason; -ESRCH: the agent is gone. */
void run_call_ended(struct agent *a, const struct call *call, int r, const char *why);

/* A process of its own session with these as 0, 1 and 2 (-1: /dev/null), and spec and ready (-1:
 * none) as SPAWN_SPEC_FD and SPAWN_READY_FD. argv[0] is the program's path. */
#define SPAWN_SPEC_FD  3
#define SPAWN_READY_FD 4
struct spawn {
	char *const *argv;
	int in, out, error, spec, ready;
};
int spawn_process(const struct spawn *s, struct pidref *ret_process) _must_check_;

/* The command that runs argv on the host of the node: add it to ret_argv. 0 or -ENOMEM. */
int make_launcher_argv(const struct run *run, const char *host, const struct strv *command,
	struct strv *ret_argv) _must_check_;

/* ---- agents ---- */

/* Starts the process, which waits for its spec. The reason is for engine_node_failed(). */
int agent_spawn(struct agent *a, struct err *err) _must_check_;

/* Its pid is stored: what agent_send_spec() does is done at most once. */
int agent_store(struct agent *a, struct err *err) _must_check_;
void agent_send_spec(struct agent *a);

/* Nothing was sent yet: it ends without having started anything. */
void agent_refuse_spec(struct agent *a);

/* Of one that is found again: it is watched from here on; or it is gone, and what it has left is
 * read, or another agent takes its step over. */
void agent_watch(struct agent *a);
void agent_take_end(struct agent *a);

/* Its step is to stand still or not, or to end, as the job has it: calls for that may have been
 * lost with the agent, or the jobd, before. */
void agent_settle(struct agent *a);

/* Its step's directory is there, and what has it: 1, with the agent's process if that lives (else
 * unset); 0: there is none. */
int agent_find_step(const struct agent *a, struct pidref *ret_process);

/* Whether its result or its step's directory is there: it had its spec. */
bool agent_has_left_something(const struct agent *a);

/* Reads its result, and sets status, out_of_memory and what follows: 0; -ENOENT: there is none. */
int agent_read_result(struct agent *a) _must_check_;
void agent_clear(struct agent *a);
void agent_remove_files(const struct agent *a);

/* The step's: free() it; NULL: no memory. */
char *agent_directory(const struct agent *a);

/* The name of a file of it, with that ending: free() it; NULL: no memory. */
char *agent_file(const struct agent *a, const char *ending);

/* "n1/7.batch" */
char *agent_step_name(const struct agent *a);

/* ---- calls ---- */

void calls_init(struct calls *c, struct agent *a);

/* Adds a call. */
void calls_add(struct agent *a, enum call_kind kind, int signal);

/* The agent is ready for calls. */
void calls_begin(struct agent *a);

/* The agent has died: its calls wait for the next one, and what it may have had no reply to is sent
 * again. */
void calls_interrupt(struct agent *a);

/* The agent is gone: so are its calls, each with -ESRCH. */
void calls_end(struct agent *a);
void calls_clear(struct agent *a);

/* ---- specs ---- */

/* A new reference. NULL: err has the reason. */
json_t *spec_make(const struct agent *a, struct err *err);

/* The member "limits" of it, which may be empty; NULL: no memory. */
json_t *spec_make_limits(const struct agent *a);

/* This machine's CPUs and controllers, for specs. */
int spec_probe(struct run *run, struct err *err) _must_check_;

#endif
