/* SPDX-License-Identifier: BSD-3-Clause
 *
 * "stepd serve", "stepd adopt" and "stepd continue" with the failpoints compiled in:
 * stepd-failpoints serve ...
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepd/base/failpoint.h"
#include "stepd/cli/cli.h"

void failpoint(const char *name)
{
	static unsigned passes;
	const char *wanted = getenv("STEPD_FAILPOINT");
	size_t len = wanted ? strcspn(wanted, ":") : 0;

	if (!wanted || strlen(name) != len || strncmp(wanted, name, len) != 0)
		return;
	passes++;
	if (passes == (wanted[len] ? (unsigned)atoi(wanted + len + 1) : 1u))
		(void)kill(getpid(), SIGKILL);
}

bool failpoint_breaks(const char *name)
{
	const char *wanted = getenv("STEPD_FAILPOINT");

	return wanted && strcmp(name, wanted) == 0;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "serve") == 0)
		return cli_serve(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "adopt") == 0)
		return cli_adopt(argc - 1, argv + 1);
	if (argc >= 2 && strcmp(argv[1], "continue") == 0)
		return cli_continue(argc - 1, argv + 1);
	return STATUS_FAILED;
}
