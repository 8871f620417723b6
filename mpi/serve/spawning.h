/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spawn: tasks that join a running step. Node 0 numbers the spawns and the ranks and distributes
 * the tasks over the step's nodes; each node's agent starts its part in the step's container. All
 * of them start or none stays.
 */
#ifndef MPI_SERVE_SPAWNING_H
#define MPI_SERVE_SPAWNING_H

#include "mpi/serve/serve.h"

/* One command line of a spawn. Strings are the caller's. */
struct spawn_command {
	char *const *argv; /* NULL-terminated; at least the program */
	uint32_t count;
	const char *cwd;          /* NULL: the step's */
	const char *const *hosts; /* NULL-terminated names of the step's nodes to use; NULL: all */
	char *const *env; /* NULL-terminated "NAME=VALUE", added to the step's; NULL: none */
};

struct spawn_request {
	const struct spawn_command *commands;
	size_t count;
	const void *data; /* what every node's plugin gets with its part: pre-put keys and so on */
	size_t size;      /* in bytes */
};

/* A spawn, as a node sees it. It lives until failed() has returned or all nodes have started
 * theirs: what a plugin needs for longer it copies. */
struct spawn_part {
	uint32_t number;          /* in the step, from 1 */
	uint32_t first_rank;      /* in the step, of the spawn's rank 0 */
	uint32_t size;            /* its tasks on all nodes */
	uint32_t parent;          /* rank in the step that has requested it */
	const uint32_t *nodes;    /* size of them: the node of each of its ranks */
	const uint32_t *commands; /* likewise: the index of its command, its appnum */
	uint32_t local_count;     /* its tasks on this node, which may be none */
	const uint32_t *ranks;    /* local_count: their ranks among the spawn's, ascending */
	const void *data;         /* the request's */
	size_t data_size;
};

struct strv;

struct spawn_events {
	/* On every node, before its agent gets a request: the plugin adds its ranks. May
	 * add environment entries with spawn_environ(). 0, or -errno: the spawn fails. */
	int (*prepare)(void *userdata, const struct spawn_part *part, struct err *err);
	/* On every node: its tasks are forked. fds: local_count service ends of socket pairs, the
	 * receiver's from here on (-1 where task descriptors were not requested). */
	void (*started)(void *userdata, const struct spawn_part *part, const int *fds);
	/* On every node where prepare() has returned 0: the spawn has failed, here or elsewhere,
	 * maybe after started(), and nothing of it runs any more. */
	void (*failed)(void *userdata, const struct spawn_part *part);
};

void spawn_set_events(struct serve *s, const struct spawn_events *events, void *userdata);

/* Within prepare(): index counts the node's own, -1 is all of them. */
int spawn_environ(
	const struct spawn_part *part, int64_t index, const char *name, const char *value);

/* Likewise: what its tasks with this index of a command run, on whatever node. argv: empty; the
 * caller's, also on failure. *ret_cwd is the part's; NULL: the step's. 0 or -ENOMEM. */
int spawn_get_command(const struct spawn_part *part, uint32_t command, struct strv *argv,
	const char **ret_cwd) _must_check_;

/* Likewise: what its tasks here write is copied from the first byte (serve_copy()). copy: enum
 * link_stream. */
void spawn_copy(const struct spawn_part *part, unsigned copy);

/* The end of a spawn that this node has requested: 0, its number and size, or -errno and why.
 * errcodes: one for each of its tasks, 0 or an errno; NULL where none was reached. */
typedef void (*spawn_done_fn)(void *userdata, int r, uint32_t number, uint32_t size,
	const int *errcodes, const struct err *err);
int spawn_start(struct serve *s, uint32_t parent, const struct spawn_request *request,
	spawn_done_fn done, void *userdata, struct err *err) _must_check_;

#endif
