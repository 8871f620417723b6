/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage. A look at a step of many tasks reads a dozen files of each, in the agent's loop: between
 * two lie at least nine times what the first one took, and who asks meanwhile gets what it told.
 */
#include <assert.h>

#include "proctrack/proctrack.h"
#include "stepd/account/account.h"
#include "stepd/account/usage_values.h"
#include "stepd/base/clock.h"
#include "stepd/frontend/methods_impl.h"
#include "stepd/snapshot/handover.h"

#define REST_FACTOR 9

/* So many are looked at also where the step alone is asked for: what is kept knows of those that
 * have ended where the tracker does not count them. */
#define CHEAP_TASKS 64

struct usage_call {
	struct kept kept;
	ev_timer timer;
	bool tasks;
	bool draining; /* has not taken the last one: the next is left out */
};

/* Where nobody else asked for it nothing is kept of the tasks: then there is what is now. */
struct look {
	const stepd_usage_t *step, *tasks;
	stepd_usage_t own_step, *own_tasks;
};

static void look_clear(struct look *look)
{
	free(look->own_tasks);
}

static bool is_due(const struct methods *m, uint64_t now_ns)
{
	return now_ns - m->looked_ns >= REST_FACTOR * m->look_cost_ns;
}

static int look_at_kept(struct methods *m, struct look *look)
{
	struct agent *a = m->a;
	uint64_t begin_ns = clock_now_ns();

	if (a->state < AGENT_DRAINING && is_due(m, begin_ns)) {
		account_look(&a->account);
		m->looked_ns = clock_now_ns();
		m->look_cost_ns = m->looked_ns - begin_ns;
	}
	look->step = &a->account.usage.step;
	look->tasks = a->account.usage.tasks;
	return 0;
}

/* The step alone costs some files, whatever tasks it has. */
static int look_now(struct methods *m, bool tasks, struct look *look)
{
	const struct agent *a = m->a;
	const stepd_step_rec_t *job = &a->plan.job;
	int r;

	look->step = &look->own_step;
	if (!tasks)
		return proctrack_usage(a->pt, job->cont_id, NULL, &look->own_step);
	look->own_tasks = calloc(job->node_tasks + 1u, sizeof(*look->own_tasks));
	if (!look->own_tasks)
		return -ENOMEM;
	look->tasks = look->own_tasks;
	r = proctrack_usage_tasks(
		a->pt, job->cont_id, job->task, job->node_tasks, &look->own_step, look->own_tasks);
	return r;
}

static json_t *pack_values(const stepd_usage_t *usage)
{
	json_t *doc = json_object();

	if (doc && usage_pack(doc, usage) == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

static json_t *pack_tasks(const struct agent *a, const stepd_usage_t *usage)
{
	json_t *array = json_array(), *doc;
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
	if (r == 0)
		return array;
	json_decref(array);
	return NULL;
}

/* 0 and the answer, or -errno. */
static int make_answer(struct methods *m, bool tasks, json_t **ret_answer)
{
	_cleanup_(look_clear) struct look look = {0};
	const struct agent *a = m->a;
	uint64_t now_ns = clock_now_ns(), end_ns = a->end.time_ns ? a->end.time_ns : now_ns;
	int r;

	r = a->account.usage.kept &&
			(tasks || a->tasks.n <= CHEAP_TASKS || a->state >= AGENT_DRAINING)
		? look_at_kept(m, &look)
		: look_now(m, tasks, &look);
	if (r < 0 && r != -ESRCH)
		return r;
	*ret_answer = json_pack("{s:I, s:I, s:o, s:o}", "time_usec",
		(json_int_t)(m->start_time_usec + (int64_t)(now_ns - a->origin.begin_ns) / 1000),
		"elapsed_usec", (json_int_t)((end_ns - a->origin.begin_ns) / 1000), "step",
		pack_values(look.step), "tasks", pack_tasks(a, tasks ? look.tasks : NULL));
	return *ret_answer ? 0 : -ENOMEM;
}

/* ---- again and again ------------------------------------------------------------------------ */

static void clear(struct kept *kept)
{
	ev_timer_stop(kept->m->a->loop, &((struct usage_call *)kept)->timer);
}

static void on_drained(struct control_call *call, void *userdata)
{
	struct usage_call *u = userdata;

	(void)call;
	assert(u);
	u->draining = false;
}

static void send_one(struct usage_call *u)
{
	json_t *answer = NULL;
	int r = make_answer(u->kept.m, u->tasks, &answer);

	if (r < 0) {
		kept_error_take(&u->kept, "Failed",
			pack_failed(r, "what the step uses can't be looked at"));
		return;
	}
	u->draining = true;
	control_call_on_drained(u->kept.call, on_drained, u);
	control_reply_more_take(u->kept.call, answer);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct usage_call *u = w->data;

	assert(u);
	(void)loop;
	(void)revents;
	if (!u->draining)
		send_one(u);
}

static void follow(struct methods *m, struct control_call *call, bool tasks, int64_t interval_ms)
{
	struct usage_call *u = kept_new(m, call, KEPT_USAGE, sizeof(*u), clear);

	if (!u)
		return;
	u->tasks = tasks;
	ev_timer_init(&u->timer, on_timer, (double)interval_ms / 1e3, (double)interval_ms / 1e3);
	u->timer.data = u;
	ev_now_update(m->a->loop);
	ev_timer_start(m->a->loop, &u->timer);
	send_one(u);
}

json_t *usage_save_call(const struct kept *kept)
{
	struct usage_call *u =
		(struct usage_call *)kept; /* libev asks for it, and changes nothing */

	return json_pack("{s:b, s:I, s:I}", "tasks", (int)u->tasks, "interval_ms",
		(json_int_t)(u->timer.repeat * 1e3 + 0.5), "deadline_ns",
		(json_int_t)handover_deadline_ns(ev_timer_remaining(kept->m->a->loop, &u->timer)));
}

void usage_resume_call(struct methods *m, struct control_call *call, const json_t *state)
{
	struct usage_call *u = kept_new(m, call, KEPT_USAGE, sizeof(*u), clear);
	int64_t interval_ms = handover_get_int(state, "interval_ms", METHODS_INTERVAL_MS_LEAST);

	if (!u)
		return;
	u->tasks = handover_get_bool(state, "tasks", true);
	ev_timer_init(&u->timer, on_timer,
		handover_left_sec(handover_get_int(state, "deadline_ns", 0)),
		(double)interval_ms / 1e3);
	u->timer.data = u;
	ev_now_update(m->a->loop);
	ev_timer_start(m->a->loop, &u->timer);
	u->draining = true;
	control_call_on_drained(call, on_drained, u);
}

void usage_end(struct kept *kept)
{
	json_t *answer = NULL;
	int r = make_answer(kept->m, ((struct usage_call *)kept)->tasks, &answer);

	if (r < 0)
		kept_error_take(kept, "Failed", pack_failed(r, "what the step used can't be told"));
	else
		kept_reply_take(kept, answer);
}

void method_usage(struct control_call *call, const json_t *parameters, void *userdata)
{
	int64_t interval_ms = param_int(parameters, "interval_ms", 0);
	bool given = param_is_given(parameters, "interval_ms");
	bool tasks = param_bool(parameters, "tasks", true);
	struct methods *m = userdata;
	json_t *answer = NULL;
	int r;

	if (given &&
		(interval_ms < METHODS_INTERVAL_MS_LEAST ||
			interval_ms > METHODS_INTERVAL_MS_MOST)) {
		answer_invalid(call, "interval_ms");
		return;
	}
	if (given && !control_call_wants_more(call)) {
		control_error_take(call, "org.varlink.service.ExpectedMore", NULL);
		return;
	}
	if (given && !m->ending) {
		follow(m, call, tasks, interval_ms);
		return;
	}
	r = make_answer(m, tasks, &answer);
	if (r < 0)
		answer_failed(call, r, "what the step uses can't be looked at");
	else
		control_reply_take(call, answer);
}
