/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/container.h"

#include <assert.h>

#include "proctrack/proctrack.h"
#include "stepd/base/log.h"
#include "stepd/base/signals.h"
#include "stepd/record/events.h"
#include "stepd/spec/spec.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"
#include "stepd/step/join.h"

/* With so many events behind it a step's signals are no events any more: they are what its owner
 * can make any number of, in a file that may lie in memory, and that a successor must be able to
 * read. */
#define SIGNALS_REPORTED_MAX (1u << 18)

static void report_signal(const struct agent *a, const struct request *request, const char *name)
{
	const struct request_target *target = &request->target;
	struct event event = EVENT_INIT(EVENT_SIGNAL);

	if (events_last(a->events) >= SIGNALS_REPORTED_MAX)
		return;
	event.text = name;
	if (target->whom == REQUEST_PROCESS)
		event.pid = target->pid;
	if (target->whom == REQUEST_TASKS && target->ranks_count == 1)
		event.rank = target->ranks[0];
	if (target->whom == REQUEST_TASKS)
		event.count = (int64_t)target->ranks_count;
	events_add(a->events, &event);
}

static void on_signalled(
	struct agent *a, const struct request *request, int r, const struct err *err)
{
	char name[SIGNALS_NAME_SIZE];

	(void)signals_name(request->signal, name, sizeof(name));
	if (r < 0 && r != -ESRCH && !request->answer.fn) {
		log_error(a->log, "%s", err->text);
	} else if (r == 0) {
		log_debug(a->log, "sent %s to the step", name);
		report_signal(a, request, name);
	}
	if (request->target.whom == REQUEST_STEP)
		killseq_delivered(&a->end.killseq, request->signal);
	if (worker_is_lost(r))
		suspend_thaw(a);
}

/* What a tracker learns of the members while the worker signals them is the worker's. One that
 * loses the children of an added process with their parent, unless it has seen them, sees them now.
 */
static void see_added(struct agent *a)
{
	if (a->origin.added.n > 0 || a->origin.recover.adopted > 0)
		(void)proctrack_is_populated(a->pt, a->plan.job.cont_id);
}

static void on_begin(const struct request *request, void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	if (request->kind != REQUEST_SIGNAL)
		return;
	ending_before_signal(a, request->signal);
	see_added(a);
}

static void on_done(const struct request *request, int r, const struct err *err, void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	if (request->kind == REQUEST_SUSPEND)
		suspend_done(a, r, err);
	else if (request->kind == REQUEST_RESUME)
		suspend_resume_done(a, r, err);
	else
		on_signalled(a, request, r, err);
	ending_check(a);
	if (a->suspend.to_check)
		suspend_check(a);
	join_go_on(a);
}

static void on_rested(void *userdata)
{
	assert(userdata);
	reexec_go_on(userdata);
}

int container_open(struct agent *a, struct err *err)
{
	a->requests = (struct requests){
		.pt = a->pt,
		.job = &a->plan.job,
		.suspend_timeout_ms = a->plan.spec->suspend_timeout_ms,
		.begin = on_begin,
		.done = on_done,
		.rested = on_rested,
		.userdata = a,
	};
	return requests_init(&a->requests, a->loop) < 0
		? err_set(err, -ENOMEM, "prepare what is done to the step's container")
		: 0;
}
