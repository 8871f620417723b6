/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/clock.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t clock_now_ms(void)
{
	return (int64_t)(clock_now_ns() / 1000000);
}

uint64_t clock_wall_usec(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now); /* can't fail */
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}
