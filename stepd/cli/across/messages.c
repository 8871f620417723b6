/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What relays say; relay.c has the words.
 */
#include <jansson.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/parse.h"
#include "stepd/base/status.h"
#include "stepd/cli/across/across_impl.h"
#include "stepd/spec/spec.h"

#define RESULT_MOST (64u << 20) /* bytes */

/* ---- the beginning ------------------------------------------------------------------------ */

static void take_word(struct node *n, const char *word, uint32_t *version)
{
	struct address_node *a = &n->addresses;
	uint32_t port;

	if (strncmp(word, "version=", 8) == 0 && parse_u32(word + 8, 0, UINT32_MAX, version) < 0)
		*version = 0;
	else if (strncmp(word, "node=", 5) == 0 && !n->name)
		n->name = strdup(word + 5);
	else if (strncmp(word, "port=", 5) == 0 && parse_u32(word + 5, 0, 65535, &port) == 0)
		n->port = (uint16_t)port;
	else if (strncmp(word, "addr=", 5) == 0 && a->count < ADDRESS_MOST &&
		address_parse(word + 5, &a->list[a->count]) == 0)
		a->count++;
}

static void on_hello(struct across *a, struct node *n, const struct channel_line *line)
{
	uint32_t version = 0;
	char *save = NULL, *word;

	if (n->state != NODE_AWAITED)
		return;
	for (word = strtok_r(line->text, " ", &save); word; word = strtok_r(NULL, " ", &save))
		take_word(n, word, &version);
	if (version != CHANNEL_VERSION || !n->name) {
		across_say("node %s: its stepd speaks another version of the channel (%u, not %u): "
			   "install the same on all nodes",
			n->name ? n->name : "?", version, CHANNEL_VERSION);
		a->launch_failed = true;
		across_end(a, false);
		return;
	}
	n->state = NODE_HERE;
	a->here++;
	if (a->ending)
		channel_send(n->conn->channel, n->relay, "terminate", "");
	else if (a->here == a->count)
		across_go(a);
	else
		across_start_more(a);
}

static void on_started(struct across *a, struct node *n, const struct channel_line *line)
{
	(void)a;
	(void)line;
	if (n->state == NODE_GOING)
		n->state = NODE_STARTED;
}

/* ---- streams ------------------------------------------------------------------------------ */

static void on_output(struct across *a, struct node *n, const struct channel_line *line)
{
	ssize_t size = channel_get_bytes(line);

	(void)a;
	if (size > 0)
		output_write(
			strcmp(line->verb, "out") == 0 ? n->out : n->err, line->text, (size_t)size);
}

/* As far as the slowest reader has it. */
static void count_taken(struct across *a)
{
	uint64_t least = UINT64_MAX;
	bool any = false;
	uint32_t i;

	for (i = 0; i < a->count; i++) {
		const struct node *n = &a->nodes[i];

		if (!n->reads_stdin || n->closed_stdin || n->state >= NODE_ENDED)
			continue;
		any = true;
		least = n->taken < least ? n->taken : least;
	}
	if (a->input && any)
		input_taken(a->input, least);
	else if (a->input)
		input_stop(a->input);
}

static void on_ack(struct across *a, struct node *n, const struct channel_line *line)
{
	uint64_t size;

	if (parse_u64(line->text, 1, UINT32_MAX, &size) < 0)
		return;
	n->taken += size;
	count_taken(a);
}

static void on_closed(struct across *a, struct node *n, const struct channel_line *line)
{
	(void)line;
	n->closed_stdin = true;
	count_taken(a);
}

/* ---- tasks -------------------------------------------------------------------------------- */

/* Others get no more time than --wait says, as soon as the first task has ended. */
static void begin_wait(struct across *a)
{
	const struct spec *spec = a->options->run.spec;

	if (!spec->wait_given || running_any_ended(&a->running) || a->ending)
		return;
	ev_timer_set(&a->wait, (double)spec->wait_ms / 1e3, 0.);
	ev_timer_start(a->loop, &a->wait);
}

/* The agent ends its own node in the same way. */
static void judge_task(struct across *a, struct node *n, int wait_status)
{
	const struct spec *spec = a->options->run.spec;

	if (status_exit_code(wait_status) != 0 && !a->ending)
		n->failed = true;
	if (status_exit_code(wait_status) == 0 || !spec->kill_on_bad_exit || a->ending ||
		ev_is_active(&a->grace))
		return;
	ev_timer_set(&a->grace, (double)spec->kill_on_bad_exit_grace_ms / 1e3, 0.);
	ev_timer_start(a->loop, &a->grace);
}

static void end_task(struct across *a, struct node *n, uint32_t rank, int wait_status)
{
	begin_wait(a);
	running_end(&a->running, rank);
	judge_task(a, n, wait_status);
}

static void on_task(struct across *a, struct node *n, const struct channel_line *line)
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
	end_task(a, n, rank, status);
}

/* An agent whose tasks ended at once is gone before its relay could follow its events. */
static void take_untold(struct across *a, struct node *n, const json_t *result)
{
	const json_t *tasks = json_object_get(result, "tasks"), *task, *status;
	uint32_t rank;
	size_t i;

	for (i = 0; i < json_array_size(tasks); i++) {
		task = json_array_get(tasks, i);
		rank = (uint32_t)json_integer_value(json_object_get(task, "rank"));
		status = json_object_get(task, "wait_status");
		if (json_is_integer(status) && !running_has_ended(&a->running, rank))
			end_task(a, n, rank, (int)json_integer_value(status));
	}
}

/* ---- the end ------------------------------------------------------------------------------ */

static void on_say(struct across *a, struct node *n, const struct channel_line *line)
{
	(void)a;
	if (channel_get_bytes(line) > 0)
		across_say("%s: %s", n->name ? n->name : "?", line->text);
}

static void on_result(struct across *a, struct node *n, const struct channel_line *line)
{
	ssize_t size = channel_get_bytes(line);

	(void)a;
	if (size > 0 && buffer_size(&n->result) + (size_t)size <= RESULT_MOST)
		(void)!buffer_add(
			&n->result, line->text, (size_t)size); /* one that can't be read */
}

static void finish(struct across *a, struct node *n, enum node_state state)
{
	if (n->state == NODE_AWAITED)
		a->here++; /* nobody waits for it */
	n->state = state;
	a->ended++;
	if (n->out)
		output_end_source(n->out);
	if (n->err)
		output_end_source(n->err);
	count_taken(a);
}

/* Whether the others may go on. */
static bool ended_well(const json_t *result)
{
	const char *reason = json_string_value(json_object_get(result, "reason"));

	return reason && strcmp(reason, "completed") == 0;
}

static void on_end(struct across *a, struct node *n, const struct channel_line *line)
{
	json_t *result;
	uint32_t code;

	if (n->state >= NODE_ENDED || parse_u32(line->text, 0, 255, &code) < 0)
		return;
	result = json_loadb(buffer_bytes(&n->result) ?: "", buffer_size(&n->result), 0, NULL);
	take_untold(a, n, result);
	n->code = (int)code;
	finish(a, n, NODE_ENDED);
	outcome_count(a, n);
	if (!ended_well(result) && !a->ending)
		across_end(a, false);
	json_decref(result);
	across_give_up_awaited(a);
}

void node_skip(struct node *n)
{
	finish(n->conn->across, n, NODE_LOST);
}

void node_lose(struct node *n, const char *why)
{
	struct across *a = n->conn->across;
	bool awaited = n->state == NODE_AWAITED;

	finish(a, n, NODE_LOST);
	if (a->ending && awaited)
		return; /* that was asked for */
	n->on_request = false;
	outcome_count(a, n);
	across_say(awaited ? "node %s can't be reached: %s" : "node %s is lost: %s",
		n->name                       ? n->name
			: a->options->nodes.n ? a->options->nodes.v[n->relay]
					      : "?",
		why);
	if (!a->ending)
		across_end(a, false);
	across_give_up_awaited(a);
}

static const struct {
	const char *verb;
	void (*take)(struct across *a, struct node *n, const struct channel_line *line);
} verbs[] = {
	{"hello", on_hello},
	{"started", on_started},
	{"out", on_output},
	{"err", on_output},
	{"ack", on_ack},
	{"closed", on_closed},
	{"task", on_task},
	{"say", on_say},
	{"result", on_result},
	{"end", on_end},
};

void across_take_line(struct conn *c, const struct channel_line *line)
{
	struct across *a = c->across;
	size_t i;

	/* Of a number that is none of this launcher's, somebody has set the variable wrongly. */
	if (line->node < c->first || line->node >= c->first + c->count)
		return;
	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].verb, line->verb) == 0) {
			verbs[i].take(a, &a->nodes[line->node], line);
			return;
		}
	}
}
