/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs a step on this node alone: one agent, which has steprun's own streams.
 */
#ifndef STEPD_CLI_ACROSS_HERE_H
#define STEPD_CLI_ACROSS_HERE_H

#include "stepd/cli/across/options.h"

/* 0: it ran, and *ret_code is what to exit with. Else it never did. */
int here_run(const struct steprun_options *options, int *ret_code, struct err *err) _must_check_;

#endif
