/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The escalation: the signals of the spec's kill sequence, one after the other, each with the
 * time it leaves the step from its delivery on: where that takes long (a walk over a large /proc),
 * a task has its time all the same. When the last one, SIGKILL, has not emptied the container
 * within the unkillable timeout, the owner is notified and decides.
 */
#ifndef STEPD_STEP_KILLSEQ_H
#define STEPD_STEP_KILLSEQ_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct handover;
struct json_t;
struct spec_kill;

struct killseq {
	struct ev_loop *loop;
	const struct spec_kill *steps; /* borrowed */
	size_t count, next;
	uint64_t unkillable_timeout_ms;
	ev_timer timer;
	bool started;
	bool exhausted;  /* the unkillable timeout runs, or has run out */
	bool delivering; /* the last signal is on its way, and its time does not count yet */
	void (*send)(int signal, void *userdata);
	void (*unkillable)(void *userdata);
	void *userdata;
};

/* Sends the first signals at once. A second call changes nothing. */
void killseq_start(struct killseq *ks);

/* The step has that signal, or can't have it: the time that it leaves begins. Does nothing where
 * the last one sent was another, or is delivered. */
void killseq_delivered(struct killseq *ks, int signal);

/* Another sequence, borrowed like the first. One that runs goes on behind its last signal in the
 * new one, whose time counts since then; or at its begin, where that signal is not in it. False:
 * the one that runs is at its end as early, and stays. */
bool killseq_shorten(struct killseq *ks, const struct spec_kill *steps, size_t count);

/* Goes to the last signal now, whatever was to come before it. Repeats it if it was sent. */
void killseq_kill_now(struct killseq *ks);

/* The container is empty, or the owner gives up. */
void killseq_stop(struct killseq *ks);

/* Where it stands, for the program that goes on with it (handover.h). restore: ks is set up as for
 * killseq_start(), with the same steps. */
void killseq_save(const struct killseq *ks, struct handover *h, struct json_t *object);
void killseq_restore(struct killseq *ks, const struct json_t *object);

#endif
