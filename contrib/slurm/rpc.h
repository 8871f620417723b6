/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of Slurm's daemons and of srun, 22.05 to 24.11: a length, a header, who has sent it, a
 * body.
 *
 *	u32 length of the rest
 *	u16 version, flags, type; u32 length of the body; u16 forwards, replies; u16 family (0)
 *	u32 plugin (101: munge, 103: slurm); text: a credential, or a token
 *	body
 *
 * The credential's payload is the type of a hash, K12, and the hash of the body, so that no other
 * body can go with it. A reply of later releases has the flag 0x40, and neither plugin nor
 * credential.
 *
 * Behind a number of forwards, 1 here, stand the text with the nodes' names, a u32, how long each
 * may take in ms, and a u16, the width of the tree: slurmd sends the message on to these nodes,
 * and its own reply has theirs, each u32 error, u16 type, text name, and a body.
 *
 * Bytes only; delivery.h sends them.
 */
#ifndef SLURM_RPC_H
#define SLURM_RPC_H

#include <sys/types.h>

#include "contrib/slurm/pack.h"
#include "stepd/base/err.h"

struct slurm_auth;
struct slurm_step_id;

enum slurm_rpc_type {
	SLURM_REQUEST_CANCEL_JOB_STEP = 5005,
	SLURM_REQUEST_STEP_COMPLETE = 5016,
	SLURM_REQUEST_COMPLETE_BATCH_SCRIPT = 5018,
	SLURM_REQUEST_FORWARD_DATA = 5029,
	SLURM_RESPONSE_LAUNCH_TASKS = 6002,
	SLURM_MESSAGE_TASK_EXIT = 6003,
	SLURM_SRUN_NET_FORWARD = 7010,
	SLURM_RESPONSE_RC = 8001,
	SLURM_RESPONSE_FORWARD_FAILED = 9001,
};

/* Results of a slurmctld that has not done what the message says. */
enum slurm_rpc_result {
	SLURM_ERROR_BACKOFF = 1804, /* it gets too many messages; from 23.02 on */
	SLURM_ERROR_STANDBY = 2027,
	SLURM_ERROR_STANDBY_USE_BACKUP = 2131,
};

/* A reply is a result and a credential; some 300 bytes. */
#define SLURM_REPLY_MAX 65536u

struct slurm_rpc {
	uint16_t version, type;
	uid_t reader;        /* who may know who has sent it, (uid_t)-1: anybody */
	const char *forward; /* a node that slurmd sends it on to; NULL: none */
	uint32_t forward_ms;
};

/* The message with its length in front. The body is what pack.h has made. */
int slurm_rpc_encode(const struct slurm_auth *auth, const struct slurm_rpc *rpc,
	const struct pack *body, struct pack *message, struct err *err) _must_check_;

/* A step in a body: from 24.11 on its number in the cluster precedes the job's. */
void slurm_rpc_put_step(struct pack *body, uint16_t version, const struct slurm_step_id *id);

/* The size of the message that begins with these bytes: 0: it is not known yet; -EMSGSIZE. */
ssize_t slurm_rpc_size(const void *data, size_t size) _must_check_;

/* Reads a whole one that is a result: *ret_result, of those to whom it was sent on the first one
 * that is not 0. -EBADMSG: it is not. Who has sent it is not checked: it is only the end of a
 * connection that this side has begun. */
int slurm_rpc_decode_result(const void *data, size_t size, uint32_t *ret_result) _must_check_;

#endif
