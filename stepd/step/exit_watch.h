/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waits for the ends of processes that are not our children, by pidfds, and learns their exit
 * statuses from the kernel: of a zombie from /proc, and of one that its parent has reaped by
 * PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15), which forgets none while a pidfd of it is open.
 * Where a process is gone before it was polled and the kernel is older, or where /proc hides it
 * and its parent doesn't reap it within a second, the status is not known.
 */
#ifndef STEPD_STEP_EXIT_WATCH_H
#define STEPD_STEP_EXIT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "stepd/base/pidref.h"

struct ev_loop;
struct exit_watch;
struct handover;
struct json_t;

struct exit_watch_calls {
	/* Once for each process. */
	void (*ended)(uint32_t key, bool known, int wait_status, void *userdata);
	/* From the loop, when all that have ended by now were reported. */
	void (*settled)(void *userdata);
	void *userdata;
};

int exit_watch_open(struct ev_loop *loop, const struct exit_watch_calls *calls,
	struct exit_watch **ret_watch) _must_check_;

/* Takes ref over, on success only; one that has ended already is reported as well. key is for the
 * caller. Not within ended(). */
int exit_watch_add_take(struct exit_watch *w, struct pidref *ref, uint32_t key) _must_check_;

/* How many have not been reported. */
size_t exit_watch_count(const struct exit_watch *w);

/* Tells of those that have ended by now, but for settled(). NULL is fine. */
void exit_watch_poll(struct exit_watch *w);

/* For the program that goes on with them (handover.h): the pidfds survive. restore: after
 * exit_watch_open(); who has ended meanwhile is reported by the next poll. 0, -EPROTO where a pidfd
 * is missing, or -errno. */
void exit_watch_save(const struct exit_watch *w, struct handover *h, struct json_t *object);
int exit_watch_restore(struct exit_watch *w, const struct json_t *object) _must_check_;

/* NULL is fine. Returns NULL. */
struct exit_watch *exit_watch_close(struct exit_watch *w);

#endif
