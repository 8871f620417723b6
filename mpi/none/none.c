/* SPDX-License-Identifier: BSD-3-Clause
 *
 * No MPI set-up at all: for programs that are not parallel, or that find each other by means of
 * their own. The pattern of an MPI plugin.
 */
#include <stdio.h>

#include "stepd/api/mpi.h"

const char plugin_type[] = "mpi/none";
const char plugin_name[] = "no MPI set-up";
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
	(void)snprintf(text, size, "tasks start without PMI; MPI programs run as singletons");
	return SLURM_SUCCESS;
}

mpi_plugin_client_state_t *p_mpi_hook_client_prelaunch(
	const mpi_plugin_client_info_t *job, char ***env)
{
	static char no_state; /* NULL would mean failure */

	(void)job;
	(void)env;
	return &no_state;
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	(void)job;
	(void)env;
	return SLURM_SUCCESS;
}

void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	(void)job;
	(void)env;
}

int p_mpi_hook_client_fini(mpi_plugin_client_state_t *state)
{
	(void)state;
	return SLURM_SUCCESS;
}
