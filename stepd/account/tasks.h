/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step's tasks on this node, from their forks to their ends, and by their pids.
 */
#ifndef STEPD_ACCOUNT_TASKS_H
#define STEPD_ACCOUNT_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"
#include "stepd/base/proc.h"
#include "stepd/record/state_doc.h"

enum task_state {
	TASK_NEW,
	TASK_RUNNING, /* forked; its exec may still be ahead */
	TASK_ENDED,
	TASK_STATE_MAX,
};

struct handover;
struct json_t;

struct task {
	uint32_t rank;
	uint32_t spawn; /* the number of the spawn that has started it; 0: it began with the step */
	struct fork_ticks forked; /* of a spawned one: when */
	enum task_state state;
	pid_t pid;         /* unique while running: the agent has not reaped it */
	int wait_status;   /* once ended */
	int exec_status;   /* 126 or 127 where it was never executed, else 0 */
	bool lost;         /* it ended while no agent lived: its status is unknown */
	bool requested;    /* was running when the end of the step was requested */
	bool dropped;      /* of a spawn that failed: its end does not count for the step */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t end_ns;
	bool oom_counted;   /* oom_kills is known */
	uint64_t oom_kills; /* processes of it that the kernel killed for want of memory */
};

struct tasks {
	struct task *v;
	uint32_t n;
	uint32_t running;
	uint32_t *by_pid;     /* hash of slots, index + 1, 0 for none */
	uint32_t slots;       /* a power of two */
	struct status status; /* over those that count */
	uint32_t lost;        /* those that would count */
};

/* The present, for struct fork_ticks. */
uint64_t fork_ticks_now(void);

int tasks_init(struct tasks *ts, const uint32_t *ranks, uint32_t n) _must_check_;
void tasks_clear(struct tasks *ts);

/* Adds tasks that join a running step. Invalidates pointers to tasks. 0 or -ENOMEM. */
int tasks_add(struct tasks *ts, uint32_t spawn, const uint32_t *ranks, uint32_t n) _must_check_;

/* The task of that index runs as pid, a child of this process. */
void tasks_started(struct tasks *ts, uint32_t index, pid_t pid, uint64_t now_ns);

/* The running task with this pid, or NULL: a process that a task left behind. */
struct task *tasks_find(const struct tasks *ts, pid_t pid);

/* Notes the end of a task and counts it, unless it was requested. */
void tasks_ended(struct tasks *ts, struct task *task, int wait_status, uint64_t now_ns);

/* The same, where its status is unknown. */
void tasks_lost(struct tasks *ts, struct task *task, uint64_t now_ns);

/* Whether an ended task has failed by itself: its end was not requested, its status is not 0, and
 * its spawn has not failed. */
bool task_failed(const struct task *task);

/* The exit code that a shell would report for an ended task. */
int task_exit_code(const struct task *task);

/* The end of the step was requested: tasks that still run end on request. */
void tasks_mark_requested(struct tasks *ts);

/* The outcome of each, for the program that goes on with them (handover.h). restore: with the
 * same tasks, all TASK_NEW. 0, or -EPROTO where what was saved does not fit these tasks. */
void tasks_save(const struct tasks *ts, struct handover *h, struct json_t *object);
int tasks_restore(struct tasks *ts, const struct json_t *object) _must_check_;

#define TASK_TEXT_SIZE 128

/* "running", "exited with status 3", "never executed", ... into buf, which is returned. */
const char *task_text(const struct task *task, char *buf, size_t size);

#endif
