/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/hooks.h"

#include <jansson.h>
#include <pwd.h>
#include <string.h>

#include "mpi/mpi.h"
#include "stepd/api/env.h"
#include "stepd/base/parse.h"
#include "stepd/base/strv.h"
#include "stepd/plugin/plugin.h"

/* ---- the environment ---------------------------------------------------------------------- */

static int make_env(const json_t *doc, struct strv *env)
{
	json_t *object = json_object_get(doc, "env"), *value;
	const char *name;
	int r = 0;

	json_object_foreach (object, name, value) {
		r = strv_addf(env, "%s=%s", name, json_string_value(value) ?: "");
		if (r < 0)
			return r;
	}
	return 0;
}

/* The plugin's vector becomes the document's object. */
static int take_env(json_t *doc, char *const *env)
{
	json_t *object = json_object();
	const char *equals;
	char *name;
	int r = object ? 0 : -ENOMEM;

	for (; r == 0 && *env; env++) {
		equals = strchr(*env, '=');
		name = equals && equals > *env ? strndup(*env, (size_t)(equals - *env)) : NULL;
		if (name &&
			json_object_set_new_nocheck(object, name, json_string_nocheck(equals + 1)) <
				0)
			r = -ENOMEM;
		free(name);
	}
	if (r == 0)
		return json_object_set_new(doc, "env", object) < 0 ? -ENOMEM : 0;
	json_decref(object);
	return r;
}

/* What a hook has put in is freed by nobody else: the strings that were there before are in made.
 */
static void free_added(char **env, const struct strv *made)
{
	size_t i, j;

	for (i = 0; env[i]; i++) {
		for (j = 0; j < made->n && made->v[j] != env[i]; j++)
			;
		if (j == made->n)
			free(env[i]);
	}
}

static int call_with_env(
	struct hooks *h, const mpi_plugin_client_info_t *info, json_t *doc, struct err *err)
{
	_cleanup_strv_ struct strv made = {0};
	_cleanup_free_ char **env = NULL;
	const char *type = mpi_get_env_type(h->mpi);
	int r = make_env(doc, &made);

	env = r < 0 ? NULL : calloc(made.n + 1, sizeof(*env));
	if (!env)
		return err_set(err, -ENOMEM, "make the environment of the MPI plugin");
	if (made.n)
		memcpy(env, made.v, made.n * sizeof(*env));
	if (type)
		r = stepd_env_set(&env, "SLURM_MPI_TYPE", type) < 0 ? -errno : 0;
	if (r == 0)
		r = mpi_client_prelaunch(h->mpi, info, &env, &h->state, err);
	if (r == 0 && take_env(doc, env) < 0)
		r = err_set(err, -ENOMEM, "take the environment of the MPI plugin");
	free_added(env, &made);
	return r;
}

/* ---- entry points ------------------------------------------------------------------------ */

/* The spec's check has seen that there is such an account, or will see it. */
static void fill_identity(const json_t *doc, mpi_plugin_client_info_t *info)
{
	const char *user = json_string_value(json_object_get(doc, "uid"));
	const json_t *number = json_object_get(doc, "uid");
	const struct passwd *pw;

	info->uid = getuid();
	info->gid = getgid();
	if (json_is_integer(number))
		info->uid = (uid_t)json_integer_value(number);
	else if (user && parse_u32(user, 0, UINT32_MAX - 1, &info->uid) < 0) {
		pw = getpwnam(user);
		info->uid = pw ? pw->pw_uid : info->uid;
	}
	pw = getpwuid(info->uid);
	if (pw && info->uid != getuid())
		info->gid = pw->pw_gid;
}

int hooks_prelaunch(const char *plugin_dir, json_t *doc, uint32_t nnodes, uint32_t ntasks,
	struct hooks *ret_hooks, struct err *err)
{
	mpi_plugin_client_info_t info = {.api_version = STEPD_API_VERSION,
		.job_id = (uint32_t)json_integer_value(json_object_get(doc, "job")),
		.step_id = (uint32_t)json_integer_value(json_object_get(doc, "step")),
		.nnodes = nnodes,
		.ntasks = ntasks};
	const char *name = json_string_value(json_object_get(doc, "mpi")) ?: "none";
	_cleanup_free_ char *dir = NULL;
	int r = plugin_dir_find(plugin_dir, &dir, err);

	fill_identity(doc, &info);
	if (r == 0)
		r = mpi_open(dir, name, &ret_hooks->mpi, err);
	return r < 0 ? r : call_with_env(ret_hooks, &info, doc, err);
}

int hooks_fini(struct hooks *h, struct err *err)
{
	return mpi_client_fini(h->mpi, take_ptr(h->state), err);
}

void hooks_clear(struct hooks *h)
{
	h->mpi = mpi_close(h->mpi);
	h->state = NULL;
}
