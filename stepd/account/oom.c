/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/oom.h"

#include <assert.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/account/tasks.h"
#include "stepd/account/usage.h"
#include "stepd/base/log.h"
#include "stepd/base/parse.h"
#include "stepd/record/events.h"
#include "stepd/snapshot/handover.h"

#define PAUSE_SECONDS 0.25

bool oom_is_counted(const struct account *acc)
{
	return acc->oom.watch.fd >= 0;
}

bool oom_is_unsettled(struct account *acc)
{
	struct oom *oom = &acc->oom;

	if (!oom_is_counted(acc) || pri_watch_read(&oom->watch) < 0)
		return false;
	if (parse_line_u64(oom->watch.text, "oom_kill ", &oom->kills) < 0)
		oom->kills = 0;
	return oom->kills > oom->attributed;
}

static void log_task(const struct account *acc, const struct task *task, const stepd_usage_t *now)
{
	char peak[USAGE_TEXT_SIZE];

	log_error(acc->setup.log,
		"task %u (pid %d) ran out of memory: the kernel killed %llu process%s of it%s%s",
		task->rank, (int)task->pid, (unsigned long long)task->oom_kills,
		task->oom_kills == 1 ? "" : "es",
		now->source[STEPD_USAGE_MEMORY_PEAK_BYTES] ? "; the most it had was " : "",
		now->source[STEPD_USAGE_MEMORY_PEAK_BYTES]
			? usage_text(now, STEPD_USAGE_MEMORY_PEAK_BYTES, peak)
			: "");
}

static void record_task(const struct account *acc, const struct task *task)
{
	struct event event = EVENT_INIT(EVENT_OOM);

	event.rank = task->rank;
	event.pid = task->pid;
	event.count = (int64_t)task->oom_kills;
	events_add(acc->setup.events, &event);
}

void oom_note_task(struct account *acc, struct task *task, const stepd_usage_t *now)
{
	uint64_t kills = now->value[STEPD_USAGE_OOM_KILLS];
	bool first = task->oom_kills == 0;

	if (!now->source[STEPD_USAGE_OOM_KILLS])
		return;
	task->oom_counted = true;
	if (kills <= task->oom_kills)
		return;
	acc->oom.attributed += kills - task->oom_kills;
	task->oom_kills = kills;
	record_task(acc, task);
	if (first)
		log_task(acc, task, now);
}

static void read_tasks(struct account *acc)
{
	stepd_usage_t now;
	uint32_t i;

	for (i = 0; i < acc->setup.tasks->n && acc->oom.kills > acc->oom.attributed; i++) {
		if (proctrack_usage(acc->setup.pt, acc->setup.job->cont_id,
			    &acc->setup.tasks->v[i].rank, &now) == 0)
			oom_note_task(acc, &acc->setup.tasks->v[i], &now);
	}
}

/* Reads the tasks' counts, unless that was a moment ago. */
static void oom_poll(struct account *acc)
{
	struct oom *oom = &acc->oom;

	oom->late = ev_is_active(&oom->pause);
	if (oom->late)
		return;
	read_tasks(acc);
	ev_now_update(acc->setup.loop);
	ev_timer_set(&oom->pause, PAUSE_SECONDS, 0.);
	ev_timer_start(acc->setup.loop, &oom->pause);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct account *acc = w->data;

	assert(acc);
	(void)loop;
	(void)revents;
	if (acc->oom.late)
		oom_poll(acc);
}

static void on_change(void *userdata)
{
	struct account *acc = userdata;

	assert(acc);
	if (oom_is_unsettled(acc))
		oom_poll(acc);
	if (acc->oom.kills > 0)
		acc->setup.on_oom(acc->setup.userdata);
}

int oom_watch(struct account *acc, struct err *err)
{
	int fd = proctrack_oom_fd(acc->setup.pt, acc->setup.job->cont_id), r;

	ev_init(&acc->oom.pause, on_pause_over);
	acc->oom.pause.data = acc;
	if (fd == -EOPNOTSUPP)
		return 0;
	r = fd < 0 ? fd : pri_watch_start(&acc->oom.watch, acc->setup.loop, fd, on_change, acc);
	return r < 0 ? err_set(err, r, "watch whether the step runs out of memory") : 0;
}

void oom_finish(struct account *acc)
{
	if (oom_is_unsettled(acc))
		read_tasks(acc);
	if (oom_is_unsettled(acc))
		log_error(acc->setup.log,
			"the step ran out of memory: the kernel killed %llu more process%s, of no task's",
			(unsigned long long)(acc->oom.kills - acc->oom.attributed),
			acc->oom.kills - acc->oom.attributed == 1 ? "" : "es");
}

void oom_save(const struct oom *oom, struct handover *h, struct json_t *object)
{
	handover_put_int(h, object, "kills", (int64_t)oom->kills);
	handover_put_int(h, object, "attributed", (int64_t)oom->attributed);
}

/* The pause between two polls is not handed over: it costs one more poll. */
void oom_restore(struct account *acc, const struct json_t *object, bool runs)
{
	acc->oom.kills = (uint64_t)json_get_int(object, "kills", 0);
	acc->oom.attributed = (uint64_t)json_get_int(object, "attributed", 0);
	if (runs && oom_is_unsettled(acc))
		oom_poll(acc);
}

void oom_unwatch(struct account *acc)
{
	if (!acc->setup.loop)
		return;
	ev_timer_stop(acc->setup.loop, &acc->oom.pause);
	pri_watch_stop(&acc->oom.watch);
}
