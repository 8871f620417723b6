/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/requests.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "proctrack/proctrack.h"

/* More than passes over the largest /proc take. What takes longer hangs, and is given up; kills
 * don't wait for it. */
#define PATIENCE_MS 60000

/* How long after its own deadline a suspension has to take back what it did. */
#define TAKE_BACK_MS 5000

/* Signals to some that wait for a resumption; who asks has its answer and may ask again. */
#define HELD_MAX 1024

static void start_next(struct requests *rq);

#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define STOPPING    (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))

static bool is_to_hold(const struct requests *rq, int signal)
{
	return rq->holding && signal > 0 && signal < _NSIG &&
		BIT(signal) & (STOPPING | BIT(SIGCONT));
}

/* Whether it is kept for later. */
static bool hold_signal(struct requests *rq, int signal)
{
	if (!is_to_hold(rq, signal))
		return false;
	rq->held &= signal == SIGCONT ? ~STOPPING : ~BIT(SIGCONT);
	rq->held |= BIT(signal);
	return true;
}

static void free_request(struct request *request)
{
	if (request)
		free(request->ranks);
	free(request);
}

static void answer(const struct request *request, int r, const struct err *err)
{
	if (request->answer.fn)
		request->answer.fn(r, err, request->answer.userdata);
}

static struct request *new_request(enum request_kind kind, int signal)
{
	struct request *request = calloc(1, sizeof(*request));

	if (request)
		*request = (struct request){.kind = kind, .signal = signal};
	return request;
}

static void enqueue_take(struct requests *rq, struct request *request)
{
	*rq->last = request;
	rq->last = &request->next;
}

static int enqueue(struct requests *rq, enum request_kind kind, int signal)
{
	struct request *request = new_request(kind, signal);

	if (!request)
		return -ENOMEM;
	enqueue_take(rq, request);
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
	if (rq->held_first) {
		*rq->last = rq->held_first;
		rq->last = rq->held_last;
		rq->held_first = NULL;
		rq->held_last = &rq->held_first;
		rq->held_count = 0;
	}
	return r;
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
	answer(request, r, err);
	free_request(request);
}

static void on_worker_done(int r, const struct err *err, void *userdata)
{
	struct requests *rq = userdata;

	assert(rq);
	finish(rq, r, err);
	start_next(rq);
	if (rq->resting && rq->rested && !requests_is_busy(rq))
		rq->rested(rq->userdata);
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
		if (!rq->now ||
			worker_start(&rq->worker, requests_carry_out, rq, limit_of(rq)) == 0)
			continue;
		/* No process to be had: the agent waits for this one itself. */
		err = (struct err)ERR_INIT;
		r = requests_carry_out(rq, &err);
		finish(rq, r, &err);
	}
}

int requests_init(struct requests *rq, struct ev_loop *loop)
{
	rq->last = &rq->first;
	rq->held_last = &rq->held_first;
	return worker_init(&rq->worker, loop, rq->job, on_worker_done, rq);
}

/* All that is under way, waiting or held, out of the queue: an answer may bring the next request.
 */
static struct request *take_all(struct requests *rq)
{
	struct request *list, *now = take_ptr(rq->now);

	(void)!release_held(rq); /* what finds no memory goes as well */
	list = take_ptr(rq->first);
	rq->last = &rq->first;
	if (!now)
		return list;
	now->next = list;
	return now;
}

static void drop_take(struct request *list, int r, const char *why)
{
	struct err err = ERR_INIT;
	struct request *next;

	(void)err_say(&err, r, "%s", why);
	for (; list; list = next) {
		next = list->next;
		answer(list, r, &err);
		free_request(list);
	}
}

void requests_clear(struct requests *rq)
{
	struct request *list;

	if (!rq->last)
		return;
	worker_clear(&rq->worker);
	list = take_all(rq);
	rq->last = NULL;
	drop_take(list, -ESRCH, "no process of the step is left");
}

/* An asker of job control's signals is answered: they will be sent, and nobody can tell when. */
static int hold_request_take(struct requests *rq, struct request *request)
{
	if (request->target.whom == REQUEST_STEP) {
		(void)hold_signal(rq, request->signal); /* it is one of those */
		answer(request, 0, NULL);
		free_request(request);
		return 0;
	}
	if (rq->held_count == HELD_MAX) {
		free_request(request);
		return -EAGAIN;
	}
	rq->held_count++;
	*rq->held_last = request;
	rq->held_last = &request->next;
	answer(request, 0, NULL);
	request->answer.fn = NULL;
	return 0;
}

static int set_target(struct request *request, const struct request_target *target)
{
	size_t size = target->ranks_count * sizeof(*request->ranks);

	request->target = *target;
	if (size == 0)
		return 0;
	request->target.ranks = request->ranks = malloc(size);
	if (!request->ranks)
		return -ENOMEM;
	memcpy(request->ranks, target->ranks, size);
	return 0;
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

int requests_add_signal(struct requests *rq, int signal, const struct request_target *target,
	const struct request_answer *asker)
{
	struct request *request;

	if (!rq->last)
		return -ESRCH;
	request = new_request(REQUEST_SIGNAL, signal);
	if (!request || set_target(request, target) < 0) {
		free_request(request);
		return -ENOMEM;
	}
	request->answer = *asker;
	if (is_to_hold(rq, signal))
		return hold_request_take(rq, request);
	enqueue_take(rq, request);
	start_next(rq);
	return 0;
}

void requests_withdraw_suspend(struct requests *rq)
{
	struct request **at = &rq->first, *request;

	if (rq->now && rq->now->kind == REQUEST_SUSPEND)
		worker_cancel(&rq->worker);
	while ((request = *at)) {
		if (request->kind == REQUEST_SUSPEND) {
			*at = request->next;
			free_request(request);
		} else {
			at = &request->next;
		}
	}
	rq->last = at;
}

int requests_kill(struct requests *rq)
{
	struct request *list = rq->last ? take_all(rq) : NULL;
	int r;

	worker_cancel(&rq->worker);
	r = proctrack_signal(rq->pt, rq->job->cont_id, SIGKILL);
	drop_take(list, -ECANCELED, "the step was killed meanwhile");
	return r;
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
