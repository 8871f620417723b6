/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What steprun's user, or whoever signals it, wants of the step. Most signals are for the tasks.
 * ^C once tells what runs, again within a second ends the step, and once more kills it; ^\ ends it
 * at once. ^Z stops the step, and steprun with it.
 */
#ifndef STEPD_CLI_ACROSS_USER_H
#define STEPD_CLI_ACROSS_USER_H

#include <stdbool.h>

#include "stepd/base/err.h"

struct ev_loop;
struct user;

struct user_events {
	void (*signal)(const char *name, void *userdata); /* for the tasks */
	void (*terminate)(bool now, void *userdata);
	void (*suspend)(bool on, void *userdata);
	void (*tell)(void *userdata); /* which tasks run, a line on standard error */
};

/* After process_prepare(). events outlives the object. */
int user_new(struct ev_loop *loop, const struct user_events *events, void *userdata,
	struct user **ret_user, struct err *err) _must_check_;

/* Whether the user has ended the step, and by which signal. 0: not. */
int user_ended_by(const struct user *user);

struct user *user_free(struct user *user);

#endif
