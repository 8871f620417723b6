/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpi/serve/task_watch.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "stepd/base/buffer.h"
#include "stepd/base/pidref.h"
#include "stepd/base/procstat.h"

struct watched {
	struct task_watch *watch;
	uint32_t rank;
	pid_t pid;
	uint64_t noted_ticks; /* after boot: a process that started later is another */
	struct pidref ref;    /* set in task_watch_begin() */
	ev_io readable;
};

struct task_watch {
	struct ev_loop *loop;
	task_watch_fn ended;
	void *userdata;
	struct watched *tasks; /* does not move from task_watch_begin() on */
	size_t count, capacity;
	size_t held;
	bool has_begun;
	ev_idle gone; /* some had ended before they could be held */
};

static uint64_t now_ticks(void)
{
	uint64_t per_sec = (uint64_t)sysconf(_SC_CLK_TCK);
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* can't fail */
	return (uint64_t)now.tv_sec * per_sec + (uint64_t)now.tv_nsec * per_sec / 1000000000u;
}

/* ---- while the agent lives ------------------------------------------------------------------ */

int task_watch_add(struct task_watch *watch, uint32_t rank, pid_t pid)
{
	if (watch->has_begun || pid <= 0)
		return 0;
	if (array_reserve(watch->tasks, watch->capacity, watch->count + 1) < 0)
		return -ENOMEM;
	watch->tasks[watch->count++] = (struct watched){.watch = watch,
		.rank = rank,
		.pid = pid,
		.noted_ticks = now_ticks(),
		.ref = PIDREF_INIT};
	return 0;
}

/* The agent's list is the node's tasks: some hundreds. */
void task_watch_remove(struct task_watch *watch, uint32_t rank)
{
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
	ev_io_stop(task->watch->loop, &task->readable);
	pidref_close(&task->ref);
	task->watch->held--;
}

static void on_ended(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct watched *task = w->data;

	assert(task);
	release(task);
	task->watch->ended(task->watch->userdata, task->rank);
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
	ev_io_start(task->watch->loop, &task->readable);
	task->watch->held++;
	return 0;
}

static void on_gone(struct ev_loop *loop, ev_idle *w, _unused_ int revents)
{
	struct task_watch *watch = w->data;
	size_t i;

	assert(watch);
	ev_idle_stop(loop, w);
	for (i = 0; i < watch->count; i++) {
		if (watch->tasks[i].pid)
			continue;
		watch->tasks[i].pid = -1; /* reported */
		watch->ended(watch->userdata, watch->tasks[i].rank);
	}
}

void task_watch_begin(struct task_watch *watch)
{
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
		ev_idle_start(watch->loop, &watch->gone);
}

bool task_watch_has_any(const struct task_watch *watch)
{
	return watch->held > 0 || ev_is_active(&watch->gone);
}

/* ---- life -------------------------------------------------------------------------------------
 */

struct task_watch *task_watch_new(struct ev_loop *loop, task_watch_fn ended, void *userdata)
{
	struct task_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->loop = loop;
	watch->ended = ended;
	watch->userdata = userdata;
	ev_idle_init(&watch->gone, on_gone);
	watch->gone.data = watch;
	return watch;
}

struct task_watch *task_watch_free(struct task_watch *watch)
{
	size_t i;

	if (!watch)
		return NULL;
	ev_idle_stop(watch->loop, &watch->gone);
	for (i = 0; i < watch->count; i++) {
		if (watch->tasks[i].ref.fd >= 0)
			release(&watch->tasks[i]);
	}
	free(watch->tasks);
	free(watch);
	return NULL;
}
