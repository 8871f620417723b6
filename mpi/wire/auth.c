/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/wire/auth.h"

#include <assert.h>
#include <string.h>
#include <sys/random.h>

#include "mpi/wire/frame.h"

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
			return err_say(err, -EINVAL,
				"the secret between the nodes has %zu bytes: give it at least %u",
				secret ? secret_size : 0, SECRET_LEAST);
		auth->kind = WIRE_AUTH_SECRET;
		auth->secret = secret;
		auth->secret_size = secret_size;
		return wire_nettle_open(&auth->nettle, err);
	}
	if (!method || strncmp(method, "munge", 5) != 0 || (method[5] && method[5] != ':'))
		return err_say(err, -EINVAL,
			"nodes can't authenticate by '%s': it is secret, munge or none",
			method ? method : "");
	auth->kind = WIRE_AUTH_MUNGE;
	auth->munge_socket = method[5] ? method + 6 : NULL;
	r = wire_munge_open(&auth->munge, err);
	return r < 0 ? r : wire_nettle_open(&auth->nettle, err);
}

void wire_auth_clear(struct wire_auth *auth)
{
	auth->nettle = wire_nettle_close(auth->nettle);
	auth->munge = wire_munge_close(auth->munge);
}

int wire_auth_random(unsigned char *bytes, size_t size, struct err *err)
{
	return getrandom(bytes, size, 0) == (ssize_t)size
		? 0
		: err_set(err, -errno, "random bytes of the kernel");
}

/* ---- proofs --------------------------------------------------------------------------------- */

#define WORDS_SIZE (16u + 8u + 4u + 4u + 2u * WIRE_NONCE_SIZE)

/* What is proved: the purpose, and all that both ends have said. */
static void make_words(
	const struct wire_talk *talk, const char *purpose, unsigned char words[WORDS_SIZE])
{
	memset(words, 0, 16);
	memcpy(words, purpose, strnlen(purpose, 16));
	wire_put_u64(words + 16, talk->step);
	wire_put_u32(words + 24, talk->child);
	wire_put_u32(words + 28, talk->parent);
	memcpy(words + 32, talk->nonce, sizeof(talk->nonce));
}

struct key {
	const void *data;
	size_t size;
};

static void hmac(const struct nettle_lib *nettle, struct key key,
	const unsigned char words[WORDS_SIZE], unsigned char digest[SHA256_DIGEST_SIZE])
{
	struct hmac_sha256_ctx ctx;

	nettle->hmac_set_key(&ctx, key.size, key.data);
	nettle->hmac_update(&ctx, WORDS_SIZE, words);
	nettle->hmac_digest(&ctx, SHA256_DIGEST_SIZE, digest);
	explicit_bzero(&ctx, sizeof(ctx));
}

static const char *const purposes[WIRE_ROLE_MAX] = {
	[WIRE_ROLE_CHILD] = "stepd child", [WIRE_ROLE_PARENT] = "stepd parent"};
static const char *const key_purposes[WIRE_ROLE_MAX] = {
	[WIRE_ROLE_CHILD] = "stepd key up", [WIRE_ROLE_PARENT] = "stepd key down"};

static int prove_munge(const struct wire_auth *auth, struct wire_talk *talk, enum wire_role role,
	unsigned char *proof, size_t *ret_size, struct err *err)
{
	unsigned char words[WORDS_SIZE + WIRE_KEY_SIZE];
	_cleanup_free_ char *credential = NULL;
	int r = wire_auth_random(talk->key[role], WIRE_KEY_SIZE, err);

	if (r < 0)
		return r;
	make_words(talk, purposes[role], words);
	memcpy(words + WORDS_SIZE, talk->key[role], WIRE_KEY_SIZE);
	r = wire_munge_encode(
		auth->munge, auth->munge_socket, words, sizeof(words), &credential, err);
	explicit_bzero(words, sizeof(words));
	if (r < 0)
		return r;
	if (strlen(credential) >= WIRE_PROOF_MAX)
		return err_say(
			err, -EMSGSIZE, "a credential of munge has %zu bytes", strlen(credential));
	*ret_size = strlen(credential);
	memcpy(proof, credential, *ret_size);
	return 0;
}

int wire_auth_prove(const struct wire_auth *auth, struct wire_talk *talk, enum wire_role role,
	unsigned char *proof, size_t *ret_size, struct err *err)
{
	unsigned char words[WORDS_SIZE];

	*ret_size = 0;
	if (auth->kind == WIRE_AUTH_NONE)
		return 0;
	if (auth->kind == WIRE_AUTH_MUNGE)
		return prove_munge(auth, talk, role, proof, ret_size, err);
	make_words(talk, purposes[role], words);
	hmac(auth->nettle, (struct key){auth->secret, auth->secret_size}, words, proof);
	*ret_size = SHA256_DIGEST_SIZE;
	return 0;
}

static int check_munge(const struct wire_auth *auth, struct wire_talk *talk, enum wire_role role,
	const unsigned char *proof, size_t size, struct err *err)
{
	unsigned char words[WORDS_SIZE], got[WORDS_SIZE + WIRE_KEY_SIZE];
	char credential[WIRE_PROOF_MAX + 1];
	int r;

	memcpy(credential, proof, size);
	credential[size] = '\0';
	make_words(talk, purposes[role], words);
	r = wire_munge_decode(auth->munge, auth->munge_socket, credential, got, sizeof(got), err);
	if (r == 0 && memcmp(words, got, sizeof(words)) != 0)
		r = err_say(err, -EACCES, "its credential is of another conversation");
	if (r == 0)
		memcpy(talk->key[role], got + WORDS_SIZE, WIRE_KEY_SIZE);
	explicit_bzero(got, sizeof(got));
	return r;
}

int wire_auth_check(const struct wire_auth *auth, struct wire_talk *talk, enum wire_role role,
	const unsigned char *proof, size_t size, struct err *err)
{
	unsigned char words[WORDS_SIZE], right[SHA256_DIGEST_SIZE];

	if (size > WIRE_PROOF_MAX)
		return err_say(err, -EACCES, "its proof has %zu bytes", size);
	if (auth->kind == WIRE_AUTH_NONE)
		return 0;
	if (auth->kind == WIRE_AUTH_MUNGE)
		return check_munge(auth, talk, role, proof, size, err);
	make_words(talk, purposes[role], words);
	hmac(auth->nettle, (struct key){auth->secret, auth->secret_size}, words, right);
	if (size != sizeof(right) || !auth->nettle->is_equal(right, proof, sizeof(right)))
		return err_say(err, -EACCES, "it does not have the secret of this step");
	return 0;
}

void wire_auth_key(const struct wire_auth *auth, const struct wire_talk *talk, enum wire_role role,
	struct wire_cipher *ret_cipher)
{
	unsigned char words[WORDS_SIZE], key[SHA256_DIGEST_SIZE];
	struct key from = {auth->secret, auth->secret_size};

	static_assert(sizeof(key) == AES256_KEY_SIZE, "the HMAC is the key");

	make_words(talk, key_purposes[role], words);
	if (auth->kind == WIRE_AUTH_MUNGE)
		from = (struct key){talk->key, sizeof(talk->key)};
	hmac(auth->nettle, from, words, key);
	ret_cipher->nettle = auth->nettle;
	auth->nettle->gcm_set_key(&ret_cipher->gcm, key);
	explicit_bzero(key, sizeof(key));
}

/* ---- frames --------------------------------------------------------------------------------- */

static void begin(struct wire_cipher *cipher, const struct wire_sealed *frame)
{
	unsigned char nonce[GCM_IV_SIZE] = {0};

	wire_put_u64(nonce + GCM_IV_SIZE - 8, frame->counter);
	cipher->nettle->gcm_set_iv(&cipher->gcm, sizeof(nonce), nonce);
	cipher->nettle->gcm_update(&cipher->gcm, WIRE_HEADER_SIZE, frame->header);
}

void wire_seal(struct wire_cipher *cipher, const struct wire_sealed *frame)
{
	begin(cipher, frame);
	cipher->nettle->gcm_encrypt(&cipher->gcm, frame->size, frame->data, frame->data);
	cipher->nettle->gcm_digest(&cipher->gcm, WIRE_TAG_SIZE, frame->data + frame->size);
}

int wire_unseal(struct wire_cipher *cipher, const struct wire_sealed *frame)
{
	unsigned char tag[WIRE_TAG_SIZE];

	begin(cipher, frame);
	cipher->nettle->gcm_decrypt(&cipher->gcm, frame->size, frame->data, frame->data);
	cipher->nettle->gcm_digest(&cipher->gcm, sizeof(tag), tag);
	return cipher->nettle->is_equal(tag, frame->data + frame->size, sizeof(tag)) ? 0 : -EBADMSG;
}
