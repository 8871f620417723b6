/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The keys and values that the tasks of one MPI_COMM_WORLD share, as one node knows them. What is
 * put here is fresh until a fence has brought it to the other nodes. Keys and values are any bytes.
 */
#ifndef MPI_PMI2_KVS_H
#define MPI_PMI2_KVS_H

#include "mpi/pmi2/bytes.h"

/* Of one node's copy: keys, values and what it takes to hold them. */
#define KVS_BYTES_MAX (512u << 20)

enum kvs_state {
	KVS_SETTLED, /* the other nodes have it */
	KVS_FRESH,
	KVS_SENT, /* fresh, and part of a fence that is under way */
};

struct kvs_entry {
	char *key; /* the value follows it */
	size_t key_size, value_size;
	enum kvs_state state;
	uint32_t next; /* of those with the same hash */
};

struct kvs {
	struct kvs_entry *entries; /* in the order of their first put */
	uint32_t count, room;
	uint32_t *heads; /* by hash: index + 1; 0: none */
	uint32_t heads_count;
	uint32_t *fresh; /* entries that are not settled */
	uint32_t fresh_count, fresh_room;
	size_t bytes;
};

/* Replaces a value that is there. -ENOMEM, or -EDQUOT beyond KVS_BYTES_MAX. */
int kvs_put(struct kvs *k, struct slice key, struct slice value, bool fresh) _must_check_;
bool kvs_get(const struct kvs *k, struct slice key, struct slice *ret_value);
bool kvs_at(const struct kvs *k, uint32_t index, struct slice *ret_key, struct slice *ret_value);

/* Adds all that is fresh. sent: kvs_settle() will tell that it has arrived. */
void kvs_encode_fresh(struct kvs *k, bool sent, struct bytes *b);
void kvs_settle(struct kvs *k);

/* Puts what another node has encoded. -EBADMSG: that it is not. */
int kvs_merge(struct kvs *k, struct slice data) _must_check_;

void kvs_clear(struct kvs *k);

#endif
