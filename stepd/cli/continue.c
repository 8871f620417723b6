/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd continue: what an agent executes in its own place when it is upgraded (reexec.h). Nobody
 * else has the descriptor.
 */
#include <string.h>
#include <sys/prctl.h>

#include "stepd/base/parse.h"
#include "stepd/base/status.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/version.h"
#include "stepd/frontend/frontends.h"
#include "stepd/step/agent.h"
#include "stepd/step/reexec.h"

/* On one line: an agent that is about to be replaced logs its beginning. */
_noreturn_ static void check(int fd)
{
	struct err err = ERR_INIT;
	int r = agent_try_to_continue(fd, stepd_version, &err);

	if (r < 0)
		printf("%s\n", err.text);
	else
		printf(REEXEC_CHECKED "%s\n", stepd_version);
	_exit(fflush(stdout) != 0 || r < 0 ? STATUS_FAILED : 0);
}

int cli_continue(int argc, char **argv)
{
	bool only_check = argc > 1 && strcmp(argv[1], "--check") == 0;
	const char *number = argc > 1 + only_check ? argv[1 + only_check] : "";
	struct err err = ERR_INIT;
	int code = STATUS_FAILED;
	uint32_t fd;

	if (parse_u32(number, STDERR_FILENO + 1, INT32_MAX, &fd) < 0) {
		fprintf(stderr,
			"stepd continue: this is for an agent that is upgraded, see stepd(8), UPGRADING\n");
		return STATUS_FAILED;
	}
	/* By a descriptor, kernels before 6.14 name the process after its number. */
	(void)prctl(PR_SET_NAME, "stepd");
	if (only_check)
		check((int)fd);
	if (agent_continue((int)fd, stepd_version, &frontends, &code, &err) < 0) {
		fprintf(stderr, "stepd continue: %s\n", err.text);
		_exit(STATUS_FAILED); /* the step is another's to take over: nothing is cleared */
	}
	return code;
}
