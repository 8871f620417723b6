/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/mpi.h"

#include <stddef.h>
#include <string.h>

#include "stepd/plugin/plugin.h"

struct mpi_functions {
	mpi_plugin_client_state_t *(*client_prelaunch)(
		const mpi_plugin_client_info_t *job, char ***env);
	int (*slurmstepd_prefork)(const stepd_step_rec_t *job, char ***env);
	void (*slurmstepd_task)(const mpi_plugin_task_info_t *job, char ***env);
	int (*client_fini)(mpi_plugin_client_state_t *state);
};

struct mpi {
	struct plugin *plugin;
	struct mpi_functions call;
};

#define HOOK(hook)                                                                                 \
	{                                                                                          \
		.name = "p_mpi_hook_" #hook, .offset = offsetof(struct mpi_functions, hook)        \
	}

const struct plugin_kind *mpi_plugin_kind(void)
{
	/* All mandatory, as the guide has it: one that is missing is most likely misspelt. */
	static const struct plugin_symbol symbols[] = {
		HOOK(client_prelaunch),
		HOOK(slurmstepd_prefork),
		HOOK(slurmstepd_task),
		HOOK(client_fini),
	};
	static const struct plugin_kind kind = {
		.name = "mpi",
		.symbols = symbols,
		.symbols_count = ARRAY_SIZE(symbols),
	};

	return &kind;
}

int mpi_open(const char *plugin_dir, const char *name, struct mpi **ret_mpi, struct err *err)
{
	_cleanup_mpi_ struct mpi *mpi = calloc(1, sizeof(*mpi));
	int r;

	if (!mpi)
		return err_set(err, -ENOMEM, "load MPI plugin '%.70s'", name);
	r = plugin_load(plugin_dir, mpi_plugin_kind(), name, &mpi->call, &mpi->plugin, err);
	if (r < 0)
		return r;
	*ret_mpi = take_ptr(mpi);
	return 0;
}

struct mpi *mpi_close(struct mpi *mpi)
{
	if (!mpi)
		return NULL;
	(void)plugin_unload(mpi->plugin); /* always NULL */
	free(mpi);
	return NULL;
}

const char *mpi_get_type(const struct mpi *mpi)
{
	return plugin_get_type(mpi->plugin);
}

const char *mpi_get_env_type(const struct mpi *mpi)
{
	const char *name = strchr(plugin_get_type(mpi->plugin), '/') + 1;

	return strcmp(name, "none") == 0 ? NULL : name;
}

int mpi_prefork(struct mpi *mpi, const stepd_step_rec_t *job, char ***env, struct err *err)
{
	errno = 0;
	if (mpi->call.slurmstepd_prefork(job, env) == SLURM_SUCCESS)
		return 0;
	return err_set(err, errno > 0 ? -errno : -EIO,
		"plugin %s: p_mpi_hook_slurmstepd_prefork() failed", plugin_get_type(mpi->plugin));
}

bool mpi_has_task_hook(const struct mpi *mpi)
{
	return mpi_get_env_type(mpi) != NULL;
}

void mpi_task(struct mpi *mpi, const mpi_plugin_task_info_t *task, char ***env)
{
	mpi->call.slurmstepd_task(task, env);
}
