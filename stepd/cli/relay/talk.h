/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a step's supervisor says to its agent, and hears of it, through the control socket:
 * requests, one after the other, and the events of the step. The connections are libstepd's,
 * watched by the loop; nothing waits.
 */
#ifndef STEPD_CLI_RELAY_TALK_H
#define STEPD_CLI_RELAY_TALK_H

#include <stdint.h>

#include "stepd/base/err.h"

struct ev_loop;
struct stepd_event;
struct talk;

struct talk_events {
	/* A request was refused. */
	void (*refused)(const char *why, void *userdata);
	void (*event)(const struct stepd_event *event, void *userdata);
};

/* Connects to the step of that name, "n1/7.0". runtime_dir NULL: as stepd_connect() has it. events
 * outlives the object. */
int talk_open(struct ev_loop *loop, const char *runtime_dir, const char *name,
	const struct talk_events *events, void *userdata, struct talk **ret_talk,
	struct err *err) _must_check_;

/* signal: as the method Signal takes it. */
void talk_signal(struct talk *talk, const char *signal);

/* kill_sequence NULL: the step's own. */
void talk_terminate(struct talk *talk, const char *kill_sequence);

/* NULL is fine; returns NULL. */
struct talk *talk_free(struct talk *talk);

#endif
