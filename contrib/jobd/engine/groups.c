/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups of jobs: those of one user with the same name, for --dependency=singleton, and the tasks
 * of an array. A group exists as long as it has jobs.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/cleanup.h"

/* ---- user and name ------------------------------------------------------------------------------
 */

/* Its list has those that have not ended by their numbers: the first one alone waits for none. */
struct namesakes {
	uid_t uid;
	char *name;
	uint32_t refs;
	struct job *first, *last;
};

static int compare_namesakes(const void *a, const void *b)
{
	const struct namesakes *x = a, *y = b;

	if (x->uid != y->uid)
		return x->uid < y->uid ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void namesakes_free(void *group)
{
	free(((struct namesakes *)group)->name);
	free(group);
}

struct namesakes *namesakes_get(struct engine *e, uid_t uid, const char *name)
{
	struct namesakes wanted = {.uid = uid, .name = (char *)name}, *group;
	void *found = tfind(&wanted, &e->namesakes, compare_namesakes);

	if (found) {
		group = *(struct namesakes **)found;
		group->refs++;
		return group;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	*group = (struct namesakes){.uid = uid, .name = strdup(name), .refs = 1};
	if (!group->name || !tsearch(group, &e->namesakes, compare_namesakes)) {
		namesakes_free(group);
		return NULL;
	}
	return group;
}

void namesakes_put(struct engine *e, struct namesakes *group)
{
	if (!group || --group->refs > 0)
		return;
	(void)tdelete(group, &e->namesakes, compare_namesakes);
	namesakes_free(group);
}

void namesakes_add(struct job *job)
{
	struct namesakes *group = job->namesakes;
	struct job *before = group->last;

	if (job->is_namesake)
		return;
	/* numbers mostly rise */
	while (before && before->record.job_id > job->record.job_id)
		before = before->namesake_before;
	job->namesake_before = before;
	job->namesake_after = before ? before->namesake_after : group->first;
	*(before ? &before->namesake_after : &group->first) = job;
	*(job->namesake_after ? &job->namesake_after->namesake_before : &group->last) = job;
	job->is_namesake = true;
}

void namesakes_remove(struct job *job)
{
	struct namesakes *group = job->namesakes;
	struct job *before = job->namesake_before, *after = job->namesake_after;

	if (!job->is_namesake)
		return;
	*(before ? &before->namesake_after : &group->first) = after;
	*(after ? &after->namesake_before : &group->last) = before;
	job->namesake_before = job->namesake_after = NULL;
	job->is_namesake = false;
}

bool namesakes_is_first(const struct job *job)
{
	return job->namesakes->first == job;
}

void namesakes_move(struct engine *e, struct job *job, struct namesakes *group)
{
	bool listed = job->is_namesake;

	namesakes_remove(job);
	namesakes_put(e, job->namesakes);
	job->namesakes = group;
	if (listed)
		namesakes_add(job);
}

/* ---- arrays -------------------------------------------------------------------------------------
 */

static int compare_arrays(const void *a, const void *b)
{
	const struct job_array *x = a, *y = b;

	return x->job_id < y->job_id ? -1 : x->job_id > y->job_id;
}

struct job_array *array_find(const struct engine *e, uint32_t job_id)
{
	const struct job_array wanted = {.job_id = job_id};
	void *found = tfind(&wanted, &e->arrays, compare_arrays);

	return found ? *(struct job_array **)found : NULL;
}

int array_add(struct engine *e, struct job *job, uint32_t job_id)
{
	struct job_array *array = array_find(e, job_id);

	if (!array) {
		array = calloc(1, sizeof(*array));
		if (!array)
			return -ENOMEM;
		array->job_id = job_id;
		if (!tsearch(array, &e->arrays, compare_arrays)) {
			free(array);
			return -ENOMEM;
		}
	}
	job->array = array;
	job->record.array_job_id = job_id;
	job->task_before = array->last;
	*(array->last ? &array->last->task_after : &array->first) = job;
	array->last = job;
	return 0;
}

void array_remove(struct engine *e, struct job *job)
{
	struct job_array *array = job->array;

	if (!array)
		return;
	*(job->task_before ? &job->task_before->task_after : &array->first) = job->task_after;
	*(job->task_after ? &job->task_after->task_before : &array->last) = job->task_before;
	job->array = NULL;
	if (array->first)
		return;
	(void)tdelete(array, &e->arrays, compare_arrays);
	free(array);
}
