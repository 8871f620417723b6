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
	void *userdata;              /* of the request */
};

/* The object that result.json has: a new reference. */
int target_read_result(const struct target *target, struct json_t **ret_result,
	struct stepd_error *error) _must_check_;

/* ---- requests to several steps ------------------------------------------------------------- */

typedef int (*request_fn)(struct ctl *ctl, struct target *target, struct stepd_error *error);

struct request {
	/* Calls a method of target->client and prints the reply. It runs twice: the first call of
	 * the library only sends the request and returns -EAGAIN, which is returned unchanged; the
	 * second waits for the reply. So all agents work at the same time. 0, or -errno with
	 * error. */
	request_fn run;
	bool in_turn; /* run() runs once, a step after the other, and may make any calls */

	/* In its place where no agent lives, for the enum stepd_presence of without_agent_if. */
	request_fn without_agent;
	enum stepd_presence without_agent_if;

	bool done;       /* success puts "done" into the entry */
	bool with_ranks; /* arguments are STEP[/RANKS] */
	bool for_ever;   /* without --timeout there is no end to the waiting */
	int steps;       /* how many of the arguments are steps; 0: all */
	void *userdata;  /* for run() and without_agent(), in the target */
};

/* 0 or -errno with ctl->err; what fails with a step is reported, and the others go on. */
int request_steps(struct ctl *ctl, const struct request *request) _must_check_;

#endif
