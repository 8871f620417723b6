/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One call of a method of a step's agent, over libstepd and in an event loop: nothing here waits.
 * It has a connection of its own, so that a call which takes its time holds up no other.
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
	unsigned timeout_ms; /* for all of it */

	/* For each answer, with more than one where there is "more": 0, or -errno to give up. */
	int (*piece)(const struct json_t *reply, void *userdata);
	/* Once, at the end, from the loop: code is 0, or -errno with its reason in text. The call
	 * is no more. */
	void (*done)(int code, const char *text, void *userdata);
	void *userdata;
};

/* Strings are copied or sent before this returns. */
int call_start(const struct call_options *options, struct call **ret_call,
	struct stepd_error *error) _must_check_;

/* Nobody wants the answer any more; done() is not called. NULL is fine. Returns NULL. */
struct call *call_cancel(struct call *call);

#endif
