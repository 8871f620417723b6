/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The link of a PMI server to another process manager, which has the way to the other nodes of the
 * step where no server of ours need be: a stream of frames, each a length, a type and a body.
 * Numbers are 32 bits, little-endian; texts have their length before them.
 *
 *	from the server
 *	FENCE   pairs of keys and values: what has been put on this node since the last fence
 *	QUERY   number, enum manager_query, name, value
 *	ABORT   exit status, text: the step is to end on all nodes
 *	from the manager
 *	FENCED  errno; 0: the pairs of all nodes, of which the later one of a key counts; else a
 *		text
 *	ANSWER  number, enum manager_status, value
 *
 * One fence at a time; the node's tasks wait for FENCED. A server of PMIx has others, and ABORT:
 *
 *	from the server
 *	COLLECT    number, whether it is for data (0, 1), how many ranks; of each the namespace and
 *		   the number; data: this node's ranks among these have come
 *	from the manager
 *	COLLECTED  number, errno; 0: the data of all nodes
 *	from either
 *	MODEX      number, namespace, rank: the data of a rank of the other side are wanted
 *	MODEXED    number, status of PMIx, data
 *
 * Numbers of these are the requester's. Bytes only.
 */
#ifndef MPI_PMI_MANAGER_H
#define MPI_PMI_MANAGER_H

#include <sys/types.h>

#include "mpi/pmi/bytes.h"

#define MANAGER_HEAD_SIZE 8u
#define MANAGER_BODY_MAX  (256u << 20)

/* The environment of a step has the path of the manager's socket by this name; tasks don't. */
#define MANAGER_VARIABLE "STEPD_PMI_MANAGER"
/* And, where it is not the step's own, the name that all nodes have for the job of the tasks. */
#define MANAGER_JOB_VARIABLE "STEPD_PMI_JOB"
/* Likewise, what the other nodes call the step's ranks in PMIx, and where its files are to be. */
#define MANAGER_NSPACE_VARIABLE "STEPD_PMIX_NSPACE"
#define MANAGER_TMPDIR_VARIABLE "STEPD_PMIX_TMPDIR"

enum manager_type {
	MANAGER_FENCE = 1,
	MANAGER_QUERY,
	MANAGER_ABORT,
	MANAGER_FENCED,
	MANAGER_ANSWER,
	MANAGER_COLLECT,
	MANAGER_COLLECTED,
	MANAGER_MODEX,
	MANAGER_MODEXED,
	MANAGER_TYPE_MAX,
};

/* Names of services. */
enum manager_query {
	MANAGER_PUBLISH,
	MANAGER_UNPUBLISH,
	MANAGER_LOOKUP,
	MANAGER_QUERY_MAX,
};

enum manager_status {
	MANAGER_DONE,
	MANAGER_UNKNOWN, /* there is no such name */
	MANAGER_TAKEN,
	MANAGER_FULL,
	MANAGER_FAILED, /* the manager can't tell */
	MANAGER_STATUS_MAX,
};

struct manager_frame {
	enum manager_type type;
	struct slice body;
};

/* The frame at the beginning of data. Its size; 0: more has to come; -EBADMSG: it is none, or one
 * of a larger body. */
ssize_t manager_frame_read(struct slice data, struct manager_frame *ret_frame) _must_check_;

void manager_frame_add(struct bytes *out, enum manager_type type, struct slice body);

void manager_pair_add(struct bytes *pairs, struct slice key, struct slice value);
bool manager_pair_take(struct slice *pairs, struct slice *ret_key, struct slice *ret_value);

#endif
