/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/auth.h"

#include <string.h>

#include "config.h"

#ifdef HAVE_LIBMUNGE

#include <munge.h>

#include "stepd/base/dynlib.h"

struct munge_lib {
	void *handle;
	__typeof__(&munge_encode) encode;
	__typeof__(&munge_decode) decode;
	__typeof__(&munge_strerror) strerror;
	__typeof__(&munge_ctx_create) ctx_create;
	__typeof__(&munge_ctx_destroy) ctx_destroy;
	__typeof__(&munge_ctx_strerror) ctx_strerror;
	__typeof__(&munge_ctx_set) ctx_set;
};

static const struct dynlib_symbol symbols[] = {
	{"munge_encode", offsetof(struct munge_lib, encode)},
	{"munge_decode", offsetof(struct munge_lib, decode)},
	{"munge_strerror", offsetof(struct munge_lib, strerror)},
	{"munge_ctx_create", offsetof(struct munge_lib, ctx_create)},
	{"munge_ctx_destroy", offsetof(struct munge_lib, ctx_destroy)},
	{"munge_ctx_strerror", offsetof(struct munge_lib, ctx_strerror)},
	{"munge_ctx_set", offsetof(struct munge_lib, ctx_set)},
};

int wire_munge_open(struct munge_lib **ret_lib, struct err *err)
{
	struct munge_lib *lib = calloc(1, sizeof(*lib));

	if (!lib)
		return err_set(err, -ENOMEM, "munge");
	lib->handle = dynlib_open(LIBMUNGE_SONAME, symbols, ARRAY_SIZE(symbols), lib);
	if (!lib->handle) {
		free(lib);
		return err_say(err, -EOPNOTSUPP,
			"%s can't be loaded (install it, or choose"
			" another way for nodes to authenticate)",
			LIBMUNGE_SONAME);
	}
	*ret_lib = lib;
	return 0;
}

struct munge_lib *wire_munge_close(struct munge_lib *lib)
{
	if (lib)
		(void)dynlib_close(lib->handle);
	free(lib);
	return NULL;
}

static int make_ctx(const struct munge_lib *lib, const char *socket, munge_ctx_t *ret_ctx)
{
	munge_ctx_t ctx = lib->ctx_create();

	if (!ctx)
		return -ENOMEM;
	if (socket && lib->ctx_set(ctx, MUNGE_OPT_SOCKET, socket) != EMUNGE_SUCCESS) {
		lib->ctx_destroy(ctx);
		return -ENOMEM;
	}
	*ret_ctx = ctx;
	return 0;
}

static int fail(const struct munge_lib *lib, munge_ctx_t ctx, munge_err_t code, const char *what,
	struct err *err)
{
	const char *why = lib->ctx_strerror(ctx);

	return err_say(err, -EACCES, "munge can't %s a credential: %s", what,
		why ? why : lib->strerror(code));
}

int wire_munge_encode(const struct munge_lib *lib, const char *socket, const void *data,
	size_t size, char **ret_credential, struct err *err)
{
	munge_ctx_t ctx;
	munge_err_t code;
	int r = make_ctx(lib, socket, &ctx);

	if (r < 0)
		return err_set(err, r, "munge");
	code = lib->ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, geteuid());
	if (code == EMUNGE_SUCCESS)
		code = lib->encode(ret_credential, ctx, data, (int)size);
	r = code == EMUNGE_SUCCESS ? 0 : fail(lib, ctx, code, "make", err);
	lib->ctx_destroy(ctx);
	return r;
}

int wire_munge_decode(const struct munge_lib *lib, const char *socket, const char *credential,
	void *data, size_t size, struct err *err)
{
	void *got = NULL;
	int got_size = 0;
	uid_t uid = (uid_t)-1;
	gid_t gid;
	munge_ctx_t ctx;
	munge_err_t code;
	int r = make_ctx(lib, socket, &ctx);

	if (r < 0)
		return err_set(err, r, "munge");
	code = lib->decode(credential, ctx, &got, &got_size, &uid, &gid);
	if (code != EMUNGE_SUCCESS)
		r = fail(lib, ctx, code, "read", err);
	else if (uid != geteuid())
		r = err_say(err, -EACCES, "it is a process of user %u and not of user %u", uid,
			geteuid());
	else if ((size_t)got_size != size)
		r = err_say(err, -EACCES, "its credential is of something else");
	else
		memcpy(data, got, size);
	if (got)
		explicit_bzero(got, (size_t)got_size);
	free(got);
	lib->ctx_destroy(ctx);
	return r;
}

#else

int wire_munge_open(struct munge_lib **ret_lib, struct err *err)
{
	(void)ret_lib;
	return err_say(err, -EOPNOTSUPP,
		"this stepd was built without munge: choose another way for nodes to authenticate");
}

struct munge_lib *wire_munge_close(struct munge_lib *lib)
{
	(void)lib;
	return NULL;
}

int wire_munge_encode(const struct munge_lib *lib, const char *socket, const void *data,
	size_t size, char **ret_credential, struct err *err)
{
	(void)lib;
	(void)socket;
	(void)data;
	(void)size;
	(void)ret_credential;
	return err_set(err, -EOPNOTSUPP, "munge");
}

int wire_munge_decode(const struct munge_lib *lib, const char *socket, const char *credential,
	void *data, size_t size, struct err *err)
{
	(void)lib;
	(void)socket;
	(void)credential;
	(void)data;
	(void)size;
	return err_set(err, -EOPNOTSUPP, "munge");
}

#endif
