/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which tasks ran out of memory: processes that the kernel killed for it are counted in a task's
 * part of the container, whoever of the task they were and however its first process ended. The
 * step's count is watched; when it has grown, the tasks' own are read. Where the tracker counts
 * none, it is not known.
 */
#ifndef STEPD_ACCOUNT_OOM_H
#define STEPD_ACCOUNT_OOM_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/api/usage.h"
#include "stepd/base/err.h"
#include "stepd/loop/pri_watch.h"

struct account;
struct handover;
struct json_t;
struct task;

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

/* Before the first fork. A tracker without counts is none of an error. */
int oom_watch(struct account *acc, struct err *err) _must_check_;

/* Whether it is known of the step at all. */
bool oom_is_counted(const struct account *acc);

/* Reads the step's count once more, without those of its tasks: true if some of those killed are
 * of no task yet. */
bool oom_is_unsettled(struct account *acc);

/* Takes what was just read of the task. */
void oom_note_task(struct account *acc, struct task *task, const stepd_usage_t *now);

/* The last poll, while the container stands. */
void oom_finish(struct account *acc);

/* For the program that goes on with it (handover.h). restore: after oom_watch(); runs: processes of
 * the step may still be killed. */
void oom_save(const struct oom *oom, struct handover *h, struct json_t *object);
void oom_restore(struct account *acc, const struct json_t *object, bool runs);

void oom_unwatch(struct account *acc);

#endif
