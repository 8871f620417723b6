/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The user and the groups of a job for nss_slurm, which asks the job's steps in place of a
 * directory service: as the job's credential has them, and for the job's own processes, unless the
 * client wants to know in any case.
 */
#ifndef SLURM_SOCKET_LOOKUP_H
#define SLURM_SOCKET_LOOKUP_H

#include "contrib/slurm/wire.h"
#include "stepd/base/strv.h"

/* Texts are borrowed; NULL: not known. */
struct lookup_user {
	const char *name, *gecos, *home, *shell;
	const char *password; /* what stands for it; NULL: "x" */
	uint32_t uid, gid;
	uint32_t *gids;
	struct strv group_names; /* of all gids, or none */
};

void lookup_user_clear(struct lookup_user *user);

/* Whether the answer depends on whether the client is one of the step's processes. */
bool lookup_needs_member(const struct wire_lookup *lookup);

/* user NULL: nothing is known. */
void lookup_put_user(const struct lookup_user *user, const struct wire_lookup *lookup, bool member,
	struct wire_answer *answer);
void lookup_put_groups(const struct lookup_user *user, const struct wire_lookup *lookup,
	bool member, struct wire_answer *answer);

#endif
