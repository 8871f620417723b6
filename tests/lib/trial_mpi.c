/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An MPI plugin that shows that it was called, and with what: mpi/trial. With -DVARIANT_misspelt
 * one hook has another name, with -DVARIANT_environ there is p_mpi_task_environ().
 */
#include <errno.h>
#include <stdio.h>

#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

#if defined(VARIANT_misspelt)
#define p_mpi_hook_client_fini p_mpi_hook_client_finish
STEPD_EXPORT int p_mpi_hook_client_finish(mpi_plugin_client_state_t *state);
const char plugin_type[] = "mpi/misspelt";
#elif defined(VARIANT_environ)
const char plugin_type[] = "mpi/environ";
#else
const char plugin_type[] = "mpi/trial";
#endif
const char plugin_name[] = "an MPI plugin on trial";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

mpi_plugin_client_state_t *p_mpi_hook_client_prelaunch(
	const mpi_plugin_client_info_t *job, char ***env)
{
	(void)job;
	(void)env;
	errno = ENOSYS;
	return NULL;
}

/* Job 1 is refused, job 2 without a reason. */
int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	char text[32];

	errno = job->job_id == 1 ? EHOSTUNREACH : 0;
	if (job->job_id <= 2)
		return SLURM_ERROR;
	(void)snprintf(text, sizeof(text), "job %u", job->job_id);
	return stepd_env_set(env, "TRIAL_PREFORK", text);
}

void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "rank %u", job->gtaskid);
	(void)stepd_env_set(env, "TRIAL_TASK", text);
}

#if defined(VARIANT_environ)
/* TRIAL_FAILS: the local id of the task that does not get what it needs. */
int p_mpi_task_environ(const mpi_plugin_task_info_t *job, char ***env)
{
	const char *fails = stepd_env_get(*env, "TRIAL_FAILS");
	char text[64];

	if (fails && (uint32_t)atoi(fails) == job->ltaskid) {
		errno = EDQUOT;
		return SLURM_ERROR;
	}
	(void)snprintf(
		text, sizeof(text), "rank %u of %u, local %u", job->rank, job->size, job->ltaskid);
	stepd_env_unset(*env, "TRIAL_REMOVED");
	return stepd_env_set(env, "TRIAL_ENVIRON", text);
}
#endif

int p_mpi_hook_client_fini(mpi_plugin_client_state_t *state)
{
	(void)state;
	return SLURM_SUCCESS;
}
