/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/account.h"

#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/sample.h"
#include "stepd/account/tasks.h"
#include "stepd/account/usage.h"
#include "stepd/base/log.h"
#include "stepd/record/report.h"
#include "stepd/snapshot/handover.h"

int account_open(struct account *acc, const struct account_setup *setup, struct err *err)
{
	int r = 0;

	acc->setup = *setup;
	if (setup->result_has_usage || setup->usage_table || setup->sample_file)
		r = usage_open(&acc->usage, setup->tasks->n);
	if (r < 0)
		return err_set(err, r, "set up the step's accounting");
	r = oom_watch(acc, err);
	if (r == 0 && setup->sample_file)
		r = sample_open(acc, &acc->sample, err);
	return r;
}

void account_started(struct account *acc)
{
	sample_start(acc->sample);
}

void account_poll(struct account *acc)
{
	struct tasks *tasks = acc->setup.tasks;
	uint32_t i;
	int r;

	if (!acc->usage.enabled)
		return;
	r = usage_poll(&acc->usage, acc->setup.pt, acc->setup.job);
	if (r < 0 && r != -ESRCH)
		log_debug(acc->setup.log, "can't read the step's usage: %s", strerror(-r));
	for (i = 0; r == 0 && i < tasks->n; i++)
		oom_note_task(acc, &tasks->v[i], &acc->usage.polled[i]);
}

/* ru may be NULL, as in usage_task_ended(). */
static void note_end(struct account *acc, struct task *task, const struct rusage *ru)
{
	stepd_usage_t now;
	int r = proctrack_usage(acc->setup.pt, acc->setup.job->cont_id, &task->rank, &now);

	if (r == 0)
		oom_note_task(acc, task, &now);
	if (acc->usage.enabled && (r == 0 || ru))
		usage_task_ended(&acc->usage, (uint32_t)(task - acc->setup.tasks->v),
			r == 0 ? &now : NULL, ru);
}

void account_reaped(struct account *acc, struct task *task, const struct rusage *ru, long floor_kib)
{
	bool unsettled = task && oom_is_unsettled(acc);

	acc->usage.floor_kib = floor_kib;
	if (acc->usage.enabled)
		usage_reaped(&acc->usage, ru);
	if (task && (acc->usage.enabled || unsettled))
		note_end(acc, task, ru);
}

void account_poll_task(struct account *acc, struct task *task)
{
	note_end(acc, task, NULL);
}

void account_finish(struct account *acc, bool all_ended)
{
	if (acc->usage.enabled && all_ended)
		usage_finish(&acc->usage, acc->setup.pt, acc->setup.job);
	else
		account_poll(acc);
	oom_finish(acc);
	sample_pause(acc->sample);
}

void account_report(struct account *acc, uint64_t end_ns)
{
	const struct account_setup *setup = &acc->setup;
	_cleanup_free_ char *text = NULL;

	sample_end(acc->sample, end_ns);
	if (!setup->usage_table)
		return;
	const struct usage_view view = {
		.label = setup->label,
		.elapsed_usec = (end_ns - setup->begin_ns) / 1000,
		.step = &acc->usage.step,
		.tasks = acc->usage.tasks,
		.task = setup->job->task,
		.n = setup->tasks->n,
	};
	text = usage_table_format(&view);
	if (!text || report_write(setup->log->fd, text) < 0)
		log_warning(setup->log, "can't print what the step has used");
}

void account_save(const struct account *acc, struct handover *h, struct json_t *object)
{
	if (acc->usage.tasks)
		usage_save(&acc->usage, acc->setup.tasks->n, h,
			handover_put_object(h, object, "usage"));
	oom_save(&acc->oom, h, handover_put_object(h, object, "oom"));
	if (acc->sample)
		sample_save(acc->sample, h, handover_put_object(h, object, "sample"));
}

int account_restore(struct account *acc, const struct account_setup *setup,
	const struct handover *h, const struct json_t *object, bool runs, struct err *err)
{
	const struct json_t *usage = json_get_object(object, "usage");
	const struct json_t *sample = json_get_object(object, "sample");
	int r = usage ? usage_open(&acc->usage, setup->tasks->n) : 0;

	if (r < 0)
		return err_set(err, r, "set up the step's accounting");
	acc->setup = *setup;
	if (usage)
		usage_restore(&acc->usage, setup->tasks->n, usage);
	r = oom_watch(acc, err);
	if (r < 0)
		return r;
	oom_restore(acc, json_get_object(object, "oom"), runs);
	r = sample ? sample_restore(acc, h, sample, &acc->sample) : 0;
	return r < 0 ? err_set(err, r, "go on with the samples") : 0;
}

void account_close(struct account *acc)
{
	acc->sample = sample_free(acc->sample);
	oom_unwatch(acc);
	usage_clear(&acc->usage);
}
