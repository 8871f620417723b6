/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/requests.h"

#include <assert.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/base/clock.h"
#include "stepd/base/proc.h"
#include "stepd/snapshot/handover.h"
#include "stepd/spec/spec.h"

/* ---- the kill sequence --------------------------------------------------------------------- */

/* The longest delivery of a signal before its step's time begins to count anyway. A walk over all
 * of /proc on a crowded machine takes a part of it; a longer one hangs. */
#define DELIVERY_TIMEOUT_MS 5000

static void killseq_on_timer(struct ev_loop *loop, ev_timer *w, int revents);

static void killseq_arm_sec(struct killseq *ks, double sec)
{
	ev_now_update(ks->loop);
	ev_timer_init(&ks->timer, killseq_on_timer, sec, 0.);
	ks->timer.data = ks;
	ev_timer_start(ks->loop, &ks->timer);
}

static void killseq_arm(struct killseq *ks, uint64_t ms)
{
	ev_timer_stop(ks->loop, &ks->timer);
	killseq_arm_sec(ks, (double)ms / 1e3);
}

/* Sends the due signals: up to and including the first step that leaves time. The time counts
 * from the signal's delivery, which send() may report before it returns. */
static void killseq_advance(struct killseq *ks)
{
	const struct spec_kill *step;
	bool leaves_time;

	while (ks->next < ks->count) {
		step = &ks->steps[ks->next++];
		leaves_time = ks->next < ks->count && step->wait_ms;
		ks->delivering = leaves_time;
		if (leaves_time)
			killseq_arm(ks, step->wait_ms + DELIVERY_TIMEOUT_MS);
		ks->send(step->signal, ks->userdata);
		if (!ks->started || leaves_time)
			return; /* it ended within the call, or has time now */
	}
	ks->exhausted = true;
	killseq_arm(ks, ks->unkillable_timeout_ms);
}

static void killseq_on_timer(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct killseq *ks = w->data;

	assert(ks);
	ks->delivering = false;
	if (ks->exhausted)
		ks->unkillable(ks->userdata);
	else
		killseq_advance(ks);
}

void killseq_start(struct killseq *ks)
{
	if (ks->started)
		return;
	ks->started = true;
	ks->next = 0;
	killseq_advance(ks);
}

void killseq_delivered(struct killseq *ks, int signal)
{
	const struct spec_kill *step = ks->next ? &ks->steps[ks->next - 1] : NULL;

	if (!ks->started || !ks->delivering || !step || step->signal != signal)
		return;
	ks->delivering = false;
	killseq_arm(ks, step->wait_ms);
}

/* The rest of the last sent signal's time; all of it while the signal is being delivered. */
static uint64_t killseq_wait_left_ms(const struct killseq *ks)
{
	ev_timer *timer = (ev_timer *)&ks->timer; /* libev's signature lacks const */

	if (ks->delivering)
		return ks->steps[ks->next - 1].wait_ms;
	return (uint64_t)(ev_timer_remaining(ks->loop, timer) * 1e3);
}

/* From the step next on to the last signal. */
static uint64_t killseq_time_left_ms(const struct spec_kill *steps, size_t next, size_t count)
{
	uint64_t ms = 0;

	for (; next + 1 < count; next++)
		ms += steps[next].wait_ms;
	return ms;
}

/* Index after the last step with that signal; 0: none. */
static size_t killseq_find_next(const struct spec_kill *steps, size_t count, int signal)
{
	size_t next = count;

	while (next > 0 && steps[next - 1].signal != signal)
		next--;
	return next;
}

bool killseq_shorten(struct killseq *ks, const struct spec_kill *steps, size_t count)
{
	uint64_t left_ms, passed_ms, wait_ms = 0;
	size_t next = 0;

	if (ks->started) {
		if (ks->exhausted)
			return false;
		ev_now_update(ks->loop);
		left_ms = killseq_wait_left_ms(ks);
		passed_ms = ks->steps[ks->next - 1].wait_ms;
		passed_ms -= left_ms < passed_ms ? left_ms : passed_ms;
		next = killseq_find_next(steps, count, ks->steps[ks->next - 1].signal);
		if (next > 0 && steps[next - 1].wait_ms > passed_ms)
			wait_ms = steps[next - 1].wait_ms - passed_ms;
		if (wait_ms + killseq_time_left_ms(steps, next, count) >=
			left_ms + killseq_time_left_ms(ks->steps, ks->next, ks->count))
			return false;
		ev_timer_stop(ks->loop, &ks->timer);
	}
	ks->steps = steps;
	ks->count = count;
	ks->next = next;
	if (ks->started && wait_ms)
		killseq_arm(ks, wait_ms + (ks->delivering ? DELIVERY_TIMEOUT_MS : 0));
	else if (ks->started)
		killseq_advance(ks);
	return true;
}

void killseq_kill_now(struct killseq *ks)
{
	if (ks->started)
		ev_timer_stop(ks->loop, &ks->timer);
	ks->started = true;
	ks->exhausted = ks->delivering = false;
	ks->next = ks->count - 1;
	killseq_advance(ks);
}

void killseq_stop(struct killseq *ks)
{
	if (ks->started)
		ev_timer_stop(ks->loop, &ks->timer);
	ks->started = ks->delivering = false;
}

void killseq_save(const struct killseq *ks, struct handover *h, struct json_t *object)
{
	ev_timer *timer = (ev_timer *)&ks->timer; /* libev's signature lacks const */

	handover_put_bool(h, object, "started", ks->started);
	if (!ks->started)
		return;
	handover_put_int(h, object, "next", (int64_t)ks->next);
	handover_put_bool(h, object, "exhausted", ks->exhausted);
	handover_put_bool(h, object, "delivering", ks->delivering);
	if (ev_is_active(timer))
		handover_put_int(h, object, "deadline_ns",
			handover_deadline_ns(ev_timer_remaining(ks->loop, timer)));
}

void killseq_restore(struct killseq *ks, const struct json_t *object)
{
	int64_t next = json_get_int(object, "next", 0);
	int64_t deadline_ns = json_get_int(object, "deadline_ns", -1);

	ks->started = json_get_bool(object, "started", false);
	ks->next = next >= 0 && (size_t)next < ks->count ? (size_t)next : ks->count;
	ks->exhausted = json_get_bool(object, "exhausted", false);
	ks->delivering = ks->next > 0 && json_get_bool(object, "delivering", false);
	if (ks->started && deadline_ns >= 0)
		killseq_arm_sec(ks, handover_left_sec(deadline_ns));
}

/* ---- requests ------------------------------------------------------------------------------ */

/* Longer than passes over the largest /proc. A worker that takes longer hangs, and is given up;
 * kills don't wait for it. */
#define PATIENCE_MS 60000

/* Time for a suspension to undo its changes after its own deadline, and to wait before it. */
#define TAKE_BACK_MS     5000
#define EXEC_PATIENCE_MS 1000

/* Signals to some members that are held until a resumption; the caller has its reply and may
 * request again. */
#define HELD_MAX 1024

/* ---- what the worker does ------------------------------------------------------------------ */

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

/* -ESRCH: none of them exists. Any other failure is returned when all have been tried. */
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

/* Until the pipe's writers, children before their exec, have closed it. False: not in that time. */
static bool await_hang_up(int fd, uint64_t timeout_ms)
{
	uint64_t until_ns = clock_now_ns() + timeout_ms * 1000000, now_ns;
	struct pollfd p = {.fd = fd};

	do {
		now_ns = clock_now_ns();
		if (now_ns >= until_ns)
			return false;
		(void)poll(&p, 1, (int)((until_ns - now_ns) / 1000000 + 1));
	} while (p.revents == 0);
	return true;
}

/* A child that is frozen before it has run at all has what the agent has open, the lock of the
 * step's directory, too: if the agent were killed, no other could take the step over. One that is
 * not executed soon waits for something else, a FIFO or a file server, and may as well stand there.
 */
static void await_exec(const struct requests *rq)
{
	uint64_t ms = rq->suspend_timeout_ms < EXEC_PATIENCE_MS ? rq->suspend_timeout_ms
								: EXEC_PATIENCE_MS;
	size_t n = 0, i;
	int fds[2];

	if (rq->executing)
		n = rq->executing(fds, rq->userdata);
	for (i = 0; i < n && await_hang_up(fds[i], ms); i++)
		;
}

static int suspend_container(struct requests *rq, struct err *err)
{
	uint64_t ms = rq->suspend_timeout_ms;
	int r;

	await_exec(rq);
	r = proctrack_suspend(rq->pt, rq->job->cont_id, ms > INT_MAX ? INT_MAX : (int)ms, err);
	return r < 0 ? err_prefix(err, "can't suspend the step") : 0;
}

static int request_carry_out(void *userdata, struct err *err)
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

/* ---- signals that wait for a resumption ---------------------------------------------------- */

#define BIT(signal) (UINT64_C(1) << ((signal)-1))
#define STOPPING    (BIT(SIGSTOP) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU))

static bool is_to_hold(const struct requests *rq, int signal)
{
	return rq->holding && signal > 0 && signal < _NSIG &&
		BIT(signal) & (STOPPING | BIT(SIGCONT));
}

/* Whether it is held until a resumption. */
static bool hold_signal(struct requests *rq, int signal)
{
	if (!is_to_hold(rq, signal))
		return false;
	rq->held &= signal == SIGCONT ? ~STOPPING : ~BIT(SIGCONT);
	rq->held |= BIT(signal);
	return true;
}

/* ---- the queue ----------------------------------------------------------------------------- */

static void start_next(struct requests *rq);

static void request_free(struct request *request)
{
	if (request)
		free(request->ranks);
	free(request);
}

static void request_reply(const struct request *request, int r, const struct err *err)
{
	if (request->answer.fn)
		request->answer.fn(r, err, request->answer.userdata);
}

static struct request *request_new(enum request_kind kind, int signal)
{
	struct request *request = calloc(1, sizeof(*request));

	if (request)
		*request = (struct request){.kind = kind, .signal = signal};
	return request;
}

static int enqueue(struct requests *rq, enum request_kind kind, int signal)
{
	struct request *request = request_new(kind, signal);

	if (!request)
		return -ENOMEM;
	STAILQ_INSERT_TAIL(&rq->waiting, request, link);
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
	STAILQ_CONCAT(&rq->waiting, &rq->held_requests);
	rq->held_count = 0;
	return r;
}

static void requests_finish(struct requests *rq, int r, const struct err *err)
{
	struct request *request = take_ptr(rq->now);

	if (!request)
		return; /* overtaken by a kill */
	if (request->kind == REQUEST_SUSPEND && r < 0 && r != -ECANCELED && r != -ESRCH)
		(void)!release_held(rq); /* no memory: the next request fails with that */
	rq->done(request, r, err, rq->userdata);
	request_reply(request, r, err);
	request_free(request);
}

static void on_worker_done(int r, const struct err *err, void *userdata)
{
	struct requests *rq = userdata;

	assert(rq);
	requests_finish(rq, r, err);
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

	while (!STAILQ_EMPTY(&rq->waiting) && !rq->resting && !rq->now &&
		!worker_is_busy(&rq->worker)) {
		rq->now = STAILQ_FIRST(&rq->waiting);
		STAILQ_REMOVE_HEAD(&rq->waiting, link);
		rq->begin(rq->now, rq->userdata);
		if (!rq->now || worker_start(&rq->worker, request_carry_out, rq, limit_of(rq)) == 0)
			continue;
		/* No process for a worker: the agent runs this one itself, and blocks. */
		err = (struct err)ERR_INIT;
		r = request_carry_out(rq, &err);
		requests_finish(rq, r, &err);
	}
}

int requests_init(struct requests *rq, struct ev_loop *loop)
{
	STAILQ_INIT(&rq->waiting);
	STAILQ_INIT(&rq->held_requests);
	rq->open = true;
	return worker_init(&rq->worker, loop, rq->job, on_worker_done, rq);
}

/* Takes all requests, under way, pending or held, out of the queue: a reply may bring the next
 * request.
 */
static void take_all(struct requests *rq, struct request_list *ret_list)
{
	struct request *now = take_ptr(rq->now);

	STAILQ_INIT(ret_list);
	if (!rq->open)
		return;
	(void)!release_held(rq); /* without memory they are dropped, too */
	if (now)
		STAILQ_INSERT_TAIL(ret_list, now, link);
	STAILQ_CONCAT(ret_list, &rq->waiting);
}

static void drop_all(struct request_list *list, int r, const char *why)
{
	struct err err = ERR_INIT;
	struct request *request;

	(void)err_set_text(&err, r, "%s", why);
	while ((request = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, link);
		request_reply(request, r, &err);
		request_free(request);
	}
}

void requests_clear(struct requests *rq)
{
	struct request *signalled = NULL;
	struct request_list list;
	struct err err = ERR_INIT;
	int r = 0;

	if (!rq->open)
		return;
	/* It may have ended the last process before its worker could return. */
	if (rq->now && rq->now->kind == REQUEST_SIGNAL && worker_wait(&rq->worker, &r, &err))
		signalled = take_ptr(rq->now);
	worker_clear(&rq->worker);
	take_all(rq, &list);
	rq->open = false;
	if (signalled)
		request_reply(signalled, r, &err);
	request_free(signalled);
	drop_all(&list, -ESRCH, "no process of the step is left");
}

/* A held signal of job control is replied to at once: it will be sent at an unknown time. */
static int hold_request_take(struct requests *rq, struct request *request)
{
	if (request->target.whom == REQUEST_STEP) {
		(void)hold_signal(rq, request->signal); /* it is held, too */
		request_reply(request, 0, NULL);
		request_free(request);
		return 0;
	}
	if (rq->held_count == HELD_MAX) {
		request_free(request);
		return -EAGAIN;
	}
	rq->held_count++;
	STAILQ_INSERT_TAIL(&rq->held_requests, request, link);
	request_reply(request, 0, NULL);
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

	if (!rq->open)
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
	const struct request_answer *answer)
{
	struct request *request;

	if (!rq->open)
		return -ESRCH;
	request = request_new(REQUEST_SIGNAL, signal);
	if (!request || set_target(request, target) < 0) {
		request_free(request);
		return -ENOMEM;
	}
	request->answer = *answer;
	if (is_to_hold(rq, signal))
		return hold_request_take(rq, request);
	STAILQ_INSERT_TAIL(&rq->waiting, request, link);
	start_next(rq);
	return 0;
}

void requests_withdraw_suspend(struct requests *rq)
{
	struct request *request, *next;

	if (rq->now && rq->now->kind == REQUEST_SUSPEND)
		worker_cancel(&rq->worker);
	for (request = STAILQ_FIRST(&rq->waiting); request; request = next) {
		next = STAILQ_NEXT(request, link);
		if (request->kind != REQUEST_SUSPEND)
			continue;
		STAILQ_REMOVE(&rq->waiting, request, request, link);
		request_free(request);
	}
}

int requests_kill(struct requests *rq)
{
	struct request_list list;
	int r;

	take_all(rq, &list);
	worker_cancel(&rq->worker);
	r = proctrack_signal(rq->pt, rq->job->cont_id, SIGKILL);
	drop_all(&list, -ECANCELED, "the step was killed meanwhile");
	return r;
}

void requests_rest(struct requests *rq, bool rest)
{
	rq->resting = rest;
	if (rq->open)
		start_next(rq);
}

bool requests_is_busy(const struct requests *rq)
{
	return rq->now || worker_is_busy(&rq->worker);
}

/* ---- re-exec ------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
	[REQUEST_SIGNAL] = "signal",
	[REQUEST_SUSPEND] = "suspend",
	[REQUEST_RESUME] = "resume",
};

/* The reply's receiver is saved with the call. */
static void request_save(const struct request *request, struct handover *h, json_t *one)
{
	const struct request_target *target = &request->target;
	json_t *ranks = handover_put_array(h, one, "ranks");
	size_t i;

	handover_put_text(h, one, "kind", kind_names[request->kind]);
	handover_put_int(h, one, "signal", request->signal);
	handover_put_int(h, one, "whom", target->whom);
	handover_put_bool(h, one, "alone", target->alone);
	handover_put_int(h, one, "pid", target->pid);
	handover_put_int(h, one, "start_ticks", (int64_t)target->start_ticks);
	for (i = 0; i < target->ranks_count; i++)
		handover_append_int(h, ranks, target->ranks[i]);
}

void requests_save(const struct requests *rq, struct handover *h, json_t *object)
{
	json_t *waiting = handover_put_array(h, object, "waiting");
	json_t *held = handover_put_array(h, object, "held_requests");
	const struct request *request;

	handover_put_bool(h, object, "gone", !rq->open);
	handover_put_bool(h, object, "holding", rq->holding);
	handover_put_int(h, object, "held", (int64_t)rq->held);
	STAILQ_FOREACH(request, &rq->waiting, link)
	{
		request_save(request, h, handover_append_object(h, waiting));
	}
	STAILQ_FOREACH(request, &rq->held_requests, link)
	{
		request_save(request, h, handover_append_object(h, held));
	}
}

static int request_restore_signal(struct requests *rq, const json_t *one, int signal)
{
	const json_t *array = json_get_array(one, "ranks");
	const struct request_answer nobody = {.fn = NULL};
	int64_t whom = json_get_int(one, "whom", REQUEST_STEP);
	struct request_target target = {
		.alone = json_get_bool(one, "alone", false),
		.ranks_count = json_array_size(array),
		.pid = (pid_t)json_get_int(one, "pid", 0),
		.start_ticks = (uint64_t)json_get_int(one, "start_ticks", 0),
	};
	_cleanup_free_ uint32_t *ranks = calloc(target.ranks_count + 1, sizeof(*ranks));
	size_t i;

	if (!ranks)
		return -ENOMEM;
	if (whom < REQUEST_STEP || whom > REQUEST_PROCESS)
		return -EPROTO;
	target.whom = (enum request_whom)whom;
	target.ranks = ranks;
	for (i = 0; i < target.ranks_count; i++)
		ranks[i] = (uint32_t)json_integer_value(json_array_get(array, i));
	return requests_add_signal(rq, signal, &target, &nobody);
}

static int restore_all(struct requests *rq, const json_t *array)
{
	const bool holding = rq->holding;
	const json_t *one;
	int kind, signal, r = 0;
	size_t i;

	for (i = 0; r == 0 && i < json_array_size(array); i++) {
		one = json_array_get(array, i);
		kind = json_get_choice(one, "kind", kind_names, (int)ARRAY_SIZE(kind_names), -1);
		signal = (int)json_get_int(one, "signal", 0);
		if (kind < 0)
			r = -EPROTO;
		else if (kind == REQUEST_SIGNAL)
			r = request_restore_signal(rq, one, signal);
		else
			r = requests_add(rq, (enum request_kind)kind, signal);
		rq->holding = holding; /* others are queued behind the one that held them */
	}
	return r;
}

int requests_restore(struct requests *rq, const json_t *object)
{
	int r;

	rq->resting = true;
	r = restore_all(rq, json_get_array(object, "waiting"));
	rq->holding = json_get_bool(object, "holding", false);
	rq->held = (uint64_t)json_get_int(object, "held", 0);
	if (r == 0 && rq->holding)
		r = restore_all(rq, json_get_array(object, "held_requests"));
	if (json_get_bool(object, "gone", false))
		requests_clear(rq);
	return r;
}

int64_t requests_number_of(const struct requests *rq, const void *userdata)
{
	const struct request *request;
	int64_t number = 0;

	STAILQ_FOREACH(request, &rq->waiting, link)
	{
		if (request->answer.fn && request->answer.userdata == userdata)
			return number;
		number++;
	}
	return -1;
}

bool requests_set_answer(struct requests *rq, int64_t number, const struct request_answer *answer)
{
	struct request *request;

	for (request = STAILQ_FIRST(&rq->waiting); request && number > 0;
		request = STAILQ_NEXT(request, link))
		number--;
	if (!request || number < 0)
		return false;
	request->answer = *answer;
	return true;
}
