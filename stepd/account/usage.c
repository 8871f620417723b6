/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/usage.h"

#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "proctrack/procusage.h"
#include "stepd/account/usage_values.h"
#include "stepd/snapshot/handover.h"

int usage_open(struct usage *u, uint32_t n)
{
	*u = (struct usage){.kept = true};
	u->tasks = calloc((size_t)n + 1, sizeof(*u->tasks));
	u->look = calloc((size_t)n + 1, sizeof(*u->look));
	if (u->tasks && u->look)
		return 0;
	usage_clear(u);
	return -ENOMEM;
}

void usage_clear(struct usage *u)
{
	free(u->tasks);
	free(u->look);
	*u = (struct usage){0};
}

static int grow(stepd_usage_t **v, uint32_t n, uint32_t more)
{
	stepd_usage_t *grown = realloc(*v, ((size_t)n + more + 1) * sizeof(**v));

	if (!grown)
		return -ENOMEM;
	memset(grown + n, 0, ((size_t)more + 1) * sizeof(*grown));
	*v = grown;
	return 0;
}

int usage_grow(struct usage *u, uint32_t n, uint32_t more)
{
	int r = u->tasks ? grow(&u->tasks, n, more) : 0;

	return r == 0 && u->look ? grow(&u->look, n, more) : r;
}

/* /proc has forgotten those that ended; the agent has not. */
static void add_waited(const struct usage *u, stepd_usage_t *look)
{
	stepd_usage_t more = u->waited;
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (look->source[i] != STEPD_USAGE_PROC)
			more.source[i] = STEPD_USAGE_UNKNOWN;
	}
	usage_add(look, &more);
}

int usage_look(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job)
{
	stepd_usage_t step = {0};
	uint32_t i;
	int r;

	r = proctrack_usage_tasks(pt, job->cont_id, job->task, job->node_tasks, &step, u->look);
	if (r < 0)
		return r;
	add_waited(u, &step);
	usage_update(&u->step, &step);
	for (i = 0; i < job->node_tasks; i++)
		usage_update(&u->tasks[i], &u->look[i]);
	return 0;
}

void usage_reaped(struct usage *u, const struct rusage *ru)
{
	stepd_usage_t more;

	usage_from_rusage(ru, u->floor_kib, &more);
	usage_add(&u->waited, &more);
}

/* What was true of processes at a moment is not when they have ended. */
static void forget_moment(stepd_usage_t *usage)
{
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		if (usage_values[i].now && usage->source[i] == STEPD_USAGE_PROC)
			usage->source[i] = STEPD_USAGE_UNKNOWN;
	}
}

void usage_task_ended(
	struct usage *u, uint32_t local_id, const stepd_usage_t *counted, const struct rusage *ru)
{
	stepd_usage_t last = counted ? *counted : (stepd_usage_t){0}, waited = {0};

	if (ru)
		usage_from_rusage(ru, u->floor_kib, &waited);
	procusage_fill(&last, &waited);
	usage_update(&u->tasks[local_id], &last);
	forget_moment(&u->tasks[local_id]);
}

void usage_finish(struct usage *u, struct proctrack *pt, const stepd_step_rec_t *job)
{
	stepd_usage_t last;
	uint32_t i;

	for (i = 0; i < job->node_tasks; i++) {
		/* it stands where the task has left processes behind */
		if (proctrack_usage(pt, job->cont_id, &job->task[i].gtid, &last) == 0)
			usage_update(&u->tasks[i], &last);
	}
	if (proctrack_usage(pt, job->cont_id, NULL, &last) < 0)
		last = (stepd_usage_t){0}; /* what was seen before stays */
	forget_moment(&last); /* the host's own look at a tracker that counts nothing */
	procusage_fill(&last, &u->waited);
	usage_update(&u->step, &last);
	forget_moment(&u->step);
}

/* ---- handed over to a new program ---------------------------------------------------------- */

/* The letters of the sources and then the values, in the order of the names that stand there once:
 * a step of 1,000 tasks has 17,000 of them. */
static void save_values(const stepd_usage_t *usage, struct handover *h, json_t *array)
{
	char letters[STEPD_USAGE_COUNT + 1] = "";
	int i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		letters[i] = usage_source_letters[usage->source[i]];
	handover_append_text(h, array, letters);
	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		handover_append_int(h, array, (int64_t)usage->value[i]);
}

void usage_save(const struct usage *u, uint32_t n, struct handover *h, json_t *object)
{
	json_t *names = handover_put_array(h, object, "names"), *tasks;
	uint32_t i;

	for (i = 0; i < STEPD_USAGE_COUNT; i++)
		handover_append_text(h, names, usage_values[i].name);
	handover_put_bool(h, object, "kept", u->kept);
	save_values(&u->step, h, handover_put_array(h, object, "step"));
	save_values(&u->waited, h, handover_put_array(h, object, "waited"));
	if (!u->tasks)
		return;
	tasks = handover_put_array(h, object, "tasks");
	for (i = 0; i < n; i++)
		save_values(&u->tasks[i], h, handover_append_array(h, tasks));
}

/* For each place of the saved arrays which value stands there, -1 for one that is not known. */
static void map_names(const json_t *names, int map[STEPD_USAGE_COUNT])
{
	const char *name;
	int i, k;

	for (i = 0; i < STEPD_USAGE_COUNT; i++) {
		map[i] = -1;
		name = json_string_value(json_array_get(names, (size_t)i));
		for (k = 0; name && k < STEPD_USAGE_COUNT; k++) {
			if (strcmp(usage_values[k].name, name) == 0)
				map[i] = k;
		}
	}
}

static void restore_values(
	const json_t *array, const int map[STEPD_USAGE_COUNT], stepd_usage_t *ret_usage)
{
	const char *letters = json_string_value(json_array_get(array, 0)), *found;
	int i;

	*ret_usage = (stepd_usage_t){0};
	for (i = 0; letters && letters[i] && i < STEPD_USAGE_COUNT; i++) {
		found = strchr(usage_source_letters, letters[i]);
		if (!found || map[i] < 0)
			continue;
		ret_usage->source[map[i]] = (uint8_t)(found - usage_source_letters);
		ret_usage->value[map[i]] =
			(uint64_t)json_integer_value(json_array_get(array, (size_t)i + 1));
	}
}

void usage_restore(struct usage *u, uint32_t n, const json_t *object)
{
	const json_t *tasks = json_get_array(object, "tasks");
	int map[STEPD_USAGE_COUNT];
	uint32_t i;

	map_names(json_get_array(object, "names"), map);
	u->kept = json_get_bool(object, "kept", u->kept);
	restore_values(json_get_array(object, "step"), map, &u->step);
	restore_values(json_get_array(object, "waited"), map, &u->waited);
	for (i = 0; u->tasks && i < n; i++)
		restore_values(json_array_get(tasks, i), map, &u->tasks[i]);
}
