/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every plugin exports, whatever its kind. Names and meaning are those of Slurm's plugin
 * guides ("const char plugin_type[]" and following), so that who has written one finds their way.
 *
 * A plugin is a shared object called KIND_NAME.so ("proctrack_cgroup.so") in the plugin
 * directory. The host loads it with all symbols resolved and kept to itself, checks plugin_type
 * and plugin_version, resolves the functions of the kind, and calls init() once before any of
 * them; fini() is called once, before the object is unloaded.
 */
#ifndef STEPD_API_PLUGIN_H
#define STEPD_API_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this ABI: major << 16 | minor << 8 | micro. A plugin that sets plugin_version
 * to another value than its host's is refused. */
#define STEPD_API_VERSION 0x000100u

#ifndef SLURM_SUCCESS
#define SLURM_SUCCESS 0
#define SLURM_ERROR   (-1)
#endif

/* Marks a plugin's exported symbol where the rest is compiled with -fvisibility=hidden. */
#define STEPD_EXPORT __attribute__((visibility("default")))

/* "KIND/NAME", such as "proctrack/cgroup". Mandatory. */
STEPD_EXPORT extern const char plugin_type[];

/* A descriptive name; no format is required. Mandatory. */
STEPD_EXPORT extern const char plugin_name[];

/* STEPD_API_VERSION of the headers it was built with. Optional: a plugin without it loads into
 * any host, and is on its own if an argument has changed. */
STEPD_EXPORT extern const uint32_t plugin_version;

/* Called after the load and before every other function. SLURM_SUCCESS, or SLURM_ERROR with
 * errno set: the plugin is unloaded again, and fini() is not called. */
STEPD_EXPORT int init(void);

/* Called once before the unload. Releases all that the plugin holds in this process. */
STEPD_EXPORT void fini(void);

/* Optional. Whether the plugin can do its work on this machine, by this process; called after
 * init(). Puts one line without a newline into text: what it offers here and what it cannot do,
 * or why it cannot be used. SLURM_SUCCESS if usable, else SLURM_ERROR. */
STEPD_EXPORT int plugin_probe(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
