/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/recover/adopted.h"

#include <assert.h>

#include "stepd/agent/agent_impl.h"
#include "stepd/agent/reaping.h"
#include "stepd/agent/recover/exit_watch.h"
#include "stepd/agent/reexec/handover.h"

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
	assert(userdata);
	reaping_settled(userdata);
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
