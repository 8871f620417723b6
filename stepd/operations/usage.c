/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage. Reading that of a step of many tasks takes a dozen files of each, in the agent's loop:
 * between two readings lies at least nine times what the first one took, and calls meanwhile get
 * its values.
 */
#include <assert.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/account/usage.h"
#include "stepd/base/clock.h"
#include "stepd/operations/operations_impl.h"
#include "stepd/snapshot/handover.h"

#define REST_FACTOR 9

/* So many are read also where the step's usage alone is requested: the account knows of those that
 * have ended where the tracker does not count them. */
#define CHEAP_TASKS 64

struct usage_call {
	struct pending pending;
	ev_timer timer;
	bool tasks;
	bool draining; /* has not taken the last reply: the next is left out */
};

/* Where nothing else needs an account of the tasks there is none: then it is what is now. */
struct reading {
	const stepd_usage_t *step, *tasks;
	stepd_usage_t own_step, *own_tasks;
};

static void reading_clear(struct reading *reading)
{
	free(reading->own_tasks);
}

static bool is_due(const struct operations *o, uint64_t now_ns)
{
	return now_ns - o->usage_read_ns >= REST_FACTOR * o->usage_cost_ns;
}

static int read_account(struct operations *o, struct reading *reading)
{
	struct agent *a = o->a;
	uint64_t begin_ns = clock_now_ns();

	if (a->state < AGENT_DRAINING && is_due(o, begin_ns)) {
		account_poll(&a->account);
		o->usage_read_ns = clock_now_ns();
		o->usage_cost_ns = o->usage_read_ns - begin_ns;
	}
	reading->step = &a->account.usage.step;
	reading->tasks = a->account.usage.tasks;
	return 0;
}

/* The step alone costs some files, whatever tasks it has. */
static int read_tracker(struct operations *o, bool tasks, struct reading *reading)
{
	const struct agent *a = o->a;
	const stepd_step_rec_t *job = &a->plan.job;

	reading->step = &reading->own_step;
	if (!tasks)
		return proctrack_usage(a->pt, job->cont_id, NULL, &reading->own_step);
	reading->own_tasks = calloc(job->node_tasks + 1u, sizeof(*reading->own_tasks));
	if (!reading->own_tasks)
		return -ENOMEM;
	reading->tasks = reading->own_tasks;
	return proctrack_usage_tasks(a->pt, job->cont_id, job->task, job->node_tasks,
		&reading->own_step, reading->own_tasks);
}

static json_t *pack_values(const stepd_usage_t *usage)
{
	json_auto_t *doc = json_object();

	return doc && usage_pack(doc, usage) == 0 ? take_ptr(doc) : NULL;
}

static json_t *pack_tasks(const struct agent *a, const stepd_usage_t *usage)
{
	json_auto_t *array = json_array();
	json_t *doc;
	uint32_t i;
	int r = array ? 0 : -1;

	for (i = 0; usage && r == 0 && i < a->tasks.n; i++) {
		doc = pack_values(&usage[i]);
		r = doc ? json_object_set_new(doc, "rank", json_integer(a->tasks.v[i].rank)) : -1;
		if (r == 0)
			r = json_array_append_new(array, doc);
		else
			json_decref(doc);
	}
	return r == 0 ? take_ptr(array) : NULL;
}

/* 0 and the reply, or -errno. */
static int make_reply(struct operations *o, bool tasks, json_t **ret_reply)
{
	_cleanup_(reading_clear) struct reading reading = {0};
	const struct agent *a = o->a;
	uint64_t now_ns = clock_now_ns(), end_ns = a->end.time_ns ? a->end.time_ns : now_ns;
	int r;

	r = a->account.usage.enabled &&
			(tasks || a->tasks.n <= CHEAP_TASKS || a->state >= AGENT_DRAINING)
		? read_account(o, &reading)
		: read_tracker(o, tasks, &reading);
	if (r < 0 && r != -ESRCH)
		return r;
	*ret_reply = json_pack("{s:I, s:I, s:o, s:o}", "time_usec",
		(json_int_t)(o->start_time_usec + (int64_t)(now_ns - a->origin.begin_ns) / 1000),
		"elapsed_usec", (json_int_t)((end_ns - a->origin.begin_ns) / 1000), "step",
		pack_values(reading.step), "tasks", pack_tasks(a, tasks ? reading.tasks : NULL));
	return *ret_reply ? 0 : -ENOMEM;
}

/* ---- again and again ------------------------------------------------------------------------ */

static void usage_call_clear(struct pending *pending)
{
	ev_timer_stop(pending->o->a->loop, &((struct usage_call *)pending)->timer);
}

static void on_drained(void *userdata)
{
	struct usage_call *u = userdata;

	assert(u);
	u->draining = false;
}

static void send_one(struct usage_call *u)
{
	json_t *reply = NULL;
	int r = make_reply(u->pending.o, u->tasks, &reply);

	if (r < 0) {
		op_fail(pending_end(&u->pending), r, "the step's usage can't be read");
		return;
	}
	u->draining = true;
	op_on_drained(u->pending.call, on_drained, u);
	op_reply_more_take(u->pending.call, reply);
}

static void on_timer(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct usage_call *u = w->data;

	assert(u);
	if (!u->draining)
		send_one(u);
}

/* Sends one after so many seconds, and then in each interval. NULL: the call has failed. */
static struct usage_call *follow(struct operations *o, struct op_call *call, bool tasks,
	double first_sec, int64_t interval_ms)
{
	struct usage_call *u = pending_new(o, call, PENDING_USAGE, sizeof(*u), usage_call_clear);

	if (!u)
		return NULL;
	u->tasks = tasks;
	ev_timer_init(&u->timer, on_timer, first_sec, (double)interval_ms / 1e3);
	u->timer.data = u;
	ev_now_update(o->a->loop);
	ev_timer_start(o->a->loop, &u->timer);
	return u;
}

json_t *usage_save_call(const struct pending *pending)
{
	struct usage_call *u = (struct usage_call *)
		pending; /* ev_timer_remaining() takes no const, and changes nothing */

	return json_pack("{s:b, s:I, s:I}", "tasks", (int)u->tasks, "interval_ms",
		(json_int_t)(u->timer.repeat * 1e3 + 0.5), "deadline_ns",
		(json_int_t)handover_deadline_ns(
			ev_timer_remaining(pending->o->a->loop, &u->timer)));
}

void usage_resume_call(struct operations *o, struct op_call *call, const json_t *state)
{
	struct usage_call *u = follow(o, call, json_get_bool(state, "tasks", true),
		handover_left_sec(json_get_int(state, "deadline_ns", 0)),
		json_get_int(state, "interval_ms", OPERATIONS_INTERVAL_MS_LEAST));

	if (!u)
		return;
	u->draining = true;
	op_on_drained(call, on_drained, u);
}

void usage_end(struct pending *pending)
{
	json_t *reply = NULL;
	int r = make_reply(pending->o, ((struct usage_call *)pending)->tasks, &reply);

	if (r < 0)
		op_fail(pending_end(pending), r, "the step's usage can't be read");
	else
		op_reply_take(pending_end(pending), reply);
}

void op_usage(struct op_call *call, const json_t *parameters, struct operations *o)
{
	int64_t interval_ms = param_int(parameters, "interval_ms", 0);
	bool given = param_is_given(parameters, "interval_ms");
	bool tasks = param_bool(parameters, "tasks", true);
	struct usage_call *u;
	json_t *reply = NULL;
	int r;

	if (given &&
		(interval_ms < OPERATIONS_INTERVAL_MS_LEAST ||
			interval_ms > OPERATIONS_INTERVAL_MS_MOST)) {
		op_fail_parameter(call, "interval_ms");
		return;
	}
	if (given && !call->more) {
		op_fail_more(call);
		return;
	}
	if (given && !o->ending) {
		u = follow(o, call, tasks, (double)interval_ms / 1e3, interval_ms);
		if (u)
			send_one(u);
		return;
	}
	r = make_reply(o, tasks, &reply);
	if (r < 0)
		op_fail(call, r, "the step's usage can't be read");
	else
		op_reply_take(call, reply);
}
