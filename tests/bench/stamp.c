/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A task that tells when it was executed and when it ends: two records on its standard output,
 * each written in one piece. Linked statically, so that its first instruction is near its exec.
 */
#include "tests/bench/stamp.h"

#include <time.h>
#include <unistd.h>

static void send(char kind)
{
	struct stamp s = {.kind = kind};
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	s.time_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	(void)!write(STDOUT_FILENO, &s, sizeof(s));
}

int main(void)
{
	send('b');
	send('e');
	return 0;
}
