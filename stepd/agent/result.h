/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is told of a step: its state while it lives, the ready line once it can be asked, and the
 * result at its end. All are JSON; stepd(8) describes their fields.
 */
#ifndef STEPD_AGENT_RESULT_H
#define STEPD_AGENT_RESULT_H

#include "stepd/agent/agent_impl.h"

/* Rewrites state.json with that state; a failure is a warning in the log. */
void result_publish_state(struct agent *a, const char *state);

/* One line to options->ready_fd, which is closed. A reader that went away is no error. */
void result_send_ready(struct agent *a);

/* result.json to options->result_file, replaced whole and on the disk before this returns; to
 * standard output for "-". */
int result_write(const struct agent *a, struct err *err) _must_check_;

#endif
