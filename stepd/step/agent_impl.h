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
	AGENT_ENDING,   /* was requested to end, or all tasks have ended */
	AGENT_DRAINING, /* no process is left; the streams still flow */
	AGENT_ENDED,
	AGENT_STATE_MAX,
};

/* Why the step ended: the first reason stays. */
enum agent_reason {
	AGENT_REASON_COMPLETED, /* all tasks ended by themselves */
	AGENT_REASON_SIGNAL,    /* the agent was signalled */
	AGENT_REASON_TIME_LIMIT,
	AGENT_REASON_BAD_EXIT, /* kill_on_bad_exit */
	AGENT_REASON_WAIT,     /* the time after the first exit ran out */
	AGENT_REASON_OOM,      /* oom_kill_step */
	AGENT_REASON_EXEC,     /* a task could not be executed */
	AGENT_REASON_LAUNCH,   /* the step could not be started */
	AGENT_REASON_ABORT,    /* a task has aborted the step through its MPI */
	AGENT_REASON_MAX,
};

/* The ready line, while its reader takes it. */
struct ready {
	int fd;     /* -1: none was requested, or it is written */
	char *text; /* NULL: not made yet */
	size_t size, at;
	ev_io io;
};

/* Descriptors that a launch leaves to the ending: signalling and removing a container needs some.
 */
#define AGENT_SPARE_FDS 16

/* How its tasks begin: launch/, join.c, reaping.c. */
struct agent_start {
	struct process_saved saved;
	struct launch launch;
	struct joins joins;
	uint64_t release_ns;
	ev_io report_io;
	int spare_fd[AGENT_SPARE_FDS]; /* held until all is forked: reserve_fds() */
	unsigned linked;               /* number of the program's MPI library; 0: none is known */
	bool exec_failed;              /* a task has reported so */
};

/* What ends it, and what is known of its end: ending.c. */
struct agent_end {
	int signal;         /* with AGENT_REASON_SIGNAL */
	int abort_code;     /* with AGENT_REASON_ABORT */
	struct err failure; /* with AGENT_REASON_LAUNCH */
	uint64_t time_ns;
	struct killseq killseq;
	struct spec_kill *kill_steps; /* what killseq has in place of the spec's; NULL: nothing */
	bool streams_done;            /* what the tasks wrote has been passed on */
	bool output_lost;             /* some of it could not be written */
	bool unkillable;              /* processes were left that SIGKILL did not end */
	char *unkillable_text;        /* their names, for the result */
};

/* The limits of its time: ending.c. */
struct agent_limits {
	struct pausable time, signal, wait, bad_exit_grace;
	bool signal_sent;
};

/* What the loop watches for the step's end: ending.c. */
struct agent_watch {
	int signal_fd; /* process_catch_signals() */
	ev_io signal_io;
	struct pri_watch container; /* -1: there is nothing to watch */
	struct member_watch member; /* then */
	struct supervisor_line supervisor;
};

/* Since when it runs, and what an agent that takes it over has to know: adopt.c. */
struct agent_origin {
	uint64_t begin_ns;
	struct recover recover;
	struct added added;       /* to a container that is known by its processes alone */
	struct exit_watch *exits; /* of an adopted step's tasks; NULL: they are our children */
};

/* Its MPI plugin and that one's service process: mpi_link.c. */
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
	struct frontends *frontends; /* NULL: nobody can call */

	struct agent_start start;
	struct agent_mpi mpi;
	struct agent_watch watch;
	struct agent_limits limits;
	struct agent_end end;
	struct agent_origin origin;
	struct requests requests; /* to be done to the container */
	struct suspend suspend;
	struct reexec reexec;
	struct ready ready;
	bool result_stored; /* result.json stands in the step's directory, and stays */
};

/* As in result.json and state.json. */
extern const char *const agent_state_names[AGENT_STATE_MAX];
extern const char *const agent_reason_names[AGENT_REASON_MAX];

/* All of it, for agent_finish() to clear. */
void agent_init(struct agent *a, const struct agent_options *options);

/* Closes all above 2 that the agent was started with and has no use for. */
void agent_close_inherited(const struct agent_options *options);

/* For the functions of account.h, with what the agent was called for. */
struct account_setup agent_account_setup(struct agent *a);

/* What of the agent goes over to one that adopts its step, or to a new program in its place
 * (record/state_doc.h): a new reference, NULL for want of memory. And that, before the rest of what
 * goes over. */
struct json_t *agent_pack(struct agent *a);
void agent_unpack(struct agent *a, const struct state_doc *s);

/* Its tasks, once the plan is made: all are TASK_NEW, and the plan has their pids. 0, -ENOMEM, or
 * -EBADMSG where they are none of that step. */
int agent_unpack_tasks(struct agent *a, const struct state_doc *s) _must_check_;

/* Runs the loop until fd is readable, which is returned, or the limit has passed; without an fd for
 * what there is to do now. For the launch: requests are served, but signals and the supervisor's
 * end wait, as they do in all of it. */
#define AGENT_NO_LIMIT UINT64_MAX
bool agent_serve_meanwhile(struct agent *a, int fd, uint64_t limit_ms);

/* A task was forked. */
void agent_report_start(const struct agent *a, const struct task *task);

/* The step is over before it ran: its container stood, and no more. */
void agent_note_failure(struct agent *a, const struct err *err);

/* The end, however the step began here: its container goes, its result is written, clients and the
 * service manager are notified, its directory goes. r is what the step's life gave, with err's text
 * if it is below 0. Returns what to exit with, in *ret_code where r is 0. */
int agent_finish(struct agent *a, int r, int *ret_code, const struct err *err);

/* What the agent exits with. */
int agent_exit_code(const struct agent *a);

/* ---- events for the frontends ---------------------------------------------------------------
 *
 * A frontend serves requests for the step. The agent is given its functions by its options
 * (frontends of stepd/frontend/frontends.h). It calls the step's operations itself; these functions
 * report the step's events to it. Without a frontend, or if it could not be opened, the agent goes
 * on, and they do nothing. */

struct frontend {
	/* Requests are served from now on, in a->loop; what changes the step waits for ready. Sets
	 * a->frontends, also where it fails but for want of memory. The step's directory and its
	 * container stand. */
	int (*open)(struct agent *a, struct err *err);

	/* The tasks have been released, or never will be: what waited for that goes on. */
	void (*ready)(struct frontends *f);

	/* The step's state may be another one. */
	void (*state_changed)(struct frontends *f);

	/* A suspension, or a resumption, that was requested has come to its end. why: it has
	 * failed, with that code. */
	void (*suspended)(struct frontends *f, bool suspend, int code, const char *why);

	/* The MPI service process has sent a request of that name (mpi/link.h), which is answered
	 * by mpi_link_answer(), now or later. False: there is no such request. */
	bool (*mpi_request)(struct frontends *f, const char *name, const struct json_t *request);

	/* The result is on the disk: whoever waits for it is answered. May run the loop for that,
	 * no longer than readers take who read at all. */
	void (*end)(struct frontends *f);
	struct frontends *(*close)(struct frontends *f);

	/* For a new program in the agent's place (reexec.h): whether an answer is being made that
	 * it could not go on with (then reexec_answered() is called once none is); it was not
	 * executed, and why; all calls that are open, and the same again, in the place of open. */
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
