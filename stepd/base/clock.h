/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The time, in the units that names end in. These clocks are always there: reading one can't fail.
 */
#ifndef STEPD_BASE_CLOCK_H
#define STEPD_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, which nobody sets: for the time between two moments. */
uint64_t clock_now_ns(void);
int64_t clock_now_ms(void);

/* Microseconds since 1970 (CLOCK_REALTIME): for people and other machines. */
uint64_t clock_wall_usec(void);

#endif
