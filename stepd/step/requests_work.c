/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the worker does for a request.
 */
#include <limits.h>

#include "proctrack/proctrack.h"
#include "stepd/base/signals.h"
#include "stepd/step/requests.h"

/* 0: this host has no such task, or it has ended. */
static pid_t task_pid(const stepd_step_rec_t *job, uint32_t rank)
{
	uint32_t i;

	for (i = 0; i < job->node_tasks; i++) {
		if (job->task[i].gtid == rank)
			return job->task[i].pid;
	}
	return 0;
}

static int signal_task(struct requests *rq, uint32_t rank)
{
	const struct request *request = rq->now;
	pid_t pid;

	if (!request->target.alone)
		return proctrack_signal_task(rq->pt, rq->job->cont_id, rq->job->task,
			rq->job->node_tasks, rank, request->signal);
	pid = task_pid(rq->job, rank);
	return pid
		? proctrack_signal_member(rq->pt, rq->job->cont_id, pid, 0, false, request->signal)
		: -ESRCH;
}

/* -ESRCH: none of them was there. Any other failure is told when all have been tried. */
static int signal_tasks(struct requests *rq)
{
	const struct request_target *target = &rq->now->target;
	bool any = false;
	int r = 0, one;
	size_t i;

	for (i = 0; i < target->ranks_count; i++) {
		one = signal_task(rq, target->ranks[i]);
		any |= one == 0;
		if (one < 0 && one != -ESRCH)
			r = one;
	}
	return r == 0 && !any ? -ESRCH : r;
}

static int send_signal(struct requests *rq)
{
	const struct request_target *target = &rq->now->target;

	switch (target->whom) {
	case REQUEST_TASKS:
		return signal_tasks(rq);
	case REQUEST_PROCESS:
		return proctrack_signal_member(rq->pt, rq->job->cont_id, target->pid,
			target->start_ticks, !target->alone, rq->now->signal);
	default:
		return proctrack_signal(rq->pt, rq->job->cont_id, rq->now->signal);
	}
}

static int signal_container(struct requests *rq, struct err *err)
{
	static const char *const whom[] = {
		[REQUEST_STEP] = "the step",
		[REQUEST_TASKS] = "tasks of the step",
		[REQUEST_PROCESS] = "a process of the step",
	};
	char name[SIGNALS_NAME_SIZE];
	int r = send_signal(rq);

	return r < 0 ? err_set(err, r, "can't send %s to %s",
			       signals_name(rq->now->signal, name, sizeof(name)),
			       whom[rq->now->target.whom])
		     : 0;
}

static int resume_container(struct requests *rq, struct err *err)
{
	int r = proctrack_resume(rq->pt, rq->job->cont_id, err);

	return r < 0 ? err_prefix(err, "can't resume the step") : 0;
}

static int suspend_container(struct requests *rq, struct err *err)
{
	uint64_t ms = rq->suspend_timeout_ms;
	int r = proctrack_suspend(rq->pt, rq->job->cont_id, ms > INT_MAX ? INT_MAX : (int)ms, err);

	return r < 0 ? err_prefix(err, "can't suspend the step") : 0;
}

int requests_carry_out(void *userdata, struct err *err)
{
	struct requests *rq = userdata;

	switch (rq->now->kind) {
	case REQUEST_SUSPEND:
		return suspend_container(rq, err);
	case REQUEST_RESUME:
		return resume_container(rq, err);
	default:
		return signal_container(rq, err);
	}
}
