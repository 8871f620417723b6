/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step's user meets on this node: its directory and its program, found in a process of that
 * user's own. Users know the sentences with which slurmstepd reports both, so they are found before
 * a step is started. slurmd waits meanwhile, with one of its threads: a file system that does not
 * answer, which users can have of their own, is not waited for longer than the options say.
 */
#ifndef SLURM_USER_PROBE_H
#define SLURM_USER_PROBE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

/* A file that the tasks will open: relative to the directory. */
struct user_probe_file {
	char *path;
	int flags; /* as open(2) */
};

struct user_probe_options {
	uint32_t uid, gid;
	const uint32_t *groups;
	uint32_t groups_count;
	const char *cwd;
	char *const *programs; /* as the user has given them */
	size_t programs_count;
	const char *path; /* PATH of the tasks; NULL: none */
	const struct user_probe_file *files;
	size_t files_count;
	bool makes_directories; /* those of output files that are missing */
	mode_t umask;
	unsigned timeout_ms;
	const char *mount_namespace; /* where the directory and the programs are; "": here */
};

struct user_probe {
	int file_error;         /* 0, or the errno of the first file that can't be opened */
	int cwd_error;          /* 0, or the errno: the tasks are in /tmp then */
	int outside_cwd_error;  /* the same outside of the namespace; without one, that */
	int program_error;      /* 0, or the errno of an execve() of the first that fails */
	bool is_interpreter;    /* program is that of a script, and missing */
	char program[PATH_MAX]; /* that one, or the last */
};

/* -errno: nothing is known. -ETIMEDOUT: within the time. */
int user_probe_run(const struct user_probe_options *options, struct user_probe *ret_probe,
	struct err *err) _must_check_;

#endif
