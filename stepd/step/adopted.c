/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/adopted.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "stepd/base/log.h"
#include "stepd/base/pidref.h"
#include "stepd/snapshot/handover.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/exit_watch.h"
#include "stepd/step/reaping.h"

#define SERVICE_END_MS 1000 /* by itself, by SIGTERM, by SIGKILL */

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

	return exit_watch_open(a->loop, &calls, &a->origin.exits);
}

static bool has_ended(const struct pidref *ref, int timeout_ms)
{
	struct pollfd end = {.fd = ref->fd, .events = POLLIN};
	int n;

	do
		n = poll(&end, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	return n > 0;
}

void adopted_end_service(struct agent *a)
{
	const struct recover_service service = a->origin.recover.service;
	_cleanup_pidref_ struct pidref ref = PIDREF_INIT;
	int r;

	a->origin.recover.service = (struct recover_service){.pid = 0};
	if (!service.pid)
		return;
	r = pidref_open(service.pid, service.start_ticks, &ref);
	if (r < 0 && r != -ESRCH)
		log_warning(a->log,
			"can't find the MPI service process of the dead agent (pid %d): %s",
			(int)service.pid, strerror(-r));
	if (r < 0 || has_ended(&ref, SERVICE_END_MS))
		return;
	if (pidref_signal(&ref, SIGTERM) == -ESRCH || has_ended(&ref, SERVICE_END_MS))
		return;
	log_warning(a->log,
		"the MPI service process of the dead agent (pid %d) does not end: killing it",
		(int)service.pid);
	if (pidref_signal(&ref, SIGKILL) < 0 || !has_ended(&ref, SERVICE_END_MS))
		log_error(a->log, "SIGKILL did not end the MPI service process (pid %d)",
			(int)service.pid);
}

void adopted_save(const struct agent *a, struct handover *h, struct json_t *object)
{
	exit_watch_save(a->origin.exits, h, object);
}

int adopted_restore(struct agent *a, const struct json_t *object, struct err *err)
{
	int r = adopted_watch(a);

	if (r == 0)
		r = exit_watch_restore(a->origin.exits, object);
	if (r == -EPROTO)
		return handover_err_part("processes", err);
	return r < 0 ? err_set(err, r, "go on watching the step's processes") : 0;
}
