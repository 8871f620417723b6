/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One method asked of several steps: all are asked before the first answer is waited for, so that
 * it takes as long as the slowest of them.
 */
#ifndef STEPD_CLI_CTL_ASK_H
#define STEPD_CLI_CTL_ASK_H

#include "stepd/cli/ctl/target.h"

struct ask {
	const char *method;
	bool with_ranks;  /* arguments are STEP[/RANKS] */
	bool for_ever;    /* without --timeout there is no end to the waiting */
	int steps;        /* how many of the arguments are steps; 0: all */
	uint64_t gone_ok; /* bits 1 << enum stepd_presence: gone() takes it */

	/* The parameters of the call: a new reference, or NULL with the reason in error. NULL: the
	 * method has none. */
	struct json_t *(*make)(
		struct ctl *ctl, const struct target *target, struct stepd_error *error);

	/* Takes the answer. NULL: an answer means that it was done. 0, or -errno with error. */
	int (*take)(struct ctl *ctl, struct target *target, const struct json_t *reply,
		struct stepd_error *error);

	/* In place of both where no agent lives. */
	int (*gone)(struct ctl *ctl, struct target *target, struct stepd_error *error);
};

/* 0 or -errno with ctl->err; what fails with a step is said, and the others go on. */
int ask_steps(struct ctl *ctl, const struct ask *ask) _must_check_;

/* For ask.take: an entry's "done". */
int ask_take_done(struct ctl *ctl, struct target *target, const struct json_t *reply,
	struct stepd_error *error);

/* Parses an agent's reply: a new reference. -EPROTO with error. */
int ask_parse(const char *text, struct json_t **ret_doc, struct stepd_error *error) _must_check_;

#endif
