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
	RPC_STREAMS,   /* iof_ranks.c */
	RPC_OUTPUT,    /* iof.c */
	RPC_INPUT,     /* iof_ranks.c */
	RPC_LEAVING,   /* rpc.c, a notice */
	RPC_MAX,
};

struct rpc_request {
	uint32_t from;
	uint64_t id; /* 0: a notice */
};

/* Arguments or a result. Want of memory while they are packed sticks, and fails the request. */
struct message {
	pmix_data_buffer_t buffer;
	bool failed;
};
#define MESSAGE_INIT                                                                               \
	{                                                                                          \
		.buffer = PMIX_DATA_BUFFER_STATIC_INIT                                             \
	}

struct rpc_result {
	uint32_t from;
	pmix_status_t status;
	struct message *data; /* NULL: there is none */
};

typedef void (*rpc_serve_fn)(
	struct px *px, const struct rpc_request *request, struct message *args);
typedef void (*rpc_done_fn)(struct px *px, void *userdata, const struct rpc_result *result);

int rpc_open(struct px *px) _must_check_;
void rpc_close(struct px *px); /* those that wait are answered: PMIX_ERR_UNREACH */

/* Takes what args hold. done comes once, perhaps before this returns: with the reply, or without a
 * result after timeout_ms (0: never) or where the way to the node is gone. */
void rpc_call(struct px *px, uint32_t node, enum rpc_op op, struct message *args, rpc_done_fn done,
	void *userdata, uint64_t timeout_ms);

/* The same to several nodes. each, which may be NULL, gets the result of every one; done comes
 * once, after the last of them, perhaps before this returns: with the number of those that have
 * succeeded, and the first failure, which is PMIX_ERR_NOT_SUPPORTED only where there is no other.
 */
void rpc_call_nodes(struct px *px, const struct bitset *nodes, enum rpc_op op, struct message *args,
	rpc_done_fn each, rpc_all_done_fn done, void *userdata, uint64_t timeout_ms);

/* The same to the nodes that hold ranks of procs. PMIX_ERR_NOT_FOUND: there are none, or one is not
 * known. */
void rpc_call_ranks(struct px *px, const pmix_proc_t *procs, size_t count, enum rpc_op op,
	struct message *args, rpc_all_done_fn done, void *userdata, uint64_t timeout_ms);

/* The reply to a request, once. Takes what result (may be NULL) holds. */
void rpc_reply(struct px *px, const struct rpc_request *request, pmix_status_t status,
	struct message *result);

/* To all other nodes. Takes what args hold. */
void rpc_notify(struct px *px, enum rpc_op op, struct message *args);

/* This node serves no requests any more, and notifies the others: those that wait for it then
 * end, as its replies went before. */
void rpc_leave(struct px *px);

/* The functions that serve them (enum rpc_op): each replies once, unless it is a notice. */
void serve_modex(struct px *px, const struct rpc_request *request, struct message *args);
void serve_publish(struct px *px, const struct rpc_request *request, struct message *args);
void serve_lookup(struct px *px, const struct rpc_request *request, struct message *args);
void serve_unpublish(struct px *px, const struct rpc_request *request, struct message *args);
void serve_signals(struct px *px, const struct rpc_request *request, struct message *args);
void serve_event(struct px *px, const struct rpc_request *request, struct message *args);
void serve_ended(struct px *px, const struct rpc_request *request, struct message *args);
void serve_ranks(struct px *px, const struct rpc_request *request, struct message *args);
void serve_pset(struct px *px, const struct rpc_request *request, struct message *args);
void serve_streams(struct px *px, const struct rpc_request *request, struct message *args);
void serve_output(struct px *px, const struct rpc_request *request, struct message *args);
void serve_push(struct px *px, const struct rpc_request *request, struct message *args);

/* PMIx_Data_pack() and its counterpart, of one value; false: no memory, bad data. */
void pack(struct message *m, const void *value, pmix_data_type_t type);
bool unpack(struct message *m, void *ret_value, pmix_data_type_t type) _must_check_;

/* A count and so many infos (procs); the receiver frees them. */
void pack_infos(struct message *m, const pmix_info_t *infos, size_t count);
void pack_procs(struct message *m, const pmix_proc_t *procs, size_t count);
bool unpack_infos(struct message *m, pmix_info_t **ret_infos, size_t *ret_count) _must_check_;
bool unpack_procs(struct message *m, pmix_proc_t **ret_procs, size_t *ret_count) _must_check_;

#define PACK_MAX 65536u /* infos, or procs, of one message */

#endif
