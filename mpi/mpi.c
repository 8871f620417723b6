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
	int (*task_environ)(const mpi_plugin_task_info_t *job, char ***env); /* may be NULL */
	int (*client_fini)(mpi_plugin_client_state_t *state);
};

struct mpi {
	struct plugin *plugin;
	struct mpi_functions call;
	struct mpi_service *service; /* NULL: none was started */

	/* While prefork runs, and in the service process. */
	const struct mpi_host *options;
	struct stepd_mpi_host host;
	stepd_step_rec_t job;
	struct err *err; /* why the service could not be started */
};

#define HOOK(hook)                                                                                 \
	{                                                                                          \
		.name = "p_mpi_hook_" #hook, .offset = offsetof(struct mpi_functions, hook)        \
	}

const struct plugin_kind *mpi_plugin_kind(void)
{
	/* The guide's are mandatory, as it has it: one that is missing is most likely misspelt. */
	static const struct plugin_symbol symbols[] = {
		HOOK(client_prelaunch),
		HOOK(slurmstepd_prefork),
		HOOK(slurmstepd_task),
		HOOK(client_fini),
		{.name = "p_mpi_task_environ",
			.offset = offsetof(struct mpi_functions, task_environ),
			.optional = true},
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
	mpi->service = mpi_service_free(mpi->service);
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

/* ---- in the agent --------------------------------------------------------------------------- */

/* stepd_mpi_host's service_start(). */
static int start_service(void *ctx, stepd_mpi_service_fn main, void *userdata, bool task_fds)
{
	struct mpi *mpi = ctx;
	int r;

	if (mpi->service || !mpi->err)
		r = -EALREADY;
	else
		r = mpi_service_start(&mpi->job, main, userdata, task_fds, &mpi->options->service,
			&mpi->service, mpi->err);
	if (r == 0)
		return 0;
	errno = -r;
	return -1;
}

/* The errno that a hook left. */
static int hook_error(void)
{
	return errno > 0 ? -errno : -EIO;
}

static int hook_failed(const struct mpi *mpi, const char *hook, struct err *err)
{
	return err_set(err, hook_error(), "plugin %s: p_mpi_hook_%s() failed",
		plugin_get_type(mpi->plugin), hook);
}

int mpi_prefork(struct mpi *mpi, const stepd_step_rec_t *job, const struct mpi_host *host,
	char ***env, struct err *err)
{
	struct err why = ERR_INIT;
	int r;

	mpi->options = host;
	mpi->host = (struct stepd_mpi_host){
		.api_version = STEPD_API_VERSION,
		.ctx = mpi,
		.timeout_ms = host->timeout_ms,
		.tcp = host->tcp,
		.wire = &host->wire,
		.service_start = start_service,
	};
	mpi->job = *job;
	mpi->job.mpi_host = &mpi->host;
	mpi->err = &why;
	errno = 0;
	r = mpi->call.slurmstepd_prefork(&mpi->job, env);
	mpi->err = NULL;
	if (r == SLURM_SUCCESS)
		return 0;
	if (!why.code)
		return hook_failed(mpi, "slurmstepd_prefork", err);
	return err_set_text(err, why.code, "plugin %s: %s", plugin_get_type(mpi->plugin), why.text);
}

int mpi_wait_for_service(struct mpi *mpi, struct err *err)
{
	struct err why = ERR_INIT;

	if (!mpi->service || mpi_service_wait(mpi->service, &why) == 0)
		return 0;
	mpi->service = mpi_service_free(mpi->service);
	return err_set_text(err, why.code, "plugin %s: %s", plugin_get_type(mpi->plugin), why.text);
}

struct mpi_service *mpi_get_service(const struct mpi *mpi)
{
	return mpi->service;
}

int mpi_restore_service(
	struct mpi *mpi, pid_t pid, int link_fd, bool task_fds, const struct strv *common)
{
	return mpi_service_restore(pid, link_fd, task_fds, common, &mpi->service);
}

bool mpi_has_task_hook(const struct mpi *mpi)
{
	return mpi_get_env_type(mpi) != NULL;
}

/* The preparation of either hook. */
static int begin_task(const struct mpi *mpi, const mpi_plugin_task_info_t *task,
	mpi_plugin_task_info_t *ret_info, char ***env)
{
	*ret_info = *task;
	ret_info->service_fd = -1;
	if (!mpi->service)
		return 0;
	ret_info->service_fd = mpi_service_task_fd(mpi->service, task->ltaskid);
	return mpi_service_environ(mpi->service, task->ltaskid, env);
}

bool mpi_has_task_environ(const struct mpi *mpi)
{
	return mpi->call.task_environ;
}

int mpi_task_environ(
	struct mpi *mpi, const mpi_plugin_task_info_t *task, char ***env, int *ret_pass_fd)
{
	mpi_plugin_task_info_t info;
	int r = begin_task(mpi, task, &info, env);

	if (r < 0)
		return r;
	errno = 0;
	if (mpi->call.task_environ(&info, env) != SLURM_SUCCESS)
		return hook_error();
	*ret_pass_fd = info.service_fd;
	return 0;
}

int mpi_task(struct mpi *mpi, const mpi_plugin_task_info_t *task, char ***env)
{
	mpi_plugin_task_info_t info;
	int r = begin_task(mpi, task, &info, env);

	if (r == 0)
		mpi->call.slurmstepd_task(&info, env);
	return r;
}

void mpi_task_forked(struct mpi *mpi, uint32_t local_id)
{
	if (mpi->service)
		mpi_service_close_task_fd(mpi->service, local_id);
}

/* ---- in the launching client ---------------------------------------------------------------- */

int mpi_client_prelaunch(struct mpi *mpi, const mpi_plugin_client_info_t *job, char ***env,
	mpi_plugin_client_state_t **ret_state, struct err *err)
{
	mpi_plugin_client_state_t *state;

	errno = 0;
	state = mpi->call.client_prelaunch(job, env);
	if (!state)
		return hook_failed(mpi, "client_prelaunch", err);
	*ret_state = state;
	return 0;
}

int mpi_client_fini(struct mpi *mpi, mpi_plugin_client_state_t *state, struct err *err)
{
	errno = 0;
	return mpi->call.client_fini(state) == SLURM_SUCCESS ? 0
							     : hook_failed(mpi, "client_fini", err);
}
