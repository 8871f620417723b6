/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step that an argument means, STEP or STEP/RANKS, the connection to its agent, and requests to
 * the agents of several steps.
 */
#ifndef STEPD_CLI_CTL_TARGET_H
#define STEPD_CLI_CTL_TARGET_H

#include "stepd/api/step.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/state/steps.h"

struct proctrack;

struct target {
	char *label;     /* "7.0"; the argument, while it is not known */
	char *node;      /* "" while it is not known */
	char *ranks;     /* NULL: all */
	char *directory; /* NULL: there is no such step */
	enum stepd_presence presence;
	struct stepd_client *client; /* NULL unless it lives */
	struct json_t *entry;        /* in ctl->out.steps; borrowed */
	void *userdata;              /* of the request */
};

/* The object that result.json has: a new reference. */
int target_read_result(const struct target *target, struct json_t **ret_result,
	struct stepd_error *error) _must_check_;

/* ---- requests to several steps ------------------------------------------------------------- */

typedef int (*request_fn)(struct ctl *ctl, struct target *target, struct stepd_error *error);

struct request {
	/* Calls a method of target->client and prints the reply. It runs twice: the first call of
	 * the library only sends the request and returns -EAGAIN, which is returned unchanged; the
	 * second waits for the reply. So all agents work at the same time. 0, or -errno with
	 * error. */
	request_fn run;
	bool in_turn; /* run() runs once, a step after the other, and may make any calls */

	/* Runs instead where no agent lives, if the presence is without_agent_if. */
	request_fn without_agent;
	enum stepd_presence without_agent_if;

	bool done;       /* success puts "done" into the entry */
	bool with_ranks; /* arguments are STEP[/RANKS] */
	bool for_ever;   /* without --timeout it waits for ever */
	int steps;       /* how many of the arguments are steps; 0: all */
	void *userdata;  /* for run() and without_agent(), in the target */
};

/* 0 or -errno with ctl->err. A failure of one step is reported, and the others go on. */
int request_steps(struct ctl *ctl, const struct request *request) _must_check_;

/* ---- steps without their agent ------------------------------------------------------------- */

/* Steps without their agent: their state.json, and the process tracker that it names.
 *
 * state.json has its owner's trust: a container is only changed where that is the caller. */

/* Opens the tracker of a step, with the container root of its state: one at a time. If its agent
 * has died, tracker_is_of_one() tells whether the tracker then knows this step's container only. */
int tracker_open(struct ctl *ctl, const struct step_entry *entry, struct proctrack **ret_pt,
	struct err *err) _must_check_;

bool tracker_is_of_one(const struct step_entry *entry);

/* The tasks of state.json. The caller frees them. */
int tracker_read_tasks(const struct step_entry *entry, stepd_step_task_info_t **ret_tasks,
	size_t *ret_count) _must_check_;

/* A copy that outlives the call. Its texts are those of doc, except step; it has no dir_fd. */
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
	/* Needs its processes. Not possible with proctrack/linuxproc: without the agent,
	 * descendants of its pid are not the step's. */
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
