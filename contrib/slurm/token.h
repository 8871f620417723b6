/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a token of auth/slurm says, a JWT of RFC 7519: a job's credential is one from 23.11 on where
 * the site has that plugin. Its claims are JSON in base64url between two dots; of them the
 * credential has "context" ("launch"), "uid", "gid", and "payload": the body as munge would carry
 * it, in base64.
 *
 * Its signature is slurmd's to check, by a key that SlurmUser may read; slurmstepd does not do it
 * either.
 */
#ifndef SLURM_TOKEN_H
#define SLURM_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

/* A token for more is none. */
#define SLURM_TOKEN_MAX (16u << 20)

struct slurm_token {
	uint32_t uid, gid;
	void *payload; /* for free() */
	size_t payload_size;
};

/* Whether CredType's value is that plugin: "auth/slurm", "cred/slurm", "slurm". */
bool slurm_token_is_type(const char *cred_type);

/* Of a credential; text has size bytes, its NUL is among them or not. -EBADMSG: it is none;
 * -ENOMEM. */
int slurm_token_read_credential(
	const void *text, size_t size, struct slurm_token *ret_token) _must_check_;

/* Of a message: who has made it, if it has no payload. It is to be checked besides. */
int slurm_token_read_message(const char *text, struct slurm_token *ret_token) _must_check_;

#endif
