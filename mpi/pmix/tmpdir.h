/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The session directory of a node's PMIx server: where libpmix puts its files and ranks may put
 * theirs, BASE/stepd-pmix-UID-HOST/JOB.STEP.NODE.XXXXXX. It is the user's, mode 0700, held by a
 * lock as long as its server lives, and removed at the end, whatever is in it; with it goes the
 * directory it stands in, when it was the last there. What a killed server has left is removed by
 * the user's next one on that host: what several hosts see may not be locked between them. Where
 * somebody else has taken BASE/stepd-pmix-UID-HOST, it stands in BASE/stepd-pmix-UID-HOST.XXXXXX.
 *
 * All of it is done as the user. The directories are reached through descriptors, and no symbolic
 * link below BASE is followed: in /tmp others can make what they like.
 */
#ifndef MPI_PMIX_TMPDIR_H
#define MPI_PMIX_TMPDIR_H

#include "stepd/api/step.h"
#include "stepd/base/err.h"

struct tmpdir;

/* Whether a base of the user's choice may be one. 0, or -errno and why, without its name. */
int tmpdir_check(const char *base, struct err *err) _must_check_;

/* In base, which may be or lead through symbolic links. */
int tmpdir_open(const char *base, const stepd_step_rec_t *job, struct tmpdir **ret_tmpdir,
	struct err *err) _must_check_;

/* Absolute. */
const char *tmpdir_path(const struct tmpdir *tmpdir);

/* A directory in it ("a" or "a/b", whose "a" is there). */
int tmpdir_add(struct tmpdir *tmpdir, const char *name, struct err *err) _must_check_;

/* Removes it. NULL is fine; returns NULL. */
struct tmpdir *tmpdir_close(struct tmpdir *tmpdir);
DEFINE_CLEANUP(struct tmpdir *, tmpdir_close);
#define _cleanup_tmpdir_ _cleanup_(tmpdir_close_p)

#endif
