/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Those whom sattach has attached to a served step: what srun is told of the tasks' ends is for
 * them, too. Their streams are srun_io.h's.
 */
#ifndef SLURM_ATTACH_H
#define SLURM_ATTACH_H

#include "contrib/slurm/delivery.h"
#include "contrib/slurm/srun_io.h"
#include "contrib/slurm/wire.h"

/* One that takes no output for so long stops the tasks no more. */
#define ATTACH_PATIENCE_S 5.0

struct attach_peer {
	unsigned id;
	struct sockaddr_in response; /* to which its messages go */
	uint16_t version;
	uid_t uid;
};

struct attach {
	struct attach_peer peers[SRUN_IO_ATTACHED_MAX];
	uint32_t count;
	unsigned last_id;
};

extern const struct delivery_retry attach_retry;

/* Begins to connect to its streams. 0 or -errno; *ret_peer is borrowed until the next call. */
int attach_add(struct attach *attach, struct srun_io *io, const struct wire_attach *request,
	const struct attach_peer **ret_peer, struct err *err) _must_check_;

/* It has gone before the tasks' streams have ended. */
void attach_remove(struct attach *attach, unsigned id);

#endif
