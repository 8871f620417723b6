/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Authentication of the other end of an edge. The child connects, and both send a nonce; then the
 * child proves itself, and the parent after it:
 *	secret	an HMAC with the step's secret over the role, the step, both nodes and both nonces
 *	munge	a credential for this user alone, with the same in it and a random key; it is
 *		decoded by a process of the same user only
 *	none	nothing is proved, and frames are neither encrypted nor authenticated: for a network
 *		where no stranger is
 * The key of the edge comes of the secret, or of both random keys, and of the same statement; each
 * direction has its own.
 *
 * Frames are sealed by AES-256-GCM: the payload is encrypted, and the header, which stays readable,
 * is authenticated with it. A direction's frames are counted from 1, and the counter is the nonce:
 * none comes twice under one key, as both ends have given a new one's nonces.
 */
#ifndef MPI_WIRE_AUTH_H
#define MPI_WIRE_AUTH_H

#include <nettle/gcm.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/err.h"

#define WIRE_NONCE_SIZE 32u
#define WIRE_KEY_SIZE   32u
#define WIRE_TAG_SIZE   GCM_DIGEST_SIZE /* behind each frame that is sealed */
#define WIRE_PROOF_MAX  4096u

enum wire_auth_kind {
	WIRE_AUTH_NONE,
	WIRE_AUTH_SECRET,
	WIRE_AUTH_MUNGE,
	WIRE_AUTH_MAX,
};

struct wire_auth {
	enum wire_auth_kind kind;
	const void *secret; /* borrowed */
	size_t secret_size;
	struct munge_client *munge;
	struct nettle_lib *nettle; /* NULL: WIRE_AUTH_NONE */
};

/* Of one direction of an edge, with its key. */
struct wire_cipher {
	const struct nettle_lib *nettle; /* of the struct wire_auth that has made it */
	struct gcm_aes256_ctx gcm;
};

enum wire_role {
	WIRE_ROLE_CHILD,
	WIRE_ROLE_PARENT,
	WIRE_ROLE_MAX,
};

/* The knowledge that both ends of an edge share, and prove. */
struct wire_handshake {
	uint64_t step;
	uint32_t child, parent;
	unsigned char nonce[WIRE_ROLE_MAX][WIRE_NONCE_SIZE];
	unsigned char key[WIRE_ROLE_MAX][WIRE_KEY_SIZE]; /* munge: each one's random key */
};

/* method: "secret", "munge", "munge:SOCKET" or "none". err is needed. What it loads even a failure
 * leaves to wire_auth_clear(). */
int wire_auth_init(struct wire_auth *auth, const char *method, const void *secret,
	size_t secret_size, struct err *err) _must_check_;
void wire_auth_clear(struct wire_auth *auth);
const char *wire_auth_name(unsigned kind);

int wire_auth_random(unsigned char *bytes, size_t size, struct err *err) _must_check_;

/* The proof of that role. May wait for munged. */
int wire_auth_prove(const struct wire_auth *auth, struct wire_handshake *handshake,
	enum wire_role role, unsigned char *proof, size_t *ret_size, struct err *err) _must_check_;
int wire_auth_check(const struct wire_auth *auth, struct wire_handshake *handshake,
	enum wire_role role, const unsigned char *proof, size_t size, struct err *err) _must_check_;

/* The cipher of what that role sends. Not with WIRE_AUTH_NONE. */
void wire_auth_key(const struct wire_auth *auth, const struct wire_handshake *handshake,
	enum wire_role role, struct wire_cipher *ret_cipher);

/* One frame. data has size bytes, and capacity for WIRE_TAG_SIZE more behind them. */
struct wire_sealed {
	uint64_t counter;
	const unsigned char *header; /* of WIRE_HEADER_SIZE bytes */
	unsigned char *data;
	size_t size;
};
void wire_seal(struct wire_cipher *cipher, const struct wire_sealed *frame);
/* -EBADMSG: the header, the data or the tag is not what was sealed; data is of no use then. */
int wire_unseal(struct wire_cipher *cipher, const struct wire_sealed *frame) _must_check_;

#endif
