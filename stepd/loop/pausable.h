/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A timer that can stand still: time limits don't run while the step is suspended.
 */
#ifndef STEPD_LOOP_PAUSABLE_H
#define STEPD_LOOP_PAUSABLE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

struct handover;
struct json_t;

struct pausable {
	struct ev_loop *loop;
	ev_timer timer;
	bool set; /* runs, or would if it were not paused */
	bool paused;
	double left_sec; /* while it is paused */
};

/* expired gets userdata as its watcher's data. */
void pausable_init(struct pausable *p, struct ev_loop *loop,
	void (*expired)(struct ev_loop *loop, ev_timer *w, int revents), void *userdata);

/* Begins to count, or will when it goes on. */
void pausable_start(struct pausable *p, uint64_t ms);

/* Forgets it. One that was never begun is fine. */
void pausable_stop(struct pausable *p);

bool pausable_is_set(const struct pausable *p);

void pausable_pause(struct pausable *p);
void pausable_continue(struct pausable *p);

/* For the program that goes on with it (handover.h). restore: after pausable_init(). */
void pausable_save(const struct pausable *p, struct handover *h, struct json_t *object);
void pausable_restore(struct pausable *p, const struct json_t *object);

#endif
