/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded: each program that this is loaded into writes its real and its effective user, and its
 * name, into the file of PRELOADED_LOG.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void note_program(void)
{
	const char *log = getenv("PRELOADED_LOG");
	FILE *f = log ? fopen(log, "ae") : NULL;

	if (!f)
		return;
	(void)fprintf(f, "%u %u %s\n", (unsigned)getuid(), (unsigned)geteuid(),
		program_invocation_short_name);
	(void)fclose(f);
}
