/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "mpi/serve/serve_impl.h"
#include "stepd/base/buffer.h"
#include "stepd/base/pidref.h"
#include "stepd/base/procstat.h"

struct watched {
	struct serve *s;
	uint32_t rank;
	pid_t pid;
	uint64_t noted_ticks; /* after boot: a process that started later is another */
	struct pidref ref;    /* set in task_watch_begin() */
	ev_io readable;
};

static uint64_t now_ticks(void)
{
	uint64_t per_sec = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* can't fail */
	return (uint64_t)now.tv_sec * per_sec + (uint64_t)now.tv_nsec * per_sec / 1000000000u;
}

/* ---- while the agent lives ------------------------------------------------------------------ */

int task_watch_add(struct serve *s, uint32_t rank, pid_t pid)
{
	struct task_watch *watch = &s->tasks;

	if (watch->has_begun || pid <= 0)
		return 0;
	if (array_reserve(watch->tasks, watch->capacity, watch->count + 1) < 0)
		return -ENOMEM;
	watch->tasks[watch->count++] = (struct watched){
		.s = s, .rank = rank, .pid = pid, .noted_ticks = now_ticks(), .ref = PIDREF_INIT};
	return 0;
}

/* The agent's list is the node's tasks: some hundreds. */
void task_watch_remove(struct serve *s, uint32_t rank)
{
	struct task_watch *watch = &s->tasks;
	size_t i;

	if (watch->has_begun)
		return;
	for (i = 0; i < watch->count && watch->tasks[i].rank != rank; i++)
		;
	if (i < watch->count)
		watch->tasks[i] = watch->tasks[--watch->count];
}

/* ---- once it has died ------------------------------------------------------------------------ */

static void release(struct watched *task)
{
	ev_io_stop(task->s->loop, &task->readable);
	pidref_close(&task->ref);
	task->s->tasks.held--;
}

static void on_ended(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct watched *task = w->data;

	assert(task);
	release(task);
	serve_task_gone(task->s, task->rank);
}

/* 0 also where it can't be held and nobody knows whether it lives; -ESRCH: it has ended. */
static int hold(struct watched *task)
{
	struct procstat st;
	int r = pidref_open(task->pid, 0, &task->ref);

	if (r < 0)
		return r == -ESRCH ? r : 0;
	r = procstat_read(task->pid, &st);
	if (r == -ESRCH || (r == 0 && st.start_ticks > task->noted_ticks)) {
		pidref_close(&task->ref);
		return -ESRCH;
	}
	ev_io_init(&task->readable, on_ended, task->ref.fd, EV_READ);
	task->readable.data = task;
	ev_io_start(task->s->loop, &task->readable);
	task->s->tasks.held++;
	return 0;
}

static void on_gone(struct ev_loop *loop, ev_idle *w, _unused_ int revents)
{
	struct serve *s = w->data;
	struct task_watch *watch = &s->tasks;
	size_t i;

	ev_idle_stop(loop, w);
	for (i = 0; i < watch->count; i++) {
		if (watch->tasks[i].pid)
			continue;
		watch->tasks[i].pid = -1; /* reported */
		serve_task_gone(s, watch->tasks[i].rank);
	}
}

void task_watch_begin(struct serve *s)
{
	struct task_watch *watch = &s->tasks;
	bool any_gone = false;
	size_t i;

	if (watch->has_begun)
		return;
	watch->has_begun = true;
	for (i = 0; i < watch->count; i++) {
		if (hold(&watch->tasks[i]) == 0)
			continue;
		watch->tasks[i].pid = 0;
		any_gone = true;
	}
	if (any_gone)
		ev_idle_start(s->loop, &watch->gone);
}

bool task_watch_has_any(const struct serve *s)
{
	return s->tasks.held > 0 || ev_is_active(&s->tasks.gone);
}

/* ---- life ----------------------------------------------------------------------------------- */

void task_watch_init(struct serve *s)
{
	ev_idle_init(&s->tasks.gone, on_gone);
	s->tasks.gone.data = s;
}

void task_watch_clear(struct serve *s)
{
	size_t i;

	ev_idle_stop(s->loop, &s->tasks.gone);
	for (i = 0; i < s->tasks.count; i++) {
		if (s->tasks.tasks[i].ref.fd >= 0)
			release(&s->tasks.tasks[i]);
	}
	free(s->tasks.tasks);
}
