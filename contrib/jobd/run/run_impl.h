/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The internals of the runner:
 *
 *	run.c      notes requests, and performs them from the loop; the ends of jobs
 *	agent.c    an agent: its process, spec, end and result
 *	call.c     calls to an agent, one after the other
 *	spec.c     the document of a job on a node
 *	recover.c  recovery after a restart
 *
 * Only on_work() of run.c reports to the engine, as the engine calls back into this folder
 * meanwhile.
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

/* Slurm's ids of these steps. */
#define STEP_ID_EXTERN 0xfffffffcu
#define STEP_ID_BATCH  0xfffffffbu

#define BOOT_ID_SIZE 40

/* For each call to an agent. */
#define CALL_TIMEOUT_MS 60000u

struct run {
	struct run_options options;
	struct engine *engine;
	ev_timer work_timer;
	struct run_job *work, **work_end; /* jobs that on_work() has to process */
	struct run_job *forgotten;        /* to be freed, with their files */
	char *stepd, *stepctl, *runtime_dir, *host;
	char *cluster_name; /* NULL: none */
	char *dir;          /* STATE_DIR/run */
	int dir_fd;
	char boot_id[BOOT_ID_SIZE];
	uint32_t *cpus; /* of this machine, by their logical numbers */
	size_t cpus_count;
	bool has_cpuset, has_memory; /* the controllers */
	bool reported;               /* to the engine, in this turn */
};

/* ---- calls -------------------------------------------------------------------------------------
 */

enum call_kind {
	CALL_SIGNAL,
	CALL_SIGNAL_SCRIPT, /* to the script's process alone */
	CALL_SIGNAL_STEPS,  /* to the stepruns of a script, which forward it to their tasks */
	CALL_SUSPEND,
	CALL_RESUME,
	CALL_TERMINATE,
	CALL_LIMITS, /* of the job on the node, as of now */
};

struct call {
	struct call *next;
	enum call_kind kind;
	int signal;
	pid_t pid; /* with CALL_SIGNAL: to this process only; 0: to all */
};

/* The calls to one agent, in the order in which they were added. The first one is under way, or
 * waits for the agent to be ready. */
struct calls {
	struct call *first, **end;
	struct stepd_client *client; /* NULL: not connected */
	int watch_fd;                /* -1, or a watch while the agent does not listen yet */
	struct pidref command;       /* of a launcher: stepctl on the host */
	ev_io io;                    /* of one of these descriptors */
	ev_timer timer;              /* the next attempt to connect, or the limit of the call */
	uint64_t begun_ms;           /* 0: the first call is not under way */
	unsigned failures;           /* of the first call, which is tried again */
};

/* ---- agents ------------------------------------------------------------------------------------
 */

enum agent_state {
	AGENT_NONE,     /* not started */
	AGENT_WAITS,    /* for its spec */
	AGENT_STARTING, /* reads its spec, and starts its step */
	AGENT_RUNNING,
	AGENT_ENDED,
};

struct agent {
	struct run_job *job;
	const node_record_t *node;
	bool batch, remote; /* remote: the process is that of the launcher */
	bool leaves;        /* the job has given up the node: it must end */
	bool stands;        /* its processes are suspended */
	bool stored;        /* its pid is stored */
	unsigned adoptions; /* how often another agent has taken its step over */
	bool found;         /* found after a restart, and may not have got its spec */
	enum agent_state state;
	struct pidref process;
	ev_io exit_io, ready_io, spec_io;
	int ready_fd, spec_fd;
	struct buffer spec;
	struct calls calls;
	bool has_replied;       /* remote: a call to it has succeeded */
	unsigned changes;       /* pending calls that suspend or resume it */
	bool seen;              /* its end was seen */
	int exit_code;          /* of its process, if that was a child of ours; else -1 */
	int status;             /* of the script, as in wait(2) */
	bool out_of_memory;     /* likewise */
	bool lost, users_fault; /* it has no result, or could not start its step */
	char why[512];          /* the reason of these two */
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
	bool ending, ended;    /* nothing more is started; no agent is left */
	bool refused;          /* it could not be started, and no node is to blame */
	int status;            /* as wait(2) has it */
	bool out_of_memory;    /* the OOM killer has killed a process of its step */
	struct agent **agents; /* first that of its script */
	uint32_t count;
	enum change change;
	bool taken_back; /* one agent has refused it: undone on the others */
	int change_error;
};

/* Schedules on_work() for the job. */
void run_want_work(struct run_job *j);

/* Whether a node is reached by the launcher. */
bool run_is_remote(const struct run *run, const node_record_t *node);

/* Makes an agent for each of its nodes, and each that it has given up. NULL: out of memory. */
struct run_job *run_job_new(struct run *run, struct job *job, struct err *err);

/* Adds a call that suspends or resumes it. */
void run_change_agent(struct agent *a, bool suspend);

/* A call has ended. r: 0, or -errno with its reason; -ESRCH: the agent is gone. */
void run_call_ended(struct agent *a, const struct call *call, int r, const char *why);

/* Starts a process in a session of its own, with in, out and error as descriptors 0, 1 and 2 (-1:
 * /dev/null), and spec and ready (-1: none) as SPAWN_SPEC_FD and SPAWN_READY_FD. argv[0] is the
 * path of the program. */
#define SPAWN_SPEC_FD  3
#define SPAWN_READY_FD 4
struct spawn {
	char *const *argv;
	int in, out, error, spec, ready;
};
int spawn_process(const struct spawn *s, struct pidref *ret_process) _must_check_;

/* Adds the command that runs `command` on the host to ret_argv. 0 or -ENOMEM. */
int make_launcher_argv(const struct run *run, const char *host, const struct strv *command,
	struct strv *ret_argv) _must_check_;

/* ---- agents ---- */

/* Starts the process, which waits for its spec. The text of err is for engine_node_failed(). */
int agent_spawn(struct agent *a, struct err *err) _must_check_;

/* Stores its pid, so that agent_send_spec() is called at most once for it. */
int agent_store(struct agent *a, struct err *err) _must_check_;
void agent_send_spec(struct agent *a);

/* Ends it before anything was sent: it has not started anything. */
void agent_refuse_spec(struct agent *a);

/* For an agent that is found after a restart: watches it; or if it is gone, reads its result, or
 * starts another agent that takes its step over. */
void agent_watch(struct agent *a);
void agent_take_end(struct agent *a);

/* Suspends, resumes or ends its step to match the job: earlier calls may have been lost with an
 * agent or a jobd. */
void agent_settle(struct agent *a);

/* Whether its step's directory exists: 1, with the agent's process if that lives (else unset), or
 * 0. */
int agent_find_step(const struct agent *a, struct pidref *ret_process);

/* Whether its result or its step's directory exists, so that it had its spec. */
bool agent_has_left_something(const struct agent *a);

/* Reads its result, and sets status, out_of_memory and the members after it: 0; -ENOENT: none. */
int agent_read_result(struct agent *a) _must_check_;
void agent_clear(struct agent *a);
void agent_remove_files(const struct agent *a);

/* The step's directory: free(); NULL: out of memory. */
char *agent_directory(const struct agent *a);

/* The name of its file with that ending: free(); NULL: out of memory. */
char *agent_file(const struct agent *a, const char *ending);

/* "n1/7.batch" */
char *agent_step_name(const struct agent *a);

/* ---- calls ---- */

void calls_init(struct calls *c, struct agent *a);

/* Adds a call. */
void calls_add(struct agent *a, enum call_kind kind, int signal);

/* The agent is ready for calls. */
void calls_begin(struct agent *a);

/* The agent has died: its calls wait for the next agent, and a call without a reply is sent again.
 */
void calls_interrupt(struct agent *a);

/* The agent is gone: ends its calls with -ESRCH. */
void calls_end(struct agent *a);
void calls_clear(struct agent *a);

/* ---- specs ---- */

/* A new reference. NULL: err has the reason. */
json_t *spec_make(const struct agent *a, struct err *err);

/* Its member "limits", which may be empty; NULL: out of memory. */
json_t *spec_make_limits(const struct agent *a);

/* Finds this machine's CPUs and controllers, for specs. */
int spec_probe(struct run *run, struct err *err) _must_check_;

#endif
