/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The internals of the service, shared by server.c (sockets and access control), lists.c (queries),
 * act.c (actions on jobs) and admin.c (actions of root).
 */
#ifndef JOBD_SERVER_SERVER_IMPL_H
#define JOBD_SERVER_SERVER_IMPL_H

#include <jansson.h>

#include "contrib/jobd/server/server.h"
#include "contrib/jobd/server/target.h"
#include "contrib/jobd/server/users.h"
#include "contrib/jobd/server/waits.h"
#include "stepd/base/json.h"
#include "stepd/control/control.h"

struct server {
	struct server_options options;
	struct engine *engine;
	struct control *control;
	struct control_method *methods; /* made from the table's rows */
	struct waits *waits;
	struct users *users;
	time_t since; /* by the engine's clock */
	int dir_fd;
	int lock_fd;
	char *lock_name;
	char *dir;
};

/* The access that a method requires. */
enum needs {
	NEEDS_NOTHING,
	NEEDS_OWNER, /* of all jobs that the parameter "job" names; or root */
	NEEDS_ROOT,
	NEEDS_MAX,
};

/* An authorised call. Its function replies, or holds control. */
struct call {
	struct server *server;
	struct control_call *control;
	const json_t *parameters; /* checked by the row */
	struct target target;     /* of NEEDS_OWNER: the jobs; else empty */
	uid_t uid;
	gid_t gid;
	bool is_root; /* or jobd's own user */
};

typedef void (*run_fn)(struct call *call);

/* lists.c */
void run_list_jobs(struct call *call);
void run_list_nodes(struct call *call);
void run_list_partitions(struct call *call);
void run_list_reservations(struct call *call);
void run_stats(struct call *call);

/* act.c */
void run_submit(struct call *call);
void run_wait(struct call *call);
void run_cancel(struct call *call);
void run_signal(struct call *call);
void run_hold(struct call *call);
void run_release(struct call *call);
void run_suspend(struct call *call);
void run_resume(struct call *call);
void run_requeue(struct call *call);
void run_update(struct call *call);
void run_expand(struct call *call);

/* admin.c */
void run_reserve(struct call *call);
void run_delete_reservation(struct call *call);
void run_update_nodes(struct call *call);
void run_reconfigure(struct call *call);

/* ---- replies -------------------------------------------------------------------------------- */

/* Replies with an error of the engine. state_error: -EINVAL is due to the state of the object. */
void call_fail(struct call *call, int r, const struct err *err, bool state_error);

/* Takes over the reference; NULL: out of memory. */
void call_reply(struct call *call, json_t *parameters);
void call_done(struct call *call); /* without parameters */

void call_deny(struct call *call, enum needs needs, const char *message);

/* Finds the jobs of a text. False: it has replied with an error. */
bool call_find(struct call *call, const char *text, struct target *ret_target);

#endif
