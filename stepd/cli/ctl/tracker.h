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

struct tracker {
	struct proctrack *pt; /* of the last step: steps of a node mostly share one */
	char *type, *root;    /* what pt was opened for; root NULL: its own */
	char *plugin_dir;
};

#define TRACKER_INIT                                                                               \
	{                                                                                          \
		.pt = NULL                                                                         \
	}

void tracker_clear(struct tracker *tracker);
#define _cleanup_tracker_ _cleanup_(tracker_clear)

/* Opens the tracker of a step, with the container root of its state. */
int tracker_use(struct ctl *ctl, struct tracker *tracker, const struct step_entry *entry,
	struct err *err) _must_check_;

/* The same for a step whose agent has died. Not with proctrack/linuxproc: what descends from that
 * pid is then nothing of the step's, or a stranger's. */
int tracker_use_orphan(struct ctl *ctl, struct tracker *tracker, const struct step_entry *entry,
	struct err *err) _must_check_;

/* Before a command changes a container: -EPERM, or -errno. */
int tracker_check_owner(const struct step_entry *entry, struct err *err) _must_check_;

/* The tasks of state.json. The caller frees them. */
int tracker_read_tasks(const struct step_entry *entry, stepd_step_task_info_t **ret_tasks,
	size_t *ret_count) _must_check_;

/* Calls fn with the entry of a step that has no agent; what it returns, or -ESRCH where there is
 * nothing left to be read. */
int tracker_visit(const struct target *target, steps_found_fn fn, void *userdata,
	struct err *err) _must_check_;

/* The processes of a step, of all or of target->ranks: from its agent, or, where it has died, from
 * its container. free() *ret_processes. */
int tracker_list(struct ctl *ctl, struct target *target, bool start_ticks,
	struct stepd_process **ret_processes, size_t *ret_count,
	struct stepd_error *error) _must_check_;

#endif
