/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of all verbs, a row each, and how a command line is parsed.
 */
#ifndef STEPD_CLI_CTL_OPTIONS_H
#define STEPD_CLI_CTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "stepd/cli/options.h"

struct ctl;
struct verb;

enum ctl_option_id {
	CTL_OPT_SIGNAL,
	CTL_OPT_LEADER,
	CTL_OPT_PID,
	CTL_OPT_TASKS,
	CTL_OPT_NAMES,
	CTL_OPT_NAMESPACE,
	CTL_OPT_NOW,
	CTL_OPT_GRACE,
	CTL_OPT_KILL_SEQUENCE,
	CTL_OPT_FROM,
	CTL_OPT_FOLLOW,
	CTL_OPT_INTERVAL,
	CTL_OPT_ROUNDS,
	CTL_OPT_BATCH,
	CTL_OPT_SORT,
	CTL_OPT_DRY_RUN,
	CTL_OPT_JSON,
	CTL_OPT_TIMEOUT,
	CTL_OPT_RUNTIME_DIR,
	CTL_OPT_PLUGIN_DIR,
	CTL_OPT_HELP,
	CTL_OPT_MAX,
};

#define CTL_BIT(id) (UINT64_C(1) << CTL_OPT_##id)

/* NULL and 0: not given. */
struct ctl_options {
	const char *runtime_dir;
	const char *plugin_dir;
	const char *signal;
	const char *kill_sequence;
	const char *namespace;
	const char *sort;
	int64_t timeout_ms, grace_ms; /* -1: not given */
	int64_t interval_ms;
	uint64_t rounds;
	uint64_t from;
	uint64_t pid;
	bool json, help, leader, now, tasks, follow, batch, dry_run, names;
};

#define CTL_OPTIONS_INIT                                                                           \
	{                                                                                          \
		.timeout_ms = -1, .grace_ms = -1, .from = 1, .sort = "cpu"                         \
	}

/* Parses ctl->argv, which begins with the verb: options may stand anywhere, up to "--". -EINVAL
 * with the sentence in ctl->err. */
int ctl_parse_options(struct ctl *ctl) _must_check_;

void ctl_print_verb_help(const struct verb *verb, FILE *out);

#endif
