/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credentials of munge(7), by its library, which is loaded when it is needed: nodes of a step
 * authenticate by them, and so do Slurm's daemons. Encoding and decoding wait for munged.
 */
#ifndef STEPD_BASE_MUNGE_CLIENT_H
#define STEPD_BASE_MUNGE_CLIENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct munge_client;

/* socket NULL: munged's usual one. -EOPNOTSUPP: there is no such library here. */
int munge_client_open(
	const char *socket, struct munge_client **ret_munge, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct munge_client *munge_client_close(struct munge_client *munge);
DEFINE_CLEANUP(struct munge_client *, munge_client_close);

/* A credential for these bytes that only reader may decode, (uid_t)-1: anybody. It is a text for
 * free(). */
int munge_client_encode(const struct munge_client *munge, uid_t reader, const void *data,
	size_t size, char **ret_credential, struct err *err) _must_check_;

/* The bytes, for free(), and who has made the credential. again: also of one that was decoded
 * before, or whose time is over. */
int munge_client_decode(const struct munge_client *munge, const char *credential, bool again,
	void **ret_data, size_t *ret_size, uid_t *ret_uid, struct err *err) _must_check_;

#endif
