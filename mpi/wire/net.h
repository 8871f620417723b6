/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange over TCP: one connection for each edge of the tree, opened when the step starts,
 * authenticated at its beginning and, but by choice, authenticated and encrypted in every frame.
 */
#ifndef MPI_WIRE_NET_H
#define MPI_WIRE_NET_H

#include <ev.h>

#include "mpi/wire/wire.h"
#include "stepd/api/mpi.h"

struct wire_net_options {
	const stepd_step_rec_t *job; /* ids, node names, nodeid, nnodes, uid */
	const stepd_mpi_wire_t *wire;
	const struct wire_events *events;
	void *userdata;
	uint64_t connect_timeout_ms; /* until all neighbours must be there; then they are lost */
};

/* Begins to connect and to accept, and returns at once; what is sent meanwhile waits. A step of one
 * node needs no addresses and no socket. Takes over wire->listen_fd. */
int wire_net_open(struct ev_loop *loop, const struct wire_net_options *options,
	struct wire **ret_wire, struct err *err) _must_check_;

#endif
