/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of a step on this node, and on those below it, REQUEST_STEP_COMPLETE.
 *
 * slurmd puts the agents of a step of 7 nodes or more into a tree: they are numbered, and the next
 * numbers after an agent's own are those of all agents below it. Each waits for those below it, and
 * reports ranges of numbers, with the largest status among them, to the slurmd of its parent's
 * node, which brings the report to the agent there by its socket. The first one, and every agent of
 * a smaller step, reports to slurmctld.
 *
 * Agents that have not reported within 60 s from the end on this node, and 3 s for each level below
 * it, are left out: what comes from them later is refused, and they report to slurmctld themselves.
 * So does an agent whose parent is gone or refuses, after five tries, a second apart. What is
 * reported twice counts once. The first range has the record of accounting, in which this node's
 * and those of the agents below are added up.
 */
#ifndef SLURM_TREE_H
#define SLURM_TREE_H

#include "contrib/slurm/decision.h"
#include "contrib/slurm/hosts.h"
#include "contrib/slurm/pack.h"
#include "stepd/base/bitset.h"

struct ev_loop;
struct slurm_auth;
struct tree;

/* ---- who has reported ---------------------------------------------------------------------- */

struct tree_ranks {
	uint32_t first, count;  /* this agent's number; with it, so many of them */
	struct bitset reported; /* counted from first */
	uint32_t missing;
	int32_t status; /* the largest one */
};

/* Nobody has. 0 or -ENOMEM. */
int tree_ranks_init(struct tree_ranks *ranks, uint32_t rank, uint32_t below) _must_check_;
void tree_ranks_clear(struct tree_ranks *ranks);

/* Those from first to last have, also again. -ERANGE: some of them are not of this part of the
 * tree. */
int tree_ranks_add(
	struct tree_ranks *ranks, uint32_t first, uint32_t last, int32_t status) _must_check_;

/* Whether all from first to last have; they are of this part. */
bool tree_ranks_have(const struct tree_ranks *ranks, uint32_t first, uint32_t last);

/* The first of the ranges that have, from a number on; false: there is none. */
bool tree_ranks_next(
	const struct tree_ranks *ranks, uint32_t from, uint32_t *ret_first, uint32_t *ret_last);

/* ---- the reports --------------------------------------------------------------------------- */

struct tree_options {
	struct ev_loop *loop;
	const struct log *log;
	const char *label; /* the step's, for messages */
	const struct slurm_auth *auth;
	const struct slurm_init *init;
	/* From the loop, once, after tree_end_take(): all is reported. */
	void (*done)(void *userdata);
	void *userdata;
};

/* What options points to outlives the tree. -EBADMSG: slurmd's numbers contradict each other. */
int tree_new(
	const struct tree_options *options, struct tree **ret_tree, struct err *err) _must_check_;

/* What agents below report. */
struct tree_report {
	uint32_t first, last;
	int32_t status;
	const void *record; /* of their accounting, step_record.h */
	size_t record_size;
};

/* 0; ETIMEDOUT: this one waits no longer; ERANGE: they are not below. */
int tree_take_report(struct tree *tree, const struct tree_report *report);

/* What is reported of this node, and to which slurmctld. */
struct tree_end {
	int32_t status;
	bool decides; /* that is the status of all, whatever the nodes below report */
	struct hosts controllers;
	struct pack record; /* of accounting; empty: none */
};

/* The step is over on this node. What end has is taken over. */
void tree_end_take(struct tree *tree, struct tree_end *end);

/* NULL is fine. Returns NULL. */
struct tree *tree_free(struct tree *tree);
DEFINE_CLEANUP(struct tree *, tree_free);

#endif
