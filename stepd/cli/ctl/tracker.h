/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The node's own knowledge of steps, for what needs no agent or has none left: what state.json
 * says, and the process tracker that it names.
 *
 * What state.json says is believed as far as its owner could act himself: a container is only
 * touched on root's or the caller's own word.
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

/* Opens the tracker of a step, whose containers hang where its state says. */
int tracker_use(struct ctl *ctl, struct tracker *tracker, const struct step_entry *entry,
	struct err *err) _must_check_;

/* Whether a container can be asked for its processes. Those of proctrack/linuxproc can't once the
 * agent has died: what descends from that pid is then none of the step's, or a stranger's. */
bool tracker_can_ask(const struct step_entry *entry);

/* Before a command changes a container: -EPERM, or -errno. */
int tracker_check_owner(const struct step_entry *entry, struct err *err) _must_check_;

/* The tasks as they are registered. The caller frees them. */
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

/* A struct err as libstepd's. Returns its code. */
int tracker_hand_on(const struct err *err, struct stepd_error *error);

#endif
