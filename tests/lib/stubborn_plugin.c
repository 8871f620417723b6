/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/stubborn: tracks what is added to it and sends every signal but SIGKILL. Processes
 * that SIGKILL does not end (in an uninterruptible wait) can't be made at will.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "stepd/api/proctrack.h"

const char plugin_type[] = "proctrack/stubborn";
const char plugin_name[] = "leaves SIGKILL out";
const uint32_t plugin_version = STEPD_API_VERSION;

enum {
	PIDS_MAX = 64
};
static pid_t members[PIDS_MAX];
static int count;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

int proctrack_p_create(stepd_step_rec_t *job)
{
	job->cont_id = 1;
	return SLURM_SUCCESS;
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	(void)job;
	if (count == PIDS_MAX) {
		errno = ENOSPC;
		return SLURM_ERROR;
	}
	members[count++] = pid;
	return SLURM_SUCCESS;
}

int proctrack_p_signal(uint64_t id, int sig)
{
	int i, alive = 0;

	(void)id;
	for (i = 0; i < count; i++)
		alive += kill(members[i], sig == SIGKILL ? 0 : sig) == 0;
	errno = ESRCH;
	return alive ? SLURM_SUCCESS : SLURM_ERROR;
}

int proctrack_p_destroy(uint64_t id)
{
	(void)id;
	return SLURM_SUCCESS;
}

uint64_t proctrack_p_find(pid_t pid)
{
	(void)pid;
	return 0;
}

uint32_t proctrack_p_get_pids(uint64_t id, pid_t **pids, int *npids)
{
	int i, n = 0;

	(void)id;
	*pids = calloc(PIDS_MAX, sizeof(**pids));
	for (i = 0; *pids && i < count; i++) {
		if (kill(members[i], 0) == 0)
			(*pids)[n++] = members[i];
	}
	*npids = n;
	return (uint32_t)(*pids ? SLURM_SUCCESS : SLURM_ERROR);
}
