/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A frame of stepctl top: a line on the whole, and a table of steps and their tasks.
 */
#ifndef STEPD_CLI_CTL_TOP_VIEW_H
#define STEPD_CLI_CTL_TOP_VIEW_H

#include "stepd/cli/ctl/top_data.h"

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
