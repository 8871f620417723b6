/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between the parts of stepctl find.
 */
#ifndef STEPD_CLI_CTL_FIND_H
#define STEPD_CLI_CTL_FIND_H

#include "stepd/api/step.h"
#include "stepd/cli/ctl/ctl.h"

struct find_step {
	char *label, *node, *user, *proctrack, *directory;
	uint64_t container_id;
	bool alive;
	struct json_t *doc;            /* of state.json */
	stepd_step_task_info_t *tasks; /* NULL: not read yet */
	size_t n_tasks;
};

struct wanted {
	pid_t given;                  /* as it was asked for */
	pid_t pid;                    /* here; 0: there is none */
	const struct find_step *step; /* NULL: in none */
	int64_t rank;
};

struct find {
	struct ctl *ctl;
	struct wanted *v; /* in the order in which they were asked for */
	size_t n, room;
	struct find_step **steps; /* by tracker, root, container */
	size_t n_steps;
	bool unsure;               /* a step could not be asked: what was not found may be its */
	struct json_t *unanswered; /* those steps, and why */
};

/* Some of them, in the order of a number. */
struct wanted_order {
	struct wanted **v;
	size_t n;
	pid_t (*number)(const struct wanted *w);
};

void wanted_sort(struct wanted_order *order);

/* The first of v, in order, whose number is not below this one, or n. */
size_t wanted_first(const struct wanted_order *order, int64_t number);

/* Tells that a step could not be asked, and goes on without it. */
void find_complain(struct find *f, const struct find_step *step, const struct stepd_error *error);

/* All of the node. find_local.c */
int find_read_steps(struct find *f) _must_check_;

/* By the trackers whose containers mean something to every process. find_local.c */
int find_by_tracker(struct find *f) _must_check_;

/* What is left, by the agents of the other steps. find_agents.c */
int find_by_agents(struct find *f) _must_check_;

/* Whether the tracker alone knows a step's processes. */
bool find_is_local(const struct find_step *step);

#endif
