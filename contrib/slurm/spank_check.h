/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a SPANK plugin of the site means for serving steps, found out from its file alone.
 */
#ifndef SLURM_SPANK_CHECK_H
#define SLURM_SPANK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

struct plugstack;
struct plugstack_plugin;

enum spank_use {
	SPANK_USE_NONE,     /* it has nothing to do in a step */
	SPANK_USE_IGNORED,  /* it can't be loaded, and is optional: Slurm goes on without it, as we
			       do */
	SPANK_USE_LOADED,   /* the step's agent loads it: step_hooks_spank.so */
	SPANK_USE_OBSTACLE, /* the step is Slurm's own */
	SPANK_USE_MAX,
};

/* version: slurmd's release, as slurm_release_version() has it; plugins of another one are not
 * loaded, by Slurm neither. text has the reason, with the plugin's name and line. */
enum spank_use spank_check(
	const struct plugstack_plugin *plugin, uint32_t version, char text[static ERR_TEXT_SIZE]);

/* The largest use among all, whose text it is; SPANK_USE_NONE without plugins. Of obstacles the
 * first one counts. Those that are ignored are marked so. */
enum spank_use spank_check_all(
	struct plugstack *stack, uint32_t version, char text[static ERR_TEXT_SIZE]);

#endif
