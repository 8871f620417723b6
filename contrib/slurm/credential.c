/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/credential.h"

#include <string.h>

#include "contrib/slurm/auth.h"
#include "stepd/base/munge_client.h"

#define GROUPS_MAX 65536u

static int check_claims(const struct slurm_launch *l, struct err *err)
{
	if ((l->claimed_uid != SLURM_NO_VAL && l->claimed_uid != l->uid) ||
		(l->claimed_gid != SLURM_NO_VAL && l->claimed_gid != l->gid))
		return err_set_text(err, -EACCES,
			"the message claims uid %u and gid %u, and the job's credential is for "
			"uid %u and gid %u",
			l->claimed_uid, l->claimed_gid, l->uid, l->gid);
	return 0;
}

/* What it says beside the body. Its signature slurmd has checked: token.h. */
static int check_token(const struct slurm_launch *l, const struct slurm_auth *auth, struct err *err)
{
	if (slurm_auth_munge(auth))
		return err_set_text(err, -EACCES, "the job's credential is a token");
	if (l->token_uid != l->uid || l->token_gid != l->gid)
		return err_set_text(err, -EACCES,
			"the job's token is for uid %u and gid %u, and its credential for uid %u and "
			"gid %u",
			l->token_uid, l->token_gid, l->uid, l->gid);
	return 0;
}

int credential_check(const struct slurm_launch *launch, const struct slurm_auth *auth,
	uid_t slurm_user, struct err *err)
{
	const struct slurm_array *signature = &launch->cred_signature;
	_cleanup_free_ void *signed_bytes = NULL;
	size_t size;
	uid_t uid;
	int r = check_claims(launch, err);

	/* slurmctld signs neither that of a script nor that of an extern step: slurmd takes these
	 * messages from nobody else. */
	if (r < 0 ||
		(signature->n == 0 &&
			(launch->kind == SLURM_KIND_BATCH || launch->kind == SLURM_KIND_EXTERN)))
		return r;
	if (signature->n == 0 ||
		memchr(signature->bytes, '\0', signature->n) != signature->bytes + signature->n - 1)
		return err_set_text(err, -EACCES, "the job's credential has no signature");
	if (launch->has_token)
		return check_token(launch, auth, err);
	if (!slurm_auth_munge(auth))
		return err_set_text(err, -EACCES, "the job's credential is no token");
	/* slurmd has decoded it just now. */
	r = munge_client_decode(slurm_auth_munge(auth), (const char *)signature->bytes, true,
		&signed_bytes, &size, &uid, err);
	if (r < 0)
		return err_prefix(err, "the job's credential");
	if (uid != 0 && uid != slurm_user)
		return err_set_text(
			err, -EACCES, "the job's credential is signed by uid %u", (unsigned)uid);
	if (size != launch->cred_body.n || memcmp(signed_bytes, launch->cred_body.bytes, size) != 0)
		return err_set_text(
			err, -EACCES, "the job's credential is not the one that was signed");
	return 0;
}

static int compare_groups(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

int credential_groups(const struct slurm_launch *launch, uint32_t **ret_groups, uint32_t *ret_count,
	struct err *err)
{
	const struct slurm_array *given = launch->cred_gids.n ? &launch->cred_gids : &launch->gids;
	_cleanup_free_ uint32_t *groups = NULL;
	uint32_t i, n = 0;

	if (given->n > GROUPS_MAX)
		return err_set_text(err, -E2BIG, "the user has %u groups", given->n);
	groups = calloc(given->n + 1, sizeof(*groups));
	if (!groups)
		return err_set(err, -ENOMEM, "read the user's groups");
	for (i = 0; i < given->n; i++)
		groups[i] = slurm_array_u32(given, i);
	qsort(groups, given->n, sizeof(*groups), compare_groups);
	for (i = 0; i < given->n; i++) {
		if (i == 0 || groups[i] != groups[n - 1])
			groups[n++] = groups[i];
	}
	*ret_groups = take_ptr(groups);
	*ret_count = n;
	return 0;
}

int credential_user(
	const struct slurm_launch *launch, struct lookup_user *ret_user, struct err *err)
{
	const struct slurm_array *gids = &launch->cred_gids;
	struct slurm_strs names = launch->group_names;
	struct lookup_user user = {.name = launch->user,
		.password = launch->cred_release >= SLURM_24_05 ? "*" : NULL,
		.gecos = launch->gecos,
		.home = launch->home,
		.shell = launch->shell,
		.uid = launch->uid,
		.gid = launch->gid};
	bool failed = false;
	uint32_t i;

	if (names.n == gids->n && names.n <= GROUPS_MAX && names.n > 0) {
		user.gids = calloc(names.n, sizeof(*user.gids));
		failed = !user.gids;
		for (i = 0; !failed && i < gids->n; i++) {
			user.gids[i] = slurm_array_u32(gids, i);
			failed = strv_add(&user.group_names, slurm_strs_next(&names)) < 0;
		}
	}
	if (failed) {
		lookup_user_clear(&user);
		return err_set(err, -ENOMEM, "read the names of the user's groups");
	}
	*ret_user = user;
	return 0;
}
