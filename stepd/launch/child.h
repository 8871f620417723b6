/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A task between its fork and its exec: a fixed list of operations over what the plan prepared.
 * It makes system calls, touches no lock and no heap of the agent (MPI task and step hooks may
 * allocate: a child with them has memory of its own, and the agent one thread), and reports the
 * operation that failed by one record on a pipe. The pipe is O_CLOEXEC: its end of file means that
 * every task has been executed.
 *
 * Such a child may share its parent's memory (CLONE_VM, launch.h). So it writes only to its own
 * stack and its own context, and where child_can_share_memory() is true it uses nothing of the C
 * library that is thread-local or takes a lock.
 */
#ifndef STEPD_LAUNCH_CHILD_H
#define STEPD_LAUNCH_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"
#include "stepd/launch/environ.h"
#include "stepd/stdio/stdio.h"

struct hooks;
struct mpi;
struct plan;
struct plan_joined;
struct rlimit;

/* In the order in which a child does them. child.c has their names for messages. */
enum child_stage {
	CHILD_STAGE_GROUP, /* session, terminal and process group */
	CHILD_STAGE_OOM,   /* as root: may lower what only root may */
	CHILD_STAGE_NICE,
	CHILD_STAGE_RLIMITS,
	CHILD_STAGE_BINDING,
	CHILD_STAGE_NAMESPACE,
	CHILD_STAGE_PRIVILEGED, /* the step hooks' */
	CHILD_STAGE_IDENTITY,   /* from here on as the user */
	CHILD_STAGE_NO_NEW_PRIVS,
	CHILD_STAGE_CWD,
	CHILD_STAGE_STDIO,
	CHILD_STAGE_HOLD,   /* until all tasks are in the container */
	CHILD_STAGE_BOUND,  /* reports the binding */
	CHILD_STAGE_HOOK,   /* the MPI plugin's */
	CHILD_STAGE_LINKED, /* the step's first task: with which MPI library */
	CHILD_STAGE_SIGNALS,
	CHILD_STAGE_TASK, /* the step hooks' */
	CHILD_STAGE_EXEC,
	CHILD_STAGE_MAX,
};

/* One record, written in one piece (it is smaller than PIPE_BUF). error 0 with CHILD_STAGE_EXEC
 * reports that execve() begins at time_ns; sent only if the launch is traced. With
 * CHILD_STAGE_LINKED detail is the number of the library (linked_detect()), and that is sent only
 * if there is one. */
struct child_report {
	uint32_t local_id;
	uint32_t stage;
	int32_t error;    /* errno */
	uint32_t detail;  /* which of the rlimits, of the streams, of the binding's parts */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
};

/* Shared by all children of a step, and read only. All of it is borrowed, and unchanged until
 * every task has been executed. */
struct child_setup {
	struct plan *plan;
	const struct plan_joined *joined; /* NULL: the tasks that the step begins with */
	struct mpi *mpi;                  /* NULL: no task hook */
	struct hooks *hooks;              /* NULL: none */
	const struct rlimit *nofile;      /* the agent's limit before it raised it */
	const char *oom_score_adj;        /* to write, NULL: leave */
	int lock_fd;                      /* the agent's lock; -1: there is none */
	int namespace_fd;                 /* the mount namespace to enter; -1: none */
	int root_fd;      /* with it, the agent's "/", where the paths of streams begin; else -1 */
	bool own_session; /* each task leads one, and has no terminal; child_context.group is -1 */
	bool leave_terminal; /* without own_session: leave the agent's terminal, which is another
				user's */
	bool hide_memory;    /* a process that became the user could be traced by that user:
				process_is_exposed() */
	char nice_text[8];   /* of the nice value, for a session of its own; "": none is given */
	bool traced;
};

/* The state of one child. */
struct child_context {
	const struct child_setup *setup;
	struct stdio_task io;
	struct environ_task
		env;   /* capacity for the task's vector; with an MPI hook from malloc() */
	bool prepared; /* env is made, by child_prepare() */
	int pass_fd;   /* then: a descriptor for the task, or -1 */
	pid_t group;   /* to join; 0: to found; -1: stay in the one it was born in */
	bool adopted;  /* moved into the container by the agent while it is held */
	int report_fd;
	int hold_fd;       /* readable: go on; hung up: the agent is gone; -1: no hold */
	int hold_write_fd; /* the agent's end, to be closed here */
	bool own_signals;  /* CLONE_CLEAR_SIGHAND has reset them */
};

/* Whether children with this setup may share the memory of their parent. With an MPI plugin
 * child_prepare() comes before each then. */
bool child_can_share_memory(const struct child_setup *setup);

/* Before the fork: makes the task's environment, with the MPI plugin's changes. context->env.v
 * comes from malloc(), and is the caller's. -errno. */
int child_prepare(const struct child_setup *setup, uint32_t local_id,
	struct child_context *context) _must_check_;

/* Never returns: executes the task, or reports and ends with 126 or 127. */
_noreturn_ void child_main(struct child_context *context);

/* The sentence for an operator, "task 3: execute '/x/y': Permission denied", into err; returns
 * the exit status that the failure counts as (126, 127). */
int child_report_explain(
	const struct child_setup *setup, const struct child_report *report, struct err *err);

/* ---- which MPI library a program is linked with -------------------------------------------- */

/* The library as the program's ELF file names it (DT_NEEDED). The file is the user's: it is read at
 * offsets into memory of a fixed size, by raw system calls alone, for a child that shares its
 * parent's memory. A library that is loaded by dlopen(3), or by a program that a script runs, is
 * not found.
 *
 * Returns the number of the library; 0: none that is known, or not an ELF file. */
unsigned linked_detect(int fd);

/* The library's file name, and the plugin that serves it; NULL: not the number of a library. */
const char *linked_library(unsigned number);
const char *linked_plugin(unsigned number);

#endif
