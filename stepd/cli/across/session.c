/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The session's life: its nodes, the user, the timers, the end.
 */
#include <assert.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "stepd/base/hostlist.h"
#include "stepd/base/proc.h"
#include "stepd/cli/across/session.h"
#include "stepd/spec/spec.h"

void session_send_all(struct session *s, const char *verb, const char *text)
{
	conns_send_all(&s->conns, verb, text);
}

/* ---- its nodes' channels ---------------------------------------------------------------- */

/* Its relays in that state. */
static uint32_t conn_count(const struct conn *c, enum node_state state)
{
	const struct session *s = c->conns->userdata;
	const struct node *nodes = s->nodes;
	uint32_t n = 0, i;

	for (i = c->first; i < c->first + c->count; i++)
		n += nodes[i].state == state;
	return n;
}

/* Leaves the loop once all is over. */
static void session_check_end(struct session *s)
{
	if (conns_are_open(&s->conns))
		return;
	if (s->ended == s->count && output_is_empty(&s->out) && output_is_empty(&s->err))
		ev_break(s->loop, EVBREAK_ALL);
}

/* Nodes that have not ended are lost. */
static void session_on_conn_ended(struct conn *c, const char *why)
{
	struct session *s = c->conns->userdata;
	uint32_t i;

	for (i = c->first; i < c->first + c->count; i++) {
		if (s->nodes[i].state < NODE_ENDED)
			node_lose(&s->nodes[i], why);
	}
	session_check_end(s);
}

static uint32_t session_count_open(const struct conn *c)
{
	return conn_count(c, NODE_AWAITED) + conn_count(c, NODE_CONNECTED);
}

/* Behind one channel all nodes would wait for another's line, the one whose line it is, too: with
 * that no node waits. */
static bool session_is_paused(const struct conn *c)
{
	const struct session *s = c->conns->userdata;

	return s->full_streams > 0 || s->nodes[c->first].waits > 0;
}

static void session_on_foreign(struct conn *c, const char *text)
{
	const struct session *s = c->conns->userdata;

	if (c->count == 1 && s->nodes[c->first].name)
		user_report("%s: %s", s->nodes[c->first].name, text);
	else
		user_report("launcher: %s", text);
}

void session_start_more(struct session *s)
{
	struct err err = ERR_INIT;

	if (s->ending || conns_start_more(&s->conns, s->connected, &err) == 0)
		return;
	s->launch_failed = true;
	user_report("%s", err.text);
	session_end(s, false);
}

/* ---- the end ------------------------------------------------------------------------------- */

void session_give_up_awaited(struct session *s)
{
	uint32_t i, j;

	for (i = 0; s->ending && i < s->conns.count; i++) {
		struct conn *c = &s->conns.list[i];

		/* Only where nothing but a hello is expected. */
		if (conn_count(c, NODE_AWAITED) == 0 || conn_count(c, NODE_CONNECTED) > 0)
			continue;
		if (c->started)
			conn_end(c);
		for (j = c->first; !c->started && j < c->first + c->count; j++)
			node_skip(&s->nodes[j]);
	}
}

void session_end(struct session *s, bool now)
{
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		if (s->nodes[i].state < NODE_ENDED)
			s->nodes[i].on_request = true;
	}
	s->ending = true;
	typing_update(s);
	ev_timer_stop(s->loop, &s->launch);
	ev_timer_stop(s->loop, &s->wait);
	ev_timer_stop(s->loop, &s->grace);
	input_stop(&s->input);
	session_send_all(s, now ? "kill" : "terminate", "");
	for (i = 0; now && s->killing && i < s->conns.count; i++) {
		if (s->conns.list[i].started) /* they did not answer the first one */
			launch_signal(&s->conns.list[i].process, SIGKILL);
	}
	s->killing = now;
	session_give_up_awaited(s);
	session_check_end(s);
}

/* ---- the user ------------------------------------------------------------------------------ */

static void session_on_signal(const char *name, void *userdata)
{
	struct session *s = userdata;

	if (s->assigned) {
		session_send_all(s, "signal", name);
	} else if (strcmp(name, "TERM") == 0 || strcmp(name, "HUP") == 0) {
		s->early_signal = signals_parse(name); /* there are no tasks yet to end by it */
		session_end(s, false);
	} else if (strv_add(&s->signals, name) < 0) {
		user_report("there is no memory for the signal %s", name);
	}
}

static void session_on_terminate(bool now, void *userdata)
{
	session_end(userdata, now);
}

/* At once: this process, and its loop, stops next. */
static void session_on_suspend(bool on, void *userdata)
{
	struct session *s = userdata;
	uint32_t i;

	session_send_all(s, on ? "suspend" : "resume", "");
	for (i = 0; on && i < s->conns.count; i++) {
		if (s->conns.list[i].channel)
			channel_flush(s->conns.list[i].channel);
	}
	s->stopped = on;
	typing_update(s);
	typing_resize(s);
}

static void session_on_resized(void *userdata)
{
	typing_resize(userdata);
}

static void session_on_status(void *userdata)
{
	const struct session *s = userdata;

	if (s->assigned)
		running_print(&s->running);
	else
		user_report("%u of %u nodes are connected", s->connected, s->count);
}

/* ---- output -------------------------------------------------------------------------------- */

static void on_full(bool full, void *userdata)
{
	struct session *s = userdata;

	/* Of two streams: the relays wait as long as one is full. */
	s->full_streams += full ? 1 : -1;
	conns_update_pause(&s->conns);
}

static void node_wait(struct node *n, bool on)
{
	n->waits += on ? 1 : -1u;
	conn_update_pause(n->conn);
}

static void on_out_waits(struct output_source *source, bool on, _unused_ void *userdata)
{
	node_wait((struct node *)((char *)source - offsetof(struct node, out)), on);
}

static void on_err_waits(struct output_source *source, bool on, _unused_ void *userdata)
{
	node_wait((struct node *)((char *)source - offsetof(struct node, err)), on);
}

static void on_empty(void *userdata)
{
	session_check_end(userdata);
}

/* Tasks get a closed pipe, as they would without steprun. */
static void on_out_failed(int error, void *userdata)
{
	struct session *s = userdata;

	if (error != -EPIPE) {
		user_report("standard output can't be written: %s", strerror(-error));
		s->launch_failed = true;
	}
	session_send_all(s, "close", "out");
}

static void on_err_failed(_unused_ int error, void *userdata)
{
	session_send_all(userdata, "close", "err");
}

/* ---- timers -------------------------------------------------------------------------------- */

/* Not those whose launchers have not been started yet. */
static void print_unanswered(const struct session *s)
{
	const struct strv *names = &s->options->nodes;
	_cleanup_free_ char **late = calloc(s->count, sizeof(*late));
	_cleanup_free_ char *list = NULL;
	uint32_t n = 0, i;

	for (i = 0; late && i < s->count; i++) {
		if (s->nodes[i].state == NODE_AWAITED && s->nodes[i].conn->started)
			late[n++] = names->n ? names->v[i] : NULL;
	}
	if (names->n)
		list = hostlist_make(late, n);
	if (list)
		user_report("node%s %s %s not answered within %g s (--launch-timeout)",
			n > 1 ? "s" : "", list, n > 1 ? "have" : "has",
			(double)s->options->launch_timeout_ms / 1e3);
	else
		user_report("%u of %u nodes have not answered within %g s (--launch-timeout)", n,
			s->count, (double)s->options->launch_timeout_ms / 1e3);
}

static void on_timeout(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct session *s = w->data;

	assert(s);
	if (w == &s->launch) {
		print_unanswered(s);
		s->launch_failed = true;
	} else if (w == &s->wait) {
		user_report("the first task ended %g s ago: ending the step",
			(double)s->options->run.spec->wait_ms / 1e3);
	} else {
		user_report("a task has failed: ending the step");
	}
	session_end(s, false);
}

void session_start_timer(struct session *s, ev_timer *timer, uint64_t ms)
{
	ev_timer_init(timer, on_timeout, (double)ms / 1e3, 0.);
	timer->data = s;
	ev_timer_start(s->loop, timer);
}

/* ---- life ---------------------------------------------------------------------------------- */

static void session_clear(struct session *s)
{
	uint32_t i;

	conns_clear(&s->conns);
	for (i = 0; s->nodes && i < s->count; i++) {
		free(s->nodes[i].name);
		output_source_clear(&s->nodes[i].out);
		output_source_clear(&s->nodes[i].err);
		buffer_clear(&s->nodes[i].result_text);
		json_decref(s->nodes[i].result);
	}
	free(s->nodes);
	free(s->by_id);
	input_stop(&s->input);
	if (s->loop)
		ev_timer_stop(s->loop, &s->typing.release);
	terminal_release(&s->typing.terminal);
	output_clear(&s->out);
	output_clear(&s->err);
	user_clear(&s->user);
	strv_clear(&s->signals);
	session_forget_doc(s);
	running_clear(&s->running);
	if (s->loop)
		ev_loop_destroy(s->loop);
}

static void session_init_nodes(struct session *s)
{
	bool at_once = s->options->launcher.at_once;
	uint32_t i;

	/* Behind one channel all nodes would wait, the one whose line it is, too. */
	s->out_events = (struct output_events){.full = on_full,
		.empty = on_empty,
		.waits = at_once ? NULL : on_out_waits,
		.failed = on_out_failed};
	s->err_events = s->out_events;
	s->err_events.waits = at_once ? NULL : on_err_waits;
	s->err_events.failed = on_err_failed;
	output_init(&s->out, s->loop, STDOUT_FILENO, &s->out_events, s);
	output_init(&s->err, s->loop, STDERR_FILENO, &s->err_events, s);
	if (s->options->run.spec->label) {
		output_set_labelled(&s->out, OUTPUT_IDLE_MS);
		output_set_labelled(&s->err, OUTPUT_IDLE_MS);
	}
	for (i = 0; i < s->count; i++) {
		s->nodes[i].relay = i;
		s->nodes[i].conn = &s->conns.list[at_once ? 0 : i];
		output_source_init(&s->nodes[i].out, &s->out);
		output_source_init(&s->nodes[i].err, &s->err);
	}
}

static int session_make(struct session *s, struct err *err)
{
	static const struct conns_events events = {.line = session_on_line,
		.take = session_on_take,
		.foreign = session_on_foreign,
		.open = session_count_open,
		.paused = session_is_paused,
		.ended = session_on_conn_ended};

	s->count = s->options->layout.nodes;
	s->nodes = calloc(s->count, sizeof(*s->nodes));
	s->by_id = calloc(s->count, sizeof(*s->by_id));
	s->loop = ev_loop_new(EVFLAG_AUTO);
	s->conns = (struct conns){.loop = s->loop,
		.launcher = &s->options->launcher,
		.names = &s->options->nodes,
		.relays = s->count,
		.events = &events,
		.userdata = s};
	if (!s->nodes || !s->by_id || !s->loop || conns_init(&s->conns) < 0 ||
		running_init(&s->running, s->options->layout.ntasks) < 0)
		return err_set(err, -ENOMEM, "prepare the step");
	session_init_nodes(s);
	return 0;
}

int session_run(const struct steprun_options *options, int *ret_code, struct err *err)
{
	static const struct user_events events = {.signal = session_on_signal,
		.terminate = session_on_terminate,
		.suspend = session_on_suspend,
		.status = session_on_status,
		.resized = session_on_resized};
	_cleanup_(session_clear) struct session s = {
		.options = options, .typing = {.terminal = TERMINAL_INIT}};
	int r;

	conns_raise_limit();
	r = session_make(&s, err);
	if (r == 0)
		r = user_watch(&s.user, s.loop, &events, &s, err);
	if (r < 0)
		return r;
	session_start_timer(&s, &s.launch, options->launch_timeout_ms);
	session_start_more(&s);
	if (s.ended < s.count) /* else no launcher could be started */
		(void)ev_run(s.loop, 0);
	*ret_code = session_exit_code(&s);
	return session_write_result(&s, *ret_code, err);
}
