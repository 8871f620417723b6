/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/status.h"

#include <stdio.h>
#include <sys/wait.h>

#include "stepd/base/signals.h"

const char *status_text(int wait_status, char *buf, size_t size)
{
	char name[SIGNALS_NAME_SIZE];

	if (WIFEXITED(wait_status))
		(void)snprintf(buf, size, "exited with status %d", WEXITSTATUS(wait_status));
	else
		(void)snprintf(buf, size, "killed by signal %d (%s)%s", WTERMSIG(wait_status),
			signals_name(WTERMSIG(wait_status), name, sizeof(name)),
			WCOREDUMP(wait_status) ? ", core dumped" : "");
	return buf;
}

int status_exit_code(int wait_status)
{
	if (WIFEXITED(wait_status))
		return WEXITSTATUS(wait_status);
	return STATUS_SIGNAL_BASE + WTERMSIG(wait_status);
}

void status_count(struct status *status, int wait_status)
{
	int code = status_exit_code(wait_status);

	if (status->signalled)
		return;
	if (WIFSIGNALED(wait_status)) {
		status->signalled = true;
		status->code = code;
	} else if (code > status->code) {
		status->code = code;
	}
}
