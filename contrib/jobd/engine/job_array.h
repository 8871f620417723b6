/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Job arrays as their users write them, sbatch's --array, and as squeue shows them.
 */
#ifndef JOBD_ENGINE_JOB_ARRAY_H
#define JOBD_ENGINE_JOB_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

/* MaxArraySize of slurm.conf: what it is if it isn't given, and at most. */
#define JOB_ARRAY_SIZE_DEFAULT 1001u
#define JOB_ARRAY_SIZE_MAX     4000001u

/* SLURM_BITSTR_LEN of squeue. */
#define JOB_ARRAY_TEXT_DEFAULT 64u

struct job_array_tasks {
	uint32_t *ids;  /* ascending, each once; malloc() */
	size_t count;   /* not 0 */
	uint32_t limit; /* how many may run at a time; 0: all */
};

/* Of "0-9:2,15%3", with brackets about it or without. Ids are below max_size, which is at most
 * JOB_ARRAY_SIZE_MAX; one that is named twice counts once. -EINVAL, -ERANGE (an id is too large) or
 * -E2BIG with a sentence for the user. Takes memory and time for max_size ids at most, whatever the
 * text. */
int job_array_parse(const char *text, uint32_t max_size, struct job_array_tasks *ret_tasks,
	struct err *err) _must_check_;
void job_array_tasks_clear(struct job_array_tasks *tasks);
#define _cleanup_job_array_tasks_ _cleanup_(job_array_tasks_clear)

/* "[0-3,5%2]" of ascending ids. Those at an equal distance above 1 are "0-20:2" if they go beyond
 * 10 ids. What would be longer than max_chars, without brackets and limit, is cut behind an id and
 * ends with "..."; 0: nothing is cut. The caller frees it; NULL: no memory. */
char *job_array_format(const struct job_array_tasks *tasks, size_t max_chars) _must_check_;

#endif
