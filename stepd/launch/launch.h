/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Forks the tasks. Where the backend gives a cgroup to clone into, a task is born inside the
 * container (clone3, CLONE_INTO_CGROUP, Linux 5.7) and no pid is ever migrated; elsewhere it is
 * added after its fork, and always held until then. Held tasks have done all but their exec: one
 * byte on a pipe, which none of them takes out, lets all go at once, and its hang-up ends them.
 * The first task is held until its birth is known to have worked (doc/decisions.md, 14).
 *
 * The launcher: a short-lived copy of the agent that makes the tasks' processes with its memory
 * shared (CLONE_VM) instead of copied once more for each, and gives them to the agent as the
 * agent's own children (CLONE_PARENT). Copying memory is most of what a launch of many tasks costs:
 * doc/decisions.md, 2.
 *
 * It is a process of its own so that the agent never shares memory with one that has the user's
 * uid: the OOM killer, for one, ends all processes that share its victim's memory.
 */
#ifndef STEPD_LAUNCH_LAUNCH_H
#define STEPD_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "stepd/base/proc.h"
#include "stepd/launch/child.h"

struct proctrack;
struct stdio;

struct launch {
	struct child_setup setup;
	struct proctrack *pt;
	struct stdio *io;
	struct clone clone; /* how the next task is made */
	pid_t group;    /* the step's process group; 0: the first task founds it; -1: this process
			 * has founded it, or each task leads a session */
	uint32_t first; /* the first task's local id */
	int next_clone_fd; /* of that one, opened to learn whether there is one */
	bool into;         /* tasks are born in the container */
	bool born;         /* the first one was, and lives */
	bool birth_failed; /* it could not be, or was killed for it: tasks are to be added */
	bool hold;         /* all tasks are held until all are forked */
	/* Runs the agent's loop: until fd is readable, or with -1 once for what is due. The
	 * launcher may wait for that: the loop takes its ends of the tasks' pipes. */
	void (*meanwhile)(int fd, void *userdata);
	void *userdata;
	long rss_kib;       /* the largest resident memory of a task before its exec */
	int report_fd;      /* to be read by the agent; non-blocking */
	int task_report_fd; /* the tasks' end */
	int hold_write_fd;  /* a byte here lets the tasks go */
	int hold_fd;        /* the tasks' end */
	int namespace_fd;   /* setup's */
	int root_fd;
	/* The agent's alone, -1 for none: tasks that the launcher makes have no copies
	 * of them to make and to close. May be NULL. */
	const int *agent_fds;
	size_t agent_fds_count;
};

#define LAUNCH_INIT                                                                                \
	{                                                                                          \
		.next_clone_fd = -1, .report_fd = -1, .task_report_fd = -1, .hold_write_fd = -1,   \
		.hold_fd = -1, .namespace_fd = -1, .root_fd = -1                                   \
	}

/* Makes the pipes and finds out how tasks get into the container. The caller sets l->first,
 * l->setup and l->meanwhile before, and l->io before the first fork. */
int launch_open(struct launch *l, struct proctrack *pt, bool hold, struct err *err) _must_check_;

/* Forks the task of this local id into the container: ids ascend from l->first. launch_fork_all()
 * does this for all tasks that a step begins with. The child owns context, with l->clone.stack
 * until its exec. */
int launch_fork(struct launch *l, uint32_t local_id, struct child_context *context, pid_t *ret_pid,
	struct err *err) _must_check_;

/* Forks all tasks into the container: by the launcher where that is possible and there are enough
 * of them, else each as a copy of the agent. pids has a 0 for each task; those that were made are
 * filled in, from the first on, on failure as well. */
int launch_fork_all(struct launch *l, pid_t *pids, struct err *err) _must_check_;

/* All are forked: closes descriptors that only children need, and releases the tasks. */
int launch_release(struct launch *l, struct err *err) _must_check_;

/* Reads the tasks' reports since the last call. True: every one has been executed or has failed
 * by now, and nothing more will come. */
typedef void (*launch_report_fn)(const struct child_report *report, void *userdata);
bool launch_read_reports(struct launch *l, launch_report_fn fn, void *userdata);

/* Children that are still held end by themselves. */
void launch_close(struct launch *l);
#define _cleanup_launch_ _cleanup_(launch_close)

#endif
