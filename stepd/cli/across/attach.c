/* SPDX-License-Identifier: BSD-3-Clause
 *
 * steprun attach: the streams of a step that runs, on all its nodes, in one viewer (viewer.h). A
 * relay on each node connects to the step's agent there (attachment.h). Nodes that can't be
 * reached, have no part of the step, or are lost are reported, and the others go on; whoever looks
 * on leaves the step as it is.
 *
 * What the user types goes to all nodes that take input. No more than INPUT_WINDOW bytes are under
 * way to the slowest of them.
 */
#include <assert.h>
#include <endian.h>
#include <ev.h>
#include <jansson.h>
#include <string.h>

#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/cli/across/session.h"
#include "stepd/cli/viewer.h"
#include "stepd/spec/spec.h"
#include "stepd/state/steps.h"
#include "stepd/stdio/attach_wire.h"

#define PROGRAM          "steprun attach"
#define LEAVE_TIMEOUT_MS 5000 /* for relays, when the viewer is over */

enum view_state {
	VIEW_AWAITED,   /* its relay has not sent its hello */
	VIEW_CONNECTED, /* it has, and calls the agent */
	VIEW_SHOWN,
	VIEW_ENDED,
	VIEW_MAX,
};

/* A relay, and what is attached by it. */
struct view_node {
	enum view_state state;
	struct conn *conn;
	uint32_t relay;
	char *name;                   /* NULL: not known yet */
	char *agent;                  /* the name that its agent has for the node */
	struct viewer_source *source; /* once it is shown */
	bool input;                   /* it takes some */
	uint64_t sent, taken;         /* bytes of that */
};

struct attached {
	struct steprun_options *options;
	struct ev_loop *loop;
	struct conns conns;
	struct view_node *nodes;
	uint32_t count;
	uint32_t connected; /* relays that are not awaited any more */
	uint32_t answered;  /* nodes that are shown, or won't be */
	uint32_t shown, without_ranks;
	int64_t step_nodes; /* of the step; 0: not known */
	char *doc;          /* for the relays */
	struct viewer_options view;
	struct viewer *viewer; /* NULL: it is over */
	ev_io in, signals;
	ev_timer launch, leave;
	bool failed, leaving;
};

/* ---- messages ------------------------------------------------------------------------------ */

static void attached_print(struct attached *a, const char *fmt, ...) _printf_(2, 3);

/* With what other nodes have sent. */
static void attached_print(struct attached *a, const char *fmt, ...)
{
	char raw[2048], text[4 * sizeof(raw)];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);
	err_printable(text, sizeof(text), raw);
	if (a->viewer)
		viewer_message(a->viewer, text);
}

static const char *view_name(const struct attached *a, const struct view_node *n)
{
	const struct strv *names = &a->options->nodes;

	return n->name ?: names->n ? names->v[n->relay] : "?";
}

/* ---- the viewer ---------------------------------------------------------------------------- */

/* Of the node that has taken least. */
static size_t attached_pending(const struct attached *a)
{
	uint64_t most = 0;
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		const struct view_node *n = &a->nodes[i];

		if (n->input && n->sent - n->taken > most)
			most = n->sent - n->taken;
	}
	/* What is no terminal is read ahead, as it has a long way. */
	if (viewer_signal_fd(a->viewer) < 0 && most < INPUT_WINDOW)
		return 0;
	return (size_t)most;
}

/* After all that may have changed it. */
static void attached_update(struct attached *a)
{
	if (viewer_wants_input(a->viewer, attached_pending(a)))
		ev_io_start(a->loop, &a->in);
	else
		ev_io_stop(a->loop, &a->in);
	if (viewer_is_over(a->viewer))
		ev_break(a->loop, EVBREAK_ALL);
}

static void attached_send(uint32_t kind, const void *data, size_t size, void *userdata)
{
	struct attached *a = userdata;
	char record[sizeof(struct attach_head) + ATTACH_INPUT_MAX];
	const struct attach_head head = {.kind = kind, .size = (uint32_t)size};
	uint32_t i;

	assert(a && size <= ATTACH_INPUT_MAX);
	memcpy(record, &head, sizeof(head));
	if (size > 0)
		memcpy(record + sizeof(head), data, size);
	for (i = 0; i < a->count; i++) {
		struct view_node *n = &a->nodes[i];

		if (!n->input || !n->conn->channel)
			continue;
		channel_send_bytes(n->conn->channel, n->relay, "in", record, sizeof(head) + size);
		n->sent += sizeof(head) + size;
	}
}

static void on_input(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct attached *a = w->data;

	assert(a);
	viewer_on_input(a->viewer);
	attached_update(a);
}

static void on_signals(_unused_ struct ev_loop *loop, ev_io *w, _unused_ int revents)
{
	struct attached *a = w->data;

	assert(a);
	viewer_on_signal(a->viewer);
	attached_update(a);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static bool attached_has_input(const struct attached *a)
{
	uint32_t i;

	for (i = 0; i < a->count && !a->nodes[i].input; i++)
		;
	return i < a->count;
}

static void attached_give_up(struct attached *a)
{
	a->failed = true;
	ev_break(a->loop, EVBREAK_ALL);
}

/* False: there is nothing to show. */
static bool attached_check(struct attached *a)
{
	const struct steprun_attach *o = &a->options->attach;

	if (a->shown == 0 && a->without_ranks > 0)
		attached_print(
			a, "step %s has none of the ranks %s on these nodes", o->step, o->ranks);
	else if (a->shown == 0 && !a->failed)
		attached_print(a, "step %s has no agent on these nodes", o->step);
	else if (a->shown > 0 && o->input && !attached_has_input(a))
		attached_print(a,
			"the standard input of these tasks is a file or /dev/null, or another's: "
			"attach without --stdin (a step with --input attach takes it from "
			"clients)");
	else if (a->shown > 0)
		return true;
	return false;
}

/* All nodes have answered, or won't. */
static void attached_begin(struct attached *a)
{
	uint32_t seen = a->shown + a->without_ranks;

	ev_timer_stop(a->loop, &a->launch);
	if (!attached_check(a)) {
		attached_give_up(a);
		return;
	}
	if (seen < a->step_nodes)
		attached_print(a, "%u of the %lld nodes of step %s are shown", seen,
			(long long)a->step_nodes, a->options->attach.step);
	viewer_begin(a->viewer);
	if (viewer_signal_fd(a->viewer) >= 0) {
		ev_io_set(&a->signals, viewer_signal_fd(a->viewer), EV_READ);
		ev_io_start(a->loop, &a->signals);
	}
	attached_update(a);
}

static void attached_count_answer(struct attached *a)
{
	a->answered++;
	if (a->answered == a->count && a->viewer && !a->leaving)
		attached_begin(a);
}

static void attached_start_more(struct attached *a)
{
	struct err err = ERR_INIT;

	if (a->leaving || conns_start_more(&a->conns, a->connected, &err) == 0)
		return;
	attached_print(a, "%s", err.text);
	attached_give_up(a);
}

/* Nothing will come from it any more. */
static void view_end(struct attached *a, struct view_node *n)
{
	enum view_state state = n->state;

	if (state == VIEW_ENDED)
		return;
	n->state = VIEW_ENDED;
	n->input = false;
	a->connected += state == VIEW_AWAITED;
	if (n->source && a->viewer)
		viewer_end_source(a->viewer, n->source);
	if (state < VIEW_SHOWN)
		attached_count_answer(a);
	if (a->viewer && !a->leaving)
		attached_update(a);
}

static void view_fail(struct attached *a, struct view_node *n)
{
	a->failed = true;
	view_end(a, n);
}

/* ---- lines --------------------------------------------------------------------------------- */

/* The step's name for a relay's node. One command for all starts them on nodes of its choice: by
 * the relay's name, where that is one of the nodes', else by its number. NULL: no memory. */
static char *choose_name(const struct attached *a, const struct view_node *n, const char *hello)
{
	const struct strv *names = &a->options->nodes;
	size_t i = names->n;

	if (a->options->launcher.at_once)
		for (i = 0; i < names->n && strcmp(names->v[i], hello) != 0; i++)
			;
	if (i == names->n && n->relay < names->n)
		i = n->relay;
	return strdup(i < names->n ? names->v[i] : hello);
}

static void view_on_hello(struct attached *a, struct view_node *n, const struct channel_line *line)
{
	struct hello hello;

	if (n->state != VIEW_AWAITED)
		return;
	hello_read(line->text, &hello);
	n->name = hello.node ? choose_name(a, n, hello.node) : NULL;
	if (hello.version != CHANNEL_VERSION || !n->name) {
		attached_print(a,
			"node %s: its stepd speaks another version of the channel (%u, not %u): "
			"install the same on all nodes",
			view_name(a, n), hello.version, CHANNEL_VERSION);
		view_fail(a, n);
		return;
	}
	n->state = VIEW_CONNECTED;
	a->connected++;
	conn_offer_frames(n->conn, &hello);
	channel_send_bytes(n->conn->channel, n->relay, "doc", a->doc, strlen(a->doc));
	channel_sendf(n->conn->channel, n->relay, "go", "%u %s", n->relay, n->name);
	attached_start_more(a);
}

static void view_on_frames(
	_unused_ struct attached *a, struct view_node *n, _unused_ const struct channel_line *line)
{
	conn_send_frames(n->conn);
}

/* "terminal=0": of a field's number. */
static int64_t read_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	uint64_t value;
	char number[24];

	if (!at)
		return 0;
	at += strlen(name);
	(void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(at, " "), at);
	return parse_u64(number, 0, INT64_MAX, &value) < 0 ? 0 : (int64_t)value;
}

/* The node that has the same agent already; NULL: none. */
static const struct view_node *find_same(const struct attached *a, const struct view_node *n)
{
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		const struct view_node *other = &a->nodes[i];

		if (other != n && other->agent && strcmp(other->agent, n->agent) == 0)
			return other;
	}
	return NULL;
}

static void view_refuse(struct attached *a, struct view_node *n)
{
	channel_send(n->conn->channel, n->relay, "terminate", "");
	view_fail(a, n);
}

/* False: it can't be shown. */
static bool view_add_source(struct attached *a, struct view_node *n, const char *text)
{
	const char *node = strstr(text, "node=");
	const struct view_node *same;

	if (read_field(text, "order=") != BYTE_ORDER) {
		attached_print(a, "node %s has another byte order than this one: use stepctl there",
			view_name(a, n));
		return false;
	}
	n->agent = strdup(node ? node + strlen("node=") : "");
	same = n->agent ? find_same(a, n) : NULL;
	if (same) {
		attached_print(a, "node %s is the same as %s", view_name(a, n), view_name(a, same));
		return false;
	}
	n->input = read_field(text, "input=") != 0;
	n->source = viewer_add_source(a->viewer, n->input);
	if (n->agent && n->source)
		return true;
	attached_print(a, "node %s: no memory", view_name(a, n));
	return false;
}

static void view_on_attached(
	struct attached *a, struct view_node *n, const struct channel_line *line)
{
	if (n->state != VIEW_CONNECTED)
		return;
	if (!view_add_source(a, n, line->text)) {
		view_refuse(a, n);
		return;
	}
	n->state = VIEW_SHOWN;
	a->shown++;
	a->step_nodes = read_field(line->text, "nodes=");
	a->view.ntasks = (uint32_t)read_field(line->text, "ntasks=");
	a->view.terminal |= read_field(line->text, "terminal=") != 0;
	attached_count_answer(a);
}

static void view_on_absent(struct attached *a, struct view_node *n, const struct channel_line *line)
{
	const struct steprun_options *o = a->options;

	if (n->state != VIEW_CONNECTED)
		return;
	if (strcmp(line->text, "ranks") == 0) {
		a->without_ranks++;
	} else if (o->hosts || o->hostfile) { /* others may have no part of the step */
		attached_print(
			a, "node %s: step %s has no agent there", view_name(a, n), o->attach.step);
		a->failed = true;
	}
	view_end(a, n);
}

static void view_on_output(struct attached *a, struct view_node *n, const struct channel_line *line)
{
	const char *bytes;
	ssize_t size = channel_get_bytes(line, &bytes);

	if (size <= 0 || n->state != VIEW_SHOWN)
		return;
	viewer_feed(a->viewer, n->source, bytes, (size_t)size);
	attached_update(a);
}

static void view_on_ack(struct attached *a, struct view_node *n, const struct channel_line *line)
{
	uint64_t size;

	if (parse_u64(line->text, 1, UINT32_MAX, &size) < 0 || size > n->sent - n->taken)
		return;
	n->taken += size;
	attached_update(a);
}

static void view_on_report(struct attached *a, struct view_node *n, const struct channel_line *line)
{
	const char *bytes;
	ssize_t size = channel_get_bytes(line, &bytes);

	if (size > 0)
		attached_print(a, "%s: %.*s", view_name(a, n), (int)size, bytes);
}

static void view_on_end(struct attached *a, struct view_node *n, const struct channel_line *line)
{
	if (n->state == VIEW_SHOWN && !viewer_source_is_finished(n->source)) {
		attached_print(a,
			"node %s: the step's agent is gone, and its streams with it; its tasks may "
			"still run",
			view_name(a, n));
		a->failed = true;
	}
	a->failed |= n->state == VIEW_CONNECTED && strcmp(line->text, "0") != 0;
	view_end(a, n);
	conn_finish_ended(n->conn);
}

static const struct {
	const char *verb;
	void (*on_line)(struct attached *a, struct view_node *n, const struct channel_line *line);
} verbs[] = {
	{"hello", view_on_hello},
	{"frames", view_on_frames},
	{"attached", view_on_attached},
	{"absent", view_on_absent},
	{"out", view_on_output},
	{"ack", view_on_ack},
	{"say", view_on_report},
	{"end", view_on_end},
};

static void attached_on_line(struct conn *c, const struct channel_line *line)
{
	struct attached *a = c->conns->userdata;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs) && !a->leaving && !viewer_is_over(a->viewer); i++) {
		if (strcmp(verbs[i].verb, line->verb) == 0) {
			verbs[i].on_line(a, &a->nodes[line->node], line);
			return;
		}
	}
}

/* ---- connections --------------------------------------------------------------------------- */

static void attached_on_foreign(struct conn *c, const char *text)
{
	struct attached *a = c->conns->userdata;

	attached_print(
		a, "%s: %s", c->count == 1 ? view_name(a, &a->nodes[c->first]) : "launcher", text);
}

static uint32_t attached_count_open(const struct conn *c)
{
	const struct attached *a = c->conns->userdata;
	uint32_t n = 0, i;

	for (i = c->first; i < c->first + c->count && !a->leaving; i++)
		n += a->nodes[i].state != VIEW_ENDED;
	return n;
}

static void attached_on_conn_ended(struct conn *c, const char *why)
{
	struct attached *a = c->conns->userdata;
	uint32_t i;

	if (a->leaving) {
		if (!conns_are_open(&a->conns))
			ev_break(a->loop, EVBREAK_ALL);
		return;
	}
	for (i = c->first; i < c->first + c->count; i++) {
		struct view_node *n = &a->nodes[i];

		if (n->state == VIEW_ENDED)
			continue;
		attached_print(a,
			n->state == VIEW_AWAITED ? "node %s can't be reached: %s"
						 : "node %s is lost: %s",
			view_name(a, n), why);
		view_fail(a, n);
	}
	attached_start_more(a);
}

/* Those that have not answered are left out. */
static void on_launch_timeout(_unused_ struct ev_loop *loop, ev_timer *w, _unused_ int revents)
{
	struct attached *a = w->data;
	uint32_t i;

	assert(a);
	for (i = 0; i < a->count; i++) {
		struct view_node *n = &a->nodes[i];

		if (n->state >= VIEW_SHOWN)
			continue;
		attached_print(a, "node %s has not answered within %g s (--launch-timeout)",
			view_name(a, n), (double)a->options->launch_timeout_ms / 1e3);
		if (n->conn->count == 1 && n->conn->started)
			conn_end(n->conn);
		view_fail(a, n);
	}
}

/* ---- the nodes ----------------------------------------------------------------------------- */

static int take_local(const struct step_entry *entry, void *userdata)
{
	struct steprun_options *o = userdata;

	if (strcmp(entry->step, o->attach.step) != 0 || !entry->alive)
		return 0;
	return strv_add(&o->nodes, entry->node);
}

/* Without a list of nodes: those of this machine's agents. */
static int find_local(struct steprun_options *o, struct err *err)
{
	int r;

	if (o->attach.nodes > 0)
		return 0;
	r = steps_each(o->run.runtime_dir, take_local, o, err);
	if (r < 0)
		return err->text[0] ? r : err_set(err, r, "look for step %s", o->attach.step);
	if (o->nodes.n == 0)
		return err_set_text(err, -ENOENT,
			"step %s has no agent on this machine: give the nodes with --hosts",
			o->attach.step);
	o->attach.nodes = (uint32_t)o->nodes.n;
	return 0;
}

/* NULL: no memory. */
static char *pack_doc(const struct steprun_options *o)
{
	const struct steprun_attach *t = &o->attach;
	json_auto_t *doc = json_pack("{s:{s:s, s:s*, s:s*, s:o*, s:b, s:b}, s:s*}", "attach",
		"step", t->step, "ranks", t->ranks, "stream", t->stream, "since",
		t->since >= 0 ? json_integer((json_int_t)t->since) : NULL, "tail", (int)t->tail,
		"input", (int)t->input, "runtime_dir", o->run.runtime_dir);

	return doc ? json_dumps(doc, JSON_COMPACT) : NULL;
}

static int attached_make(struct attached *a, struct err *err)
{
	static const struct conns_events events = {.line = attached_on_line,
		.foreign = attached_on_foreign,
		.open = attached_count_open,
		.ended = attached_on_conn_ended};
	bool at_once = a->options->launcher.at_once;
	uint32_t i;

	a->count = a->options->attach.nodes;
	a->nodes = calloc(a->count, sizeof(*a->nodes));
	a->loop = ev_loop_new(EVFLAG_AUTO);
	a->doc = pack_doc(a->options);
	a->viewer = viewer_new(&a->view, attached_send, a, err);
	a->conns = (struct conns){.loop = a->loop,
		.launcher = &a->options->launcher,
		.names = &a->options->nodes,
		.relays = a->count,
		.events = &events,
		.userdata = a};
	if (!a->nodes || !a->loop || !a->doc || !a->viewer || conns_init(&a->conns) < 0)
		return err_set(err, -ENOMEM, "attach to the step");
	for (i = 0; i < a->count; i++)
		a->nodes[i] =
			(struct view_node){.relay = i, .conn = &a->conns.list[at_once ? 0 : i]};
	ev_io_init(&a->in, on_input, a->view.in_fd, EV_READ);
	ev_init(&a->signals, on_signals);
	ev_timer_init(
		&a->launch, on_launch_timeout, (double)a->options->launch_timeout_ms / 1e3, 0.);
	a->in.data = a->signals.data = a->launch.data = a;
	return 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void on_leave_timeout(struct ev_loop *loop, _unused_ ev_timer *w, _unused_ int revents)
{
	ev_break(loop, EVBREAK_ALL); /* attached_clear() kills what is left */
}

/* What was typed is sent, and the relays end with their channels. The terminal is the user's. */
static enum viewer_end attached_leave(struct attached *a)
{
	enum viewer_end end;

	a->leaving = true;
	ev_io_stop(a->loop, &a->in);
	ev_io_stop(a->loop, &a->signals);
	ev_timer_stop(a->loop, &a->launch);
	end = viewer_free(take_ptr(a->viewer));
	if (end == VIEWER_DETACHED)
		fprintf(stderr, PROGRAM ": detached from step %s, which runs on\n",
			a->options->attach.step);
	conns_finish(&a->conns);
	ev_timer_init(&a->leave, on_leave_timeout, LEAVE_TIMEOUT_MS / 1e3, 0.);
	ev_timer_start(a->loop, &a->leave);
	if (conns_are_open(&a->conns))
		(void)ev_run(a->loop, 0);
	ev_timer_stop(a->loop, &a->leave);
	return end;
}

static void attached_clear(struct attached *a)
{
	uint32_t i;

	if (a->viewer)
		(void)viewer_free(take_ptr(a->viewer)); /* it has not begun */
	conns_clear(&a->conns);
	for (i = 0; a->nodes && i < a->count; i++) {
		free(a->nodes[i].name);
		free(a->nodes[i].agent);
	}
	free(a->nodes);
	free(a->doc);
	if (a->loop)
		ev_loop_destroy(a->loop);
}

int attach_run(struct steprun_options *o, int *ret_code, struct err *err)
{
	const char *keys = o->attach.detach_keys ?: DETACH_KEYS_USUAL;
	_cleanup_(attached_clear) struct attached a = {.options = o,
		.view = {.program = PROGRAM,
			.in_fd = STDIN_FILENO,
			.out_fd = STDOUT_FILENO,
			.err_fd = STDERR_FILENO,
			.label = o->attach.label,
			.input = o->attach.input}};
	enum viewer_end end;
	int r;

	if (detach_keys_parse(keys, &a.view.keys, err) < 0)
		return err_prefix(err, "--detach-keys");
	conns_raise_limit();
	r = find_local(o, err);
	if (r == 0)
		r = attached_make(&a, err);
	if (r < 0)
		return r;
	ev_timer_start(a.loop, &a.launch);
	attached_start_more(&a);
	if (!a.failed) /* else no launcher could be started */
		(void)ev_run(a.loop, 0);
	end = attached_leave(&a);
	if (end == VIEWER_OUTPUT)
		return err->code;
	*ret_code = a.failed ? STATUS_FAILED : 0;
	return 0;
}
