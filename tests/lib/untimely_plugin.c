/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/untimely: a process group, whose agent gets SIGTERM while this is loaded
 * (STEPD_TEST_TERM=load), the container is made (=create) or removed (=destroy): moments that no
 * test could hit from outside.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepd/api/proctrack.h"

const char plugin_type[] = "proctrack/untimely";
const char plugin_name[] = "signals its agent";
const uint32_t plugin_version = STEPD_API_VERSION;

static pid_t group;

static void maybe_raise(const char *when)
{
	const char *configured = getenv("STEPD_TEST_TERM");

	if (configured && strcmp(configured, when) == 0)
		(void)kill(getpid(), SIGTERM);
}

int init(void)
{
	maybe_raise("load");
	return SLURM_SUCCESS;
}

void fini(void)
{
}

int proctrack_p_create(stepd_step_rec_t *job)
{
	maybe_raise("create");
	job->cont_id = 1;
	return SLURM_SUCCESS;
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	(void)job;
	group = getpgid(pid);
	return SLURM_SUCCESS;
}

int proctrack_p_signal(uint64_t id, int sig)
{
	(void)id;
	if (group > 0 && kill(-group, sig) == 0)
		return SLURM_SUCCESS;
	errno = ESRCH;
	return SLURM_ERROR;
}

int proctrack_p_destroy(uint64_t id)
{
	(void)id;
	maybe_raise("destroy");
	return SLURM_SUCCESS;
}

uint64_t proctrack_p_find(pid_t pid)
{
	(void)pid;
	return 0;
}

uint32_t proctrack_p_get_pids(uint64_t id, pid_t **pids, int *npids)
{
	(void)id;
	*pids = NULL;
	*npids = 0;
	return SLURM_SUCCESS;
}
