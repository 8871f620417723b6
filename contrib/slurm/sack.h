/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tokens of auth/slurm from the daemon of this node that has the key, slurmd for the most part: in
 * place of credentials of munge(7), from 23.11 on. At its socket it knows by the kernel for whom it
 * makes one:
 *
 *	u16 version; u32 length of the rest with itself; u32 64001; u32 who may read it; mem data
 *
 * and answers with a text. It checks one for 64002, text: u32 0, if it holds.
 */
#ifndef SLURM_SACK_H
#define SLURM_SACK_H

#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct sack {
	uint16_t release;    /* of the node's Slurm */
	uid_t slurm_user;    /* whose socket is believed, besides root's */
	const char *cluster; /* from 26.05 on it may have a socket of its own; NULL: not known */
};

/* A token for these bytes, for free(), that only reader may have checked, (uid_t)-1: anybody. Waits
 * for the daemon, at most some seconds. */
int sack_make_token(const struct sack *sack, uid_t reader, const void *data, size_t size,
	char **ret_token, struct err *err) _must_check_;

/* Has the daemon check one that was made so, and that this process may have it checked. -EACCES: it
 * does not hold. */
int sack_check_token(const struct sack *sack, const char *token, struct err *err) _must_check_;

#endif
