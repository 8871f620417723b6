/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a spawn requests of this node: the message "spawn" of mpi/link.h, checked. It comes from a
 * process of the step's owner, so nothing of it is taken for granted.
 */
#ifndef STEPD_STEP_JOIN_REQUEST_H
#define STEPD_STEP_JOIN_REQUEST_H

#include <stdint.h>

#include "stepd/base/err.h"
#include "stepd/base/strv.h"

struct json_t;

/* Tasks of one spawn on one node: their reply must fit into a message of the link. */
#define JOIN_TASKS_MAX 16384u

/* Tasks with the same command line and consecutive ranks. */
struct join_group {
	struct strv argv;
	struct strv env; /* added to the step's */
	char *cwd;       /* NULL: the step's */
	uint32_t count;
	uint32_t appnum;
	uint32_t rank;                /* of the first, among those of the spawn */
	const struct json_t *environ; /* count arrays of texts, for each task alone; borrowed */
};

struct join_request {
	int64_t id;          /* of the request */
	uint32_t number;     /* of the spawn in the step */
	uint32_t first_rank; /* in the step, of its rank 0 */
	uint32_t size;       /* its tasks on all nodes */
	uint32_t count;      /* on this one */
	uint32_t copy;       /* streams that tools get from the first byte: mpi/link.h */
	struct join_group *groups;
	size_t groups_count;
};

/* The number of the request, to reply to: -EBADMSG if it has none. */
int join_request_id(const struct json_t *message, int64_t *ret_id, struct err *err) _must_check_;

/* message must outlive it. An error is one sentence. */
int join_request_read(const struct json_t *message, struct join_request *ret_request,
	struct err *err) _must_check_;

/* The entries of the index-th task of the group alone: borrowed texts in an array to be freed.
 * *ret_environ is NULL without entries. 0 or -ENOMEM. */
int join_group_environ(
	const struct join_group *group, uint32_t index, char ***ret_environ) _must_check_;

void join_request_clear(struct join_request *request);
#define _cleanup_join_request_ _cleanup_(join_request_clear)

#endif
