/* SPDX-License-Identifier: BSD-3-Clause
 *
 * SetLimits, AddPid and Notify.
 */
#include <stddef.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/log.h"
#include "stepd/base/pidref.h"
#include "stepd/base/procstat.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/record/events.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"
#include "stepd/stdio/stdio.h"
#include "stepd/step/result.h"

/* ---- SetLimits ------------------------------------------------------------------------------- */

/* Takes the warnings that would go to the log. */
struct warnings {
	struct log log;
	json_t *texts;
};

static int take_warning(const struct log *log, _unused_ enum log_level level, const char *text)
{
	const struct warnings *w =
		(const struct warnings *)((const char *)log - offsetof(struct warnings, log));

	return json_array_append_new(w->texts, report_json_text(text));
}

/* A backend would make what a task's limits need also for one that has ended. */
static bool check_running(
	const struct agent *a, struct op_call *call, const uint32_t *ranks, size_t count)
{
	stepd_usage_t usage;
	size_t i;

	for (i = 0; i < count; i++) {
		if (proctrack_usage(a->pt, a->plan.job.cont_id, &ranks[i], &usage) != -ESRCH)
			continue;
		op_fail_task(call, ranks[i]);
		return false;
	}
	return true;
}

static void set_limits(struct operations *o, struct op_call *call, const struct limits *limits,
	bool best_effort, const struct rank_choice *choice)
{
	struct agent *a = o->a;
	json_auto_t *texts = json_array();
	struct warnings w = {
		.log = {.send = take_warning, .fd = -1, .most = LOG_LEVEL_WARNING}, .texts = texts};
	const struct limits_target target = {
		.pt = a->pt,
		.cont_id = a->plan.job.cont_id,
		.mode = best_effort ? LIMITS_BEST_EFFORT : LIMITS_STRICT,
		.where = "limits",
		.log = &w.log,
	};
	_cleanup_free_ uint32_t *ranks = choice->bits ? rank_choice_list(a, choice) : NULL;
	struct event event = EVENT_INIT(EVENT_LIMITS);
	struct err err = ERR_INIT;
	int r;

	if (!texts || (choice->bits && !ranks)) {
		op_fail_no_memory(call);
		return;
	}
	if (!check_running(a, call, ranks, choice->count))
		return;
	r = limits_apply(&target, limits, ranks, choice->count, &err);
	if (r < 0) {
		op_fail(call, r, err.text);
		return;
	}
	event.count = ranks ? (int64_t)choice->count : -1;
	events_add(a->events, &event);
	op_reply_take(call, json_pack("{s:O}", "warnings", texts));
}

void op_set_limits(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_rank_choice_ struct rank_choice choice = {0};
	_cleanup_limits_ struct limits limits = {0};
	struct err err = ERR_INIT;
	int r;

	if (!op_can_act(call, o->a) || !param_ranks(o->a, call, parameters, &choice))
		return;
	r = limits_from_json("limits", json_object_get(parameters, "limits"), &limits, &err);
	if (r == 0 && !limits.set)
		r = err_set_text(&err, -EINVAL, "limits: none is given");
	if (r < 0)
		op_fail(call, r, err.text); /* names the field, as InvalidParameter can't */
	else
		set_limits(o, call, &limits, param_bool(parameters, "best_effort", false), &choice);
}

/* ---- AddPid ---------------------------------------------------------------------------------- */

/* Why it can't be a step's, or NULL. */
static const char *find_obstacle(const struct agent *a, pid_t pid, const struct procstat *st)
{
	const stepd_step_rec_t *job = &a->plan.job;

	if (pid == job->jmgr_pid || pid == getpid())
		return "it is the step's agent";
	if (pid == job->worker_pid || pid == job->service_pid)
		return "it is a helper of the step's agent";
	if (pid == 1)
		return "it is the first process of the system";
	if (pid == 2 || st->ppid == 2)
		return "it is a thread of the kernel";
	if (!procstat_is_living(st))
		return "it has ended";
	return NULL;
}

/* 0, -EALREADY, or -EBUSY: it is a member of this step, or of another. */
static int check_member(const struct agent *a, pid_t pid)
{
	uint64_t id = proctrack_find(a->pt, pid);

	if (id == 0)
		return 0;
	return id == a->plan.job.cont_id ? -EALREADY : -EBUSY;
}

/* For a successor, where the container alone does not show it. */
static int note_added(struct agent *a, const struct procstat *st, pid_t pid, struct err *err)
{
	if (registry_get_root(a->registry))
		return 0;
	if (added_note(&a->origin.added, pid, st->start_ticks) < 0)
		return err_set(err, -ENOMEM, "note process %d", (int)pid);
	result_publish_state(a, suspend_state_name(a));
	return 0;
}

/* held is the process that is meant: as long as it lives its number is nobody else's. */
static int add_process(struct agent *a, const struct pidref *held, struct err *err)
{
	const char *obstacle;
	struct procstat st;
	int r = procstat_read(held->pid, &st);

	if (r < 0)
		return err_set(err, r, "read of process %d", (int)held->pid);
	obstacle = find_obstacle(a, held->pid, &st);
	if (obstacle)
		return err_set_text(err, -EINVAL, "process %d can't be added to the step: %s",
			(int)held->pid, obstacle);
	r = check_member(a, held->pid);
	if (r == -EALREADY)
		return r;
	if (r < 0)
		return err_set_text(
			err, r, "process %d is a member of another step", (int)held->pid);
	r = proctrack_add(a->pt, &a->plan.job, held->pid);
	if (r < 0)
		return err_set(err, r, "add process %d to the step with %s", (int)held->pid,
			proctrack_get_type(a->pt));
	r = note_added(a, &st, held->pid, err);
	if (r < 0)
		return r;
	return pidref_signal(held, 0) == -ESRCH ? -ESRCH : 0;
}

void op_add_pid(struct op_call *call, const json_t *parameters, struct operations *o)
{
	_cleanup_pidref_ struct pidref held = PIDREF_INIT;
	struct event event = EVENT_INIT(EVENT_ADD);
	struct err err = ERR_INIT;
	uint64_t start_ticks;
	pid_t pid;
	int r;

	if (!param_pid(call, parameters, "pid", &pid) ||
		!param_start_ticks(call, parameters, &start_ticks))
		return;
	if (o->a->state != AGENT_RUNNING) {
		op_fail_state(call, o->a, "the step is ending");
		return;
	}
	r = pidref_open(pid, start_ticks, &held);
	if (r < 0)
		(void)err_set(&err, r, "hold process %d", (int)pid);
	else
		r = add_process(o->a, &held, &err);
	if (r == -ESRCH) {
		op_fail_process(call, pid);
		return;
	}
	if (r < 0 && r != -EALREADY) {
		op_fail(call, r, err.text);
		return;
	}
	if (r == 0) {
		event.pid = pid;
		events_add(o->a->events, &event);
	}
	op_reply_take(call, NULL);
}

/* ---- Notify ----------------------------------------------------------------------------------
 *
 * A line into the step's standard error, which its users read. It goes where the agent has that
 * open for the tasks (stdio_note()); where each task opens a file of its own there is none for the
 * step. */

/* A terminal shows it: nothing in it may disturb that, or pass for a second line. */
static void make_line(const struct agent *a, const char *message, char *line, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = (size_t)snprintf(line, size, "%s: ", a->log->ident);
	const unsigned char *p = (const unsigned char *)message;

	for (; *p && at + 6 < size; p++) {
		if (*p >= 0x20 && *p != 0x7f) {
			line[at++] = (char)*p;
			continue;
		}
		line[at++] = '\\';
		line[at++] = 'x';
		line[at++] = hex[*p >> 4];
		line[at++] = hex[*p & 15];
	}
	line[at++] = '\n';
	line[at] = '\0';
}

void op_notify(struct op_call *call, const json_t *parameters, struct operations *o)
{
	const char *message = param_text(parameters, "message");
	char line[sizeof(((struct log *)NULL)->ident) + 4 * OPERATIONS_MESSAGE_MAX + 8];
	struct event event = EVENT_INIT(EVENT_NOTIFY);
	struct agent *a = o->a;
	struct err err = ERR_INIT;
	int r;

	if (!message[0] || strlen(message) > OPERATIONS_MESSAGE_MAX) {
		op_fail_parameter(call, "message");
		return;
	}
	if (!op_can_act(call, a))
		return;
	make_line(a, message, line, sizeof(line));
	if (a->stdio)
		r = stdio_note(a->stdio, line, strlen(line), &err);
	else
		r = err_set_text(
			&err, -EOPNOTSUPP, "the step has no standard error: it has no tasks");
	if (r < 0) {
		op_fail(call, r, err.text);
		return;
	}
	event.text = message;
	events_add(a->events, &event);
	op_reply_take(call, NULL);
}
