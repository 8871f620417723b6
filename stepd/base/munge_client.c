/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/base/munge_client.h"

#include "config.h"

#ifdef HAVE_LIBMUNGE

#include <munge.h>
#include <stddef.h>
#include <string.h>

#include "stepd/base/dynlib.h"

struct munge_client {
	void *handle;
	char *socket; /* NULL: the usual one */
	__typeof__(&munge_encode) encode;
	__typeof__(&munge_decode) decode;
	__typeof__(&munge_strerror) strerror;
	__typeof__(&munge_ctx_create) ctx_create;
	__typeof__(&munge_ctx_destroy) ctx_destroy;
	__typeof__(&munge_ctx_strerror) ctx_strerror;
	__typeof__(&munge_ctx_set) ctx_set;
};

static const struct dynlib_symbol munge_symbols[] = {
	{"munge_encode", offsetof(struct munge_client, encode)},
	{"munge_decode", offsetof(struct munge_client, decode)},
	{"munge_strerror", offsetof(struct munge_client, strerror)},
	{"munge_ctx_create", offsetof(struct munge_client, ctx_create)},
	{"munge_ctx_destroy", offsetof(struct munge_client, ctx_destroy)},
	{"munge_ctx_strerror", offsetof(struct munge_client, ctx_strerror)},
	{"munge_ctx_set", offsetof(struct munge_client, ctx_set)},
};

struct munge_client *munge_client_close(struct munge_client *munge)
{
	if (!munge)
		return NULL;
	if (munge->handle)
		(void)dynlib_close(munge->handle);
	free(munge->socket);
	free(munge);
	return NULL;
}

int munge_client_open(const char *socket, struct munge_client **ret_munge, struct err *err)
{
	_cleanup_(munge_client_close_p) struct munge_client *munge = calloc(1, sizeof(*munge));

	if (munge && socket)
		munge->socket = strdup(socket);
	if (!munge || (socket && !munge->socket))
		return err_set(err, -ENOMEM, "load %s", LIBMUNGE_SONAME);
	munge->handle =
		dynlib_open(LIBMUNGE_SONAME, munge_symbols, ARRAY_SIZE(munge_symbols), munge);
	if (!munge->handle)
		return err_set_text(
			err, -EOPNOTSUPP, "%s can't be loaded: install it", LIBMUNGE_SONAME);
	*ret_munge = take_ptr(munge);
	return 0;
}

/* One for each call: decoding leaves the options of the credential, which are its maker's choice,
 * in the context. */
static int munge_make_ctx(const struct munge_client *munge, munge_ctx_t *ret_ctx, struct err *err)
{
	munge_ctx_t ctx = munge->ctx_create();

	if (ctx && munge->socket &&
		munge->ctx_set(ctx, MUNGE_OPT_SOCKET, munge->socket) != EMUNGE_SUCCESS) {
		munge->ctx_destroy(ctx);
		ctx = NULL;
	}
	*ret_ctx = ctx;
	return ctx ? 0 : err_set(err, -ENOMEM, "use munge");
}

static int munge_fail(const struct munge_client *munge, munge_ctx_t ctx, munge_err_t code,
	const char *what, struct err *err)
{
	const char *why = munge->ctx_strerror(ctx);

	return err_set_text(err, -EACCES, "munge can't %s a credential: %s", what,
		why ? why : munge->strerror(code));
}

int munge_client_encode(const struct munge_client *munge, uid_t reader, const void *data,
	size_t size, char **ret_credential, struct err *err)
{
	munge_ctx_t ctx;
	munge_err_t code;
	int r = munge_make_ctx(munge, &ctx, err);

	if (r < 0)
		return r;
	code = munge->ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, reader);
	if (code == EMUNGE_SUCCESS)
		code = munge->encode(ret_credential, ctx, data, (int)size);
	r = code == EMUNGE_SUCCESS ? 0 : munge_fail(munge, ctx, code, "make", err);
	munge->ctx_destroy(ctx);
	return r;
}

int munge_client_decode(const struct munge_client *munge, const char *credential, bool again,
	void **ret_data, size_t *ret_size, uid_t *ret_uid, struct err *err)
{
	_cleanup_free_ void *data = NULL;
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	munge_ctx_t ctx;
	munge_err_t code;
	int size = 0, r = munge_make_ctx(munge, &ctx, err);

	if (r < 0)
		return r;
	code = munge->decode(credential, ctx, &data, &size, &uid, &gid);
	if (code != EMUNGE_SUCCESS &&
		!(again && (code == EMUNGE_CRED_REPLAYED || code == EMUNGE_CRED_EXPIRED)))
		r = munge_fail(munge, ctx, code, "read", err);
	munge->ctx_destroy(ctx);
	if (r < 0) {
		if (data) /* it may be a key, of a credential that was decoded before */
			explicit_bzero(data, (size_t)size);
		return r;
	}
	*ret_data = take_ptr(data);
	*ret_size = (size_t)size;
	*ret_uid = uid;
	return 0;
}

#else

struct munge_client *munge_client_close(_unused_ struct munge_client *munge)
{
	return NULL;
}

int munge_client_open(
	_unused_ const char *socket, _unused_ struct munge_client **ret_munge, struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "stepd was built without munge");
}

int munge_client_encode(_unused_ const struct munge_client *munge, _unused_ uid_t reader,
	_unused_ const void *data, _unused_ size_t size, _unused_ char **ret_credential,
	struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "stepd was built without munge");
}

int munge_client_decode(_unused_ const struct munge_client *munge, _unused_ const char *credential,
	_unused_ bool again, _unused_ void **ret_data, _unused_ size_t *ret_size,
	_unused_ uid_t *ret_uid, struct err *err)
{
	return err_set_text(err, -EOPNOTSUPP, "stepd was built without munge");
}

#endif
