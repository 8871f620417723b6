/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded: CLOCK_REALTIME is ahead of the machine's by so many seconds as the file of
 * JUMPING_CLOCK has, which is read each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "stepd/api/plugin.h"

STEPD_EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
	const char *path = getenv("JUMPING_CLOCK");
	long r = syscall(SYS_clock_gettime, clock, now);
	long ahead_sec = 0;
	FILE *f;

	if (r != 0 || clock != CLOCK_REALTIME || !path)
		return (int)r;
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%ld", &ahead_sec) == 1)
		now->tv_sec += ahead_sec;
	(void)fclose(f);
	return 0;
}
