/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backfill's plan: which resources jobs have at which time, from now on. The plan is a sequence of
 * slots; from the begin of a slot to the begin of the next one the same resources are free. It
 * starts with the running jobs, which end by their time limits, so that free resources only grow;
 * then pending jobs are booked, each from its start to its end.
 *
 * Most jobs have whole nodes. A job's part of a node is a share, with its cores and its memory. A
 * node without shares is either free or not.
 *
 * Times that are less than bf_resolution apart are taken as one, the later.
 */
#ifndef JOBD_ENGINE_PLAN_H
#define JOBD_ENGINE_PLAN_H

#include "contrib/jobd/engine/engine_impl.h"

/* Levels of free CPUs of a node: 1, 4, 16 or 64 and more. */
#define PLAN_LEVELS 4u

/* The counts only serve to skip slots: they are never less than what is free. */
struct slot {
	time_t begin;
	uint32_t nodes[PLAN_LEVELS]; /* with so many free CPUs */
	uint32_t freed;              /* nodes of which something becomes free at its begin */
	uint64_t cpus;               /* free CPUs of all nodes */
};

/* The least that a job needs: enough to see that it does not fit. */
struct plan_need {
	uint32_t nodes, most_nodes;
	uint32_t each;   /* CPUs on each of its nodes */
	uint64_t cpus;   /* of all */
	uint64_t memory; /* MB of each of its nodes; 0: memory is not counted; UINT64_MAX: all */
	time_t duration;
	bool preempts; /* it may get what others have of a node */
};

struct plan;

/* NULL: out of memory. It is used for one plan after the other. */
struct plan *plan_new(struct engine *e);
struct plan *plan_free(struct plan *p); /* NULL is fine. Returns NULL. */

/* Begins a new plan at the current time. */
void plan_begin(struct plan *p, time_t window_s);

struct plan_need plan_make_need(const struct engine *e, struct job *job);

bool plan_has_shares(const struct plan *p);
size_t plan_count(const struct plan *p);
const struct slot *plan_get_slot(const struct plan *p, size_t i);
bool plan_is_in_window(const struct plan *p, time_t t);
size_t plan_find_slot(const struct plan *p, time_t t); /* the slot that contains t */
/* Makes a slot that begins at this time, or soon after it, and returns it. */
size_t plan_split(struct plan *p, time_t t);

/* The first slot from i on after which enough is free for the job's duration, in each slot by
 * itself; plan_count(): none. */
size_t plan_skip(const struct plan *p, const struct plan_need *need, size_t i);

/* A lower bound of the job's start: no earlier start was found for jobs like it that need no more,
 * and the plan has only become fuller since. 0: unknown. */
time_t plan_get_earliest(const struct plan *p, const struct job *job, const struct plan_need *need);
/* Notes the first start that was found for a job; the job must live as long as the plan. */
void plan_note_earliest(
	struct plan *p, const struct job *job, const struct plan_need *need, time_t start);

/* Whether the job may be able to start now, by the counts of nodes and CPUs that are free now and
 * remain so. */
bool plan_may_start(struct plan *p, const struct plan_need *need, const bitstr_t *part_nodes);

/* The nodes and cores that are free from slot i on for a job's duration. */
struct plan_space {
	bitstr_t *nodes;           /* of which something is free */
	bool all_clear;            /* no running job has any of them any more */
	const bitstr_t *exc_cores; /* booked cores of these nodes; NULL: none. The plan's, until the
				    * next space is made */
	size_t next;               /* if there is not enough: the slot from which to search on */
};
/* Fills space; space->nodes is the caller's bitmap. False: there is not enough. */
bool plan_find_space(struct plan *p, const struct plan_need *need, size_t i,
	const bitstr_t *possible, struct plan_space *space);

/* Finds nodes of the last space that have no running jobs: the first that suffice, those first that
 * became free first. False: there are not enough. */
bool plan_find_clear(
	struct plan *p, const struct plan_need *need, const bitstr_t *nodes, bitstr_t *clear);

/* Whether r's part of these nodes, which are of the last space, is free from one time to another; r
 * NULL or without a bitmap of cores: the whole nodes. *ret_node: a node that is not free. */
bool plan_is_free(const struct plan *p, const bitstr_t *nodes, const job_resources_t *r,
	time_t from, time_t to, uint32_t *ret_node);

/* Books these nodes, or r's part of them, from the slot that contains one time to another time. */
void plan_book(
	struct plan *p, const bitstr_t *nodes, const job_resources_t *r, time_t from, time_t to);
/* Books a job that has just started. */
void plan_start(struct plan *p, const struct job *job);

#endif
