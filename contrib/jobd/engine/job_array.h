/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Index lists of job arrays: the syntax of sbatch's --array, and the form that squeue prints.
 */
#ifndef JOBD_ENGINE_JOB_ARRAY_H
#define JOBD_ENGINE_JOB_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "stepd/base/cleanup.h"
#include "stepd/base/err.h"

/* MaxArraySize of slurm.conf: its default, and its limit. */
#define JOB_ARRAY_SIZE_DEFAULT 1001u
#define JOB_ARRAY_SIZE_MAX     4000001u

/* SLURM_BITSTR_LEN of squeue. */
#define JOB_ARRAY_TEXT_DEFAULT 64u

struct job_array_tasks {
	uint32_t *ids;  /* ascending, each once; malloc() */
	size_t count;   /* not 0 */
	uint32_t limit; /* how many may run at a time; 0: all */
};

/* Parses "0-9:2,15%3", with or without brackets around it. Ids are below max_size, which is at most
 * JOB_ARRAY_SIZE_MAX; duplicates count once. -EINVAL, -ERANGE (an id is too large) or
 * -E2BIG with a sentence for the user. Takes memory and time for max_size ids at most, whatever the
 * text. */
int job_array_parse(const char *text, uint32_t max_size, struct job_array_tasks *ret_tasks,
	struct err *err) _must_check_;
void job_array_tasks_clear(struct job_array_tasks *tasks);
#define _cleanup_job_array_tasks_ _cleanup_(job_array_tasks_clear)

/* Formats ascending ids as "[0-3,5%2]". Ids at an equal distance above 1 are "0-20:2" if the
 * last one is more than 10 above the first. A text longer than max_chars, without brackets and
 * limit, is cut after an id and ends with "..."; 0: no limit. The caller frees it; NULL: out of
 * memory. */
char *job_array_format(const struct job_array_tasks *tasks, size_t max_chars) _must_check_;

#endif
