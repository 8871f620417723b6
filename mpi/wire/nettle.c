/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/auth.h"

#include "config.h"
#include "stepd/base/dynlib.h"

/* nettle's headers give its functions other names by macros, which are to be replaced here. */
#define NAME(symbol)  NAME_(symbol)
#define NAME_(symbol) #symbol
#define ROW(member, symbol)                                                                        \
	{                                                                                          \
		NAME(symbol), offsetof(struct nettle_lib, member)                                  \
	}

static const struct dynlib_symbol symbols[] = {
	ROW(hmac_set_key, hmac_sha256_set_key),
	ROW(hmac_update, hmac_sha256_update),
	ROW(hmac_digest, hmac_sha256_digest),
	ROW(is_equal, memeql_sec),
	ROW(gcm_set_key, gcm_aes256_set_key),
	ROW(gcm_set_iv, gcm_aes256_set_iv),
	ROW(gcm_update, gcm_aes256_update),
	ROW(gcm_encrypt, gcm_aes256_encrypt),
	ROW(gcm_decrypt, gcm_aes256_decrypt),
	ROW(gcm_digest, gcm_aes256_digest),
};

int wire_nettle_open(struct nettle_lib **ret_lib, struct err *err)
{
	struct nettle_lib *lib = calloc(1, sizeof(*lib));

	if (!lib)
		return err_set(err, -ENOMEM, "nettle");
	lib->handle = dynlib_open(LIBNETTLE_SONAME, symbols, ARRAY_SIZE(symbols), lib);
	if (!lib->handle) {
		free(lib);
		return err_say(err, -EOPNOTSUPP,
			"%s can't be loaded, by which nodes authenticate each other (install it)",
			LIBNETTLE_SONAME);
	}
	*ret_lib = lib;
	return 0;
}

struct nettle_lib *wire_nettle_close(struct nettle_lib *lib)
{
	if (lib)
		(void)dynlib_close(lib->handle);
	free(lib);
	return NULL;
}
