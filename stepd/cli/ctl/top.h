/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What stepctl top shows, and its frame: a line on the whole, and a table of steps and their tasks.
 * Steps come and go; one whose agent does not reply, or refuses this caller, only lacks its
 * numbers.
 */
#ifndef STEPD_CLI_CTL_TOP_H
#define STEPD_CLI_CTL_TOP_H

#include "stepd/base/strv.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/usage.h"

struct top_step {
	char *directory, *label, *node, *user;
	char state[16];
	enum stepd_presence presence;
	struct stepd_client *client;     /* NULL: not subscribed */
	bool refused;                    /* by the agent: there is no second attempt */
	bool seen;                       /* by the last scan */
	struct usage_sample now, before; /* time_usec 0: not known */
};

struct top_data {
	struct ctl *ctl;
	int64_t interval_ms;
	struct top_step **steps;
	size_t n, capacity;
	struct strv only; /* directories; none: all steps */
};

/* CPUs used between the last two samples: of the step, or of its i-th task; below 0: not known. */
double top_step_cpu(const struct top_step *step);
double top_task_cpu(const struct top_step *step, size_t i);

/* ---- the frame ----------------------------------------------------------------------------- */

enum top_sort {
	TOP_SORT_STEP,
	TOP_SORT_USER,
	TOP_SORT_CPU,
	TOP_SORT_MEM,
	TOP_SORT_PROCS,
	TOP_SORT_TIME,
	TOP_SORT_MAX,
};

struct top_view {
	enum top_sort sort;
	bool reverse;
	bool tasks;  /* show them */
	bool help;   /* the keys, in place of the table */
	size_t from; /* the first row that is shown */
};

/* -EINVAL: there is no such key. */
int top_sort_parse(const char *text, enum top_sort *ret_sort) _must_check_;

/* A key that was pressed. false: the end. height: of the screen. */
bool top_view_press(struct top_view *view, int key, int height);

/* The frame: at most height lines, 0: all. The caller frees it; NULL: no memory. */
char *top_view_format(struct top_view *view, struct top_data *data, int height);

/* The same as an object: a new reference, or NULL. */
struct json_t *top_view_pack(const struct top_data *data);

#endif
