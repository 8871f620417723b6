/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/oom.h"

#include <assert.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/usage_values.h"
#include "stepd/base/log.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/ending.h"

#define PAUSE_SECONDS 0.25

/* The number of the line "NAME N", 0 if there is none. */
static uint64_t get_count(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *line;

	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

bool oom_is_counted(const struct agent *a)
{
	return a->oom.watch.fd >= 0;
}

bool oom_is_unsettled(struct agent *a)
{
	struct oom *oom = &a->oom;

	if (!oom_is_counted(a) || pri_watch_read(&oom->watch) < 0)
		return false;
	oom->kills = get_count(oom->watch.text, "oom_kill");
	return oom->kills > oom->attributed;
}

static void say_task(const struct agent *a, const struct task *task, const stepd_usage_t *look)
{
	char peak[USAGE_TEXT_SIZE];

	log_error(a->log,
		"task %u (pid %d) ran out of memory: the kernel killed %llu process%s of it%s%s",
		task->rank, (int)task->pid, (unsigned long long)task->oom_kills,
		task->oom_kills == 1 ? "" : "es",
		look->source[STEPD_USAGE_MEMORY_PEAK_BYTES] ? "; the most it had was " : "",
		look->source[STEPD_USAGE_MEMORY_PEAK_BYTES]
			? usage_text(look, STEPD_USAGE_MEMORY_PEAK_BYTES, peak)
			: "");
}

static void tell_task(const struct agent *a, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_OOM);

	event.rank = task->rank;
	event.pid = task->pid;
	event.count = (int64_t)task->oom_kills;
	events_add(a->events, &event);
}

void oom_note_task(struct agent *a, struct task *task, const stepd_usage_t *look)
{
	uint64_t kills = look->value[STEPD_USAGE_OOM_KILLS];
	bool first = task->oom_kills == 0;

	if (!look->source[STEPD_USAGE_OOM_KILLS])
		return;
	task->oom_counted = true;
	if (kills <= task->oom_kills)
		return;
	a->oom.attributed += kills - task->oom_kills;
	task->oom_kills = kills;
	tell_task(a, task);
	if (first)
		say_task(a, task, look);
}

static void look_at_tasks(struct agent *a)
{
	stepd_usage_t look;
	uint32_t i;

	for (i = 0; i < a->tasks.n && a->oom.kills > a->oom.attributed; i++) {
		if (proctrack_usage(a->pt, a->plan.job.cont_id, &a->tasks.v[i].rank, &look) == 0)
			oom_note_task(a, &a->tasks.v[i], &look);
	}
}

/* Looks, unless that was a moment ago. */
static void look(struct agent *a)
{
	struct oom *oom = &a->oom;

	oom->late = ev_is_active(&oom->pause);
	if (oom->late)
		return;
	look_at_tasks(a);
	ev_now_update(a->loop);
	ev_timer_set(&oom->pause, PAUSE_SECONDS, 0.);
	ev_timer_start(a->loop, &oom->pause);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct agent *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	if (a->oom.late)
		look(a);
}

static void on_news(void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	if (oom_is_unsettled(a))
		look(a);
	oom_apply_policy(a);
}

void oom_apply_policy(struct agent *a)
{
	if (a->oom.kills == 0 || !a->plan.spec->oom_kill_step || a->state != AGENT_RUNNING)
		return;
	log_error(a->log, "a task ran out of memory: ending the step (oom_kill_step)");
	ending_begin(a, AGENT_REASON_OOM);
}

int oom_watch(struct agent *a, struct err *err)
{
	int fd = proctrack_oom_fd(a->pt, a->plan.job.cont_id), r;

	ev_init(&a->oom.pause, on_pause_over);
	a->oom.pause.data = a;
	if (fd == -EOPNOTSUPP)
		return 0;
	r = fd < 0 ? fd : pri_watch_start(&a->oom.watch, a->loop, fd, on_news, a);
	return r < 0 ? err_set(err, r, "watch whether the step runs out of memory") : 0;
}

void oom_finish(struct agent *a)
{
	if (oom_is_unsettled(a))
		look_at_tasks(a);
	if (oom_is_unsettled(a))
		log_error(a->log,
			"the step ran out of memory: the kernel killed %llu more process%s, of no task's",
			(unsigned long long)(a->oom.kills - a->oom.attributed),
			a->oom.kills - a->oom.attributed == 1 ? "" : "es");
}

void oom_save(const struct oom *oom, struct handover *h, struct json_t *object)
{
	handover_put_int(h, object, "kills", (int64_t)oom->kills);
	handover_put_int(h, object, "attributed", (int64_t)oom->attributed);
}

/* The pause between two looks is not handed over: one more look is what it costs. */
void oom_restore(struct agent *a, const struct json_t *object)
{
	a->oom.kills = (uint64_t)handover_get_int(object, "kills", 0);
	a->oom.attributed = (uint64_t)handover_get_int(object, "attributed", 0);
	if (a->state < AGENT_DRAINING && oom_is_unsettled(a))
		look(a);
}

void oom_unwatch(struct agent *a)
{
	if (!a->loop)
		return;
	ev_timer_stop(a->loop, &a->oom.pause);
	pri_watch_stop(&a->oom.watch);
}
