/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MPI plugin: plugin_type "mpi/...". The four hooks are those of Slurm's "MPI Plugin API"
 * guide, by name and by the moment of their call. All are mandatory; one without work is stubbed.
 * They are not called for batch and extern steps.
 *
 * env is a NULL-terminated vector from malloc(): change it with stepd_env_set() and
 * stepd_env_unset() of <stepd/env.h>. A string that a hook puts into it comes from malloc() and
 * is the host's from then on; those that stood there before are never freed by a hook.
 */
#ifndef STEPD_API_MPI_H
#define STEPD_API_MPI_H

#include "plugin.h"
#include "step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the launching client knows of the step before it exists. */
typedef struct {
	uint32_t api_version; /* STEPD_API_VERSION of the client */
	uint32_t job_id;
	uint32_t step_id;
	uid_t uid;
	gid_t gid;
	uint32_t nnodes;
	uint32_t ntasks;
} mpi_plugin_client_info_t;

/* The plugin's own, from prelaunch to fini. */
typedef void mpi_plugin_client_state_t;

/* One task, seen from inside its process. */
typedef struct {
	uint32_t api_version; /* STEPD_API_VERSION of the agent */
	uint32_t job_id;
	uint32_t step_id;
	uint32_t nnodes;
	uint32_t nodeid;
	uint32_t ntasks; /* of the whole step */
	uint32_t ltasks; /* on this node */
	uint32_t gtaskid;
	uint32_t ltaskid;
} mpi_plugin_task_info_t;

/* In the client, before the launch. NULL with errno set on failure; a plugin without a state
 * returns any pointer that is not NULL. */
STEPD_EXPORT mpi_plugin_client_state_t *p_mpi_hook_client_prelaunch(
	const mpi_plugin_client_info_t *job, char ***env);

/* In the agent, before the first fork. SLURM_ERROR with errno set ends the step before any task
 * ran. env is what all tasks get. */
STEPD_EXPORT int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env);

/* In the task's process, as the user, right before exec. env is this task's. */
STEPD_EXPORT void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env);

/* In the client, after all tasks have ended. */
STEPD_EXPORT int p_mpi_hook_client_fini(mpi_plugin_client_state_t *state);

#ifdef __cplusplus
}
#endif

#endif
