/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/auth.h"

#include <stdlib.h>

#include "contrib/slurm/sack.h"
#include "contrib/slurm/site_conf.h"
#include "contrib/slurm/token.h"
#include "stepd/base/munge_client.h"

#define PLUGIN_MUNGE 101u
#define PLUGIN_SLURM 103u

struct slurm_auth {
	struct munge_client *munge; /* NULL: tokens */
	struct sack sack;
};

int slurm_auth_open(const struct site_conf *site, uint16_t release, struct slurm_auth **ret_auth,
	struct err *err)
{
	struct slurm_auth *auth = calloc(1, sizeof(*auth));
	int r = 0;

	if (!auth)
		return err_set(err, -ENOMEM, "authenticate to Slurm");
	auth->sack = (struct sack){
		.release = release, .slurm_user = site->slurm_user, .cluster = site->cluster};
	if (!site->uses_tokens)
		r = munge_client_open(site->munge_socket, &auth->munge, err);
	if (r < 0)
		auth = slurm_auth_close(auth);
	*ret_auth = auth;
	return r;
}

struct slurm_auth *slurm_auth_close(struct slurm_auth *auth)
{
	if (!auth)
		return NULL;
	auth->munge = munge_client_close(auth->munge);
	free(auth);
	return NULL;
}

uint32_t slurm_auth_plugin(const struct slurm_auth *auth)
{
	return auth->munge ? PLUGIN_MUNGE : PLUGIN_SLURM;
}

int slurm_auth_encode(const struct slurm_auth *auth, uid_t reader, const void *data, size_t size,
	char **ret_text, struct err *err)
{
	return auth->munge ? munge_client_encode(auth->munge, reader, data, size, ret_text, err)
			   : sack_make_token(&auth->sack, reader, data, size, ret_text, err);
}

static int check_munge(
	const struct munge_client *munge, const char *text, uid_t *ret_uid, struct err *err)
{
	_cleanup_free_ void *data = NULL;
	size_t size;
	int r = munge_client_decode(munge, text, false, &data, &size, ret_uid, err);

	return r == 0 && size > 0 ? err_set_text(err, -EBADMSG, "a credential has bytes") : r;
}

int slurm_auth_check(
	const struct slurm_auth *auth, const char *text, uid_t *ret_uid, struct err *err)
{
	struct slurm_token token = {0};
	int r;

	if (auth->munge)
		return check_munge(auth->munge, text, ret_uid, err);
	r = sack_check_token(&auth->sack, text, err);
	if (r < 0)
		return r;
	r = slurm_token_read_message(text, &token);
	*ret_uid = token.uid;
	return r < 0 ? err_set(err, r, "read a token") : 0;
}

const struct munge_client *slurm_auth_munge(const struct slurm_auth *auth)
{
	return auth->munge;
}
