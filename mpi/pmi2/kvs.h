/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The keys and values that the tasks of one MPI_COMM_WORLD share, as one node knows them. A put is
 * pending until a fence publishes it: no get finds it before, on its own node either. Keys and
 * values are any bytes.
 *
 * Where several ranks put one key between two fences, all nodes must end with the same value. The
 * highest rank's last put wins, whatever the order of arrival. A fence of some ranks only orders
 * the puts before it and behind it: each raises the clock of its nodes, and the later stamp wins
 * before the higher rank does. What a fence of all ranks has published gives way to any later put.
 */
#ifndef MPI_PMI2_KVS_H
#define MPI_PMI2_KVS_H

#include "mpi/pmi/bytes.h"

/* Of one node's copy: keys, values and what it takes to hold them. */
#define KVS_BYTES_MAX (512u << 20)

struct kvs_value;

struct kvs_entry {
	char *key;
	uint32_t key_size;
	uint32_t next; /* of those with the same hash */
	bool sent;     /* the pending one, by a fence of all ranks that is under way */
	struct kvs_value *published, *pending; /* NULL: none */
};

struct kvs {
	struct kvs_entry *entries; /* in the order of their first mention */
	uint32_t count, capacity;
	uint32_t *heads; /* by hash: index + 1; 0: none */
	uint32_t heads_count;
	uint32_t *fresh; /* entries with a pending value */
	size_t fresh_count, fresh_capacity;
	uint32_t era;   /* fences of all ranks so far */
	uint32_t clock; /* since the last of these */
	size_t bytes;
};

/* Published at once, on this node. -ENOMEM, or -EDQUOT beyond KVS_BYTES_MAX. */
int kvs_set(struct kvs *k, struct slice key, struct slice value) _must_check_;
/* Pending. Likewise. */
int kvs_put(struct kvs *k, uint32_t rank, struct slice key, struct slice value) _must_check_;

/* The entries that are published. */
bool kvs_get(const struct kvs *k, struct slice key, struct slice *ret_value);
/* The first one at *index or behind it, whose index that becomes. False: there is none. */
bool kvs_next(const struct kvs *k, uint32_t *index, struct slice *ret_key, struct slice *ret_value);

/* Adds all that is pending, for other nodes; nothing if there is nothing to be known of this one.
 * all: of a fence of all ranks, which kvs_settle() ends. */
void kvs_encode(struct kvs *k, bool all, struct bytes *b);
/* Adds what is pending as pairs of mpi/pmi/manager.h, for a fence of all ranks: it is not published
 * here, but by kvs_set() when it comes back. */
void kvs_add_pending(struct kvs *k, struct bytes *pairs);
/* Publishes what a node has encoded, this one or another. -EBADMSG: that it is not. */
int kvs_merge(struct kvs *k, struct slice data) _must_check_;
/* Publishes what is pending here. all: as kvs_encode() does. */
void kvs_publish(struct kvs *k, bool all);
void kvs_settle(struct kvs *k);

/* A list of keys and values that are published at once. */
void kvs_list_add(struct bytes *list, struct slice key, struct slice value);
int kvs_set_list(struct kvs *k, struct slice list) _must_check_;

void kvs_clear(struct kvs *k);

#endif
