/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A step's last minute, however it began here: its container goes, its result is written, who waits
 * is reported, and its directory goes.
 */
#ifndef STEPD_STEP_CLOSING_H
#define STEPD_STEP_CLOSING_H

#include "stepd/base/err.h"

struct agent;

/* The step is over before it ran: its container stood, and no more. */
void closing_note_failure(struct agent *a, const struct err *err);

/* r is what the step's life gave, with err's text if it is below 0. Returns what to exit with, in
 * *ret_code where r is 0. */
int closing_finish(struct agent *a, int r, int *ret_code, const struct err *err);

/* The descriptors that were held for the ending. */
void closing_release_fds(struct agent *a);

#endif
