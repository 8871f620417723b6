/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The three sides of a spawn, each on its node; one node may have all of them.
 *
 *	requester (spawning.c)      REQUEST -> node 0 (spawning_root.c): numbers it, distributes it
 *	node 0                      START ->  each node (spawning_part.c): prepares, requests tasks
 *	each node                   STARTED -> node 0: when all have answered, or one has failed,
 *	node 0                      END ->    each node; those that have started end what they have,
 *	                                      if one has failed
 *	node 0                      DONE ->   requester
 *
 * A message is a JSON object, a NUL, and the request's data where it has some. It comes from
 * another service of the same user's, and is checked so that a broken one harms nobody.
 */
#ifndef MPI_SERVE_SPAWNING_IMPL_H
#define MPI_SERVE_SPAWNING_IMPL_H

#include "mpi/serve/serve_impl.h"
#include "mpi/wire/tree.h"

enum spawning_channel {
	SPAWNING_REQUEST = SERVE_CHANNEL_SPAWN,
	SPAWNING_START,
	SPAWNING_STARTED,
	SPAWNING_END,
	SPAWNING_DONE,
	SPAWNING_CHANNEL_MAX,
};

#define SPAWNING_SIZE_MAX  65536u      /* tasks of one spawn */
#define SPAWNING_RANK_MAX  16777216u   /* of all that a step ever has */
#define SPAWNING_BYTES_MAX (64u << 20) /* of a request */

struct spawning_request;
struct spawning_part;
struct spawning_root;

struct spawning {
	struct serve *serve;
	const struct spawn_events *events;
	void *userdata;
	LIST_HEAD(, spawning_request) requests; /* of this node's */
	LIST_HEAD(, spawning_part) parts;       /* of all spawns that are not over */
	struct spawning_root *root;             /* on node 0, once there was a spawn */
	uint64_t last_token;
};

/* A message, parsed. data is the message's. */
struct spawning_message {
	json_t *object;
	const void *data;
	size_t size;
};

/* ---- distribution of tasks (spawning_root.c) ----------------------------------------------- */

/* Tasks of one command on one node. Their ranks among the spawn's follow one another, and those of
 * the block before. */
struct share {
	uint32_t node;
	uint32_t command;
	uint32_t count;
};

struct distribution {
	struct share *blocks;
	size_t count;
};

/* Distributes count tasks of a command over these nodes, evenly, so that nodes which have more
 * already get less. nodes: at least one, none twice; their order counts.
 * load: of all nodes of the step, how many tasks each has; what is distributed is added. 0 or
 * -ENOMEM. */
int distribution_add(struct distribution *distribution, uint32_t command, uint32_t count,
	const uint32_t *nodes, size_t nodes_count, uint32_t *load) _must_check_;

/* Takes it out of the load again. */
void distribution_take_back(const struct distribution *distribution, uint32_t *load);

void distribution_clear(struct distribution *distribution);
#define _cleanup_distribution_ _cleanup_(distribution_clear)

/* ---- messages (spawning.c) ----------------------------------------------------------------- */

/* Takes object; NULL is -ENOMEM. */
int spawning_send_take(struct spawning *sp, uint32_t node, enum spawning_channel channel,
	json_t *object, const void *data, size_t size, struct err *err) _must_check_;

/* A number of an object, from 0 to most. */
bool spawning_get(const json_t *object, const char *name, uint32_t most, uint32_t *ret_number);

/* The error that a message reports: 0 where it reports none, else -errno. */
int spawning_get_error(const json_t *object, struct err *err);

/* By which a node's messages go to node 0. */
struct wire_tree spawning_tree(const struct spawning *sp);

/* ---- the sides ----------------------------------------------------------------------------- */

/* spawning_root.c */
void spawning_root_request(struct spawning *sp, uint32_t from, const struct spawning_message *m);
void spawning_root_started(struct spawning *sp, uint32_t from, const struct spawning_message *m);
void spawning_root_lost(struct spawning *sp, uint32_t node, const struct err *err);
void spawning_root_free(struct spawning *sp);

/* spawning_part.c; for serve.c, too: serve_impl.h */
void spawning_part_start(struct spawning *sp, const struct spawning_message *m);
void spawning_part_end(struct spawning *sp, const struct spawning_message *m);
void spawning_part_lost(struct spawning *sp); /* the way to node 0 */
void spawning_part_free(struct spawning *sp);

#endif
