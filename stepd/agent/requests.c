/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/agent/requests.h"

#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/signals.h"

/* More than passes over the largest /proc take. What takes longer hangs, and is given up; kills
 * don't wait for it. */
#define PATIENCE_MS 60000

/* How long after its own deadline a suspension has to take back what it did. */
#define TAKE_BACK_MS 5000

static void start_next(struct requests *rq);

#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define STOPPING    (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))

/* Whether it is kept for later. */
static bool hold_signal(struct requests *rq, int signal)
{
	if (!rq->holding || signal < 1 || !(BIT(signal) & (STOPPING | BIT(SIGCONT))))
		return false;
	rq->held &= signal == SIGCONT ? ~STOPPING : ~BIT(SIGCONT);
	rq->held |= BIT(signal);
	return true;
}

static int enqueue(struct requests *rq, enum request_kind kind, int signal)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request)
		return -ENOMEM;
	*request = (struct request){.kind = kind, .signal = signal};
	*rq->last = request;
	rq->last = &request->next;
	return 0;
}

static int release_held(struct requests *rq)
{
	int signal, r = 0;

	rq->holding = false;
	for (signal = 1; rq->held && signal < _NSIG; signal++) {
		if (rq->held & BIT(signal) && enqueue(rq, REQUEST_SIGNAL, signal) < 0)
			r = -ENOMEM;
	}
	rq->held = 0;
	return r;
}

static int signal_container(struct requests *rq, int signal, struct err *err)
{
	char name[SIGNALS_NAME_SIZE];
	int r = proctrack_signal(rq->pt, rq->job->cont_id, signal);

	return r < 0 ? err_set(err, r, "can't send %s to the step",
			       signals_name(signal, name, sizeof(name)))
		     : 0;
}

static int resume_container(struct requests *rq, struct err *err)
{
	int r = proctrack_resume(rq->pt, rq->job->cont_id);

	return r < 0 ? err_set(err, r, "can't resume the step") : 0;
}

static int suspend_container(struct requests *rq, struct err *err)
{
	uint64_t ms = rq->suspend_timeout_ms;
	int r = proctrack_suspend(rq->pt, rq->job->cont_id, ms > INT_MAX ? INT_MAX : (int)ms, err);

	return r < 0 ? err_prefix(err, "can't suspend the step") : 0;
}

static int carry_out(void *userdata, struct err *err)
{
	struct requests *rq = userdata;

	switch (rq->now->kind) {
	case REQUEST_SUSPEND:
		return suspend_container(rq, err);
	case REQUEST_RESUME:
		return resume_container(rq, err);
	default:
		return signal_container(rq, rq->now->signal, err);
	}
}

static struct request *take_first(struct requests *rq)
{
	struct request *request = rq->first;

	rq->first = request->next;
	if (!rq->first)
		rq->last = &rq->first;
	return request;
}

static void finish(struct requests *rq, int r, const struct err *err)
{
	struct request *request = take_ptr(rq->now);

	if (!request)
		return; /* overtaken by a kill */
	if (request->kind == REQUEST_SUSPEND && r < 0 && r != -ECANCELED && r != -ESRCH)
		(void)!release_held(rq); /* out of memory, which the next request tells */
	rq->done(request, r, err, rq->userdata);
	free(request);
}

static void on_worker_done(int r, const struct err *err, void *userdata)
{
	struct requests *rq = userdata;

	assert(rq);
	finish(rq, r, err);
	start_next(rq);
}

static uint64_t limit_of(const struct requests *rq)
{
	return rq->now->kind == REQUEST_SUSPEND ? rq->suspend_timeout_ms + TAKE_BACK_MS
						: PATIENCE_MS;
}

static void start_next(struct requests *rq)
{
	struct err err = ERR_INIT;
	int r;

	while (rq->first && !rq->resting && !rq->now && !worker_is_busy(&rq->worker)) {
		rq->now = take_first(rq);
		rq->begin(rq->now, rq->userdata);
		if (!rq->now || worker_start(&rq->worker, carry_out, rq, limit_of(rq)) == 0)
			continue;
		/* No process to be had: the agent waits for this one itself. */
		err = (struct err)ERR_INIT;
		r = carry_out(rq, &err);
		finish(rq, r, &err);
	}
}

int requests_init(struct requests *rq, struct ev_loop *loop)
{
	rq->last = &rq->first;
	return worker_init(&rq->worker, loop, rq->job, on_worker_done, rq);
}

static void drop_all(struct requests *rq)
{
	while (rq->first)
		free(take_first(rq));
	free(take_ptr(rq->now));
	rq->holding = false;
	rq->held = 0;
}

void requests_clear(struct requests *rq)
{
	if (!rq->last)
		return;
	worker_clear(&rq->worker);
	drop_all(rq);
	rq->last = NULL;
}

int requests_add(struct requests *rq, enum request_kind kind, int signal)
{
	int r;

	if (!rq->last)
		return -ESRCH;
	if (kind == REQUEST_SIGNAL && hold_signal(rq, signal))
		return 0;
	r = enqueue(rq, kind, signal);
	if (r == 0 && kind == REQUEST_RESUME)
		r = release_held(rq);
	else if (r == 0 && kind == REQUEST_SUSPEND)
		rq->holding = true;
	start_next(rq);
	return r;
}

void requests_withdraw_suspend(struct requests *rq)
{
	struct request **at = &rq->first, *request;

	if (rq->now && rq->now->kind == REQUEST_SUSPEND)
		worker_cancel(&rq->worker);
	while ((request = *at)) {
		if (request->kind == REQUEST_SUSPEND) {
			*at = request->next;
			free(request);
		} else {
			at = &request->next;
		}
	}
	rq->last = at;
}

int requests_kill(struct requests *rq)
{
	drop_all(rq);
	worker_cancel(&rq->worker);
	return proctrack_signal(rq->pt, rq->job->cont_id, SIGKILL);
}

void requests_rest(struct requests *rq, bool rest)
{
	rq->resting = rest;
	if (rq->last)
		start_next(rq);
}

bool requests_is_busy(const struct requests *rq)
{
	return rq->now || worker_is_busy(&rq->worker);
}
