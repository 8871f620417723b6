/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step that an argument means, STEP or STEP/RANKS, and the connection to its agent.
 */
#ifndef STEPD_CLI_CTL_TARGET_H
#define STEPD_CLI_CTL_TARGET_H

#include "stepd/cli/ctl/ctl.h"

struct target {
	char *label;     /* "7.0"; what was given, while it is not known */
	char *node;      /* "" while it is not known */
	char *ranks;     /* NULL: all */
	char *directory; /* NULL: there is no such step */
	enum stepd_presence presence;
	struct stepd_client *client; /* NULL unless it lives */
	struct json_t *entry;        /* in ctl->steps; borrowed */
};

#define TARGET_INIT                                                                                \
	{                                                                                          \
		.label = NULL                                                                      \
	}

/* Finds the step; with_ranks: "/0-3" behind the step's own name are ranks. 0 or -errno with the
 * reason in error; label and entry are set either way, unless it is for want of memory. */
int target_find(struct ctl *ctl, const char *given, bool with_ranks, struct target *target,
	struct stepd_error *error) _must_check_;

/* Connects to its agent, and finds out who is there: 0 with target->client where it lives, and also
 * where it does not, which target->presence tells. */
int target_connect(struct ctl *ctl, struct target *target, struct stepd_error *error) _must_check_;

/* Both, and a complaint where one fails or no agent lives: 0, or -errno once it was said. */
int target_open(
	struct ctl *ctl, const char *given, bool with_ranks, struct target *target) _must_check_;

/* Says that the step has ended, or that its agent has died and what to do. Returns error->code. */
int target_say_gone(const struct target *target, struct stepd_error *error);

/* Fills error; returns code. */
int target_error(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);

void target_clear(struct target *target);
#define _cleanup_target_ _cleanup_(target_clear)

#endif
