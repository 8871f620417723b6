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

/* Without the list of the resources' names. */
void step_record_pack(const struct step_record *r, struct pack *p);

#endif
