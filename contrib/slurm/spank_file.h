/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A SPANK plugin's file: what it defines and what it needs, from the tables of its ELF file.
 * Nothing of it is loaded or executed. The file is refused if others than root could change it.
 */
#ifndef SLURM_SPANK_FILE_H
#define SLURM_SPANK_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"
#include "stepd/base/strv.h"

/* In the order of a step, then those of other contexts: spank(7). */
enum spank_hook {
	SPANK_HOOK_INIT,
	SPANK_HOOK_INIT_POST_OPT,
	SPANK_HOOK_USER_INIT,
	SPANK_HOOK_TASK_INIT_PRIVILEGED,
	SPANK_HOOK_TASK_INIT,
	SPANK_HOOK_TASK_POST_FORK,
	SPANK_HOOK_TASK_EXIT,
	SPANK_HOOK_EXIT,
	SPANK_HOOK_STEP_MAX, /* up to here the hooks of slurmstepd */
	SPANK_HOOK_JOB_PROLOG = SPANK_HOOK_STEP_MAX,
	SPANK_HOOK_LOCAL_USER_INIT,
	SPANK_HOOK_JOB_EPILOG,
	SPANK_HOOK_SLURMD_EXIT,
	SPANK_HOOK_MAX,
};

/* "slurm_spank_init"; another name than these is no hook. */
const char *spank_hook_symbol(enum spank_hook hook);

/* The release in a plugin's version: plugins of another one than slurmd's are not loaded, by Slurm
 * neither. */
#define SPANK_VERSION_MASK 0xffff00u

/* A plugin of Slurm's own, which is there where AuthType=auth/munge is, and has its version. */
#define SPANK_KNOWN_PLUGIN "auth_munge.so"

struct spank_file {
	unsigned hooks;   /* by bits of enum spank_hook */
	bool runs_code;   /* when it is loaded, before any hook: init(), or a constructor */
	uint32_t version; /* plugin_version: Slurm's, three numbers of a byte each */
	/* Functions and data that it takes from elsewhere, without a version of the C library's;
	 * and the libraries that it names. */
	struct strv undefined, libraries;
};

/* -ENOEXEC: it is no plugin of Slurm; err has why. -EBADMSG: it is a library without the tables of
 * sections, which can be loaded, but not be read. It may have no hook. */
int spank_file_read(const char *path, struct spank_file *ret_file, struct err *err) _must_check_;
void spank_file_clear(struct spank_file *file);
#define _cleanup_spank_file_ _cleanup_(spank_file_clear)

#endif
