/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What every plugin exports, whatever its kind. Names and meaning are those of Slurm's plugin
 * guides ("const char plugin_type[]" and following), so that who has written one finds their way.
 *
 * A plugin is a shared object called KIND_NAME.so ("proctrack_cgroup.so") in the plugin
 * directory. The host loads it with all symbols resolved and local, checks plugin_type and
 * plugin_version, resolves the functions of the kind, and calls init() once before any of them;
 * fini() is called once, before the object is unloaded.
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
 * any host, without protection if an argument has changed. */
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

/* ---- "stepd doctor" ------------------------------------------------------------------------ */

enum stepd_finding_level {
	STEPD_FINDING_OK,
	STEPD_FINDING_NOTE,    /* as it should be */
	STEPD_FINDING_WARNING, /* steps run with restrictions */
	STEPD_FINDING_PROBLEM, /* a step that needs this plugin can't run */
	STEPD_FINDING_LEVEL_COUNT,
};

/* One thing that was checked. Strings are the caller's and live until report() returns; NULL is
 * as "". */
typedef struct {
	const char *id;     /* "cgroup.limits.memory": NAME of the plugin, a dot, [a-z0-9_.]; not
			     * renamed later, for programs compare it */
	int level;          /* enum stepd_finding_level */
	const char *value;  /* for programs: a path, a number, names with blanks between; or "" */
	const char *text;   /* for people: one sentence without its full stop, on one line */
	const char *remedy; /* what to do about it, likewise; or "" */
} stepd_finding_t;

typedef void (*stepd_tell_fn)(void *ctx, const stepd_finding_t *finding);

/* Optional. Checks closely what the plugin needs and offers on this machine, for this process,
 * and reports each finding, good ones too, in an order that reads well; called after init(). It
 * may try things out, but changes nothing that others see and leaves nothing behind, also if it
 * is killed in the middle: and it removes what such a call has left. It takes some 100 ms at
 * most.
 *
 * Two ids have a meaning for the host, which derives from them what a step would have:
 *   NAME.place       value: where the containers are, "" for nowhere
 *   NAME.limits.*    value: the limits of <stepd/limits.h> that can be set here, by the names of
 *                    proctrack.7, for instance "memory.max memory.high"
 *
 * SLURM_SUCCESS if all was reported, or SLURM_ERROR with errno set. */
STEPD_EXPORT int plugin_checkup(stepd_tell_fn report, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
