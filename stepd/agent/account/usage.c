/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/account/usage.h"

#include "proctrack/proctrack.h"
#include "proctrack/procusage.h"
#include "stepd/agent/account/usage_values.h"

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
	stepd_usage_t last = counted ? *counted : (stepd_usage_t){0}, waited;

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
