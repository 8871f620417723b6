/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/account.h"

#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/oom.h"
#include "stepd/account/sample.h"
#include "stepd/account/usage.h"
#include "stepd/account/usage_table.h"
#include "stepd/base/log.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"

int account_open(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	int r = 0;

	if (o->result_file || o->keep_result_ms || o->usage_table || o->sample_file)
		r = usage_open(&a->usage, a->tasks.n);
	if (r < 0)
		return err_set(err, r, "keep account of the step");
	r = oom_watch(a, err);
	if (r == 0 && o->sample_file)
		r = sample_open(a, &a->sample, err);
	return r;
}

void account_started(struct agent *a)
{
	sample_start(a->sample);
}

void account_look(struct agent *a)
{
	uint32_t i;
	int r;

	if (!a->usage.kept)
		return;
	r = usage_look(&a->usage, a->pt, &a->plan.job);
	if (r < 0 && r != -ESRCH)
		log_debug(a->log, "can't look at what the step uses: %s", strerror(-r));
	for (i = 0; r == 0 && i < a->tasks.n; i++)
		oom_note_task(a, &a->tasks.v[i], &a->usage.look[i]);
}

void account_reaped(struct agent *a, struct task *task, const struct rusage *ru)
{
	bool unsettled = task && oom_is_unsettled(a);
	stepd_usage_t look;
	int r;

	a->usage.floor_kib = a->launch.rss_kib;
	if (a->usage.kept)
		usage_reaped(&a->usage, ru);
	if (!task || (!a->usage.kept && !unsettled))
		return;
	r = proctrack_usage(a->pt, a->plan.job.cont_id, &task->rank, &look);
	if (r == 0)
		oom_note_task(a, task, &look);
	if (a->usage.kept)
		usage_task_ended(
			&a->usage, (uint32_t)(task - a->tasks.v), r == 0 ? &look : NULL, ru);
}

void account_look_at_task(struct agent *a, struct task *task)
{
	stepd_usage_t look;

	if (proctrack_usage(a->pt, a->plan.job.cont_id, &task->rank, &look) < 0)
		return;
	oom_note_task(a, task, &look);
	if (a->usage.kept)
		usage_task_ended(&a->usage, (uint32_t)(task - a->tasks.v), &look, NULL);
}

void account_finish(struct agent *a)
{
	if (a->usage.kept && !a->unkillable)
		usage_finish(&a->usage, a->pt, &a->plan.job);
	else
		account_look(a);
	oom_finish(a);
	sample_pause(a->sample);
}

/* Nothing of a step that never ran. */
void account_report(struct agent *a)
{
	_cleanup_free_ char *text = NULL;
	const struct usage_view view = {
		.label = a->plan.label,
		.elapsed_usec = (a->end_ns - a->begin_ns) / 1000,
		.step = &a->usage.step,
		.tasks = a->usage.tasks,
		.task = a->plan.job.task,
		.n = a->tasks.n,
	};

	if (a->reason == AGENT_REASON_LAUNCH)
		return;
	sample_end(a->sample);
	if (!a->options->usage_table)
		return;
	text = usage_table_format(&view);
	if (!text || report_write(a->log->fd, text) < 0)
		log_warning(a->log, "can't print what the step has used");
}

void account_save(const struct agent *a, struct handover *h, struct json_t *object)
{
	if (a->usage.tasks)
		usage_save(&a->usage, a->tasks.n, h, handover_put_object(h, object, "usage"));
	oom_save(&a->oom, h, handover_put_object(h, object, "oom"));
	if (a->sample)
		sample_save(a->sample, h, handover_put_object(h, object, "sample"));
}

int account_restore(
	struct agent *a, const struct handover *h, const struct json_t *object, struct err *err)
{
	const struct json_t *usage = handover_get_object(object, "usage");
	const struct json_t *sample = handover_get_object(object, "sample");
	int r = usage ? usage_open(&a->usage, a->tasks.n) : 0;

	if (r < 0)
		return err_set(err, r, "keep account of the step");
	if (usage)
		usage_restore(&a->usage, a->tasks.n, usage);
	r = oom_watch(a, err);
	if (r < 0)
		return r;
	oom_restore(a, handover_get_object(object, "oom"));
	r = sample ? sample_restore(a, h, sample, &a->sample) : 0;
	return r < 0 ? err_set(err, r, "go on with the samples") : 0;
}

void account_close(struct agent *a)
{
	a->sample = sample_free(a->sample);
	oom_unwatch(a);
	usage_clear(&a->usage);
}
