/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The user of steprun, and whoever signals it. Most signals are for the tasks. ^C once prints which
 * tasks run, again within a second ends the step, and once more kills it; ^\ ends it at once. ^Z
 * stops the step, and steprun with it.
 */
#ifndef STEPD_CLI_ACROSS_USER_H
#define STEPD_CLI_ACROSS_USER_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/bitset.h"
#include "stepd/base/err.h"

struct user_events {
	void (*signal)(const char *name, void *userdata); /* for the tasks */
	void (*terminate)(bool now, void *userdata);
	void (*suspend)(bool on, void *userdata);
	void (*status)(void *userdata); /* is to be printed, a line on standard error */
};

/* All zero: not watched. */
struct user {
	int ended_by; /* the signal by which the user has ended the step; 0: not */

	/* For user.c alone. */
	struct ev_loop *loop;
	ev_io io;
	int64_t interrupted_ms; /* the last ^C */
	const struct user_events *events;
	void *userdata;
};

/* After process_prepare(). events outlives the object. */
int user_watch(struct user *user, struct ev_loop *loop, const struct user_events *events,
	void *userdata, struct err *err) _must_check_;
void user_clear(struct user *user);

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
