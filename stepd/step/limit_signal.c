/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/step/limit_signal.h"

#include <assert.h>
#include <string.h>

#include "stepd/base/log.h"
#include "stepd/base/signals.h"
#include "stepd/step/agent_impl.h"
#include "stepd/step/result.h"

/* The first processes of all tasks that run; to be freed. NULL: no memory. */
static uint32_t *running_ranks(const struct agent *a, size_t *ret_count)
{
	uint32_t *ranks = calloc(a->tasks.n + 1u, sizeof(*ranks)), i;
	size_t count = 0;

	for (i = 0; ranks && i < a->tasks.n; i++) {
		if (a->tasks.v[i].state == TASK_RUNNING)
			ranks[count++] = a->tasks.v[i].rank;
	}
	*ret_count = count;
	return ranks;
}

static int send_signal(struct agent *a)
{
	const struct spec *spec = a->plan.spec;
	struct request_target target = {.whom = REQUEST_STEP};
	struct request_answer nobody = {.fn = NULL};
	_cleanup_free_ uint32_t *ranks = NULL;

	if (spec->time_limit_signal_to == SPEC_SIGNAL_TASKS) {
		target.whom = REQUEST_TASKS;
		target.alone = true;
		target.ranks = ranks = running_ranks(a, &target.ranks_count);
		if (!ranks)
			return -ENOMEM;
		if (target.ranks_count == 0)
			return 0; /* they have ended; what they left goes with the step */
	}
	return requests_add_signal(&a->suspend.requests, spec->time_limit_signal, &target, &nobody);
}

static void on_time(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct agent *a = w->data;
	char name[SIGNALS_NAME_SIZE];
	int r;

	assert(a);
	(void)loop;
	(void)revents;
	if (a->state != AGENT_RUNNING)
		return;
	pausable_stop(&a->limits.signal);
	(void)signals_name(a->plan.spec->time_limit_signal, name, sizeof(name));
	log_info(a->log, "the time limit of %.10g s is near: sending %s to the %s",
		(double)a->plan.spec->time_limit_ms / 1e3, name,
		spec_signal_to_name(a->plan.spec->time_limit_signal_to));
	a->limits.signal_sent = true;
	/* Who takes the step over must not send it again. */
	result_publish_state(a, suspend_state_word(a));
	r = send_signal(a);
	if (r < 0)
		log_error(a->log, "can't signal the step: %s", strerror(-r));
}

void limit_signal_init(struct agent *a)
{
	pausable_init(&a->limits.signal, a->loop, on_time, a);
}

void limit_signal_start(struct agent *a, uint64_t left_ms)
{
	const struct spec *spec = a->plan.spec;

	if (!spec->time_limit_signal || a->limits.signal_sent)
		return;
	pausable_start(&a->limits.signal,
		left_ms > spec->time_limit_signal_ms ? left_ms - spec->time_limit_signal_ms : 0);
}
