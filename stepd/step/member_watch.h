/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notices that a container has become empty where its tracker reports no changes and its last
 * processes are no children of the agent (added ones, or of a step that was taken over): no SIGCHLD
 * reports their ends. While one of them lives the container is not empty; so one at a time is held
 * by a pidfd, and when it has ended the members are read again.
 */
#ifndef STEPD_STEP_MEMBER_WATCH_H
#define STEPD_STEP_MEMBER_WATCH_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"

struct proctrack;

struct member_watch {
	struct ev_loop *loop;
	int pidfd; /* of the member that is watched; -1: none is */
	ev_io io;
	ev_timer again; /* where none could be watched */
	void (*ended)(void *userdata);
	void *userdata;
};

#define MEMBER_WATCH_INIT                                                                          \
	{                                                                                          \
		.pidfd = -1                                                                        \
	}

/* Watches any member, if none is watched yet. False: there is none, or none that could be held, for
 * they end faster than they are listed or no descriptor is to be had; then they are read again in a
 * second, unless a SIGCHLD comes before. */
bool member_watch_any(struct member_watch *w, struct proctrack *pt, uint64_t cont_id);

void member_watch_stop(struct member_watch *w);

#endif
