/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What commands that look for steps of this node have in common.
 */
#ifndef STEPD_CLI_QUERY_H
#define STEPD_CLI_QUERY_H

#include "stepd/agent/registry.h"

#define EXIT_NOT_FOUND 1

struct proctrack;

struct query {
	const char *runtime_dir;
	const char *plugin_dir_given;
	char *plugin_dir;
	const char *step; /* of pids */
	pid_t pid;        /* of find */
	bool found;
	struct err err;
	struct proctrack *pt; /* the backend of the last entry: steps of a node mostly share one */
};

/* Whether the processes of an entry can be asked for. Those of proctrack/linuxproc can't once the
 * agent has died: what descends from that pid is then none of the step's, or a stranger's. */
bool query_can_ask(const struct registry_entry *entry);

/* Opens the tracker of an entry, whose containers hang where the entry says, as q->pt. */
int query_use_backend(struct query *q, const struct registry_entry *entry) _must_check_;

/* Whether [NODE/]JOB.STEP means this entry. */
bool query_names_entry(const char *step, const struct registry_entry *entry);

void query_clear(struct query *q);

#endif
