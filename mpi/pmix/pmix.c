/* SPDX-License-Identifier: BSD-3-Clause
 *
 * PMIx for the tasks, with libpmix as the server library. What stands here are the hooks, which
 * run in the agent: they know nothing of libpmix. The server is a module of its own
 * (STEPD_PMIX_SERVER), which the service process loads once it has the job user's identity, so
 * that no code of libpmix ever runs as root.
 */
#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "mpi/link.h"
#include "mpi/pmi/manager.h"
#include "mpi/pmix/pmix.h"
#include "mpi/pmix/version.h"
#include "stepd/api/env.h"
#include "stepd/api/mpi.h"

/* libev has functions of libevent's names and stands before libpmix where symbols are resolved
 * first: so libpmix resolves among its own libraries before those. AddressSanitizer, which replaces
 * the C library's functions, refuses that; a build with it has libevent before libev
 * (configure.ac). */
#ifdef STEPD_SANITIZERS
#define LIBPMIX_BINDING 0
#else
#define LIBPMIX_BINDING RTLD_DEEPBIND
#endif

const char plugin_type[] = "mpi/pmix";
const char plugin_name[] = "PMIx by libpmix";
const uint32_t plugin_version = STEPD_API_VERSION;

int init(void)
{
	return SLURM_SUCCESS;
}

void fini(void)
{
}

/* Beside this plugin, in the directory that the loader has checked. */
static int server_path(char **ret_path)
{
	Dl_info here;
	const char *slash;

	*ret_path = NULL;
	if (dladdr(plugin_type, &here) == 0 || !here.dli_fname)
		return -ENOENT;
	slash = strrchr(here.dli_fname, '/');
	if (asprintf(ret_path, "%.*s%s", slash ? (int)(slash + 1 - here.dli_fname) : 0,
		    here.dli_fname, STEPD_PMIX_SERVER) < 0) {
		*ret_path = NULL;
		return -ENOMEM;
	}
	return 0;
}

int plugin_probe(char *text, size_t size)
{
	_cleanup_free_ char *path = NULL;

	if (server_path(&path) < 0 || access(path, R_OK) < 0) {
		(void)snprintf(text, size, "%s is missing beside the plugin; install stepd anew",
			STEPD_PMIX_SERVER);
		return SLURM_ERROR;
	}
	(void)snprintf(text, size, "serves PMIx clients (built with libpmix %s)", PMIX_LIB_VERSION);
	return SLURM_SUCCESS;
}

static int cannot_load(const stepd_mpi_service_t *service, const char *why)
{
	struct err err = ERR_INIT;

	(void)err_set_text(&err, -ELIBACC,
		"load the PMIx server: %s; install libpmix 4.2 or newer, or choose another MPI plugin",
		why ? why : "no reason given");
	/* If the agent does not get it, it gets the end of this process. */
	(void)!link_send_take(
		service->link_fd, json_pack("{s:s,s:s}", "do", "failed", "why", err.text), NULL, 0);
	return EXIT_FAILURE;
}

/* Which of them is there is up to the node; what the server needs, the oldest that it can be built
 * with has (configure.ac). */
static bool can_serve(void *libpmix, char version[VERSION_SIZE])
{
	const char *(*get_version)(void);

	*(void **)&get_version = dlsym(libpmix, "PMIx_Get_version");
	version_find(get_version ? get_version() : "", version);
	return version_is_at_least(version, 4, 2);
}

/* In the service process, as the user. */
static int service_main(const stepd_mpi_service_t *service)
{
	_cleanup_free_ char *path = NULL;
	int (*serve)(const stepd_mpi_service_t *);
	char version[VERSION_SIZE], why[128];
	void *libpmix, *module;

	if (server_path(&path) < 0)
		return cannot_load(service, "it can't be found");
	/* Neither is ever closed: libpmix's threads are in them. */
	libpmix = dlopen(LIBPMIX_PATH, RTLD_NOW | RTLD_LOCAL | LIBPMIX_BINDING);
	if (!libpmix)
		return cannot_load(service, dlerror());
	if (!can_serve(libpmix, version)) {
		(void)snprintf(why, sizeof(why), LIBPMIX_PATH " is version %.31s, older than 4.2",
			version[0] ? version : "unknown");
		return cannot_load(service, why);
	}
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module)
		return cannot_load(service, dlerror());
	*(void **)&serve = dlsym(module, STEPD_PMIX_SERVE);
	return serve ? serve(service) : cannot_load(service, dlerror());
}

int p_mpi_hook_slurmstepd_prefork(const stepd_step_rec_t *job, char ***env)
{
	static const char *const managers[] = {
		MANAGER_VARIABLE, MANAGER_NSPACE_VARIABLE, MANAGER_TMPDIR_VARIABLE};
	/* The service is forked before this returns, and has a copy. */
	struct pmix_wishes wishes = {
		.tmpdir = stepd_env_get(*env, MANAGER_TMPDIR_VARIABLE),
		.data_store = stepd_env_get(*env, "PMIX_MCA_gds"),
		.manager = stepd_env_get(*env, MANAGER_VARIABLE),
		.nspace = stepd_env_get(*env, MANAGER_NSPACE_VARIABLE),
	};
	int r;

	if (!wishes.tmpdir)
		wishes.tmpdir = stepd_env_get(*env, "TMPDIR");
	r = job->mpi_host->service_start(job->mpi_host->ctx, service_main, &wishes, false);
	for (size_t i = 0; i < ARRAY_SIZE(managers); i++)
		stepd_env_unset(*env, managers[i]);
	return r < 0 ? SLURM_ERROR : SLURM_SUCCESS;
}

/* The service's entries for the task are in env. A library that finds PMI-1 or PMI-2 beside PMIx
 * may take the wrong one, or give up. */
int p_mpi_task_environ(const mpi_plugin_task_info_t *job, char ***env)
{
	static const char *const others[] = {"PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK", "PMI_SIZE",
		"PMI_SPAWNED", "PMI_KVS", "PMI_JOBID", "PMI_UNIVERSE_SIZE", "PMI_APPNUM",
		"PMI_DEBUG", "PMI2_DEBUG"};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		stepd_env_unset(*env, others[i]);
	/* Open MPI 4 consults only its own launcher, and ranks that wait for each other without
	 * giving way take each other's CPU. Without memory it is but slower. */
	if (job->ltasks > sysconf(_SC_NPROCESSORS_ONLN) &&
		!(*env)[stepd_env_index(*env, "OMPI_MCA_mpi_oversubscribe")])
		(void)stepd_env_set(env, "OMPI_MCA_mpi_oversubscribe", "1");
	return SLURM_SUCCESS;
}

/* For a host that knows the guide's hooks only. */
void p_mpi_hook_slurmstepd_task(const mpi_plugin_task_info_t *job, char ***env)
{
	(void)p_mpi_task_environ(job, env); /* can't fail */
}
