/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The file in which programs of a job find the cookie of its X display: the user's own, in which
 * an entry is made, or one for the job alone in a directory such as /tmp. All of it is done as the
 * user, by xauth(1), which is waited for.
 */
#ifndef SLURM_XAUTHORITY_H
#define SLURM_XAUTHORITY_H

#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct log;
struct xauthority;

struct xauthority_options {
	uid_t uid;
	gid_t gid;
	const uint32_t *groups; /* supplementary */
	size_t groups_count;
	/* Where the file is to be: ~/.Xauthority of this home, or NULL and a new one in directory.
	 */
	const char *home, *directory;
	const char *mount_namespace; /* of that; NULL: here */
	unsigned display;   /* "HOST/unix:20" is what programs look for at "localhost:20" */
	const char *cookie; /* MIT-MAGIC-COOKIE-1, hexadecimal */
};

/* -EINVAL: the cookie is none; -EACCES, ...: the user can't make the file. */
int xauthority_make(const struct xauthority_options *options, struct xauthority **ret_file,
	struct err *err) _must_check_;

/* The file's path. */
const char *xauthority_get_path(const struct xauthority *file);

/* Removes the entry, or the file; what fails is logged. NULL is fine. Returns NULL. */
struct xauthority *xauthority_remove(struct xauthority *file, const struct log *log);

#endif
