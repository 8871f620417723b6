/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backfill's plan: who has what when, from now on. The plan is a row of slots, in each of which as
 * much is free from its begin to the next one's. It begins with the jobs that run, by the ends that
 * their time limits give them, so that what is free only grows; then jobs that wait are booked,
 * each from its start to its end.
 *
 * A job mostly has all of its nodes. What has a part of a node is a share: with the cores and the
 * memory that it has. A node without shares is free, or it is not.
 *
 * Times that are less than bf_resolution apart are one, the later.
 */
#ifndef JOBD_ENGINE_PLAN_H
#define JOBD_ENGINE_PLAN_H

#include "contrib/jobd/engine/engine_impl.h"

/* CPUs of a node, from 1, 4, 16 or 64 on. */
#define PLAN_LEVELS 4u

/* What can be counted is only for skipping: never less than there is. */
struct slot {
	time_t begin;
	uint32_t nodes[PLAN_LEVELS]; /* that have so many CPUs free */
	uint32_t freed;              /* nodes that get something free at its begin */
	uint64_t cpus;               /* that are free, of all nodes */
};

/* What a job needs at least: all that it takes to see that it does not fit. */
struct plan_need {
	uint32_t nodes, most_nodes;
	uint32_t each;   /* CPUs of each of its nodes */
	uint64_t cpus;   /* of all */
	uint64_t memory; /* MB of each of its nodes; 0: memory is not counted; UINT64_MAX: all */
	time_t duration;
	bool preempts; /* what others have of a node may be its own */
};

struct plan;

/* NULL: no memory. It is for one plan after the other. */
struct plan *plan_new(struct engine *e);
struct plan *plan_free(struct plan *p); /* NULL is fine. Returns NULL. */

/* Of now. */
void plan_begin(struct plan *p, time_t window_s);

struct plan_need plan_make_need(const struct engine *e, struct job *job);

bool plan_has_shares(const struct plan *p);
size_t plan_count(const struct plan *p);
const struct slot *plan_get_slot(const struct plan *p, size_t i);
bool plan_is_in_window(const struct plan *p, time_t t);
size_t plan_find_slot(const struct plan *p, time_t t); /* in which it lies */
/* The slot that begins at this time from now on, or soon after it. */
size_t plan_split(struct plan *p, time_t t);

/* The first slot from i on in which enough is free as long as the job needs it, each slot seen by
 * itself; plan_count(): none. */
size_t plan_skip(const struct plan *p, const struct plan_need *need, size_t i);

/* In a plan that only gets fuller: no start of the job before this time is possible, since others
 * like it that need no more were not found an earlier one. 0: nothing is known. */
time_t plan_get_earliest(const struct plan *p, const struct job *job, const struct plan_need *need);
/* The first start that was found for a job, which is as long as the plan. */
void plan_note_earliest(
	struct plan *p, const struct job *job, const struct plan_need *need, time_t start);

/* Whether the job can start now, as far as nodes and CPUs tell that are free now and stay so. */
bool plan_may_start(struct plan *p, const struct plan_need *need, const bitstr_t *part_nodes);

/* What is free from slot i on as long as the job needs it, of the nodes that it may have. */
struct plan_space {
	bitstr_t *nodes;           /* of which something is free */
	bool all_clear;            /* no job of now runs on any of them any more */
	const bitstr_t *exc_cores; /* booked cores of these nodes; NULL: none. The plan's, until the
				    * next space is made */
	size_t next;               /* where it is not enough: the slot from which to search on */
};
/* space->nodes is the caller's, and is filled. False: not enough. */
bool plan_find_space(struct plan *p, const struct plan_need *need, size_t i,
	const bitstr_t *possible, struct plan_space *space);

/* Of the nodes of the last space those without jobs of now: the first that suffice of those of
 * which something came free first. False: they are not enough. */
bool plan_find_clear(
	struct plan *p, const struct plan_need *need, const bitstr_t *nodes, bitstr_t *clear);

/* Whether all of it is free from one time to another: of these nodes, of the last space, what r
 * has; r NULL, or without a bitmap of cores: all of them. *ret_node: one that is not. */
bool plan_has_room(const struct plan *p, const bitstr_t *nodes, const job_resources_t *r,
	time_t from, time_t to, uint32_t *ret_node);

/* From the slot in which one time lies to another time somebody has all of these nodes, or what r
 * has of them. */
void plan_book(
	struct plan *p, const bitstr_t *nodes, const job_resources_t *r, time_t from, time_t to);
/* A job has just started. */
void plan_start(struct plan *p, const struct job *job);

#endif
