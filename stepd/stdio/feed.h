/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hands one input to several tasks: each gets every byte. A piece is read when all have taken the
 * one before, so the slowest reader sets the pace and one buffer serves them all. A task that
 * closed its stdin is left out; when the input ends, each has the end of its pipe.
 */
#ifndef STEPD_STDIO_FEED_H
#define STEPD_STDIO_FEED_H

#include "stepd/base/cleanup.h"

struct ev_loop;
struct feed;
struct handover;
struct json_t;
struct log;

/* fd is borrowed. */
int feed_new(
	struct ev_loop *loop, const struct log *log, int fd, struct feed **ret_feed) _must_check_;

/* fd is the writing end of a task's pipe, not blocking; the feed's from the call on, on failure
 * too. */
int feed_add_take(struct feed *feed, int fd) _must_check_;

void feed_start(struct feed *feed);

/* For the program that goes on with it (handover.h), with the piece that not all tasks have. */
void feed_save(const struct feed *feed, struct handover *h, struct json_t *object);
int feed_restore(struct ev_loop *loop, const struct log *log, const struct handover *h,
	const struct json_t *object, struct feed **ret_feed) _must_check_;

struct feed *feed_free(struct feed *feed);
DEFINE_CLEANUP(struct feed *, feed_free);
#define _cleanup_feed_ _cleanup_(feed_free_p)

#endif
