/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What relays report (relay.c has the lines), and what the nodes' ends make of the step, as an
 * agent has it of its tasks: stepd's own failures first, then the first node whose tasks ended by a
 * signal, then the largest status. Nodes that were ended for what others did don't count.
 */
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/cli/across/session.h"
#include "stepd/record/report.h"
#include "stepd/spec/spec.h"

#define RESULT_MAX (64u << 20) /* bytes */

/* ---- the beginning ------------------------------------------------------------------------- */

static void on_hello(struct session *s, struct node *n, const struct channel_line *line)
{
	struct hello hello;

	if (n->state != NODE_AWAITED)
		return;
	hello_read(line->text, &hello);
	n->name = hello.node ? strdup(hello.node) : NULL;
	n->port = hello.port;
	n->addresses = hello.addresses;
	n->reports_got = hello.got;
	n->reports_doc = hello.doc;
	if (hello.version != CHANNEL_VERSION || !n->name) {
		user_report(
			"node %s: its stepd speaks another version of the channel (%u, not %u): "
			"install the same on all nodes",
			n->name ? n->name : "?", hello.version, CHANNEL_VERSION);
		s->launch_failed = true;
		session_end(s, false);
		return;
	}
	n->state = NODE_CONNECTED;
	s->connected++;
	conn_offer_frames(n->conn, &hello);
	if (s->ending)
		channel_send(n->conn->channel, n->relay, "terminate", "");
	else if (s->connected == s->count)
		session_assign(s);
	else
		session_start_more(s);
}

static void on_doc(struct session *s, struct node *n, const struct channel_line *line)
{
	uint64_t size;

	if (parse_u64(line->text, 1, s->doc.size, &size) < 0)
		return;
	n->doc_got = size;
	session_send_doc(s);
}

/* relay.c has the sequence. */
static void on_frames(
	_unused_ struct session *s, struct node *n, _unused_ const struct channel_line *line)
{
	conn_send_frames(n->conn);
}

/* ---- streams ------------------------------------------------------------------------------- */

static struct output_source *find_source(struct node *n, const struct channel_line *line)
{
	if (strcmp(line->verb, "out") == 0)
		return &n->out;
	return strcmp(line->verb, "err") == 0 ? &n->err : NULL;
}

size_t session_on_take(struct conn *c, const struct channel_line *line, int in_fd, size_t size)
{
	const struct session *s = c->conns->userdata;
	struct output_source *source = find_source(&s->nodes[line->node], line);

	return source ? output_move(source, in_fd, size) : 0;
}

static void on_output(_unused_ struct session *s, struct node *n, const struct channel_line *line)
{
	const char *bytes;
	ssize_t size = channel_get_bytes(line, &bytes);

	if (size > 0)
		output_write(
			strcmp(line->verb, "out") == 0 ? &n->out : &n->err, bytes, (size_t)size);
}

/* The fastest node sets the pace; what the others lack is stored there, as far as each can. */
static void update_taken(struct session *s)
{
	uint64_t most = 0, least = UINT64_MAX, got;
	bool any = false;
	uint32_t i;

	for (i = 0; i < s->count; i++) {
		const struct node *n = &s->nodes[i];

		if (!n->reads_stdin)
			continue;
		any = true;
		got = n->reports_got ? n->got : n->taken;
		most = n->taken > most ? n->taken : most;
		least = got < least ? got : least;
	}
	if (any)
		input_taken(&s->input, most < least ? most : least);
	else
		input_stop(&s->input);
}

/* "got", too. */
static void on_ack(struct session *s, struct node *n, const struct channel_line *line)
{
	uint64_t size;

	if (parse_u64(line->text, 1, UINT32_MAX, &size) < 0)
		return;
	if (strcmp(line->verb, "got") == 0)
		n->got += size;
	else
		n->taken += size;
	update_taken(s);
}

static void on_dropped(_unused_ struct session *s, struct node *n, const struct channel_line *line)
{
	(void)!parse_u64(line->text, 0, INT64_MAX, &n->dropped); /* else it is 0 */
}

static void on_closed(struct session *s, struct node *n, _unused_ const struct channel_line *line)
{
	n->reads_stdin = false;
	update_taken(s);
	typing_update(s);
}

static void on_terminal(struct session *s, struct node *n, const struct channel_line *line)
{
	n->reads_terminal = strcmp(line->text, "on") == 0;
	typing_update(s);
}

/* ---- tasks --------------------------------------------------------------------------------- */

/* The time of --wait begins with the end of the first task. */
static void begin_wait(struct session *s)
{
	const struct spec *spec = s->options->run.spec;

	if (!spec->wait_given || running_any_ended(&s->running) || s->ending)
		return;
	session_start_timer(s, &s->wait, spec->wait_ms);
}

/* The agent ends its own node in the same way. */
static void count_task(struct session *s, struct node *n, int wait_status)
{
	const struct spec *spec = s->options->run.spec;

	if (status_exit_code(wait_status) != 0 && !s->ending)
		n->failed = true;
	if (status_exit_code(wait_status) == 0 || !spec->kill_on_bad_exit || s->ending ||
		ev_is_active(&s->grace))
		return;
	session_start_timer(s, &s->grace, spec->kill_on_bad_exit_grace_ms);
}

static void end_task(struct session *s, struct node *n, uint32_t rank, int wait_status)
{
	begin_wait(s);
	running_end(&s->running, rank);
	if (spec_has_pty(s->options->run.spec, rank))
		typing_update(s);
	count_task(s, n, wait_status);
}

static void on_task(struct session *s, struct node *n, const struct channel_line *line)
{
	char *second = strchr(line->text, ' ');
	uint32_t rank;
	int32_t status;

	if (!second)
		return;
	*second++ = '\0';
	if (parse_u32(line->text, 0, SPEC_NTASKS_MAX, &rank) < 0 ||
		parse_i32(second, 0, INT32_MAX, &status) < 0)
		return;
	end_task(s, n, rank, status);
}

/* The events of an agent whose tasks ended at once can be missing: it is gone too soon to be
 * followed. */
static void end_remaining_tasks(struct session *s, struct node *n)
{
	const json_t *tasks = json_object_get(n->result, "tasks"), *task, *status;
	uint32_t rank;
	size_t i;

	json_array_foreach (tasks, i, task) {
		rank = (uint32_t)json_get_int(task, "rank", 0);
		status = json_object_get(task, "wait_status");
		if (json_is_integer(status) && !running_has_ended(&s->running, rank))
			end_task(s, n, rank, (int)json_integer_value(status));
	}
}

/* ---- status -------------------------------------------------------------------------------- */

static const char *get_reason(const struct node *n)
{
	return json_get_text(n->result, "reason", "");
}

/* A node's part of the step's status. */
struct node_status {
	int code;
	bool own;       /* one of stepd's own statuses, not an equal one of a task */
	bool signalled; /* that of a task which ended by a signal */
};

static bool is_own_status(const struct node *n)
{
	static const char *const of_tasks[] = {
		"completed", "bad-exit", "wait", "exec-failed", "abort"};
	const char *reason = get_reason(n);
	size_t i;

	if (strcmp(reason, "signal") == 0)
		return false;
	for (i = 0; i < ARRAY_SIZE(of_tasks); i++) {
		if (strcmp(reason, of_tasks[i]) == 0)
			return json_object_get(n->result, "unkillable") != NULL;
	}
	return n->code > 0 && n->code < STATUS_SIGNAL_BASE;
}

/* The status of the tasks that ended by themselves, as an agent computes it; of signals, the one
 * with that code, 0: any. */
static struct node_status status_of_tasks(const struct node *n, int of_signal)
{
	const json_t *tasks = json_object_get(n->result, "tasks"), *task;
	struct node_status ret = {0};
	int status, code;
	size_t i;

	json_array_foreach (tasks, i, task) {
		status = (int)json_get_int(task, "wait_status", 0);
		code = status_exit_code(status);
		if (json_get_bool(task, "on_request", false))
			continue;
		if (WIFSIGNALED(status) && (!of_signal || code == of_signal))
			return (struct node_status){.code = code, .signalled = true};
		if (code > ret.code)
			ret.code = code;
	}
	return ret;
}

/* A node that was ended because of others doesn't count. A failure of its own task before that
 * does, even if its agent was ended before it could act on it. */
static struct node_status status_of_node(const struct node *n)
{
	const char *reason = get_reason(n);

	if (n->state == NODE_LOST)
		return (struct node_status){.code = STATUS_FAILED, .own = true};
	if (n->on_request && (!*reason || strcmp(reason, "signal") == 0))
		return n->failed ? status_of_tasks(n, 0) : (struct node_status){0};
	if (n->on_request && !n->failed && strcmp(reason, "completed") == 0)
		return (struct node_status){0};
	return (struct node_status){.code = n->code,
		.own = is_own_status(n),
		.signalled = status_of_tasks(n, n->code).signalled};
}

static void count_status(struct session *s, const struct node *n)
{
	struct node_status status = status_of_node(n);
	struct outcome *o = &s->outcome;

	if (status.own) {
		o->own = status.code > o->own ? status.code : o->own;
	} else if (!o->signalled && status.signalled) {
		o->signalled = true;
		o->code = status.code;
	} else if (!o->signalled && status.code > o->code) {
		o->code = status.code;
	}
}

int session_exit_code(const struct session *s)
{
	if (s->launch_failed)
		return STATUS_FAILED;
	if (s->early_signal)
		return STATUS_SIGNAL_BASE + s->early_signal;
	if (s->outcome.own)
		return s->outcome.own;
	if (s->user.ended_by)
		return STATUS_SIGNAL_BASE + s->user.ended_by;
	return s->outcome.code;
}

/* ---- the end ------------------------------------------------------------------------------- */

static void session_on_report(
	_unused_ struct session *s, struct node *n, const struct channel_line *line)
{
	const char *bytes;
	ssize_t size = channel_get_bytes(line, &bytes);

	if (size > 0)
		user_report("%s: %.*s", n->name ? n->name : "?", (int)size, bytes);
}

static void on_result(_unused_ struct session *s, struct node *n, const struct channel_line *line)
{
	const char *bytes;
	ssize_t size = channel_get_bytes(line, &bytes);

	if (size > 0 && buffer_size(&n->result_text) + (size_t)size <= RESULT_MAX)
		(void)!buffer_add(
			&n->result_text, bytes, (size_t)size); /* without memory it can't be read */
}

/* What its relay has left out, besides its agent. */
static void count_dropped(const struct node *n)
{
	int64_t by_agent = json_get_int(n->result, "stdin_dropped_bytes", 0);

	if (n->dropped > 0 && n->result)
		(void)json_object_set_new(n->result, "stdin_dropped_bytes",
			json_integer(by_agent + (int64_t)n->dropped)); /* else it is too little */
}

static void node_finish(struct session *s, struct node *n, enum node_state state)
{
	if (n->state == NODE_AWAITED)
		s->connected++; /* no longer awaited */
	n->state = state;
	n->result = json_loadb(
		buffer_bytes(&n->result_text) ?: "", buffer_size(&n->result_text), 0, NULL);
	buffer_clear(&n->result_text);
	count_dropped(n);
	s->ended++;
	output_flush(&n->out);
	output_flush(&n->err);
	n->reads_stdin = false;
	update_taken(s);
	typing_update(s);
}

static void on_end(struct session *s, struct node *n, const struct channel_line *line)
{
	uint32_t code;

	if (n->state >= NODE_ENDED || parse_u32(line->text, 0, 255, &code) < 0)
		return;
	n->code = (int)code;
	node_finish(s, n, NODE_ENDED);
	conn_finish_ended(n->conn);
	end_remaining_tasks(s, n);
	count_status(s, n);
	if (!s->ending &&
		(strcmp(get_reason(n), "completed") != 0 ||
			json_get_bool(n->result, "adopted", false)))
		session_end(s, false); /* adopted: its agent has died, maybe with its tasks */
	session_give_up_awaited(s);
}

void node_skip(struct node *n)
{
	node_finish(n->conn->conns->userdata, n, NODE_LOST);
}

void node_lose(struct node *n, const char *why)
{
	struct session *s = n->conn->conns->userdata;
	bool awaited = n->state == NODE_AWAITED;

	node_finish(s, n, NODE_LOST);
	if (s->ending && awaited)
		return; /* its launcher was ended on purpose */
	n->on_request = false;
	count_status(s, n);
	user_report(awaited ? "node %s can't be reached: %s" : "node %s is lost: %s",
		n->name                       ? n->name
			: s->options->nodes.n ? s->options->nodes.v[n->relay]
					      : "?",
		why);
	if (!s->ending)
		session_end(s, false);
	session_give_up_awaited(s);
}

static const struct {
	const char *verb;
	void (*on_line)(struct session *s, struct node *n, const struct channel_line *line);
} verbs[] = {
	{"hello", on_hello},
	{"doc", on_doc},
	{"out", on_output},
	{"err", on_output},
	{"ack", on_ack},
	{"got", on_ack},
	{"dropped", on_dropped},
	{"closed", on_closed},
	{"terminal", on_terminal},
	{"task", on_task},
	{"say", session_on_report},
	{"result", on_result},
	{"end", on_end},
	{"frames", on_frames},
};

void session_on_line(struct conn *c, const struct channel_line *line)
{
	struct session *s = c->conns->userdata;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].verb, line->verb) == 0) {
			verbs[i].on_line(s, &s->nodes[line->node], line);
			return;
		}
	}
}

/* ---- the result ---------------------------------------------------------------------------- */

static json_t *pack_node(const struct node *n)
{
	if (n->result)
		return json_incref(n->result);
	return json_pack("{s:s, s:s}", "node", n->name ? n->name : "?", "state",
		n->state == NODE_LOST ? "lost" : "ended");
}

int session_write_result(const struct session *s, int code, struct err *err)
{
	const char *file = s->options->run.result;
	_cleanup_free_ char *text = NULL, *line = NULL;
	json_t *doc, *nodes;
	uint32_t id;
	int r;

	if (!file)
		return 0;
	nodes = json_array();
	doc = json_pack("{s:i, s:i, s:o}", "version", 1, "exit_code", code, "nodes", nodes);
	for (id = 0; doc && id < s->count; id++)
		(void)json_array_append_new(nodes,
			pack_node(&s->nodes[s->assigned ? s->by_id[id]
							: id])); /* without memory it is missing */
	text = doc ? json_dumps(doc, JSON_INDENT(2)) : NULL;
	json_decref(doc);
	if (!text || asprintf(&line, "%s\n", text) < 0) {
		line = NULL;
		return err_set(err, -ENOMEM, "--result: write '%s'", file);
	}
	r = strcmp(file, "-") == 0 ? report_write(STDOUT_FILENO, line)
				   : report_store(file, line, true);
	return r < 0 ? err_set(err, r, "--result: write '%s'", file) : 0;
}
