/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What stepctl top shows: the steps of the node, and what their agents stream of their usage. Steps
 * come and go; an agent that does not answer, or may not to this caller, only lacks its numbers.
 */
#ifndef STEPD_CLI_CTL_TOP_DATA_H
#define STEPD_CLI_CTL_TOP_DATA_H

#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/usage_read.h"

struct top_step {
	char *directory, *label, *node, *user;
	char state[16];
	enum stepd_presence presence;
	struct stepd_client *client;    /* NULL: nothing comes, or no more */
	bool refused;                   /* and nothing will: not asked again */
	bool seen;                      /* by the last scan */
	struct usage_reply now, before; /* time_usec 0: not known */
};

struct top_data {
	struct ctl *ctl;
	uint64_t interval_ms;
	struct top_step **steps;
	size_t n, room;
	char **only; /* directories; NULL: all steps */
	size_t only_count;
};

/* Whether only some steps are wanted: ctl->args. -errno with ctl->err. */
int top_data_choose(struct top_data *data) _must_check_;

/* Looks which steps there are, and begins to ask new ones. */
int top_data_scan(struct top_data *data) _must_check_;

/* Takes what a step's agent has sent; its descriptor was ready. 0 or -ENOMEM. */
int top_data_read(struct top_data *data, struct top_step *step) _must_check_;

/* CPUs used between the last two looks: of the step, or of its i-th task; below 0: not known. */
double top_step_cpu(const struct top_step *step);
double top_task_cpu(const struct top_step *step, size_t i);

void top_data_clear(struct top_data *data);

#endif
