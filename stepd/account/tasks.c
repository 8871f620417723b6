/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/account/tasks.h"

#include <assert.h>
#include <jansson.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stepd/snapshot/handover.h"

uint64_t fork_ticks_now(void)
{
	struct timespec now;
	long hz = sysconf(_SC_CLK_TCK);

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* can't fail */
	return (uint64_t)now.tv_sec * (uint64_t)hz +
		(uint64_t)now.tv_nsec / (1000000000u / (uint64_t)hz);
}

/* As they are saved. */
static const char *const state_names[TASK_STATE_MAX] = {
	[TASK_NEW] = "new",
	[TASK_RUNNING] = "running",
	[TASK_ENDED] = "ended",
};

int tasks_init(struct tasks *ts, const uint32_t *ranks, uint32_t n)
{
	int r;

	*ts = (struct tasks){0};
	r = tasks_add(ts, 0, ranks, n);
	if (r < 0)
		tasks_clear(ts);
	return r;
}

void tasks_clear(struct tasks *ts)
{
	free(ts->v);
	free(ts->by_pid);
	*ts = (struct tasks){0};
}

static uint32_t first_slot(const struct tasks *ts, pid_t pid)
{
	return ((uint32_t)pid * 2654435761u) & (ts->slots - 1);
}

/* A pid may occur twice, if that of an ended task was used again: tasks_find() skips tasks that
 * do not run. */
static void note_pid(struct tasks *ts, uint32_t index, pid_t pid)
{
	uint32_t slot = first_slot(ts, pid);

	while (ts->by_pid[slot])
		slot = (slot + 1) & (ts->slots - 1);
	ts->by_pid[slot] = index + 1;
}

/* Slots for n tasks, half of them empty. */
static int make_slots(struct tasks *ts, uint32_t n)
{
	uint32_t slots = 4, i;
	uint32_t *by_pid;

	while (slots < n * 2)
		slots *= 2;
	if (slots == ts->slots)
		return 0;
	by_pid = calloc(slots, sizeof(*by_pid));
	if (!by_pid)
		return -ENOMEM;
	free(ts->by_pid);
	ts->by_pid = by_pid;
	ts->slots = slots;
	for (i = 0; i < ts->n; i++) {
		if (ts->v[i].state == TASK_RUNNING && ts->v[i].pid)
			note_pid(ts, i, ts->v[i].pid);
	}
	return 0;
}

int tasks_add(struct tasks *ts, uint32_t spawn, const uint32_t *ranks, uint32_t n)
{
	struct task *v = realloc(ts->v, ((size_t)ts->n + n + 1) * sizeof(*v));
	uint32_t i;
	int r;

	if (!v)
		return -ENOMEM;
	ts->v = v;
	r = make_slots(ts, ts->n + n);
	if (r < 0)
		return r;
	for (i = 0; i < n; i++)
		v[ts->n + i] = (struct task){.rank = ranks[i], .spawn = spawn};
	ts->n += n;
	return 0;
}

void tasks_started(struct tasks *ts, uint32_t index, pid_t pid, uint64_t now_ns)
{
	struct task *task = &ts->v[index];

	assert(index < ts->n && task->state == TASK_NEW);
	note_pid(ts, index, pid);
	task->pid = pid;
	task->state = TASK_RUNNING;
	task->start_ns = now_ns;
	ts->running++;
}

struct task *tasks_find(const struct tasks *ts, pid_t pid)
{
	uint32_t slot;
	struct task *task;

	for (slot = first_slot(ts, pid); ts->by_pid[slot]; slot = (slot + 1) & (ts->slots - 1)) {
		task = &ts->v[ts->by_pid[slot] - 1];
		if (task->pid == pid && task->state == TASK_RUNNING)
			return task;
	}
	return NULL;
}

void tasks_ended(struct tasks *ts, struct task *task, int wait_status, uint64_t now_ns)
{
	assert(task->state == TASK_RUNNING);
	task->state = TASK_ENDED;
	task->wait_status = wait_status;
	task->end_ns = now_ns;
	ts->running--;
	/* A task that was never executed has its status from that failure, even if a signal has
	 * killed it. */
	if (task->dropped)
		return;
	if (task->exec_status)
		status_count(&ts->status, W_EXITCODE(task->exec_status, 0));
	else if (!task->requested)
		status_count(&ts->status, wait_status);
}

void tasks_lost(struct tasks *ts, struct task *task, uint64_t now_ns)
{
	assert(task->state == TASK_RUNNING);
	task->state = TASK_ENDED;
	task->lost = true;
	task->end_ns = now_ns;
	ts->running--;
	ts->lost += !task->requested && !task->dropped;
}

bool task_failed(const struct task *task)
{
	if (task->state != TASK_ENDED || task->lost || task->dropped)
		return false;
	return task->exec_status || (!task->requested && status_exit_code(task->wait_status) != 0);
}

int task_exit_code(const struct task *task)
{
	return task->exec_status ? task->exec_status : status_exit_code(task->wait_status);
}

void tasks_mark_requested(struct tasks *ts)
{
	uint32_t i;

	for (i = 0; i < ts->n; i++) {
		if (ts->v[i].state == TASK_RUNNING)
			ts->v[i].requested = true;
	}
}

const char *task_text(const struct task *task, char *buf, size_t size)
{
	char status[STATUS_TEXT_SIZE];

	if (task->state == TASK_NEW)
		(void)snprintf(buf, size, "never started");
	else if (task->state == TASK_RUNNING)
		(void)snprintf(buf, size, "running");
	else if (task->lost)
		(void)snprintf(buf, size, "ended; its status was lost with the agent that died");
	else if (task->exec_status)
		(void)snprintf(buf, size, "never executed (%s)",
			task->exec_status == STATUS_NOT_FOUND ? "not found" : "not executable");
	else
		(void)snprintf(buf, size, "%s%s%s",
			status_text(task->wait_status, status, sizeof(status)),
			task->requested ? ", on request" : "",
			task->oom_kills ? ", out of memory" : "");
	return buf;
}

static void save_task(const struct task *task, struct handover *h, json_t *object)
{
	handover_put_text(h, object, "state", state_names[task->state]);
	if (task->dropped)
		handover_put_bool(h, object, "dropped", true);
	if (task->state == TASK_NEW)
		return;
	handover_put_int(h, object, "pid", task->pid);
	handover_put_int(h, object, "start_ns", (int64_t)task->start_ns);
	if (task->requested)
		handover_put_bool(h, object, "requested", true);
	if (task->exec_status)
		handover_put_int(h, object, "exec_status", task->exec_status);
	if (task->oom_counted)
		handover_put_int(h, object, "oom_kills", (int64_t)task->oom_kills);
	if (task->state != TASK_ENDED)
		return;
	handover_put_int(h, object, "wait_status", task->wait_status);
	if (task->lost)
		handover_put_bool(h, object, "lost", true);
	handover_put_int(h, object, "end_ns", (int64_t)task->end_ns);
}

void tasks_save(const struct tasks *ts, struct handover *h, json_t *object)
{
	json_t *array = handover_put_array(h, object, "tasks");
	uint32_t i;

	handover_put_bool(h, object, "signalled", ts->status.signalled);
	handover_put_int(h, object, "code", ts->status.code);
	for (i = 0; i < ts->n; i++)
		save_task(&ts->v[i], h, handover_append_object(h, array));
}

static int restore_task(struct tasks *ts, uint32_t i, const json_t *object)
{
	struct task *task = &ts->v[i];
	int state = json_get_choice(object, "state", state_names, TASK_STATE_MAX, -1);
	int64_t pid = json_get_int(object, "pid", 0);

	if (state < 0 || (state == TASK_RUNNING && pid <= 0))
		return -EPROTO;
	if (state == TASK_RUNNING)
		tasks_started(ts, i, (pid_t)pid, 0);
	task->state = (enum task_state)state;
	task->pid = (pid_t)pid;
	task->start_ns = (uint64_t)json_get_int(object, "start_ns", 0);
	task->end_ns = (uint64_t)json_get_int(object, "end_ns", 0);
	task->requested = json_get_bool(object, "requested", false);
	task->dropped = json_get_bool(object, "dropped", false);
	task->exec_status = (int)json_get_int(object, "exec_status", 0);
	task->wait_status = (int)json_get_int(object, "wait_status", 0);
	task->lost = json_get_bool(object, "lost", false);
	ts->lost += task->lost && !task->requested && !task->dropped;
	task->oom_counted = json_object_get(object, "oom_kills") != NULL;
	task->oom_kills = (uint64_t)json_get_int(object, "oom_kills", 0);
	return 0;
}

int tasks_restore(struct tasks *ts, const json_t *object)
{
	const json_t *array = json_get_array(object, "tasks");
	uint32_t i;
	int r = json_array_size(array) == ts->n ? 0 : -EPROTO;

	for (i = 0; r == 0 && i < ts->n; i++)
		r = restore_task(ts, i, json_array_get(array, i));
	ts->status.signalled = json_get_bool(object, "signalled", false);
	ts->status.code = (int)json_get_int(object, "code", 0);
	return r;
}
