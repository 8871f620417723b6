/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/spank_check.h"

#include <string.h>

#include "contrib/slurm/plugstack.h"
#include "contrib/slurm/spank_file.h"

/* What step_hooks_spank.so defines for plugins. */
static const char *const provided[] = {
	"slurm_debug",
	"slurm_debug2",
	"slurm_debug3",
	"slurm_debug4",
	"slurm_debug5",
	"slurm_error",
	"slurm_info",
	"slurm_spank_log",
	"slurm_verbose",
	"spank_context",
	"spank_get_item",
	"spank_getenv",
	"spank_job_control_getenv",
	"spank_job_control_setenv",
	"spank_job_control_unsetenv",
	"spank_option_getopt",
	"spank_option_register",
	"spank_remote",
	"spank_setenv",
	"spank_strerror",
	"spank_symbol_supported",
	"spank_unsetenv",
};

/* Whose symbols have versions, or are not for plugins: what else is undefined is not theirs. */
static const char *const known_libraries[] = {
	"libc.so.6",
	"libm.so.6",
	"libdl.so.2",
	"libpthread.so.0",
	"librt.so.1",
	"libgcc_s.so.1",
	"ld-linux-x86-64.so.2",
	"ld-linux-aarch64.so.1",
};

static enum spank_use report(const struct plugstack_plugin *p, enum spank_use use, const char *why,
	char text[static ERR_TEXT_SIZE])
{
	(void)snprintf(text, ERR_TEXT_SIZE, "SPANK plugin '%.300s' (%.300s): %.300s", p->path,
		p->where, why);
	return use;
}

/* Slurm fails the step for a required one, and says so itself. */
static enum spank_use report_unloadable(
	const struct plugstack_plugin *p, const char *why, char text[static ERR_TEXT_SIZE])
{
	return report(p, p->required ? SPANK_USE_OBSTACLE : SPANK_USE_IGNORED, why, text);
}

static bool begins_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static bool has_other_libraries(const struct spank_file *file)
{
	size_t i;

	for (i = 0; i < file->libraries.n; i++) {
		if (strv_index(known_libraries, ARRAY_SIZE(known_libraries), file->libraries.v[i]) <
			0)
			return true;
	}
	return false;
}

/* What it needs of Slurm and is not here: NULL: nothing. The libraries that it names have the rest.
 */
static const char *find_missing(const struct spank_file *file)
{
	bool others = has_other_libraries(file);
	size_t i;

	for (i = 0; i < file->libraries.n; i++) {
		if (begins_with(file->libraries.v[i], "libslurm"))
			return file->libraries.v[i];
	}
	for (i = 0; i < file->undefined.n; i++) {
		const char *name = file->undefined.v[i];

		if (strv_index(provided, ARRAY_SIZE(provided), name) < 0 &&
			(!others || begins_with(name, "slurm_") || begins_with(name, "spank_")))
			return name;
	}
	return NULL;
}

static int first_step_hook(const struct spank_file *file)
{
	int hook;

	for (hook = 0; hook < SPANK_HOOK_STEP_MAX; hook++) {
		if (file->hooks & 1u << hook)
			return hook;
	}
	return -1;
}

static enum spank_use check_hooks(const struct plugstack_plugin *p, const struct spank_file *file,
	char text[static ERR_TEXT_SIZE])
{
	int hook = first_step_hook(file);
	const char *missing;
	char why[128];

	if (hook < 0 && !file->runs_code)
		return report(
			p, SPANK_USE_NONE, "it has no function that is called in a step", text);
	missing = find_missing(file);
	if (missing) {
		(void)snprintf(
			why, sizeof(why), "it needs %.64s of Slurm, which is not here", missing);
		return report(p, SPANK_USE_OBSTACLE, why, text);
	}
	if (hook < 0)
		return report(p, SPANK_USE_LOADED, "it has code that runs when it is loaded", text);
	(void)snprintf(why, sizeof(why), "%s and what else it has is called in each step",
		spank_hook_symbol((enum spank_hook)hook));
	return report(p, SPANK_USE_LOADED, why, text);
}

enum spank_use spank_check(
	const struct plugstack_plugin *p, uint32_t version, char text[static ERR_TEXT_SIZE])
{
	_cleanup_spank_file_ struct spank_file file = {0};
	struct err err = ERR_INIT;
	char why[128];
	int r;

	if (p->path[0] != '/')
		return report_unloadable(p, "no directory of plugins (PluginDir) has it", text);
	r = spank_file_read(p->path, &file, &err);
	if (r == -ENOENT || r == -ENOEXEC)
		return report_unloadable(p, err.text, text);
	if (r < 0) /* whatever it is that can't be found out */
		return report(p, SPANK_USE_OBSTACLE, err.text, text);
	if ((file.version & SPANK_VERSION_MASK) != version) {
		(void)snprintf(why, sizeof(why), "it was made for Slurm %u.%02u",
			file.version >> 16 & 0xff, file.version >> 8 & 0xff);
		return report_unloadable(p, why, text);
	}
	if (file.hooks == 0)
		return report_unloadable(p, "it has no slurm_spank_ function", text);
	return check_hooks(p, &file, text);
}

enum spank_use spank_check_all(
	struct plugstack *stack, uint32_t version, char text[static ERR_TEXT_SIZE])
{
	enum spank_use most = SPANK_USE_NONE, use;
	char one[ERR_TEXT_SIZE];
	size_t i;

	text[0] = '\0';
	for (i = 0; i < stack->n; i++) {
		use = spank_check(&stack->v[i], version, one);
		if (use == SPANK_USE_IGNORED) {
			stack->v[i].ignored = strdup(one);
			if (!stack->v[i].ignored) /* it would be loaded */
				use = report(
					&stack->v[i], SPANK_USE_OBSTACLE, strerror(ENOMEM), one);
		}
		if (use <= most)
			continue;
		most = use;
		memcpy(text, one, sizeof(one));
	}
	return most;
}
