/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between the PMIx servers of nodes: a request to one node and its reply, or a notice
 * to all. Arguments are packed by libpmix, which knows all its types and skips what it does not.
 * A node may send one to itself: then its own handler is called, by way of the loop.
 */
#ifndef MPI_PMIX_RPC_H
#define MPI_PMIX_RPC_H

#include "mpi/pmix/px.h"

enum rpc_op {
	RPC_MODEX,     /* modex.c */
	RPC_PUBLISH,   /* publish.c */
	RPC_LOOKUP,    /* publish.c */
	RPC_UNPUBLISH, /* publish.c */
	RPC_SIGNAL,    /* control.c */
	RPC_EVENT,     /* events.c, a notice */
	RPC_ENDED,     /* events.c, a notice */
	RPC_RANKS,     /* ranks.c */
	RPC_PSET,      /* group.c, a notice */
	RPC_STREAMS,   /* iof_copy.c */
	RPC_OUTPUT,    /* iof.c */
	RPC_INPUT,     /* iof_push.c */
	RPC_LEAVING,   /* rpc.c, a notice */
	RPC_MAX,
};

struct rpc_request {
	uint32_t from;
	uint64_t id; /* 0: a notice */
};

typedef void (*rpc_serve_fn)(
	struct px *px, const struct rpc_request *request, pmix_data_buffer_t *args);
typedef void (*rpc_done_fn)(
	struct px *px, void *userdata, pmix_status_t status, pmix_data_buffer_t *result);

int rpc_open(struct px *px) _must_check_;
void rpc_close(struct px *px); /* those that wait are answered: PMIX_ERR_UNREACH */

void rpc_register(struct px *px, enum rpc_op op, rpc_serve_fn serve);

/* Takes what args hold. done comes once, perhaps before this returns: with the reply, or without a
 * result after timeout_ms (0: never) or where the way to the node is gone. */
void rpc_call(struct px *px, uint32_t node, enum rpc_op op, pmix_data_buffer_t *args,
	rpc_done_fn done, void *userdata, uint64_t timeout_ms);

/* The reply to a request, once. Takes what result (may be NULL) holds. */
void rpc_reply(struct px *px, const struct rpc_request *request, pmix_status_t status,
	pmix_data_buffer_t *result);

/* To all other nodes. Takes what args hold. */
void rpc_notify(struct px *px, enum rpc_op op, pmix_data_buffer_t *args);

void rpc_message(struct px *px, uint32_t from, uint16_t channel, const struct wire_block *block);
void rpc_node_lost(struct px *px, uint32_t node);

/* This node serves no requests any more, and notifies the others: those that wait for it then
 * end, as its replies went before. */
void rpc_leave(struct px *px);

/* PMIx_Data_pack() and its counterpart of this process's own kind; false: no memory, bad data. */
bool pack(pmix_data_buffer_t *buffer, const void *values, size_t count,
	pmix_data_type_t type) _must_check_;
bool unpack(
	pmix_data_buffer_t *buffer, void *values, size_t count, pmix_data_type_t type) _must_check_;

/* A count and so many infos (procs); the receiver frees them. */
bool pack_infos(pmix_data_buffer_t *buffer, const pmix_info_t *infos, size_t count) _must_check_;
bool unpack_infos(
	pmix_data_buffer_t *buffer, pmix_info_t **ret_infos, size_t *ret_count) _must_check_;
bool pack_procs(pmix_data_buffer_t *buffer, const pmix_proc_t *procs, size_t count) _must_check_;
bool unpack_procs(
	pmix_data_buffer_t *buffer, pmix_proc_t **ret_procs, size_t *ret_count) _must_check_;

#define PACK_MAX 65536u /* infos, or procs, of one message */

#endif
