/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hooks in the launching client, of plugins that have nothing to do there: compiled into each
 * of them, as a plugin has all its hooks itself.
 */
#include "stepd/api/mpi.h"

mpi_plugin_client_state_t *p_mpi_hook_client_prelaunch(
	const mpi_plugin_client_info_t *job, char ***env)
{
	static char no_state; /* NULL would mean failure */

	(void)job;
	(void)env;
	return &no_state;
}

int p_mpi_hook_client_fini(mpi_plugin_client_state_t *state)
{
	(void)state;
	return SLURM_SUCCESS;
}
