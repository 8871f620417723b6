/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plugstack.conf: which SPANK plugins a site has, spank(7). Lines "required|optional PLUGIN
 * ARGUMENT..." and "include PATTERN"; what follows "#" is a comment. As Slurm does it, a line that
 * is not understood is ignored, and a file that is missing is an empty one.
 *
 * Files that others than root could change are refused: plugins run as root.
 */
#ifndef SLURM_PLUGSTACK_H
#define SLURM_PLUGSTACK_H

#include <stdbool.h>

#include "stepd/base/err.h"
#include "stepd/base/strv.h"

/* Plugins in all, and include lines within each other. */
#define PLUGSTACK_MAX       256u
#define PLUGSTACK_DEPTH_MAX 16u

struct plugstack_plugin {
	bool required;
	char *path;  /* absolute, where a directory of plugins has it; else as it is written */
	char *where; /* "FILE:LINE" */
	struct strv args;
	char *ignored; /* why Slurm goes on without it, by spank_check_all(); NULL: it does not */
};

struct plugstack {
	struct plugstack_plugin *v;
	size_t n, capacity;
	char *dirs;    /* of plugins, with ":" between them; NULL: not known */
	char *ignored; /* "FILE:LINE" of the first line that is not understood; NULL: none is */
};

/* dirs: PluginDir of slurm.conf, directories with ":" between them, in which plugins without a "/"
 * at their beginning are; NULL or "": the one among the usual directories that this node has. */
int plugstack_read(const char *file, const char *dirs, struct plugstack *ret_stack,
	struct err *err) _must_check_;
/* The file of that name in the directories of plugins, from malloc(); NULL: there is none. */
int plugstack_find(const struct plugstack *stack, const char *name, char **ret_path) _must_check_;

void plugstack_clear(struct plugstack *stack);
#define _cleanup_plugstack_ _cleanup_(plugstack_clear)

#endif
