/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/across/across.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include "stepd/base/hostlist.h"
#include "stepd/base/signals.h"
#include "stepd/cli/across/across_impl.h"
#include "stepd/spec/spec.h"

void across_say(const char *fmt, ...)
{
	char raw[2048], text[4 * sizeof(raw)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);
	err_printable(text, sizeof(text), raw); /* other nodes' words, for the user's terminal */
	fprintf(stderr, "steprun: %s\n", text);
}

void across_send_all(struct across *a, const char *verb, const char *text)
{
	uint32_t i;

	for (i = 0; i < a->conns_count; i++) {
		if (a->conns[i].channel)
			channel_send(a->conns[i].channel, CHANNEL_ALL, verb, text);
	}
}

/* Whether nothing more is to come from there but a hello. */
static bool is_given_up(const struct conn *c)
{
	bool awaited = false;
	uint32_t i;

	for (i = c->first; i < c->first + c->count; i++) {
		enum node_state state = c->across->nodes[i].state;

		if (state != NODE_AWAITED && state < NODE_ENDED)
			return false;
		awaited = awaited || state == NODE_AWAITED;
	}
	return awaited;
}

void across_give_up_awaited(struct across *a)
{
	uint32_t i, j;

	for (i = 0; a->ending && i < a->conns_count; i++) {
		struct conn *c = &a->conns[i];

		if (!is_given_up(c))
			continue;
		if (c->started)
			conn_end(c);
		for (j = c->first; !c->started && j < c->first + c->count; j++)
			node_skip(&a->nodes[j]);
	}
}

void across_end(struct across *a, bool now)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		if (a->nodes[i].state < NODE_ENDED)
			a->nodes[i].on_request = true;
	}
	a->ending = true;
	ev_timer_stop(a->loop, &a->launch);
	ev_timer_stop(a->loop, &a->wait);
	ev_timer_stop(a->loop, &a->grace);
	if (a->input)
		input_stop(a->input);
	across_send_all(a, now ? "kill" : "terminate", "");
	for (i = 0; now && a->killing && i < a->conns_count; i++)
		conn_kill(&a->conns[i]); /* who was told before does not answer */
	a->killing = now;
	across_give_up_awaited(a);
	across_check_end(a);
}

/* ---- the user ----------------------------------------------------------------------------- */

static void on_signal(const char *name, void *userdata)
{
	struct across *a = userdata;

	if (a->going) {
		across_send_all(a, "signal", name);
	} else if (strcmp(name, "TERM") == 0 || strcmp(name, "HUP") == 0) {
		a->early_signal = signals_parse(name); /* there are no tasks yet to end by it */
		across_end(a, false);
	} else if (strv_add(&a->signals, name) < 0) {
		across_say("there is no memory for the signal %s", name);
	}
}

static void on_terminate(bool now, void *userdata)
{
	across_end(userdata, now);
}

/* At once: this process stops next, and its loop with it. */
static void on_suspend(bool on, void *userdata)
{
	struct across *a = userdata;
	uint32_t i;

	across_send_all(a, on ? "suspend" : "resume", "");
	for (i = 0; on && i < a->conns_count; i++) {
		if (a->conns[i].channel)
			channel_flush(a->conns[i].channel);
	}
}

static void on_tell(void *userdata)
{
	const struct across *a = userdata;

	if (a->going)
		running_tell(&a->running);
	else
		across_say("%u of %u nodes are here", a->here, a->count);
}

/* ---- output ------------------------------------------------------------------------------- */

static void on_full(bool full, void *userdata)
{
	struct across *a = userdata;

	/* Of two streams: the relays wait as long as one is full. */
	a->full_streams += full ? 1 : -1;
	across_pause(a);
}

static void on_empty(void *userdata)
{
	across_check_end(userdata);
}

/* Tasks see it as they would without steprun between: who reads nothing more is a closed pipe. */
static void on_out_failed(int error, void *userdata)
{
	struct across *a = userdata;

	if (error != -EPIPE) {
		across_say("standard output can't be written: %s", strerror(-error));
		a->launch_failed = true;
	}
	across_send_all(a, "close", "out");
}

static void on_err_failed(int error, void *userdata)
{
	(void)error;
	across_send_all(userdata, "close", "err");
}

/* ---- timers ------------------------------------------------------------------------------- */

/* Those whose turn has not come are waited for by nobody. */
static void say_unanswered(const struct across *a)
{
	const struct strv *names = &a->options->nodes;
	_cleanup_free_ char **late = calloc(a->count, sizeof(*late));
	_cleanup_free_ char *list = NULL;
	uint32_t n = 0, i;

	for (i = 0; late && i < a->count; i++) {
		if (a->nodes[i].state == NODE_AWAITED && a->nodes[i].conn->started)
			late[n++] = names->n ? names->v[i] : NULL;
	}
	if (names->n)
		list = hostlist_make(late, n);
	if (list)
		across_say("node%s %s %s not answered within %g s (--launch-timeout)",
			n > 1 ? "s" : "", list, n > 1 ? "have" : "has",
			(double)a->options->launch_timeout_ms / 1e3);
	else
		across_say("%u of %u nodes have not answered within %g s (--launch-timeout)", n,
			a->count, (double)a->options->launch_timeout_ms / 1e3);
}

static void on_launch_timeout(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct across *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	say_unanswered(a);
	a->launch_failed = true;
	across_end(a, false);
}

static void on_wait_over(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct across *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	across_say("the first task ended %g s ago: ending the step",
		(double)a->options->run.spec->wait_ms / 1e3);
	across_end(a, false);
}

static void on_grace_over(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct across *a = w->data;

	assert(a);
	(void)loop;
	(void)revents;
	across_say("a task has failed: ending the step");
	across_end(a, false);
}

static void init_timer(
	struct across *a, ev_timer *timer, void (*fn)(struct ev_loop *, ev_timer *, int))
{
	ev_timer_init(timer, fn, 0., 0.);
	timer->data = a;
}

/* ---- life --------------------------------------------------------------------------------- */

static void across_clear(struct across *a)
{
	uint32_t i;

	for (i = 0; i < a->conns_count; i++)
		conn_clear(&a->conns[i]);
	for (i = 0; a->nodes && i < a->count; i++) {
		free(a->nodes[i].name);
		(void)output_source_free(a->nodes[i].out); /* always NULL */
		(void)output_source_free(a->nodes[i].err);
		buffer_clear(&a->nodes[i].result);
	}
	free(a->conns);
	free(a->nodes);
	free(a->by_id);
	a->input = input_free(a->input);
	a->out = output_free(a->out);
	a->err = output_free(a->err);
	a->user = user_free(a->user);
	strv_clear(&a->signals);
	running_clear(&a->running);
	if (a->loop)
		ev_loop_destroy(a->loop);
}

static int make_streams(struct across *a)
{
	static const struct output_events out = {
		.full = on_full, .empty = on_empty, .failed = on_out_failed};
	static const struct output_events err = {
		.full = on_full, .empty = on_empty, .failed = on_err_failed};
	uint32_t i;

	a->out = output_new(a->loop, STDOUT_FILENO, &out, a);
	a->err = output_new(a->loop, STDERR_FILENO, &err, a);
	if (!a->out || !a->err)
		return -ENOMEM;
	for (i = 0; i < a->count; i++) {
		a->nodes[i].out = output_add_source(a->out);
		a->nodes[i].err = output_add_source(a->err);
		if (!a->nodes[i].out || !a->nodes[i].err)
			return -ENOMEM;
	}
	return 0;
}

static void make_conns(struct across *a)
{
	bool at_once = a->options->launcher.at_once;
	uint32_t i;

	for (i = 0; i < a->conns_count; i++) {
		a->conns[i].across = a;
		a->conns[i].first = i;
		a->conns[i].count = at_once ? a->count : 1;
	}
	for (i = 0; i < a->count; i++) {
		a->nodes[i].relay = i;
		a->nodes[i].conn = &a->conns[at_once ? 0 : i];
	}
}

/* Two descriptors and more for each node. */
static void raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files); /* what is lacking then is told where it fails */
}

static int make(struct across *a, struct err *err)
{
	a->count = a->options->layout.nodes;
	a->conns_count = a->options->launcher.at_once ? 1 : a->count;
	a->conns = calloc(a->conns_count, sizeof(*a->conns));
	a->nodes = calloc(a->count, sizeof(*a->nodes));
	a->by_id = calloc(a->count, sizeof(*a->by_id));
	a->loop = ev_loop_new(EVFLAG_AUTO);
	if (!a->conns || !a->nodes || !a->by_id || !a->loop) {
		a->conns_count = 0;
		return err_set(err, -ENOMEM, "prepare the step");
	}
	make_conns(a);
	if (make_streams(a) < 0 || running_init(&a->running, a->options->layout.ntasks) < 0)
		return err_set(err, -ENOMEM, "prepare the step");
	init_timer(a, &a->launch, on_launch_timeout);
	init_timer(a, &a->wait, on_wait_over);
	init_timer(a, &a->grace, on_grace_over);
	return 0;
}

int across_run(const struct steprun_options *options, int *ret_code, struct err *err)
{
	static const struct user_events events = {.signal = on_signal,
		.terminate = on_terminate,
		.suspend = on_suspend,
		.tell = on_tell};
	_cleanup_(across_clear) struct across a = {.options = options};
	int r;

	raise_limit();
	r = make(&a, err);
	if (r == 0)
		r = user_new(a.loop, &events, &a, &a.user, err);
	if (r < 0)
		return r;
	ev_timer_set(&a.launch, (double)options->launch_timeout_ms / 1e3, 0.);
	ev_timer_start(a.loop, &a.launch);
	across_start_more(&a);
	if (a.ended < a.count) /* else no launcher could be started */
		(void)ev_run(a.loop, 0);
	*ret_code = outcome_code(&a);
	return outcome_write_result(&a, *ret_code, err);
}
