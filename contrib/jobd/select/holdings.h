/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the jobs that have begun hold of nodes, cores and memory, counted by the host beside its
 * plugin: so that it sees at once what a plugin gives twice.
 */
#ifndef JOBD_SELECT_HOLDINGS_H
#define JOBD_SELECT_HOLDINGS_H

#include "stepd/api/select.h"

struct holder;

struct holdings {
	struct holder *jobs;
	size_t count, capacity;
	uint16_t *core_jobs, *core_alone; /* by core: jobs, and those that share it with nobody */
	uint16_t *node_jobs, *node_alone; /* by node, of jobs that have all of it */
	uint64_t *memory;                 /* by node, MB; without that of suspended jobs */
};

/* Of node_record_table_ptr, and of those of job_list that run or are suspended. */
void holdings_make(struct holdings *h);
void holdings_clear(struct holdings *h);

/* All of its job_resrcs, which stay as they are until it is removed. A job without, or one that is
 * there already, is passed over. */
void holdings_add(struct holdings *h, const job_record_t *job, bool suspended);
void holdings_remove(struct holdings *h, const job_record_t *job);
void holdings_set_suspended(struct holdings *h, const job_record_t *job, bool suspended);
bool holdings_is_suspended(const struct holdings *h, const job_record_t *job);

/* Whether a job that has not been added would get a core, or a whole node, that others have, and
 * not all of them share it. */
bool holdings_collide(const struct holdings *h, const job_record_t *job);

#endif
