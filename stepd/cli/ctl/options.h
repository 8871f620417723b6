/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of all verbs, a row each, and how a command line is taken apart.
 */
#ifndef STEPD_CLI_CTL_OPTIONS_H
#define STEPD_CLI_CTL_OPTIONS_H

#include <stdio.h>

#include "stepd/cli/ctl/ctl.h"

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

/* Takes argv[0..argc), argv[0] being the verb, which ctl has: its options may stand anywhere, up to
 * "--". -EINVAL with the sentence in ctl->err. */
int ctl_take_options(struct ctl *ctl, int argc, char **argv) _must_check_;

void ctl_print_verb_help(const struct verb *verb, FILE *out);

#endif
