/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What commands share that are about a step of this node: which it is, and its tracker.
 */
#ifndef STEPD_CLI_QUERY_H
#define STEPD_CLI_QUERY_H

#include "stepd/agent/registry.h"

#define EXIT_NOT_FOUND 1

struct proctrack;

struct query {
	const char *runtime_dir; /* NULL: the default */
	const char *plugin_dir_given;
	char *plugin_dir;
	const char *step; /* "7.0" or "n1/7.0" */
	pid_t pid;        /* of find */
	bool found;
	struct err err;
	struct proctrack *pt; /* the backend of the last entry: steps of a node mostly share one */
};

void query_clear(struct query *q);

/* Whether the processes of an entry can be asked for. Those of proctrack/linuxproc can't once the
 * agent has died: what descends from that pid is then none of the step's, or a stranger's. */
bool query_can_ask(const struct step_entry *entry);

/* Whose word state.json is. */
int query_owner_of(int dir_fd, uid_t *ret_uid) _must_check_;

/* Before a command changes a container. It is the word of state.json's owner which one that is, so
 * nobody, root neither, acts on another user's. -EPERM, or -errno. */
int query_check_owner(const struct step_entry *entry, struct err *err) _must_check_;

/* Whether [NODE/]JOB.STEP means this entry. */
bool query_names_entry(const char *step, const struct step_entry *entry);

/* The tracker of an entry, whose containers hang where the entry says, into q->pt. */
int query_use_backend(struct query *q, const struct step_entry *entry) _must_check_;

/* Says that there is no such step; the command's exit status. */
int query_say_no_step(const struct query *q, const char *command);

#endif
