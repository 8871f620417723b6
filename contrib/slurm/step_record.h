/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Slurm's record of what tasks have used, read and added up: step_usage.h has its form. So the
 * nodes of a step become one record, as they go up the tree: times and sums are added, and of what
 * is the largest or the smallest of a task the node and the rank go with it.
 */
#ifndef SLURM_STEP_RECORD_H
#define SLURM_STEP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contrib/slurm/pack.h"

#define STEP_RECORD_UNKNOWN UINT64_MAX
#define STEP_RECORD_NO_LIST 0xfffffffeu /* in place of the resources' names */
/* In place of energy: a node has no counter of it. */
#define STEP_RECORD_NO_ENERGY UINT64_C(0xfffffffffffffffe)

/* Of one kind over all tasks, in the order in which the arrays are packed: of what is taken in, and
 * behind them of what is put out. */
enum step_column {
	STEP_COLUMN_MOST,
	STEP_COLUMN_MOST_NODE,
	STEP_COLUMN_MOST_TASK,
	STEP_COLUMN_LEAST,
	STEP_COLUMN_LEAST_NODE,
	STEP_COLUMN_LEAST_TASK,
	STEP_COLUMN_SUM,
	STEP_COLUMN_MAX,
};

/* All zero: there is none. */
struct step_record {
	uint64_t user_usec, system_usec, energy;
	uint32_t frequency;
	uint32_t n; /* kinds of resources */
	uint32_t *ids;
	uint64_t *values; /* 14 for each of them, those of one kind behind each other */
};

/* 0 with nothing in it also for a record that says that there is none. -EBADMSG; -ENOMEM. */
int step_record_read(struct step_record *r, const void *data, size_t size) _must_check_;
void step_record_clear(struct step_record *r);
#define _cleanup_step_record_ _cleanup_(step_record_clear)

/* Adds from to sum. -EINVAL: they count different resources. */
int step_record_add(struct step_record *sum, const struct step_record *from) _must_check_;

/* Seconds and microseconds. */
void step_record_pack_time(struct pack *p, uint64_t usec);

/* Without the list of the resources' names. */
void step_record_pack(const struct step_record *r, struct pack *p);

#endif
