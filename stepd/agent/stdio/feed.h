/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hands one input to several tasks: each gets every byte. A piece is read when all have taken the
 * one before, so the slowest reader sets the pace and one buffer serves them all. A task that
 * closed its stdin is left out; when the input ends, each has the end of its pipe.
 */
#ifndef STEPD_AGENT_FEED_H
#define STEPD_AGENT_FEED_H

#include "stepd/base/cleanup.h"

struct ev_loop;
struct feed;
struct log;

/* fd is borrowed. */
int feed_new(
	struct ev_loop *loop, const struct log *log, int fd, struct feed **ret_feed) _must_check_;

/* fd is the writing end of a task's pipe, not blocking; the feed's from the call on, on failure
 * too. */
int feed_add_take(struct feed *feed, int fd) _must_check_;

void feed_start(struct feed *feed);

struct feed *feed_free(struct feed *feed);
DEFINE_CLEANUP(struct feed *, feed_free);

#endif
