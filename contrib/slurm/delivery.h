/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends messages to srun and to slurmctld: each by a connection of its own, until a result has come
 * back. Tried again with back-off, as slurmstepd does: for srun 5 times within 1.5 s, for slurmctld
 * every so often until it is there. Of several hosts each is tried before a pause, in their order:
 * one that can't be reached, or answers that it stands by, has not got the message. Nor has a
 * slurmctld that wants it later. Nothing waits but for munged, or slurmd's token.
 */
#ifndef SLURM_DELIVERY_H
#define SLURM_DELIVERY_H

#include <sys/types.h>

#include "contrib/slurm/hosts.h"
#include "contrib/slurm/rpc.h"

struct delivery;
struct ev_loop;

/* A try, from the connection to the result; until there is a connection if there are other hosts.
 */
#define DELIVERY_TIMEOUT_S         10.0
#define DELIVERY_CONNECT_TIMEOUT_S 2.0
/* Between tries: the first pause is doubled each time, up to the longest one. */
struct delivery_retry {
	unsigned tries; /* 0: until it is delivered */
	double first_s, longest_s;
	bool needs_success; /* a result other than 0 is a failure; else it is only the receiver's */
};

extern const struct delivery_retry delivery_to_srun, delivery_to_controller;

struct delivery_options {
	struct ev_loop *loop;
	const struct slurm_auth *auth;
	const struct delivery_retry *retry; /* borrowed */
	struct hosts hosts;
	uint16_t version, type;
	uid_t reader;        /* as slurm_rpc_encode() */
	const char *forward; /* a node to which a slurmd sends it on, borrowed; NULL: none */
	/* Where the connection goes that has brought a result of 0, with nothing read behind it; it
	 * is the owner's then. NULL: it is closed. */
	int *kept_fd;
	/* From the loop, once: 0, or why it has been given up. The delivery has been freed. */
	void (*done)(const struct err *err, void *userdata);
	void *userdata;
};

/* Takes the body's bytes. */
int delivery_begin_take(const struct delivery_options *options, struct pack *body,
	struct delivery **ret_delivery, struct err *err) _must_check_;

/* Gives it up without a call of done(). NULL is fine. Returns NULL. */
struct delivery *delivery_cancel(struct delivery *delivery);

#endif
