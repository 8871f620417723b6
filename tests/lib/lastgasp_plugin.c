/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proctrack/lastgasp: one process that was added. Once the file $STEPD_TEST_GASP is there, it ends
 * between the look whether there is a member and the list of them: a moment that no test could hit
 * from outside.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stepd/api/proctrack.h"

const char plugin_type[] = "proctrack/lastgasp";
const char plugin_name[] = "loses its last member while it is listed";
const uint32_t plugin_version = STEPD_API_VERSION;

static pid_t member;
static int member_fd = -1;

static int has_ended(int timeout_ms)
{
	struct pollfd end = {.fd = member_fd, .events = POLLIN};

	return member_fd < 0 || poll(&end, 1, timeout_ms) > 0;
}

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
	if (member_fd >= 0)
		(void)close(member_fd);
}

int proctrack_p_create(stepd_step_rec_t *job)
{
	job->cont_id = 1;
	return SLURM_SUCCESS;
}

int proctrack_p_add(stepd_step_rec_t *job, pid_t pid)
{
	(void)job;
	member = pid;
	member_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return member_fd < 0 ? SLURM_ERROR : SLURM_SUCCESS;
}

/* Whatever it is sent, it goes on. */
int proctrack_p_signal(uint64_t id, int sig)
{
	(void)id;
	(void)sig;
	if (!has_ended(0))
		return SLURM_SUCCESS;
	errno = ESRCH;
	return SLURM_ERROR;
}

int proctrack_p_destroy(uint64_t id)
{
	(void)id;
	return SLURM_SUCCESS;
}

uint64_t proctrack_p_find(pid_t pid)
{
	return pid == member && !has_ended(0);
}

uint32_t proctrack_p_get_pids(uint64_t id, pid_t **pids, int *npids)
{
	const char *gasp = getenv("STEPD_TEST_GASP");

	(void)id;
	*pids = NULL;
	*npids = 0;
	if (gasp && !has_ended(0) && access(gasp, F_OK) == 0) {
		(void)kill(member, SIGKILL);
		(void)has_ended(-1);
	}
	if (has_ended(0))
		return SLURM_SUCCESS;
	*pids = malloc(sizeof(**pids));
	if (!*pids)
		return (uint32_t)SLURM_ERROR;
	**pids = member;
	*npids = 1;
	return SLURM_SUCCESS;
}
