/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One call of a method of a step's agent, by libstepd and in an event loop: nothing here waits. It
 * has a connection of its own, so that a slow call does not hold up others.
 */
#ifndef SLURM_SOCKET_CALL_H
#define SLURM_SOCKET_CALL_H

#include <stdbool.h>

#include "stepd/api/client.h"
#include "stepd/base/cleanup.h"

struct call;
struct ev_loop;
struct json_t;

struct call_options {
	struct ev_loop *loop;
	const char *directory;  /* the step's */
	const char *method;     /* of io.stepd.Step */
	const char *parameters; /* JSON; NULL: none */
	bool more;
	unsigned timeout_ms; /* of the whole call */

	/* Called for each answer, of which "more" may bring several: 0, or -errno to give up. NULL:
	 * they are of no interest. */
	int (*piece)(const struct json_t *reply, void *userdata);
	/* Called once, at the end, from the loop: code is 0, or -errno with its reason in text. The
	 * call has been freed. */
	void (*done)(int code, const char *text, void *userdata);
	void *userdata;
};

/* Strings are copied or sent before this returns. */
int call_start(const struct call_options *options, struct call **ret_call,
	struct stepd_error *error) _must_check_;

/* Cancels the call without calling done(). NULL is fine. Returns NULL. */
struct call *call_cancel(struct call *call);

#endif
