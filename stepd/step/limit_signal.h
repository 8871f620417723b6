/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A signal some time before the step's time limit, so that its tasks can save what they have: once
 * in the step's life, whichever agents it has. Where the limit itself is nearer than that when the
 * tasks begin, they get it at once. The time stands still with the limit's while the step is
 * suspended.
 */
#ifndef STEPD_STEP_LIMIT_SIGNAL_H
#define STEPD_STEP_LIMIT_SIGNAL_H

#include <stdint.h>

struct agent;

/* Before the others. */
void limit_signal_init(struct agent *a);

/* The step's time limit is left_ms away, and counts from now on. */
void limit_signal_start(struct agent *a, uint64_t left_ms);

#endif
