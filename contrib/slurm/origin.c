/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/origin.h"

#include <stdio.h>
#include <time.h>

void origin_print(char origin[static ORIGIN_SIZE], const char *node, bool timed)
{
	struct timespec now;
	char when[32] = "";
	struct tm tm;

	if (!timed) {
		(void)snprintf(origin, ORIGIN_SIZE, "slurmstepd-%s:", node);
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (localtime_r(&now.tv_sec, &tm))
		(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(origin, ORIGIN_SIZE, "[%s.%03ld]", when, now.tv_nsec / 1000000);
}
