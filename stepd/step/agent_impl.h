/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The agent's state, shared by agent.c (how a step begins, and is torn down), ending.c (what ends
 * it), result.c (how it is reported) and adopt.c (how it is taken over).
 */
#ifndef STEPD_STEP_AGENT_IMPL_H
#define STEPD_STEP_AGENT_IMPL_H

#include <ev.h>

#include "stepd/account/account.h"
#include "stepd/account/tasks.h"
#include "stepd/launch/launch.h"
#include "stepd/launch/plan.h"
#include "stepd/loop/loop.h"
#include "stepd/loop/trim.h"
#include "stepd/process/process.h"
#include "stepd/record/state_doc.h"
#include "stepd/step/agent.h"
#include "stepd/step/join.h"
#include "stepd/step/reaping.h"
#include "stepd/step/reexec.h"
#include "stepd/step/requests.h"
#include "stepd/step/result.h"
#include "stepd/step/suspend.h"

struct events;
struct exit_watch;
struct frontends;
struct handover;
struct json_t;
struct mpi;
struct mpi_link;
struct proctrack;
struct registry;
struct state_doc;
struct stdio;
struct trace;

enum agent_state {
	AGENT_STARTING,
	AGENT_RUNNING,
	AGENT_ENDING,   /* its end was requested, or all tasks have ended */
	AGENT_DRAINING, /* no process is left; output is still being written */
	AGENT_ENDED,
	AGENT_STATE_MAX,
};

/* Why the step ended: the first reason stays. */
enum agent_reason {
	AGENT_REASON_COMPLETED, /* all tasks ended by themselves */
	AGENT_REASON_SIGNAL,    /* the agent was signalled */
	AGENT_REASON_TIME_LIMIT,
	AGENT_REASON_BAD_EXIT, /* kill_on_bad_exit */
	AGENT_REASON_WAIT,     /* the time after the first exit expired */
	AGENT_REASON_OOM,      /* oom_kill_step */
	AGENT_REASON_EXEC,     /* a task could not be executed */
	AGENT_REASON_LAUNCH,   /* the step could not be started */
	AGENT_REASON_ABORT,    /* a task has aborted the step through its MPI */
	AGENT_REASON_MAX,
};

/* The ready line, while it is being written. */
struct ready {
	int fd;     /* -1: not requested, or written */
	char *text; /* NULL: not made yet */
	size_t size, at;
	ev_io io;
};

/* Descriptors reserved for the ending: signalling and removing a container needs some.
 */
#define AGENT_SPARE_FDS 16

/* The launch of its tasks: launch/, join.c, reaping.c. */
struct agent_start {
	struct process_saved saved;
	struct launch launch;
	struct joins joins;
	uint64_t release_ns;
	ev_io report_io;
	int spare_fd[AGENT_SPARE_FDS]; /* held until all tasks are forked: reserve_fds() */
	unsigned linked;               /* number of the program's MPI library; 0: unknown */
	bool exec_failed;              /* a task has reported so */
};

/* The reason and the outcome of its end: ending.c. */
struct agent_end {
	int signal;         /* with AGENT_REASON_SIGNAL */
	int abort_code;     /* with AGENT_REASON_ABORT */
	struct err failure; /* with AGENT_REASON_LAUNCH */
	uint64_t time_ns;
	struct killseq killseq;
	struct spec_kill *kill_steps; /* replaces the spec's in killseq; NULL: it does not */
	bool streams_done;            /* all output of the tasks has been written */
	bool output_lost;             /* some of that could not be written */
	uint64_t input_dropped;       /* bytes that tasks have not got */
	bool unkillable;              /* processes were left that SIGKILL did not end */
	char *unkillable_text;        /* their names, for the result */
};

/* Its time limits: ending.c. */
struct agent_limits {
	struct pausable time, signal, wait, bad_exit_grace;
	bool signal_sent;
};

/* Watchers for the step's end: ending.c. */
struct agent_watch {
	int signal_fd; /* process_catch_signals() */
	ev_io signal_io;
	struct pri_watch container; /* -1: the tracker has nothing to watch */
	struct member_watch member; /* then */
	struct supervisor_line supervisor;
};

/* The time of its start, and state for an adopter: adopt.c. */
struct agent_origin {
	uint64_t begin_ns;
	struct recover recover;
	struct added added;       /* to a container that is known by its processes alone */
	struct exit_watch *exits; /* of an adopted step's tasks; NULL: they are our children */
};

/* Its MPI plugin and the plugin's service process: mpi_link.c. */
struct agent_mpi {
	struct mpi *host;
	struct mpi_link *link; /* NULL: no hook of it has been called */
	int service_cgroup_fd; /* of the service process, until that is started; -1: none */
	bool service_may_clone;
};

struct agent {
	const struct agent_options *options;
	const struct log *log;
	struct ev_loop *loop;
	enum agent_state state;
	enum agent_reason reason;

	struct plan plan;
	struct tasks tasks;
	struct registry *registry;
	struct proctrack *pt;
	struct stdio *stdio;
	struct trace *trace;
	struct account account;
	struct events *events;       /* NULL: none are recorded */
	struct frontends *frontends; /* NULL: no frontend */

	struct agent_start start;
	struct hooks *hooks; /* NULL: the step has none, or had them and was adopted */
	struct agent_mpi mpi;
	struct agent_watch watch;
	struct agent_limits limits;
	struct agent_end end;
	struct agent_origin origin;
	struct requests requests; /* to be done to the container */
	struct suspend suspend;
	struct reexec reexec;
	struct ready ready;
	struct trim trim;   /* once the step runs here, and after requests */
	bool result_stored; /* result.json stands in the step's directory, and stays */
};

/* As in result.json and state.json. */
extern const char *const agent_state_names[AGENT_STATE_MAX];
extern const char *const agent_reason_names[AGENT_REASON_MAX];

/* Sets all members, for agent_finish() to clear. */
void agent_init(struct agent *a, const struct agent_options *options);

/* Closes the descriptors above 2 that the agent was started with and does not need. */
void agent_close_inherited(const struct agent_options *options);

/* Prepares the calls of account.h by the agent's options. */
struct account_setup agent_account_setup(struct agent *a);

/* The agent's state for an adopter, or for a new program (record/state_doc.h): a new reference,
 * NULL without memory. And restoring from it, before the rest of the state. */
struct json_t *agent_pack(struct agent *a);
void agent_unpack(struct agent *a, const struct state_doc *s);

/* Restores the tasks, once the plan is made: all are TASK_NEW, and the plan has their pids. 0,
 * -ENOMEM, or -EBADMSG for tasks of another step. */
int agent_unpack_tasks(struct agent *a, const struct state_doc *s) _must_check_;

/* Runs the loop until fd is readable (true) or the limit has passed; without an fd only for
 * events that are pending now. For the launch: requests are served, but signals and the
 * supervisor's end wait, as during the whole launch. */
#define AGENT_NO_LIMIT UINT64_MAX
bool agent_serve_meanwhile(struct agent *a, int fd, uint64_t limit_ms);

/* The step runs here: the agent gives back what it has needed to start, and locks the rest if the
 * spec says so. */
void agent_settle(struct agent *a);

/* A task was forked. */
void agent_report_start(const struct agent *a, const struct task *task);

/* The step is over before it ran: only its container existed. */
void agent_note_failure(struct agent *a, const struct err *err);

/* Ends the step, however it began here: removes its container, writes its result, notifies
 * clients and the service manager, removes its directory. r is the outcome of the step's run,
 * with err's text if it is below 0. Returns the exit status in *ret_code if r is 0. */
int agent_finish(struct agent *a, int r, int *ret_code, const struct err *err);

/* The agent's exit status. */
int agent_exit_code(const struct agent *a);

/* ---- events for the frontends ---------------------------------------------------------------
 *
 * A frontend serves requests for the step. The agent is given its functions by its options
 * (frontends of stepd/frontend/frontends.h). It calls the step's operations itself; these functions
 * report the step's events to it. Without a frontend, or if it could not be opened, the agent goes
 * on, and they do nothing. */

struct frontend {
	/* Serves requests from now on, in a->loop; calls that change the step wait for ready.
	 * Sets a->frontends, also on failure, except without memory. The step's directory and its
	 * container exist. */
	int (*open)(struct agent *a, struct err *err);

	/* The tasks have been released, or never will be: calls that waited for that continue. */
	void (*ready)(struct frontends *f);

	/* The step's state may have changed. */
	void (*state_changed)(struct frontends *f);

	/* A requested suspension or resumption is done. why: the reason of its failure, with that
	 * code. */
	void (*suspended)(struct frontends *f, bool suspend, int code, const char *why);

	/* The MPI service process has sent a request of that name (mpi/link.h); mpi_link_answer()
	 * replies to it, now or later. False: the request is unknown. */
	bool (*mpi_request)(struct frontends *f, const char *name, const struct json_t *request);

	/* The result is on the disk: replies to calls that wait for it. May run the loop for
	 * that, as long as their readers read. */
	void (*end)(struct frontends *f);
	struct frontends *(*close)(struct frontends *f);

	/* For a re-exec (reexec.h). is_answering: whether a reply is in progress that the new
	 * program could not continue (reexec_answered() is called once none is). not_reexeced:
	 * the new program was not executed, and why. save, restore: all open calls; restore
	 * replaces open. */
	bool (*is_answering)(const struct frontends *f);
	void (*not_reexeced)(struct frontends *f, const struct err *why);
	void (*save)(const struct frontends *f, struct handover *h, struct json_t *object);
	int (*restore)(struct agent *a, const struct handover *h, const struct json_t *object,
		struct err *err);
};

int frontend_open(struct agent *a, struct err *err) _must_check_;
void frontend_ready(struct agent *a);
void frontend_state_changed(struct agent *a);
void frontend_suspended(struct agent *a, bool suspend, int code, const char *why);
bool frontend_mpi_request(
	struct agent *a, const char *name, const struct json_t *request) _must_check_;
void frontend_close(struct agent *a);
bool frontend_is_answering(const struct agent *a);
void frontend_not_reexeced(struct agent *a, const struct err *why);
void frontend_save(const struct agent *a, struct handover *h, struct json_t *root);
int frontend_restore(struct agent *a, const struct handover *h, const struct json_t *object,
	struct err *err) _must_check_;

#endif
