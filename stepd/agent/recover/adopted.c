/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/recover/adopted.h"

#include <assert.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/agent_impl.h"
#include "stepd/agent/reaping.h"
#include "stepd/agent/recover/exit_watch.h"
#include "stepd/agent/reexec/handover.h"
#include "stepd/base/log.h"

#define NO_TASK UINT32_MAX

void adopted_watch_members(struct agent *a)
{
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	_cleanup_free_ pid_t *pids = NULL;
	int n = 0, i;

	if (a->container.fd >= 0 || exit_watch_count(a->exits) > 0 || !a->plan.job.cont_id ||
		proctrack_get_pids(a->pt, a->plan.job.cont_id, &pids, &n) < 0)
		return;
	for (i = 0; i < n; i++) {
		if (pidref_open(pids[i], 0, &ref) == 0 &&
			exit_watch_add_take(a->exits, &ref, NO_TASK) < 0) {
			pidref_close(&ref);
			log_warning(a->log, "can't watch pid %d, ignoring", (int)pids[i]);
		}
	}
}

void adopted_note_end(struct agent *a, uint32_t index, bool known, int wait_status)
{
	if (index < a->tasks.n && a->tasks.v[index].state == TASK_RUNNING)
		reaping_adopted_task(a, &a->tasks.v[index], known, wait_status);
}

static void on_end(uint32_t key, bool known, int wait_status, void *userdata)
{
	assert(userdata);
	adopted_note_end(userdata, key, known, wait_status);
}

static void on_settled(void *userdata)
{
	struct agent *a = userdata;

	assert(a);
	adopted_watch_members(a);
	reaping_settled(a);
}

int adopted_watch(struct agent *a)
{
	const struct exit_watch_calls calls = {
		.ended = on_end, .settled = on_settled, .userdata = a};

	return exit_watch_open(a->loop, &calls, &a->exits);
}

void adopted_save(const struct agent *a, struct handover *h, struct json_t *object)
{
	exit_watch_save(a->exits, h, object);
}

int adopted_restore(struct agent *a, const struct json_t *object, struct err *err)
{
	int r = adopted_watch(a);

	if (r == 0)
		r = exit_watch_restore(a->exits, object);
	if (r == -EPROTO)
		return handover_say_bad("processes", err);
	return r < 0 ? err_set(err, r, "go on watching the step's processes") : 0;
}

void adopted_go_on(struct agent *a)
{
	if (a->exits)
		on_settled(a);
}
