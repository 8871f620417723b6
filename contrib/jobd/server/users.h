/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Limits of a user's jobs in the queue, so that one user can't exhaust it, or the memory.
 */
#ifndef JOBD_SERVER_USERS_H
#define JOBD_SERVER_USERS_H

#include "contrib/jobd/engine/engine.h"

/* For scripts, arguments and environments, counted for each task of an array. */
#define USERS_BYTES_MAX (256u << 20)

struct users;

int users_new(struct engine *e, struct users **ret_users, struct err *err) _must_check_;

/* NULL is fine. Returns NULL. */
struct users *users_free(struct users *u);

/* Whether this user may submit the request: 0, and it is counted; -EDQUOT: too many jobs that have
 * not ended, or too many bytes. */
int users_admit(struct users *u, uid_t uid, const struct job_request *request,
	struct err *err) _must_check_;

#endif
