/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What messages to Slurm's programs carry so that these know who has sent them, by AuthType: a
 * credential of munge(7), or from 23.11 on a token of auth/slurm.
 */
#ifndef SLURM_AUTH_H
#define SLURM_AUTH_H

#include <stdint.h>
#include <sys/types.h>

#include "stepd/base/err.h"

struct munge_client;
struct site_conf;
struct slurm_auth;

/* site is borrowed; release is that of the node's Slurm. -EOPNOTSUPP: there is no libmunge here. */
int slurm_auth_open(const struct site_conf *site, uint16_t release, struct slurm_auth **ret_auth,
	struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct slurm_auth *slurm_auth_close(struct slurm_auth *auth);

/* The plugin's number in messages. */
uint32_t slurm_auth_plugin(const struct slurm_auth *auth);

/* For these bytes, a text for free() that only reader may decode, (uid_t)-1: anybody. Waits for
 * munged, or slurmd. */
int slurm_auth_encode(const struct slurm_auth *auth, uid_t reader, const void *data, size_t size,
	char **ret_text, struct err *err) _must_check_;

/* Whose a text without bytes is, another node's: -EBADMSG: it has some, -errno: it does not hold.
 */
int slurm_auth_check(const struct slurm_auth *auth, const char *text, uid_t *ret_uid,
	struct err *err) _must_check_;

/* NULL: it is not by munge. */
const struct munge_client *slurm_auth_munge(const struct slurm_auth *auth);

#endif
