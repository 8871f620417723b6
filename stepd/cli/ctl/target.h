/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The step that an argument means, STEP or STEP/RANKS, the connection to its agent, and requests to
 * the agents of several steps.
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
	struct json_t *entry;        /* in ctl->out.steps; borrowed */
};

#define TARGET_INIT                                                                                \
	{                                                                                          \
		.label = NULL                                                                      \
	}

/* Finds the step; with_ranks: "/0-3" behind the step's own name are ranks. 0 or -errno with the
 * reason in error; label and entry are set either way, unless it is for want of memory. */
int target_find(struct ctl *ctl, const char *given, bool with_ranks, struct target *target,
	struct stepd_error *error) _must_check_;

/* Connects to its agent: 0 with target->client, or where no agent lives without it, and
 * target->presence tells why. */
int target_connect(struct ctl *ctl, struct target *target, struct stepd_error *error) _must_check_;

/* Both; 0, or -errno once the failure, or the lack of an agent, has been reported. */
int target_open(
	struct ctl *ctl, const char *given, bool with_ranks, struct target *target) _must_check_;

/* The object that result.json has: a new reference. */
int target_read_result(const struct target *target, struct json_t **ret_result,
	struct stepd_error *error) _must_check_;

/* The error of a step without an agent: it has ended, or its agent has died. Returns its code. */
int target_gone(const struct target *target, struct stepd_error *error);

/* Puts "done" into the entry. */
int target_done(struct target *target, struct stepd_error *error);

/* Fills error; returns code. */
int target_error(struct stepd_error *error, int code, const char *fmt, ...) _printf_(3, 4);
int target_error_from(struct stepd_error *error, const struct err *err);
int target_no_memory(struct stepd_error *error);

void target_clear(struct target *target);
#define _cleanup_target_ _cleanup_(target_clear)

/* ---- requests to several steps ------------------------------------------------------------- */

typedef int (*request_fn)(struct ctl *ctl, struct target *target, struct stepd_error *error);

struct request {
	/* Calls a method of target->client and prints the reply. It runs twice: the first call of
	 * the library only sends the request and returns -EAGAIN, which is returned unchanged; the
	 * second waits for the reply. So all agents work at the same time. 0, or -errno with
	 * error. */
	request_fn run;

	/* In its place where no agent lives, for the enum stepd_presence of without_agent_if. */
	request_fn without_agent;
	enum stepd_presence without_agent_if;

	bool done;       /* success puts "done" into the entry */
	bool with_ranks; /* arguments are STEP[/RANKS] */
	bool for_ever;   /* without --timeout there is no end to the waiting */
	int steps;       /* how many of the arguments are steps; 0: all */
};

/* 0 or -errno with ctl->err; what fails with a step is reported, and the others go on. */
int request_steps(struct ctl *ctl, const struct request *request) _must_check_;

#endif
