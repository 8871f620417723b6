/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "contrib/slurm/spank_host.h"
#include "stepd/api/env.h"
#include "stepd/base/json.h"

#define OPTION_NAME_MAX 75
#define PREFIX          "_SLURM_SPANK_OPTION_"
#define VARIABLE_SIZE   1024

/* ---- registered options -------------------------------------------------------------------- */

static struct spank_registered *find_by_name(const char *name)
{
	size_t i;

	for (i = 0; i < spank_host.options_count; i++) {
		if (strcmp(spank_host.options[i].name, name) == 0)
			return &spank_host.options[i];
	}
	return NULL;
}

static struct spank_registered *find_of_plugin(const char *name, const char *plugin)
{
	size_t i;

	for (i = 0; i < spank_host.options_count; i++) {
		if (strcmp(spank_host.options[i].name, name) == 0 &&
			strcmp(spank_host.options[i].plugin->name, plugin) == 0)
			return &spank_host.options[i];
	}
	return NULL;
}

static struct spank_registered *add(
	const struct spank_plugin *plugin, const struct spank_option *option)
{
	struct spank_registered *grown =
		reallocarray(spank_host.options, spank_host.options_count + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	spank_host.options = grown;
	grown += spank_host.options_count;
	*grown = (struct spank_registered){.plugin = plugin,
		.name = strdup(option->name),
		.has_arg = option->has_arg,
		.val = option->val,
		.callback = option->callback};
	if (!grown->name)
		return NULL;
	spank_host.options_count++;
	return grown;
}

int spank_register(const struct spank_plugin *plugin, const struct spank_option *option)
{
	if (strlen(option->name) > OPTION_NAME_MAX) {
		spank_error("spank: option \"%s\" provided by %s too long. Ignoring.", option->name,
			plugin->name);
		return SPANK_NOSPACE;
	}
	return add(plugin, option) ? SPANK_SUCCESS : SPANK_ERROR;
}

SPANK_EXPORT int spank_option_register(struct spank_handle *handle, struct spank_option *option);
int spank_option_register(struct spank_handle *handle, struct spank_option *option)
{
	if (!handle || handle->magic != SPANK_MAGIC || handle->phase != SPANK_HOOK_INIT ||
		!option || !option->name || !option->usage)
		return SPANK_BAD_ARG;
	return spank_register(handle->plugin, option);
}

/* ---- what the user has given --------------------------------------------------------------- */

static void set_option(struct spank_registered *o, const char *arg)
{
	if (o->callback && o->callback(o->val, arg, 1)) {
		spank_error("spank: failed to process option %s=%s", o->name, arg ? arg : "(null)");
		return;
	}
	if (o->has_arg) {
		free(o->arg);
		o->arg = arg ? strdup(arg) : NULL;
	}
	o->found = true;
}

/* "NAME:PLUGIN". */
static void apply_given(const char *option, const char *arg)
{
	const char *colon = strchr(option, ':');
	_cleanup_free_ char *name = colon ? strndup(option, (size_t)(colon - option)) : NULL;
	struct spank_registered *o = name ? find_of_plugin(name, colon + 1) : NULL;

	if (!colon)
		spank_error("Malformed plugin option \"%s\" received. Ignoring", option);
	else if (o)
		set_option(o, arg);
	else
		spank_error("Warning: SPANK plugin \"%s\" option \"%s\" not found", colon + 1,
			name ? name : "");
}

static void make_canonical(char *text)
{
	for (; *text; text++)
		*text = isalnum((unsigned char)*text) ? *text : '_';
}

/* "_SLURM_SPANK_OPTION_PLUGIN_NAME", with "_" for what is no letter or digit. */
static void make_variable(const char *plugin, const char *name, char text[static VARIABLE_SIZE])
{
	(void)snprintf(text, VARIABLE_SIZE, PREFIX "%s_%s", plugin, name);
	make_canonical(text);
}

/* Whether srun has sent it. */
static bool is_given(const struct spank_registered *o)
{
	const json_t *given = json_object_get(spank_host.facts, "options"), *entry;
	size_t n = strlen(o->name), i;

	json_array_foreach (given, i, entry) {
		const char *option = json_string_value(json_array_get(entry, 0));

		if (option && strncmp(option, o->name, n) == 0 && option[n] == ':' &&
			strcmp(option + n + 1, o->plugin->name) == 0)
			return true;
	}
	return false;
}

static void apply_variable(struct spank_registered *o, char ***env)
{
	char variable[VARIABLE_SIZE];
	const char *arg;

	make_variable(o->plugin->name, o->name, variable);
	arg = stepd_env_get(*env, variable);
	if (!arg)
		return;
	set_option(o, arg);
	stepd_env_unset(*env, variable);
}

/* Those of plugins that are not here. */
static void remove_variables(char **env)
{
	size_t n = 0, i;

	for (i = 0; env[i]; i++) {
		const char *at = strncmp(env[i], "SPANK_", 6) == 0 ? env[i] + 6 : env[i];

		if (strncmp(at, PREFIX, strlen(PREFIX)) != 0)
			env[n++] = env[i];
	}
	env[n] = NULL;
}

void spank_apply_options(char ***env)
{
	const json_t *given = json_object_get(spank_host.facts, "options"), *entry;
	bool once = json_is_true(json_object_get(spank_host.facts, "options_once"));
	size_t i;

	json_array_foreach (given, i, entry) {
		const char *option = json_string_value(json_array_get(entry, 0));

		if (option)
			apply_given(option, json_string_value(json_array_get(entry, 1)));
	}
	for (i = 0; i < spank_host.options_count; i++) {
		if (!once || !is_given(&spank_host.options[i]))
			apply_variable(&spank_host.options[i], env);
	}
	remove_variables(*env);
}

/* ---- what a plugin asks -------------------------------------------------------------------- */

static bool has_options(enum spank_hook phase)
{
	return phase == SPANK_HOOK_USER_INIT || phase == SPANK_HOOK_TASK_INIT_PRIVILEGED ||
		phase == SPANK_HOOK_TASK_INIT || phase == SPANK_HOOK_TASK_EXIT;
}

/* One that was not registered may be in this process's environment. */
static struct spank_registered *find_late(
	const struct spank_plugin *plugin, const struct spank_option *option)
{
	struct spank_registered *o = add(plugin, option);
	char variable[6 + VARIABLE_SIZE] = "SPANK_";
	const char *arg;

	if (!o)
		return NULL;
	make_variable(plugin->name, option->name, variable + 6);
	arg = getenv(variable + 6);
	if (!arg)
		arg = getenv(variable);
	o->found = arg;
	o->arg = arg ? strdup(arg) : NULL;
	return o;
}

SPANK_EXPORT int spank_option_getopt(
	struct spank_handle *handle, struct spank_option *option, char **ret_arg);
int spank_option_getopt(struct spank_handle *handle, struct spank_option *option, char **ret_arg)
{
	const struct spank_registered *o;

	if (ret_arg)
		*ret_arg = NULL;
	if (!handle || handle->magic != SPANK_MAGIC)
		return SPANK_BAD_ARG;
	if (!has_options(handle->phase))
		return SPANK_NOT_AVAIL;
	if (!option || !option->name || (option->has_arg && !ret_arg))
		return SPANK_BAD_ARG;
	o = find_by_name(option->name);
	if (!o)
		o = find_late(handle->plugin, option);
	if (!o || !o->found)
		return SPANK_ERROR;
	if (option->has_arg)
		*ret_arg = o->arg;
	return SPANK_SUCCESS;
}
