/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Steps without their agent: their state.json, and the process tracker that it names.
 *
 * state.json is trusted as far as its owner could act: a container is only changed where that is
 * the caller.
 */
#ifndef STEPD_CLI_CTL_TRACKER_H
#define STEPD_CLI_CTL_TRACKER_H

#include "stepd/api/step.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/state/steps.h"

struct proctrack;

/* Opens the tracker of a step, with the container root of its state: one at a time. */
int tracker_open(struct ctl *ctl, const struct step_entry *entry, struct proctrack **ret_pt,
	struct err *err) _must_check_;

/* The tasks of state.json. The caller frees them. */
int tracker_read_tasks(const struct step_entry *entry, stepd_step_task_info_t **ret_tasks,
	size_t *ret_count) _must_check_;

/* A copy that outlives the call: its texts are those of doc, but for step; no dir_fd. */
int tracker_copy_entry(const struct step_entry *entry, struct step_entry *ret_copy) _must_check_;
void tracker_free_entry(struct step_entry *copy);

/* A step whose agent has died: its state, and its tracker. */
struct orphan {
	struct step_entry entry; /* with dir_fd */
	struct proctrack *pt;
};

#define ORPHAN_INIT                                                                                \
	{                                                                                          \
		.entry.dir_fd = -1                                                                 \
	}

enum orphan_needs {
	/* Its processes. Not with proctrack/linuxproc: what descends from the agent's pid is then
	 * nothing of the step's, or a stranger's. */
	ORPHAN_PROCESSES = 1u << 0,
	ORPHAN_OWNER = 1u << 1, /* the caller is the owner, as the container will be changed */
};

int orphan_open(struct ctl *ctl, const struct target *target, unsigned needs, struct orphan *o,
	struct err *err) _must_check_;
void orphan_close(struct orphan *o);
#define _cleanup_orphan_ _cleanup_(orphan_close)

/* The processes of a step, of all or of target->ranks: from its agent, or, where it has died, from
 * its container. free() *ret_processes. */
int tracker_list(struct ctl *ctl, struct target *target, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count,
	struct stepd_error *error) _must_check_;

#endif
