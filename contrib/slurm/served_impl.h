/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Inside served.h, for its four files alone. The process has one struct served, in parts; a part is
 * changed by its file, and read by all:
 *
 *	served.c          the life: slurmd's answer, the agent, the streams, the end
 *	served_prepare.c  setup; it fills in the other parts, too, before they begin
 *	served_request.c  requests: those at the step's socket, and those whom sattach has attached
 *	served_report.c   reports: to srun, slurmctld and the node above; epilogs, before them
 *
 * Functions that need one part take that.
 */
#ifndef SLURM_SERVED_IMPL_H
#define SLURM_SERVED_IMPL_H

#include <ev.h>
#include <sys/resource.h>

#include "contrib/slurm/attach.h"
#include "contrib/slurm/delivery.h"
#include "contrib/slurm/fifos.h"
#include "contrib/slurm/lookup.h"
#include "contrib/slurm/pmix_settings.h"
#include "contrib/slurm/programs.h"
#include "contrib/slurm/served.h"
#include "contrib/slurm/server.h"
#include "contrib/slurm/user_probe.h"
#include "stepd/base/strv.h"
#include "stepd/loop/trim.h"

struct accounting;
struct batch;
struct call;
struct epilogs;
struct json_t;
struct slurm_auth;
struct pmi_tree;
struct pmix_nodes;
struct spank_serve;
struct supervisor;
struct suspension;
struct tree;
struct window;
struct x11;
struct job_tmpfs;

#define SERVED_FALLBACK_DIR "/tmp"
#define SERVED_EARLY_MAX    8

/* Errors of Slurm, the same in all releases. */
#define SLURM_EXECVE_FAILED    4020
#define SLURM_IO_ERROR         4021
#define SLURM_STEP_NOT_RUNNING 4027

/* No signal: CONT, TERM, and KILL after a grace. */
#define SLURM_SIGNAL_TERMINATE 991

/* ---- the parts ----------------------------------------------------------------------------- */

struct served_task {
	uint32_t pid;
	bool ended, reported;
	bool has_epilog; /* it runs, or has run */
	bool killed;     /* by a request: its status does not count for the step's */
	int status;
	uint64_t oom_kills; /* of its processes, by the kernel */
};

/* Those of this node, by index. */
struct served_tasks {
	uint32_t n;
	uint32_t *ranks;       /* as srun has them */
	uint32_t *whole_ranks; /* as the agent and the tasks have them, slurm_whole_ranks() */
	struct served_task *v;
};

/* What has been found out before slurmd has its answer. */
struct served_setup {
	struct pmix_settings pmix; /* of a step with PMIx */
	uint32_t node_id;          /* in the step, as srun counts its nodes */
	uint32_t *groups, groups_count;
	struct lookup_user user;
	struct programs programs;
	struct user_probe probe;
	char *task_program;
};

/* "stepd serve", and how it is started. */
struct served_agent {
	struct json_t *doc; /* NULL once it has been started, unless there are epilogs */
	char *program, *runtime_dir;
	char *directory; /* of the step */
	struct strv args;
	struct supervisor *supervisor;
	int launch_error; /* of Slurm; 0: the tasks have been started */
	int node_error;   /* of Slurm; not 0: the node can't start agents */
	bool runs;        /* it serves requests */
	bool over;        /* and has ended */
};

struct served_streams {
	struct fifos fifos;
	struct srun_io *io;    /* NULL: a batch script */
	struct window *window; /* NULL: no task of this node has a terminal */
	struct rlimit nofile;  /* before it was raised */
	bool raised, finishes, ended;
};

/* A signal that came before the tasks ran. */
struct served_early {
	struct served *served;
	struct wire_request request;
	struct call *call; /* NULL: not yet, or done */
};

struct served_requests {
	struct spool *spool;
	struct server server;
	struct listener *listener;
	struct attach attach;
	struct served_early *early[SERVED_EARLY_MAX];
	unsigned early_count;
	int early_end; /* one that ends the tasks, and came before they ran; 0: none has */
	struct suspension *suspension;
	bool polled;       /* the usage has just been read */
	bool suspends;     /* it is time to */
	bool resumed;      /* before that */
	bool cancelled;    /* the user has the line */
	bool aborted;      /* slurmctld does not want to know of the end */
	bool reconfigured; /* slurm.conf may name another slurmctld */
	bool is_stopped;   /* that a signal ends tasks is no failure */
	struct served_memory {
		bool has_changed; /* the job's limit: */
		uint64_t job_mb;
		struct call *call; /* the agent is to keep this new one: */
		uint64_t wanted_mb;
		bool is_done; /* it has answered */
		int code;     /* so; 0: done */
	} memory;
};

struct served_reports {
	ev_timer gather;   /* ends of tasks */
	struct tree *tree; /* NULL: slurmctld knows nothing of the step */
	struct delivery_retry to_srun;
	unsigned deliveries;
	bool out_of_memory; /* that is reported in place of each status */
	bool cancels;       /* slurmctld has been told to end the step on all nodes */
	bool launch_waits;  /* that it has failed: until ends are delivered, or the step's reported
			     */
	unsigned exits_deliver; /* srun is being told of so many */
	bool launch_delivers;   /* srun is being told of it */
	bool exits_wait;        /* for that */
	bool over;              /* that is */
};

struct served {
	const struct slurm_init *init;
	const struct slurm_launch *launch;
	const struct log *log;
	char label[SLURM_LABEL_SIZE];
	struct ev_loop *loop;
	struct slurm_auth *auth;
	struct pam_session *pam;       /* NULL: the site has none, or it is over */
	struct batch *batch;           /* NULL: a step of srun */
	struct epilogs *epilogs;       /* NULL: there is none */
	struct accounting *accounting; /* NULL: the site has none */
	struct pmi_tree *pmi;          /* NULL: no PMI-2 over several nodes */
	struct pmix_nodes *pmix;       /* NULL: no PMIx over several nodes */
	struct spank_serve *spank;     /* NULL: no SPANK plugin has to do with it */
	struct x11 *x11;               /* NULL: the step forwards no X11 */
	struct job_tmpfs *tmpfs;       /* NULL: it makes no namespace for its job */
	ev_timer others;               /* the job's other steps have it still */

	struct served_setup setup;
	struct served_tasks tasks;
	struct served_agent agent;
	struct served_streams streams;
	struct served_requests requests;
	struct served_reports reports;
	struct job_cgroup *job_cgroup; /* NULL: the step has no container in one */

	ev_io init_end;
	struct trim trim; /* once the tasks run, and after requests and readings of their usage */
	bool answered;    /* slurmd has its answer: the step is not handed over any more */
	bool unstarted;   /* an extern step whose agent does not run */
	bool completes;   /* the end is being reported, as the last thing */
};

/* ---- served.c ------------------------------------------------------------------------------ */

void served_others_init(struct served *s);

/* Once the agent has ended: how epilogs fail is noted in the streams. */
void served_end_step(struct served *s);

/* The step is over, srun has its output and its tasks' ends: slurmctld has to know. slurmd takes
 * the launch for failed if this process has ended before slurmd has written all. */
void served_check_over(struct served *s);

/* PMIx has sent all that other nodes wait for: pmix_nodes.h. */
void served_on_drained(void *userdata);

/* The step's end has been reported: the process ends, with what srun has to know yet. */
void served_on_reported(void *userdata);

void served_on_streams_connected(int r, void *userdata);
void served_on_streams_finished(void *userdata);
void served_on_resized(void *userdata);

/* ---- served_prepare.c ---------------------------------------------------------------------- */

/* Also of one that is half prepared. */
void served_setup_clear(struct served_setup *setup);

/* ---- served_request.c ---------------------------------------------------------------------- */

/* The socket, which is there from now on. */
int served_requests_open(struct served *s, struct err *err) _must_check_;
/* Answers those that have connected already, when all other parts are closed. */
void served_requests_drain(struct served_requests *requests);
void served_requests_close(struct served_requests *requests);

/* The agent serves requests: it gets the signals that came before. */
void served_send_early(struct served *s);

/* One that sattach had attached is gone. */
void served_on_detached(unsigned id, void *userdata);

/* The usage is known that clients wait for. */
void served_on_polled(void *userdata);

/* ---- served_report.c ----------------------------------------------------------------------- */

void served_reports_init(struct served *s);
int served_reports_open(struct served *s, struct err *err) _must_check_;
void served_reports_close(struct served_reports *reports, struct ev_loop *loop);
bool served_reports_are_pending(const struct served_reports *reports);

int served_epilogs_open(struct served *s, struct err *err) _must_check_;
/* False: none runs, nor is there one to begin. */
bool served_epilogs_run(struct served *s);

/* By the agent's rank. NULL: it is none of this node's. */
struct served_task *served_find_task(const struct served_tasks *tasks, uint32_t whole_rank);

/* It has ended, which is reported together with others. */
void served_end_task(struct served *s, struct served_task *task, int status);

/* The kernel has killed processes of the task, so many. */
void served_add_oom_kills(struct served *s, uint32_t rank, uint64_t kills);

/* At the end, when each process that was killed has been counted: a line for the user. */
void served_note_oom(struct served *s);

/* The tasks' pids, or the error of the launch. */
void served_report_launch(struct served *s);

/* srun knows of a task's end when its epilog is over. */
void served_report_ends(struct served *s);

/* What waited for the report of the step's end, in releases that have it so. */
void served_report_rest(struct served *s);

/* To an sattach, which may have gone: tried once. */
void served_send_exits(struct served *s, const struct attach_peer *peer, int status,
	const uint32_t *ranks, uint32_t n);

/* The last report, to slurmctld or the node above. */
void served_report_step(struct served *s);
void served_report_script(struct served *s);

/* slurmctld ends the step on all nodes, as pmi_tree.h wants it. */
void served_cancel_step(const char *why, void *userdata);
/* The same by a task that has not failed. */
void served_stop_step(void *userdata);

/* A line of the program that users know, on the standard error of the first task. */
void served_put_note(struct served *s, const char *text);

/* A whole line of a SPANK plugin. */
void served_on_spank_line(const char *text, void *userdata);

#endif
