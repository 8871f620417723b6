/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/munge.h"

#include "config.h"

#ifdef HAVE_LIBMUNGE

#include <munge.h>
#include <stddef.h>

#include "stepd/base/dynlib.h"

struct slurm_munge {
	void *handle;
	munge_ctx_t ctx;
	__typeof__(&munge_encode) encode;
	__typeof__(&munge_decode) decode;
	__typeof__(&munge_strerror) strerror;
	__typeof__(&munge_ctx_create) ctx_create;
	__typeof__(&munge_ctx_destroy) ctx_destroy;
	__typeof__(&munge_ctx_strerror) ctx_strerror;
	__typeof__(&munge_ctx_set) ctx_set;
};

static const struct dynlib_symbol munge_symbols[] = {
	{"munge_encode", offsetof(struct slurm_munge, encode)},
	{"munge_decode", offsetof(struct slurm_munge, decode)},
	{"munge_strerror", offsetof(struct slurm_munge, strerror)},
	{"munge_ctx_create", offsetof(struct slurm_munge, ctx_create)},
	{"munge_ctx_destroy", offsetof(struct slurm_munge, ctx_destroy)},
	{"munge_ctx_strerror", offsetof(struct slurm_munge, ctx_strerror)},
	{"munge_ctx_set", offsetof(struct slurm_munge, ctx_set)},
};

struct slurm_munge *slurm_munge_close(struct slurm_munge *munge)
{
	if (!munge)
		return NULL;
	if (munge->ctx)
		munge->ctx_destroy(munge->ctx);
	if (munge->handle)
		(void)dynlib_close(munge->handle);
	free(munge);
	return NULL;
}

int slurm_munge_open(const char *socket, struct slurm_munge **ret_munge, struct err *err)
{
	_cleanup_(slurm_munge_close_p) struct slurm_munge *munge = calloc(1, sizeof(*munge));

	if (!munge)
		return err_set(err, -ENOMEM, "load %s", LIBMUNGE_SONAME);
	munge->handle =
		dynlib_open(LIBMUNGE_SONAME, munge_symbols, ARRAY_SIZE(munge_symbols), munge);
	if (!munge->handle)
		return err_set_text(
			err, -EOPNOTSUPP, "%s can't be loaded: install it", LIBMUNGE_SONAME);
	munge->ctx = munge->ctx_create();
	if (!munge->ctx ||
		(socket && munge->ctx_set(munge->ctx, MUNGE_OPT_SOCKET, socket) != EMUNGE_SUCCESS))
		return err_set(err, -ENOMEM, "use munge");
	*ret_munge = take_ptr(munge);
	return 0;
}

static int munge_fail(
	const struct slurm_munge *munge, munge_err_t code, const char *what, struct err *err)
{
	const char *why = munge->ctx_strerror(munge->ctx);

	return err_set_text(err, -EACCES, "munge can't %s a credential: %s", what,
		why ? why : munge->strerror(code));
}

int slurm_munge_encode(const struct slurm_munge *munge, uid_t reader, const void *data, size_t size,
	char **ret_credential, struct err *err)
{
	munge_err_t code = munge->ctx_set(munge->ctx, MUNGE_OPT_UID_RESTRICTION, reader);

	if (code == EMUNGE_SUCCESS)
		code = munge->encode(ret_credential, munge->ctx, data, (int)size);
	return code == EMUNGE_SUCCESS ? 0 : munge_fail(munge, code, "make", err);
}

int slurm_munge_decode(const struct slurm_munge *munge, const char *credential, void **ret_data,
	size_t *ret_size, uid_t *ret_uid, struct err *err)
{
	_cleanup_free_ void *data = NULL;
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	int size = 0;
	munge_err_t code = munge->decode(credential, munge->ctx, &data, &size, &uid, &gid);

	if (code != EMUNGE_SUCCESS && code != EMUNGE_CRED_REPLAYED && code != EMUNGE_CRED_EXPIRED)
		return munge_fail(munge, code, "read", err);
	*ret_data = take_ptr(data);
	*ret_size = (size_t)size;
	*ret_uid = uid;
	return 0;
}

#else

struct slurm_munge *slurm_munge_close(_unused_ struct slurm_munge *munge)
{
	return NULL;
}

int slurm_munge_open(
	_unused_ const char *socket, _unused_ struct slurm_munge **ret_munge, struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "stepd was built without munge");
}

int slurm_munge_encode(_unused_ const struct slurm_munge *munge, _unused_ uid_t reader,
	_unused_ const void *data, _unused_ size_t size, _unused_ char **ret_credential,
	struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "stepd was built without munge");
}

int slurm_munge_decode(_unused_ const struct slurm_munge *munge, _unused_ const char *credential,
	_unused_ void **ret_data, _unused_ size_t *ret_size, _unused_ uid_t *ret_uid,
	struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "stepd was built without munge");
}

#endif
