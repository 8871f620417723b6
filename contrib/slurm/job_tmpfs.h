/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the extern step of a job does where the site has Slurm's plugin tmpfs, job_namespace.h: it
 * makes the namespace that the job's other steps enter, and takes it away at its end. Names are
 * those of slurmd's release, for slurmd removes what was left when it starts:
 *
 *	BASE/JOB                     root's, 0700, a private mount of itself
 *	BASE/JOB/.ns                 the namespace is bound to it
 *	BASE/JOB/.JOB                the user's, 0700: /tmp inside, in 22.05
 *	BASE/JOB/.JOB/_tmp           the user's, 0700: /tmp inside, from 23.02 on; so for each of
 *	                             Dirs
 *
 * /dev/shm, if it is among Dirs, is a tmpfs. InitScript, CloneNSScript and CloneNSEpilog run as
 * root, outside. BASE has to be where others than root can't put something else in its place.
 */
#ifndef SLURM_JOB_TMPFS_H
#define SLURM_JOB_TMPFS_H

#include "stepd/base/err.h"

struct job_tmpfs;
struct log;
struct slurm_init;

/* conf_path is slurm.conf. In a process with one thread, which has CAP_SYS_ADMIN. -EEXIST: the job
 * has one, or what is left of one; -EPERM: others than root could replace BASE. Nothing is left by
 * a failure. init and log stay the caller's. */
int job_tmpfs_make(const struct slurm_init *init, const char *conf_path, const struct log *log,
	struct job_tmpfs **ret_tmpfs, struct err *err) _must_check_;

/* With all that is in it. What fails is logged. NULL is fine. Returns NULL. */
struct job_tmpfs *job_tmpfs_remove(struct job_tmpfs *tmpfs);

#endif
