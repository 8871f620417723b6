/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMI-1 and PMI-2 for the step's tasks, on one descriptor each, or over TCP by option. The protocol
 * is served in the service process (service.c); here are the hooks, which give tasks the
 * environment by which programs find it:
 *
 *	PMI_FD, or PMI_PORT and PMI_ID; PMI_RANK, PMI_SIZE, PMI_JOBID; PMI_SPAWNED for tasks that
 *	were spawned
 *
 * Nothing of PMIX_* is left, as some MPI libraries refuse to see both.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "mpi/pmi2/service.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

const char plugin_type[] = "mpi/pmi2";
const char plugin_name[] = "PMI-1 and PMI-2";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

int plugin_probe(char *text, size_t size)
{
	(void)snprintf(text, size, "PMI-1 and PMI-2 in a service process of the step's user");
	return SLURM_SUCCESS;
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, _unused_ char ***env)
{
	const struct stepd_mpi_host *host = job->mpi_host;

	if (!host) {
		errno = ENOTSUP;
		return SLURM_ERROR;
	}
	return host->service_start(host->ctx, service_main, NULL, !host->tcp) == 0 ? SLURM_SUCCESS
										   : SLURM_ERROR;
}

/* What the launcher of something around this step has left, or another plugin would have set. The
 * service's own come before this hook: with TCP, PMI_PORT and PMI_ID. */
static bool is_stale(const char *entry, bool tcp)
{
	if (strncmp(entry, "PMIX_", 5) == 0)
		return true;
	if (strncmp(entry, "PMI_", 4) != 0 || strncmp(entry, "PMI_DEBUG=", 10) == 0)
		return false;
	return !tcp || (strncmp(entry, "PMI_PORT=", 9) != 0 && strncmp(entry, "PMI_ID=", 7) != 0);
}

static void remove_stale(char **env, bool tcp)
{
	size_t from, to = 0;

	for (from = 0; env[from]; from++) {
		if (!is_stale(env[from], tcp))
			env[to++] = env[from];
	}
	env[to] = NULL;
}

static int set_number(char ***env, const char *name, uint32_t n)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%u", n);
	return stepd_env_set(env, name, text);
}

static int set_job(const mpi_plugin_task_info_t *job, char ***env)
{
	char jobid[64];
	int n = snprintf(jobid, sizeof(jobid), "%u.%u", job->job_id, job->step_id);

	if (job->spawn > 0)
		(void)snprintf(jobid + n, sizeof(jobid) - (size_t)n, ".%u", job->spawn);
	return stepd_env_set(env, "PMI_JOBID", jobid);
}

int p_mpi_task_environ(const mpi_plugin_task_info_t *job, char ***env)
{
	remove_stale(*env, job->service_fd < 0);
	if (job->service_fd >= 0 && set_number(env, "PMI_FD", (uint32_t)job->service_fd) < 0)
		return SLURM_ERROR;
	if (set_number(env, "PMI_RANK", job->rank) < 0 ||
		set_number(env, "PMI_SIZE", job->size) < 0 || set_job(job, env) < 0)
		return SLURM_ERROR;
	if (job->spawn > 0 && stepd_env_set(env, "PMI_SPAWNED", "1") < 0)
		return SLURM_ERROR;
	return SLURM_SUCCESS;
}

/* For a host that knows the guide's hooks only. */
void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	/* What fails here the program will find out, and report. */
	if (p_mpi_task_environ(job, env) == SLURM_SUCCESS && job->service_fd >= 0)
		(void)fcntl(job->service_fd, F_SETFD, 0);
}
