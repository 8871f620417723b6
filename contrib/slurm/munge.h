/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credentials of munge(7), by its library, which is loaded when it is needed. Both calls wait for
 * munged.
 */
#ifndef SLURM_MUNGE_H
#define SLURM_MUNGE_H

#include <sys/types.h>

#include "stepd/base/err.h"

struct slurm_munge;

/* socket NULL: munged's usual one. -EOPNOTSUPP: there is no such library here. */
int slurm_munge_open(
	const char *socket, struct slurm_munge **ret_munge, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct slurm_munge *slurm_munge_close(struct slurm_munge *munge);
DEFINE_CLEANUP(struct slurm_munge *, slurm_munge_close);

/* A credential for these bytes that only reader may decode, (uid_t)-1: anybody. It is a text for
 * free(). */
int slurm_munge_encode(const struct slurm_munge *munge, uid_t reader, const void *data, size_t size,
	char **ret_credential, struct err *err) _must_check_;

/* The bytes, for free(), and who has made the credential. One that was decoded before, or whose
 * time is over, is valid: slurmd has decoded it just now. */
int slurm_munge_decode(const struct slurm_munge *munge, const char *credential, void **ret_data,
	size_t *ret_size, uid_t *ret_uid, struct err *err) _must_check_;

#endif
