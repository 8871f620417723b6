/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/auth.h"

#include <assert.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>

#include "config.h"
#include "mpi/wire/frame.h"
#include "stepd/base/dynlib.h"
#include "stepd/base/munge_client.h"

/* ---- nettle --------------------------------------------------------------------------------- */

/* Loaded when it is needed, for a step of one node has no edges, and what its MPI plugin and
 * service process pay for relocating a third of their symbols is 5 % of such a step. */
struct nettle_lib {
	void *handle;
	__typeof__(&hmac_sha256_set_key) hmac_set_key;
	__typeof__(&hmac_sha256_update) hmac_update;
	__typeof__(&hmac_sha256_digest) hmac_digest;
	__typeof__(&memeql_sec) is_equal;
	__typeof__(&gcm_aes256_set_key) gcm_set_key;
	__typeof__(&gcm_aes256_set_iv) gcm_set_iv;
	__typeof__(&gcm_aes256_update) gcm_update;
	__typeof__(&gcm_aes256_encrypt) gcm_encrypt;
	__typeof__(&gcm_aes256_decrypt) gcm_decrypt;
	__typeof__(&gcm_aes256_digest) gcm_digest;
};

/* nettle's headers give its functions other names by macros, which are to be replaced here. */
#define NAME(symbol)  NAME_(symbol)
#define NAME_(symbol) #symbol
#define ROW(member, symbol)                                                                        \
	{                                                                                          \
		NAME(symbol), offsetof(struct nettle_lib, member)                                  \
	}

static const struct dynlib_symbol nettle_symbols[] = {
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

/* NULL: err has why. */
static struct nettle_lib *nettle_open(struct err *err)
{
	struct nettle_lib *lib = calloc(1, sizeof(*lib));

	if (!lib) {
		(void)err_set(err, -ENOMEM, "load %s", LIBNETTLE_SONAME);
		return NULL;
	}
	lib->handle =
		dynlib_open(LIBNETTLE_SONAME, nettle_symbols, ARRAY_SIZE(nettle_symbols), lib);
	if (!lib->handle) {
		free(lib);
		(void)err_set_text(err, -EOPNOTSUPP,
			"%s can't be loaded (install it, or choose another way for nodes to"
			" authenticate)",
			LIBNETTLE_SONAME);
		return NULL;
	}
	return lib;
}

static void nettle_close(struct nettle_lib *lib)
{
	if (lib)
		(void)dynlib_close(lib->handle);
	free(lib);
}

/* ---- munge ---------------------------------------------------------------------------------- */

static int munge_open(struct wire_auth *auth, const char *socket, struct err *err)
{
	int r = munge_client_open(socket, &auth->munge, err);

	if (r == -EOPNOTSUPP)
		(void)err_prefix(err, "nodes can't authenticate by munge (secret is another way)");
	return r;
}

/* Exactly size bytes, of this process's user. */
static int munge_read(const struct wire_auth *auth, const char *credential, void *data, size_t size,
	struct err *err)
{
	void *got = NULL;
	size_t got_size = 0;
	uid_t uid = (uid_t)-1;
	int r = munge_client_decode(auth->munge, credential, false, &got, &got_size, &uid, err);

	if (r < 0)
		return r;
	if (uid != geteuid())
		r = err_set_text(err, -EACCES, "it is a process of user %u and not of user %u", uid,
			geteuid());
	else if (got_size != size)
		r = err_set_text(err, -EACCES, "its credential was made for another purpose");
	else
		memcpy(data, got, size);
	if (got)
		explicit_bzero(got, got_size);
	free(got);
	return r;
}

static const char *const kind_names[WIRE_AUTH_MAX] = {
	[WIRE_AUTH_NONE] = "none", [WIRE_AUTH_SECRET] = "secret", [WIRE_AUTH_MUNGE] = "munge"};

#define SECRET_LEAST 16u /* bytes */

const char *wire_auth_name(unsigned kind)
{
	return kind < WIRE_AUTH_MAX ? kind_names[kind] : "unknown";
}

int wire_auth_init(struct wire_auth *auth, const char *method, const void *secret,
	size_t secret_size, struct err *err)
{
	int r;

	*auth = (struct wire_auth){.kind = WIRE_AUTH_NONE};
	if (method && strcmp(method, "none") == 0)
		return 0;
	if (method && strcmp(method, "secret") == 0) {
		if (!secret || secret_size < SECRET_LEAST)
			return err_set_text(err, -EINVAL,
				"the secret between the nodes has %zu bytes: give it at least %u",
				secret ? secret_size : 0, SECRET_LEAST);
		auth->kind = WIRE_AUTH_SECRET;
		auth->secret = secret;
		auth->secret_size = secret_size;
	} else if (method && strncmp(method, "munge", 5) == 0 && (!method[5] || method[5] == ':')) {
		auth->kind = WIRE_AUTH_MUNGE;
		r = munge_open(auth, method[5] ? method + 6 : NULL, err);
		if (r < 0)
			return r;
	} else {
		return err_set_text(err, -EINVAL,
			"nodes can't authenticate by '%s': it is secret, munge or none",
			method ? method : "");
	}
	auth->nettle = nettle_open(err);
	return auth->nettle ? 0 : err->code;
}

void wire_auth_clear(struct wire_auth *auth)
{
	nettle_close(auth->nettle);
	(void)munge_client_close(auth->munge);
	*auth = (struct wire_auth){.kind = WIRE_AUTH_NONE};
}

int wire_auth_random(unsigned char *bytes, size_t size, struct err *err)
{
	return getrandom(bytes, size, 0) == (ssize_t)size
		? 0
		: err_set(err, -errno, "random bytes of the kernel");
}

/* ---- proofs --------------------------------------------------------------------------------- */

#define STATEMENT_SIZE (16u + 8u + 4u + 4u + 2u * WIRE_NONCE_SIZE)

/* The proof covers the purpose and all that both ends have sent. */
static void make_statement(const struct wire_handshake *handshake, const char *purpose,
	unsigned char statement[STATEMENT_SIZE])
{
	memset(statement, 0, 16);
	memcpy(statement, purpose, strnlen(purpose, 16));
	wire_put_u64(statement + 16, handshake->step);
	wire_put_u32(statement + 24, handshake->child);
	wire_put_u32(statement + 28, handshake->parent);
	memcpy(statement + 32, handshake->nonce, sizeof(handshake->nonce));
}

struct key {
	const void *data;
	size_t size;
};

static void hmac(const struct nettle_lib *nettle, struct key key,
	const unsigned char statement[STATEMENT_SIZE], unsigned char digest[SHA256_DIGEST_SIZE])
{
	struct hmac_sha256_ctx ctx;

	nettle->hmac_set_key(&ctx, key.size, key.data);
	nettle->hmac_update(&ctx, STATEMENT_SIZE, statement);
	nettle->hmac_digest(&ctx, SHA256_DIGEST_SIZE, digest);
	explicit_bzero(&ctx, sizeof(ctx));
}

static const char *const purposes[WIRE_ROLE_MAX] = {
	[WIRE_ROLE_CHILD] = "stepd child", [WIRE_ROLE_PARENT] = "stepd parent"};
static const char *const key_purposes[WIRE_ROLE_MAX] = {
	[WIRE_ROLE_CHILD] = "stepd key up", [WIRE_ROLE_PARENT] = "stepd key down"};

static int prove_munge(const struct wire_auth *auth, struct wire_handshake *handshake,
	enum wire_role role, unsigned char *proof, size_t *ret_size, struct err *err)
{
	unsigned char statement[STATEMENT_SIZE + WIRE_KEY_SIZE];
	_cleanup_free_ char *credential = NULL;
	int r = wire_auth_random(handshake->key[role], WIRE_KEY_SIZE, err);

	if (r < 0)
		return r;
	make_statement(handshake, purposes[role], statement);
	memcpy(statement + STATEMENT_SIZE, handshake->key[role], WIRE_KEY_SIZE);
	r = munge_client_encode(
		auth->munge, geteuid(), statement, sizeof(statement), &credential, err);
	explicit_bzero(statement, sizeof(statement));
	if (r < 0)
		return r;
	if (strlen(credential) >= WIRE_PROOF_MAX)
		return err_set_text(
			err, -EMSGSIZE, "a credential of munge has %zu bytes", strlen(credential));
	*ret_size = strlen(credential);
	memcpy(proof, credential, *ret_size);
	return 0;
}

int wire_auth_prove(const struct wire_auth *auth, struct wire_handshake *handshake,
	enum wire_role role, unsigned char *proof, size_t *ret_size, struct err *err)
{
	unsigned char statement[STATEMENT_SIZE];

	*ret_size = 0;
	if (auth->kind == WIRE_AUTH_NONE)
		return 0;
	if (auth->kind == WIRE_AUTH_MUNGE)
		return prove_munge(auth, handshake, role, proof, ret_size, err);
	make_statement(handshake, purposes[role], statement);
	hmac(auth->nettle, (struct key){auth->secret, auth->secret_size}, statement, proof);
	*ret_size = SHA256_DIGEST_SIZE;
	return 0;
}

static int check_munge(const struct wire_auth *auth, struct wire_handshake *handshake,
	enum wire_role role, const unsigned char *proof, size_t size, struct err *err)
{
	unsigned char statement[STATEMENT_SIZE], got[STATEMENT_SIZE + WIRE_KEY_SIZE];
	char credential[WIRE_PROOF_MAX + 1];
	int r;

	memcpy(credential, proof, size);
	credential[size] = '\0';
	make_statement(handshake, purposes[role], statement);
	r = munge_read(auth, credential, got, sizeof(got), err);
	if (r == 0 && memcmp(statement, got, sizeof(statement)) != 0)
		r = err_set_text(err, -EACCES, "its credential is of another conversation");
	if (r == 0)
		memcpy(handshake->key[role], got + STATEMENT_SIZE, WIRE_KEY_SIZE);
	explicit_bzero(got, sizeof(got));
	return r;
}

int wire_auth_check(const struct wire_auth *auth, struct wire_handshake *handshake,
	enum wire_role role, const unsigned char *proof, size_t size, struct err *err)
{
	unsigned char statement[STATEMENT_SIZE], right[SHA256_DIGEST_SIZE];

	if (size > WIRE_PROOF_MAX)
		return err_set_text(err, -EACCES, "its proof has %zu bytes", size);
	if (auth->kind == WIRE_AUTH_NONE)
		return 0;
	if (auth->kind == WIRE_AUTH_MUNGE)
		return check_munge(auth, handshake, role, proof, size, err);
	make_statement(handshake, purposes[role], statement);
	hmac(auth->nettle, (struct key){auth->secret, auth->secret_size}, statement, right);
	if (size != sizeof(right) || !auth->nettle->is_equal(right, proof, sizeof(right)))
		return err_set_text(err, -EACCES, "it does not have the secret of this step");
	return 0;
}

void wire_auth_key(const struct wire_auth *auth, const struct wire_handshake *handshake,
	enum wire_role role, struct wire_cipher *ret_cipher)
{
	unsigned char statement[STATEMENT_SIZE], key[SHA256_DIGEST_SIZE];
	struct key from = {auth->secret, auth->secret_size};

	static_assert(sizeof(key) == AES256_KEY_SIZE, "the HMAC is the key");

	make_statement(handshake, key_purposes[role], statement);
	if (auth->kind == WIRE_AUTH_MUNGE)
		from = (struct key){handshake->key, sizeof(handshake->key)};
	hmac(auth->nettle, from, statement, key);
	ret_cipher->nettle = auth->nettle;
	auth->nettle->gcm_set_key(&ret_cipher->gcm, key);
	explicit_bzero(key, sizeof(key));
}

/* ---- frames --------------------------------------------------------------------------------- */

static void cipher_begin(struct wire_cipher *cipher, const struct wire_sealed *frame)
{
	unsigned char nonce[GCM_IV_SIZE] = {0};

	wire_put_u64(nonce + GCM_IV_SIZE - 8, frame->counter);
	cipher->nettle->gcm_set_iv(&cipher->gcm, sizeof(nonce), nonce);
	cipher->nettle->gcm_update(&cipher->gcm, WIRE_HEADER_SIZE, frame->header);
}

void wire_seal(struct wire_cipher *cipher, const struct wire_sealed *frame)
{
	cipher_begin(cipher, frame);
	cipher->nettle->gcm_encrypt(&cipher->gcm, frame->size, frame->data, frame->data);
	cipher->nettle->gcm_digest(&cipher->gcm, WIRE_TAG_SIZE, frame->data + frame->size);
}

int wire_unseal(struct wire_cipher *cipher, const struct wire_sealed *frame)
{
	unsigned char tag[WIRE_TAG_SIZE];

	cipher_begin(cipher, frame);
	cipher->nettle->gcm_decrypt(&cipher->gcm, frame->size, frame->data, frame->data);
	cipher->nettle->gcm_digest(&cipher->gcm, sizeof(tag), tag);
	return cipher->nettle->is_equal(tag, frame->data + frame->size, sizeof(tag)) ? 0 : -EBADMSG;
}
