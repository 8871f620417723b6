/* SPDX-License-Identifier: BSD-3-Clause */
#include "contrib/slurm/accounting.h"

#include <assert.h>
#include <ev.h>
#include <jansson.h>

#include "contrib/slurm/call.h"
#include "stepd/base/json.h"

#define CALL_TIMEOUT_MS 10000

struct accounting {
	struct accounting_options options;
	struct step_usage usage;
	struct step_energy energy;
	ev_timer timer;
	struct call *call; /* of the reading that is under way */
	bool runs;         /* the agent serves calls */
};

static void poll_over(struct accounting *a)
{
	a->options.polled(a->options.userdata);
}

/* ---- a reading ----------------------------------------------------------------------------- */

static int on_pids(const json_t *reply, void *userdata)
{
	struct accounting *a = userdata;

	assert(a);
	step_usage_add_processes(&a->usage, json_get_array(reply, "pids"));
	return 0;
}

/* A call that fails is of no further interest: the step ends. */
static void on_pids_done(_unused_ int code, _unused_ const char *text, void *userdata)
{
	struct accounting *a = userdata;

	assert(a);
	a->call = NULL;
	step_usage_end_processes(&a->usage);
	poll_over(a);
}

static int on_usage(const json_t *reply, void *userdata)
{
	struct accounting *a = userdata;

	assert(a);
	step_usage_take(&a->usage, json_get_array(reply, "tasks"));
	step_usage_take_whole(&a->usage, json_get_object(reply, "step"));
	return 0;
}

static void accounting_on_usage_done(int code, const char *text, void *userdata);

static bool start_call(struct accounting *a, bool usage)
{
	const struct call_options call = {.loop = a->options.loop,
		.directory = a->options.directory,
		.method = usage ? "Usage" : "ListPids",
		.parameters = usage ? NULL : "{\"start_ticks\":false}",
		.more = !usage,
		.timeout_ms = CALL_TIMEOUT_MS,
		.piece = usage ? on_usage : on_pids,
		.done = usage ? accounting_on_usage_done : on_pids_done,
		.userdata = a};
	struct stepd_error error = {0};

	if (call_start(&call, &a->call, &error) >= 0)
		return true;
	log_debug(a->options.log, "the step's usage can't be read: %s", error.text);
	a->call = NULL;
	return false;
}

static void accounting_on_usage_done(int code, const char *text, void *userdata)
{
	struct accounting *a = userdata;

	assert(a);
	a->call = NULL;
	if (code < 0)
		log_debug(a->options.log, "the step's usage can't be read: %s", text);
	if (code < 0 || !start_call(a, false))
		poll_over(a);
}

bool accounting_poll(struct accounting *a)
{
	if (!a || !a->runs)
		return false;
	if (a->call)
		return true;
	step_energy_read(&a->energy);
	return start_call(a, true);
}

static void accounting_on_timer(
	_unused_ struct ev_loop *loop, ev_timer *timer, _unused_ int revents)
{
	assert(timer->data);
	(void)accounting_poll(timer->data); /* the next turn comes */
}

/* ---- life ---------------------------------------------------------------------------------- */

int accounting_open(const struct accounting_options *options, struct accounting **ret_accounting,
	struct err *err)
{
	struct accounting *a = calloc(1, sizeof(*a));

	if (!a || step_usage_open(&a->usage, options->tres, options->ranks, options->ntasks) < 0) {
		free(a);
		return err_set(err, -ENOMEM, "account for the step");
	}
	if (step_energy_open(&a->energy, options->energy, options->release, "") < 0) {
		step_usage_clear(&a->usage);
		free(a);
		return err_set(err, -ENOMEM, "account for the step");
	}
	a->options = *options;
	a->usage.energy = &a->energy;
	a->usage.node = options->node;
	a->usage.whole = options->whole;
	a->usage.cache_counts = options->cache_counts;
	ev_timer_init(&a->timer, accounting_on_timer, options->interval_s, options->interval_s);
	a->timer.data = a;
	*ret_accounting = a;
	return 0;
}

void accounting_start(struct accounting *a)
{
	if (!a)
		return;
	a->runs = true;
	(void)accounting_poll(a);
	if (a->options.interval_s)
		ev_timer_start(a->options.loop, &a->timer);
}

static void stop(struct accounting *a)
{
	ev_timer_stop(a->options.loop, &a->timer);
	a->call = call_cancel(a->call);
	a->runs = false;
}

void accounting_finish(struct accounting *a, const json_t *result)
{
	if (!a)
		return;
	stop(a);
	/* slurmstepd reads twice when a task has ended, and its mean has both. */
	step_energy_read(&a->energy);
	step_energy_read(&a->energy);
	step_usage_take(&a->usage, json_get_array(result, "tasks"));
	step_usage_take_whole(&a->usage, result);
	poll_over(a);
}

void accounting_pack(const struct accounting *a, bool with_tres, struct pack *p)
{
	step_usage_pack(a ? &a->usage : NULL, with_tres, p);
}

struct accounting *accounting_close(struct accounting *a)
{
	if (!a)
		return NULL;
	stop(a);
	step_usage_clear(&a->usage);
	step_energy_close(&a->energy);
	free(a);
	return NULL;
}
