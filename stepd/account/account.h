/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step's accounting: when its usage is read, which tasks ran out of memory, and the samples
 * that are written while the step runs. usage.h has the values.
 */
#ifndef STEPD_ACCOUNT_ACCOUNT_H
#define STEPD_ACCOUNT_ACCOUNT_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "stepd/account/usage.h"
#include "stepd/api/step.h"
#include "stepd/api/usage.h"
#include "stepd/base/err.h"
#include "stepd/loop/loop.h"

struct account;
struct ev_loop;
struct events;
struct handover;
struct json_t;
struct log;
struct proctrack;
struct sample;
struct task;
struct tasks;

/* Which tasks ran out of memory. The kernel's OOM kills are counted in a task's part of the
 * container, whichever process of the task they hit and however its first process ended. The
 * step's count is watched; when it has grown, those of the tasks are read. A tracker without
 * counts leaves it unknown. */
struct oom {
	struct pri_watch watch;
	ev_timer pause;      /* between two polls of all tasks, which cost some files each */
	uint64_t kills;      /* of the step */
	uint64_t attributed; /* of its tasks, as far as they were read */
	bool late;           /* more were killed during the pause */
};

#define OOM_INIT                                                                                   \
	{                                                                                          \
		.watch = PRI_WATCH_INIT                                                            \
	}

/* Everything is borrowed for as long as the account is open. */
struct account_setup {
	struct ev_loop *loop;
	const struct log *log;
	struct proctrack *pt;
	const stepd_step_rec_t *job; /* with the container's id */
	struct tasks *tasks;
	struct events *events;   /* NULL: none are recorded */
	const char *label;       /* "7.0" */
	uint64_t begin_ns;       /* of the step, CLOCK_MONOTONIC */
	const char *sample_file; /* NULL: no samples are written */
	uint64_t sample_interval_ms;
	bool usage_table; /* to the log's descriptor, at the end */
	bool result_has_usage;

	/* The kernel has killed a process of the step for want of memory. */
	void (*on_oom)(void *userdata);
	void *userdata;
};

/* All zero but for OOM_INIT: not open. */
struct account {
	struct account_setup setup;
	struct usage usage;
	struct oom oom;
	struct sample *sample; /* NULL: none are written */
};

#define ACCOUNT_INIT                                                                               \
	{                                                                                          \
		.oom = OOM_INIT                                                                    \
	}

/* Whether the tracker counts processes of the step that the kernel killed. */
bool oom_is_counted(const struct account *acc);

/* Before the first fork. */
int account_open(
	struct account *acc, const struct account_setup *setup, struct err *err) _must_check_;

/* The tasks have been released. */
void account_started(struct account *acc);

/* Refreshes acc->usage and which tasks ran out of memory. Does nothing without accounting. */
void account_poll(struct account *acc);

/* A task has ended, and its end is about to be recorded: records first whether it ran out of
 * memory. The kernel delays a change of memory.events by up to 10 ms if another one was just before
 * (Linux 6.1, cgroup_file_notify()), and a task that it has killed ends within that time. */
void account_read_oom(struct account *acc);

/* A process was reaped; task is NULL where it is not a task. Called before the task's part of the
 * container is removed. floor_kib: a task's resident memory before its exec
 * (usage_from_rusage()). */
void account_reaped(
	struct account *acc, struct task *task, const struct rusage *ru, long floor_kib);

/* The same for a task that is not our child: its usage is that of its part of the container. */
void account_poll_task(struct account *acc, struct task *task);

/* No process is left (all_ended), or none can be ended; the container still stands. */
void account_finish(struct account *acc, bool all_ended);

/* The last sample, and the table of usage if it is requested. Not for a step that never ran. */
void account_report(struct account *acc, uint64_t end_ns);

/* At a re-exec (handover.h). restore: instead of account_open() and
 * account_started(). runs: processes of the step may still be killed. */
void account_save(const struct account *acc, struct handover *h, struct json_t *object);
int account_restore(struct account *acc, const struct account_setup *setup,
	const struct handover *h, const struct json_t *object, bool runs,
	struct err *err) _must_check_;

void account_close(struct account *acc);

#endif
