/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The nodes, cores and memory of the jobs that have begun, counted by the host besides its plugin,
 * to detect at once what a plugin gives twice.
 */
#ifndef JOBD_SELECT_HOLDINGS_H
#define JOBD_SELECT_HOLDINGS_H

#include "stepd/api/select.h"

struct holder;

struct holdings {
	struct holder *jobs;
	size_t count, capacity;
	uint16_t *core_jobs, *core_alone; /* by core: jobs, and those that don't share it */
	uint16_t *node_jobs, *node_alone; /* by node, of jobs that have all of it */
	uint64_t *memory;                 /* by node, MB; without that of suspended jobs */
};

/* Counts the running and suspended jobs of job_list on node_record_table_ptr. */
void holdings_make(struct holdings *h);
void holdings_clear(struct holdings *h);

/* Adds all of its job_resrcs, which must not change until it is removed. Ignores a job without
 * them, and one that was added before. */
void holdings_add(struct holdings *h, const job_record_t *job, bool suspended);
void holdings_remove(struct holdings *h, const job_record_t *job);
void holdings_set_suspended(struct holdings *h, const job_record_t *job, bool suspended);
bool holdings_is_suspended(const struct holdings *h, const job_record_t *job);

/* Whether a job that has not been added would get a core, or a whole node, of other jobs not all of
 * which share it. */
bool holdings_collide(const struct holdings *h, const job_record_t *job);

#endif
