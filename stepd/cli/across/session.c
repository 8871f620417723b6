/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The session's life: launchers' processes and the channels through them, the user, the timers, the
 * end.
 */
#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "stepd/base/hostlist.h"
#include "stepd/base/proc.h"
#include "stepd/cli/across/session.h"
#include "stepd/spec/spec.h"

#define STARTS_MAX          64u /* commands under way whose relays are awaited */
#define PIPE_SIZE_USUAL     65536u
#define PIPE_SIZE_MAX       (256u << 10) /* bytes in one channel */
#define PIPES_SIZE          (8u << 20)   /* in all */
#define CHANNEL_TIMEOUT_MS  5000         /* for a launcher whose channel has ended */
#define LAUNCHER_TIMEOUT_MS 1000         /* for a channel whose launcher has */

void session_print(const char *fmt, ...)
{
	char raw[2048], text[4 * sizeof(raw)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);
	err_printable(text, sizeof(text), raw); /* what other nodes send, for the user's terminal */
	user_print("%s", text);
}

void session_send_all(struct session *s, const char *verb, const char *text)
{
	uint32_t i;

	for (i = 0; i < s->conns_count; i++) {
		if (s->conns[i].channel)
			channel_send(s->conns[i].channel, CHANNEL_ALL, verb, text);
	}
}

/* ---- launchers and channels ---------------------------------------------------------------- */

/* Its relays in that state. */
static uint32_t conn_count(const struct conn *c, enum node_state state)
{
	const struct node *nodes = c->session->nodes;
	uint32_t n = 0, i;

	for (i = c->first; i < c->first + c->count; i++)
		n += nodes[i].state == state;
	return n;
}

/* Leaves the loop once all is over. */
static void session_check_end(struct session *s)
{
	uint32_t i;

	for (i = 0; i < s->conns_count; i++) {
		if (s->conns[i].started && (!s->conns[i].exited || s->conns[i].channel))
			return;
	}
	if (s->ended == s->count && output_is_empty(&s->out) && output_is_empty(&s->err))
		ev_break(s->loop, EVBREAK_ALL);
}

/* Channel and process have ended: nodes that have not are lost. */
static void conn_settle(struct conn *c)
{
	char status[STATUS_TEXT_SIZE], why[160];
	uint32_t i;

	if (!c->exited || c->channel)
		return;
	if (*c->fault)
		(void)snprintf(why, sizeof(why), "%s", c->fault);
	else
		(void)snprintf(why, sizeof(why), "its launcher %s",
			status_text(c->wait_status, status, sizeof(status)));
	for (i = c->first; i < c->first + c->count; i++) {
		if (c->session->nodes[i].state < NODE_ENDED)
			node_lose(&c->session->nodes[i], why);
	}
	session_check_end(c->session);
}

/* Of a channel whose launcher has ended. */
static void conn_await_rest(struct conn *c)
{
	ev_timer_set(&c->timeout, LAUNCHER_TIMEOUT_MS / 1e3, 0.);
	ev_timer_start(c->session->loop, &c->timeout);
}

static void on_conn_timeout(struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct conn *c = w->data;

	assert(c);
	if (c->exited && (c->session->full_streams > 0 || c->waits > 0)) {
		conn_await_rest(c); /* nothing is read while our own readers read nothing */
		return;
	}
	if (c->exited) { /* it has left relays behind: they end when the channel does */
		ev_timer_stop(loop, w);
		c->channel = channel_free(c->channel);
		conn_settle(c);
		return;
	}
	launch_signal(&c->process, w->repeat > 0. ? SIGKILL : SIGTERM);
	w->repeat = CHANNEL_TIMEOUT_MS / 1e3; /* and then, and again, by force */
	ev_timer_again(c->session->loop, w);
}

static void on_launcher_exit(struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct conn *c = w->data;

	assert(c);
	if (waitpid(c->process.process.pid, &c->wait_status, WNOHANG) != c->process.process.pid)
		return;
	ev_io_stop(loop, w);
	ev_timer_stop(loop, &c->timeout);
	pidref_close(&c->process.process);
	c->exited = true;
	if (c->channel) /* what its relays have sent is still to be read */
		conn_await_rest(c);
	conn_settle(c);
}

static void on_line(const struct channel_line *line, void *userdata)
{
	session_on_line(userdata, line);
}

static void on_probed(bool unchanged, void *userdata)
{
	session_on_probed(userdata, unchanged);
}

static size_t on_take(const struct channel_line *line, int in_fd, size_t size, void *userdata)
{
	return session_on_take(userdata, line, in_fd, size);
}

static void on_foreign(const char *text, size_t size, void *userdata)
{
	const struct conn *c = userdata;
	char shown[CHANNEL_LINE_MAX + 1];
	size_t i;

	for (i = 0; i < size && i < sizeof(shown) - 1; i++)
		shown[i] = text[i] ? text[i] : '?';
	shown[i] = '\0';
	if (c->count == 1 && c->session->nodes[c->first].name)
		session_print("%s: %s", c->session->nodes[c->first].name, shown);
	else
		session_print("launcher: %s", shown);
}

static void on_channel_end(void *userdata)
{
	struct conn *c = userdata;

	if (channel_fault(c->channel))
		(void)snprintf(c->fault, sizeof(c->fault), "%s", channel_fault(c->channel));
	c->channel = channel_free(c->channel);
	ev_timer_stop(c->session->loop, &c->timeout);
	if (!c->exited && conn_count(c, NODE_AWAITED) + conn_count(c, NODE_CONNECTED) > 0)
		launch_signal(&c->process, SIGTERM); /* it has no buffered data any more */
	if (!c->exited) {
		ev_timer_set(&c->timeout, CHANNEL_TIMEOUT_MS / 1e3, 0.);
		ev_timer_start(c->session->loop, &c->timeout);
	}
	conn_settle(c);
}

static int conn_make_command(const struct conn *c, struct strv *argv)
{
	const struct steprun_options *o = c->session->options;
	_cleanup_free_ char *hosts = hostlist_make(o->nodes.v, o->nodes.n);

	if (!hosts)
		return -ENOMEM;
	return launcher_command(&o->launcher, c->first, o->nodes.n ? o->nodes.v[c->first] : NULL,
		hosts, c->session->count, argv);
}

/* All of a user's pipes have a quota: with many nodes each keeps the usual size. */
static void set_pipe_size(const struct conn *c)
{
	uint32_t size = PIPES_SIZE / c->session->conns_count;

	if (size > PIPE_SIZE_MAX)
		size = PIPE_SIZE_MAX;
	if (size > PIPE_SIZE_USUAL)
		(void)fcntl(c->process.from_fd, F_SETPIPE_SZ, (int)size); /* else it is smaller */
}

static int conn_start(struct conn *c, struct err *err)
{
	static const struct channel_events events = {.line = on_line,
		.take = on_take,
		.foreign = on_foreign,
		.end = on_channel_end,
		.probed = on_probed};
	_cleanup_strv_ struct strv argv = {0};
	struct session *s = c->session;
	int r = conn_make_command(c, &argv);

	if (r < 0)
		return err_set(err, r, "make the launcher's command");
	r = launch(argv.v, &c->process, err);
	if (r < 0)
		return r;
	c->started = true;
	ev_io_init(&c->exit, on_launcher_exit, c->process.process.fd, EV_READ);
	c->exit.data = c;
	ev_io_start(s->loop, &c->exit);
	ev_timer_init(&c->timeout, on_conn_timeout, 0., 0.);
	ev_set_priority(&c->timeout, EV_MINPRI); /* after what has come meanwhile */
	c->timeout.data = c;
	set_pipe_size(c);
	r = channel_new_take(
		s->loop, c->process.from_fd, c->process.to_fd, &events, c, &c->channel);
	return r < 0 ? err_set(err, r, "open the channel to '%s'", argv.v[0]) : 0;
}

void session_start_more(struct session *s)
{
	struct err err = ERR_INIT;
	uint32_t i;

	while (!s->ending && s->conns_next < s->conns_count &&
		(s->conns_next < STARTS_MAX || s->conns_next - s->connected < STARTS_MAX)) {
		i = s->conns_next++;
		if (conn_start(&s->conns[i], &err) == 0)
			continue;
		s->launch_failed = true;
		session_print("%s", err.text);
		session_end(s, false);
	}
}

/* Ends its launcher, by SIGKILL if necessary. */
static void conn_end(struct conn *c)
{
	if (c->exited || ev_is_active(&c->timeout))
		return;
	launch_signal(&c->process, SIGTERM);
	c->timeout.repeat = CHANNEL_TIMEOUT_MS / 1e3; /* on_conn_timeout(): by force */
	ev_timer_again(c->session->loop, &c->timeout);
}

static void conn_clear(struct conn *c)
{
	if (!c->started)
		return;
	c->channel = channel_free(c->channel);
	if (!c->exited) {
		launch_signal(&c->process, SIGKILL);
		ev_io_stop(c->session->loop, &c->exit);
		(void)waitpid(c->process.process.pid, NULL, 0);
		pidref_close(&c->process.process);
	}
	ev_timer_stop(c->session->loop, &c->timeout);
}

/* ---- the end ------------------------------------------------------------------------------- */

void session_give_up_awaited(struct session *s)
{
	uint32_t i, j;

	for (i = 0; s->ending && i < s->conns_count; i++) {
		struct conn *c = &s->conns[i];

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
	for (i = 0; now && s->killing && i < s->conns_count; i++) {
		if (s->conns[i].started) /* they did not answer the first one */
			launch_signal(&s->conns[i].process, SIGKILL);
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
		session_print("there is no memory for the signal %s", name);
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
	for (i = 0; on && i < s->conns_count; i++) {
		if (s->conns[i].channel)
			channel_flush(s->conns[i].channel);
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
		session_print("%u of %u nodes are connected", s->connected, s->count);
}

/* ---- output -------------------------------------------------------------------------------- */

static bool conn_is_paused(const struct conn *c)
{
	return c->session->full_streams > 0 || c->waits > 0;
}

static void on_full(bool full, void *userdata)
{
	struct session *s = userdata;
	uint32_t i;

	/* Of two streams: the relays wait as long as one is full. */
	s->full_streams += full ? 1 : -1;
	for (i = 0; i < s->conns_count; i++) {
		if (s->conns[i].channel)
			channel_pause(s->conns[i].channel, conn_is_paused(&s->conns[i]));
	}
}

static void node_wait(struct node *n, bool on)
{
	struct conn *c = n->conn;

	c->waits += on ? 1 : -1u;
	if (c->channel)
		channel_pause(c->channel, conn_is_paused(c));
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
		session_print("standard output can't be written: %s", strerror(-error));
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
		session_print("node%s %s %s not answered within %g s (--launch-timeout)",
			n > 1 ? "s" : "", list, n > 1 ? "have" : "has",
			(double)s->options->launch_timeout_ms / 1e3);
	else
		session_print("%u of %u nodes have not answered within %g s (--launch-timeout)", n,
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
		session_print("the first task ended %g s ago: ending the step",
			(double)s->options->run.spec->wait_ms / 1e3);
	} else {
		session_print("a task has failed: ending the step");
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

	for (i = 0; i < s->conns_count; i++)
		conn_clear(&s->conns[i]);
	for (i = 0; s->nodes && i < s->count; i++) {
		free(s->nodes[i].name);
		output_source_clear(&s->nodes[i].out);
		output_source_clear(&s->nodes[i].err);
		buffer_clear(&s->nodes[i].result_text);
		json_decref(s->nodes[i].result);
	}
	free(s->conns);
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
	for (i = 0; i < s->conns_count; i++) {
		s->conns[i].session = s;
		s->conns[i].first = i;
		s->conns[i].count = at_once ? s->count : 1;
	}
	for (i = 0; i < s->count; i++) {
		s->nodes[i].relay = i;
		s->nodes[i].conn = &s->conns[at_once ? 0 : i];
		output_source_init(&s->nodes[i].out, &s->out);
		output_source_init(&s->nodes[i].err, &s->err);
	}
}

/* Two descriptors and more for each node. */
static void raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(
		RLIMIT_NOFILE, &files); /* a limit that is too low is reported where it fails */
}

static int session_make(struct session *s, struct err *err)
{
	s->count = s->options->layout.nodes;
	s->conns_count = s->options->launcher.at_once ? 1 : s->count;
	s->conns = calloc(s->conns_count, sizeof(*s->conns));
	s->nodes = calloc(s->count, sizeof(*s->nodes));
	s->by_id = calloc(s->count, sizeof(*s->by_id));
	s->loop = ev_loop_new(EVFLAG_AUTO);
	if (!s->conns || !s->nodes || !s->by_id || !s->loop) {
		s->conns_count = 0;
		return err_set(err, -ENOMEM, "prepare the step");
	}
	if (running_init(&s->running, s->options->layout.ntasks) < 0)
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

	raise_limit();
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
