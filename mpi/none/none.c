/* SPDX-License-Identifier: BSD-3-Clause
 *
 * No MPI set-up at all: for programs that are not parallel, or that find each other by means of
 * their own. The pattern of an MPI plugin: with mpi/client_hooks.c, which every plugin shares that
 * has no work in the client, these are all hooks that there have to be.
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
