/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs that have something in common, found by it: those of one user with the same name, for
 * --dependency=singleton. A group is there as long as one of its jobs is, and lists those that have
 * not ended by their numbers, so that its first one is the only one that waits for no other.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "contrib/jobd/engine/engine_impl.h"
#include "stepd/base/cleanup.h"

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

void groups_clear(struct engine *e)
{
	tdestroy(e->namesakes, namesakes_free);
	e->namesakes = NULL;
}
