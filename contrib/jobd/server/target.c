/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/jobd/server/target.h"

#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/base/strv.h"

#define TARGET_TEXT_MAX 65536u

bool target_has_ended(const struct job *job)
{
	const uint32_t state = job->record.job_state;

	return (state & JOB_STATE_BASE) >= JOB_COMPLETE && !(state & JOB_COMPLETING);
}

/* There are holes where jobs were forgotten: the search steps over them. */
size_t target_first_index(const struct engine *e, uint32_t job_id)
{
	size_t low = 0, high = engine_count_jobs(e), middle, i;
	const struct job *job;

	while (low < high) {
		middle = low + (high - low) / 2;
		for (i = middle, job = NULL; i < high && !job; i++)
			job = engine_get_job(e, i);
		if (job && job->record.job_id < job_id)
			low = i;
		else
			high = middle;
	}
	return low;
}

/* ---- the text -----------------------------------------------------------------------------------
 */

struct pattern {
	uint32_t job_id;
	uint32_t offset; /* of a component; NO_VAL: none is named */
	bool has_tasks;
	struct job_array_tasks tasks; /* with has_tasks */
};

static void pattern_clear(struct pattern *p)
{
	job_array_tasks_clear(&p->tasks);
}

#define _cleanup_pattern_ _cleanup_(pattern_clear)

static int parse_pattern(
	const char *text, uint32_t max_array_size, struct pattern *ret_pattern, struct err *err)
{
	const char *tasks = strchr(text, '_'), *offset = strchr(text, '+');
	_cleanup_pattern_ struct pattern p = {.has_tasks = tasks != NULL, .offset = NO_VAL};
	_cleanup_free_ char *number = strndup(text, strcspn(text, "_+"));
	int r = 0;

	if (!number)
		return err_set(err, -ENOMEM, "find the job");
	if (strlen(text) > TARGET_TEXT_MAX || parse_u32(number, 1, NO_VAL - 1, &p.job_id) < 0 ||
		(tasks && (strchr(tasks, '%') || offset)) ||
		(offset && parse_u32(offset + 1, 0, ENGINE_COMPONENTS_MAX - 1, &p.offset) < 0))
		return err_set_text(err, -EINVAL,
			"'%.100s' is not a job: give a number such as 12, or 12_3, 12_[3-5,7] for "
			"tasks of an array, 12+1 for a component",
			text);
	if (tasks)
		r = job_array_parse(tasks + 1, max_array_size, &p.tasks, err);
	if (r < 0)
		return err_prefix(err, "job '%.100s'", text);
	*ret_pattern = take_struct(p);
	return 0;
}

/* ---- jobs ---------------------------------------------------------------------------------------
 */

static int compare_ids(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static bool is_meant(const struct pattern *p, const struct job *job)
{
	if (p->offset != NO_VAL)
		return job->record.het_job_id == p->job_id &&
			job->record.het_job_offset == p->offset;
	if (job->record.het_job_id == p->job_id)
		return !p->has_tasks;
	if (job->record.array_job_id != p->job_id)
		return !p->has_tasks && job->record.job_id == p->job_id;
	return !p->has_tasks ||
		bsearch(&job->record.array_task_id, p->tasks.ids, p->tasks.count,
			sizeof(*p->tasks.ids), compare_ids);
}

static int add_job(struct target *t, size_t *capacity, struct job *job)
{
	struct job **grown;

	if (t->count == *capacity) {
		*capacity = *capacity ? 2 * *capacity : 4;
		grown = reallocarray(t->jobs, *capacity, sizeof(struct job *));
		if (!grown)
			return -ENOMEM;
		t->jobs = grown;
	}
	t->jobs[t->count++] = job;
	return 0;
}

/* Tasks have ids behind their array's first, which may be forgotten before them. */
static int collect(struct engine *e, const struct pattern *p, struct target *t)
{
	const struct job *first = p->has_tasks ? NULL : engine_find_job(e, p->job_id);
	const bool is_one = first && first->record.array_job_id != p->job_id &&
		first->record.het_job_id != p->job_id;
	size_t i = target_first_index(e, p->job_id), capacity = 0;
	const size_t count = engine_count_jobs(e);
	struct job *job;
	int r = 0;

	for (; r == 0 && i < count; i++) {
		job = engine_get_job(e, i);
		if (job && is_meant(p, job))
			r = add_job(t, &capacity, job);
		if (is_one && t->count == 1)
			break;
	}
	return r;
}

int target_find(struct engine *e, const char *text, struct target *ret_target, struct err *err)
{
	_cleanup_pattern_ struct pattern p = {0};
	_cleanup_target_ struct target t = {NULL, 0};
	int r = parse_pattern(text, engine_get_conf(e)->max_array_size, &p, err);

	if (r < 0)
		return r;
	if (collect(e, &p, &t) < 0)
		return err_set(err, -ENOMEM, "find job '%.100s'", text);
	if (t.count == 0)
		return err_set_text(
			err, -ESRCH, "there is no job %.100s, or it has ended some time ago", text);
	*ret_target = take_struct(t);
	return 0;
}

void target_clear(struct target *t)
{
	free(t->jobs);
	*t = (struct target){NULL, 0};
}
