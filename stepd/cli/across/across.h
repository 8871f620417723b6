/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Runs a step on several nodes: starts the relays, hands them the step, carries its streams and the
 * user's wishes, and says at the end what came of it. The step's nodes begin only when all relays
 * have said hello; what ends one of them badly ends the step on all.
 */
#ifndef STEPD_CLI_ACROSS_ACROSS_H
#define STEPD_CLI_ACROSS_ACROSS_H

#include "stepd/cli/across/options.h"

/* 0: it ran, and *ret_code is what to exit with. Else it never did. */
int across_run(const struct steprun_options *options, int *ret_code, struct err *err) _must_check_;

#endif
