/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The time, in the units that names end in. These clocks are always there: reading one can't fail.
 */
#ifndef STEPD_BASE_CLOCK_H
#define STEPD_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, which nobody sets: for the time between two moments. */
static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline int64_t clock_now_ms(void)
{
	return (int64_t)(clock_now_ns() / 1000000);
}

/* Microseconds since 1970 (CLOCK_REALTIME): for people and other machines. */
static inline uint64_t clock_wall_usec(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

#endif
