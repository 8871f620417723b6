/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The user of steprun, and whoever signals it. Most signals are for the tasks. ^C once prints which
 * tasks run, again within a second ends the step, and once more kills it; ^\ ends it at once. ^Z
 * stops the step, and steprun with it.
 */
#ifndef STEPD_CLI_ACROSS_USER_H
#define STEPD_CLI_ACROSS_USER_H

#include <stdbool.h>

#include "stepd/base/bitset.h"
#include "stepd/base/err.h"

struct ev_loop;
struct user;

struct user_events {
	void (*signal)(const char *name, void *userdata); /* for the tasks */
	void (*terminate)(bool now, void *userdata);
	void (*suspend)(bool on, void *userdata);
	void (*status)(void *userdata); /* is to be printed, a line on standard error */
};

/* After process_prepare(). events outlives the object. */
int user_new(struct ev_loop *loop, const struct user_events *events, void *userdata,
	struct user **ret_user, struct err *err) _must_check_;

/* Whether the user has ended the step, and by which signal. 0: not. */
int user_ended_by(const struct user *user);

struct user *user_free(struct user *user);

/* Which tasks of a step run, as far as is known. */
struct running {
	struct bitset ended;
	uint32_t ntasks;
};

/* 0 or -ENOMEM. */
int running_init(struct running *running, uint32_t ntasks) _must_check_;
void running_end(struct running *running, uint32_t rank);

/* Whether that task has ended, which a rank that is none of the step's has; whether any has. */
bool running_has_ended(const struct running *running, uint32_t rank);
bool running_any_ended(const struct running *running);

void running_print(const struct running *running);
void running_clear(struct running *running);

#endif
