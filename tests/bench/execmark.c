/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What slurmd executes in slurmstepd's place, to tell when: it adds a record of the time to the
 * file that BENCH_MARK_FILE names, and executes the program of BENCH_MARK_PROGRAM. With arguments
 * there is no step, and no record. Linked statically, so that it adds little.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/stamp.h"

int main(int argc, char **argv)
{
	const struct stamp s = stamp_take('x');
	char *program = getenv("BENCH_MARK_PROGRAM");
	int fd = argc == 1 ? stamp_open(-1) : -1;

	if (!program)
		return 127;
	if (fd >= 0)
		(void)!write(fd, &s, sizeof(s)); /* else the round does not count */
	argv[0] = program;
	(void)execv(program, argv);
	return 127;
}
