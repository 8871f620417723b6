/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The jobs that a client's text denotes: "12", "12_3", "12_[3-5,7]", "12+1".
 */
#ifndef JOBD_SERVER_TARGET_H
#define JOBD_SERVER_TARGET_H

#include <stdint.h>

#include "contrib/jobd/engine/engine.h"
#include "contrib/jobd/engine/job_array.h"

/* Their records, valid until the engine is called to advance. */
struct target {
	struct job **jobs; /* by rising job_id */
	size_t count;
};

/* "12" is a job, all tasks of array 12, or all components of heterogeneous job 12. -EINVAL: a
 * malformed text; -ESRCH: there is no such job. */
int target_find(struct engine *e, const char *text, struct target *ret_target,
	struct err *err) _must_check_;
void target_clear(struct target *target);
#define _cleanup_target_ _cleanup_(target_clear)

/* Whether nothing of the job runs or will run, unless it is queued again. */
bool target_has_ended(const struct job *job);

/* The index, for engine_get_job(), of the first job with this id or a higher one. */
size_t target_first_index(const struct engine *e, uint32_t job_id);

#endif
