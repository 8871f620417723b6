/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The job's credential, by which slurmctld has allowed a step: whom it runs as. Its signature is a
 * credential of munge, made by SlurmUser or root, with the same bytes. That of a batch script,
 * and that of an extern step, are not signed. With auth/slurm it is a token: token.h.
 */
#ifndef SLURM_CREDENTIAL_H
#define SLURM_CREDENTIAL_H

#include "contrib/slurm/launch.h"
#include "contrib/slurm/lookup.h"

struct slurm_auth;

/* -EACCES: it is not what slurmctld has signed, or the message claims another user beside it. */
int credential_check(const struct slurm_launch *launch, const struct slurm_auth *auth,
	uid_t slurm_user, struct err *err) _must_check_;

/* The supplementary groups, sorted, each once, for free(): the credential's, or where the site does
 * not send them with it, the message's. */
int credential_groups(const struct slurm_launch *launch, uint32_t **ret_groups, uint32_t *ret_count,
	struct err *err) _must_check_;

/* The user and the groups by their names, where the credential has these; texts are borrowed. */
int credential_user(const struct slurm_launch *launch, struct lookup_user *ret_user,
	struct err *err) _must_check_;

#endif
