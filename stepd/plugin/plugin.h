/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Loads plugins by the rules of <stepd/plugin.h>: KIND_NAME.so in the plugin directory, checked
 * before any of its functions is called, init() once after the load, fini() once before the
 * unload. (What a shared object runs by itself when it is loaded, no check can come before.)
 *
 * As root, a plugin runs as root: its file, its directory and every directory above are refused
 * if others than root (and the agent's user) could change what is found there. Directories above
 * the running program are not checked: a user who can change those needs no plugin.
 */
#ifndef STEPD_PLUGIN_PLUGIN_H
#define STEPD_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/api/plugin.h"
#include "stepd/base/err.h"

/* A function of a plugin kind, and the offset of its pointer in the kind's table. */
struct plugin_symbol {
	const char *name;
	size_t offset;
	bool optional; /* NULL is stored if the plugin lacks it */
};

struct plugin_kind {
	const char *name; /* "proctrack" */
	const struct plugin_symbol *symbols;
	size_t symbols_count;
};

struct plugin;

/* Of the kind's table of functions, for code that loads plugins without calling them. */
size_t plugin_functions_size(const struct plugin_kind *kind);

/* The directory to load from: configured if not NULL, else $STEPD_PLUGIN_DIR (ignored where the
 * program has more rights than its caller), else plugins/ beside the program (a build tree), else
 * the one it was configured with. Absolute; the caller frees it. */
int plugin_dir_find(const char *configured, char **ret_dir, struct err *err) _must_check_;

/* Loads kind's plugin called name ("cgroup" or "proctrack/cgroup") and fills the functions at
 * functions, which are left alone on failure. *ret_plugin is released with plugin_unload();
 * functions are dead after that. */
int plugin_load(const char *dir, const struct plugin_kind *kind, const char *name, void *functions,
	struct plugin **ret_plugin, struct err *err) _must_check_;

const char *plugin_get_type(const struct plugin *p);
const char *plugin_get_name(const struct plugin *p); /* plugin_name[] */

/* plugin_version as digits, "0.1.0", or "any" if the plugin has no version. */
void plugin_get_version(const struct plugin *p, char *text, size_t size);

/* plugin_probe(): whether the plugin can be used here, and its one-line reason. A plugin without
 * the function counts as usable. */
bool plugin_probe_here(const struct plugin *p, char *text, size_t size);

/* plugin_checkup(): 0 once all is reported, or -errno. -EOPNOTSUPP: the plugin lacks the
 * function. */
int plugin_check_up(const struct plugin *p, stepd_tell_fn report, void *ctx) _must_check_;

/* fini(), then the unload. NULL is allowed; returns NULL. */
struct plugin *plugin_unload(struct plugin *p);
DEFINE_CLEANUP(struct plugin *, plugin_unload);
#define _cleanup_plugin_ _cleanup_(plugin_unload_p)

/* Calls found for every plugin of kind in dir, by name without kind and suffix, in alphabetical
 * order. Stops at a negative result and returns it. */
typedef int (*plugin_found_fn)(const char *name, void *userdata);
int plugin_each(const char *dir, const struct plugin_kind *kind, plugin_found_fn found,
	void *userdata, struct err *err) _must_check_;

#endif
