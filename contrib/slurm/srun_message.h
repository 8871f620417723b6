/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A message to the PMI port of srun, by a connection of its own: a length in network order and the
 * bytes, and a reply of the same form if one is expected. As slurmstepd it tries five times, with
 * pauses that double from a second on. Nothing waits.
 */
#ifndef SLURM_SRUN_MESSAGE_H
#define SLURM_SRUN_MESSAGE_H

#include <netinet/in.h>
#include <sys/queue.h>

#include "contrib/slurm/pack.h"
#include "mpi/pmi/bytes.h"
#include "stepd/base/err.h"

struct ev_loop;
struct srun_message;

/* Of a reply: a port's name. */
#define SRUN_REPLY_MAX 65536u

struct srun_message_options {
	struct ev_loop *loop;
	struct sockaddr_in address;
	bool replies; /* srun does */
	/* From the loop, once; the message is gone then. err: no code is success, with the reply,
	 * which is valid until this returns. */
	void (*done)(void *userdata, const struct err *err, struct slice reply);
	void *userdata;
};

/* Takes the body's bytes. */
int srun_message_begin_take(const struct srun_message_options *options, struct pack *body,
	struct srun_message **ret_message, struct err *err) _must_check_;

/* Without a call of done(). NULL is fine. Returns NULL. */
struct srun_message *srun_message_cancel(struct srun_message *message);

#endif
