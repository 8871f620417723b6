/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the nodes' ends make of the step, as an agent judges its tasks: what stepd itself has to say
 * first, then the first node whose tasks ended by a signal, then the largest status. Nodes that
 * were told to end for what others did say nothing.
 */
#include <jansson.h>
#include <string.h>
#include <sys/wait.h>

#include "stepd/base/status.h"
#include "stepd/cli/across/across_impl.h"
#include "stepd/record/report.h"

static json_t *read_result(const struct node *n)
{
	return json_loadb(buffer_bytes(&n->result) ?: "", buffer_size(&n->result), 0, NULL);
}

static const char *get_reason(const json_t *doc)
{
	return json_string_value(json_object_get(doc, "reason")) ?: "";
}

/* What a node's end says. */
struct judged {
	int code;
	bool own;       /* one of stepd's own statuses, not a task's that looks like it */
	bool signalled; /* that of a task which ended by a signal */
};

static bool is_own(const struct node *n, const json_t *doc)
{
	static const char *const of_tasks[] = {
		"completed", "bad-exit", "wait", "exec-failed", "abort"};
	const char *reason = get_reason(doc);
	size_t i;

	if (strcmp(reason, "signal") == 0)
		return false;
	for (i = 0; i < ARRAY_SIZE(of_tasks); i++) {
		if (strcmp(reason, of_tasks[i]) == 0)
			return json_object_get(doc, "unkillable") != NULL;
	}
	return n->code > 0 && n->code < STATUS_SIGNAL_BASE;
}

/* Of the tasks that ended by themselves, as an agent has it; of signals, the one with that code, 0:
 * any. */
static struct judged judge_tasks(const json_t *doc, int of_signal)
{
	const json_t *tasks = json_object_get(doc, "tasks"), *task;
	struct judged judged = {0};
	int status, code;
	size_t i;

	for (i = 0; !judged.signalled && i < json_array_size(tasks); i++) {
		task = json_array_get(tasks, i);
		status = (int)json_integer_value(json_object_get(task, "wait_status"));
		code = status_exit_code(status);
		if (json_is_true(json_object_get(task, "on_request")))
			continue;
		judged.signalled = WIFSIGNALED(status) && (!of_signal || code == of_signal);
		if (judged.signalled || code > judged.code)
			judged.code = code;
	}
	return judged;
}

/* A node that was told to end, for what others did, says nothing by that; but what a task of its
 * own did before counts, though its agent was told to end before it could judge that itself. */
static struct judged judge(const struct node *n, const json_t *doc)
{
	const char *reason = get_reason(doc);

	if (n->state == NODE_LOST)
		return (struct judged){.code = STATUS_FAILED, .own = true};
	if (n->on_request && (!*reason || strcmp(reason, "signal") == 0))
		return n->failed ? judge_tasks(doc, 0) : (struct judged){0};
	if (n->on_request && !n->failed && strcmp(reason, "completed") == 0)
		return (struct judged){0};
	return (struct judged){.code = n->code,
		.own = is_own(n, doc),
		.signalled = judge_tasks(doc, n->code).signalled};
}

void outcome_count(struct across *a, const struct node *n)
{
	struct outcome *v = &a->outcome;
	json_t *doc = read_result(n);
	struct judged judged = judge(n, doc);

	json_decref(doc);
	if (judged.own)
		v->own = judged.code > v->own ? judged.code : v->own;
	else if (!v->signalled && judged.signalled) {
		v->signalled = true;
		v->code = judged.code;
	} else if (!v->signalled && judged.code > v->code) {
		v->code = judged.code;
	}
}

int outcome_code(const struct across *a)
{
	int by_user = user_ended_by(a->user);

	if (a->launch_failed)
		return STATUS_FAILED;
	if (a->early_signal)
		return STATUS_SIGNAL_BASE + a->early_signal;
	if (a->outcome.own)
		return a->outcome.own;
	if (by_user)
		return STATUS_SIGNAL_BASE + by_user;
	return a->outcome.code;
}

/* ---- the result --------------------------------------------------------------------------- */

static json_t *pack_node(const struct node *n)
{
	json_t *doc = json_loadb(buffer_bytes(&n->result) ?: "", buffer_size(&n->result), 0, NULL);

	if (doc)
		return doc;
	return json_pack("{s:s, s:s}", "node", n->name ? n->name : "?", "state",
		n->state == NODE_LOST ? "lost" : "ended");
}

int outcome_write_result(const struct across *a, int code, struct err *err)
{
	const char *file = a->options->run.result;
	_cleanup_free_ char *text = NULL, *line = NULL;
	json_t *doc, *nodes;
	uint32_t id;
	int r;

	if (!file)
		return 0;
	nodes = json_array();
	doc = json_pack("{s:i, s:i, s:o}", "version", 1, "exit_code", code, "nodes", nodes);
	for (id = 0; doc && id < a->count; id++)
		(void)json_array_append_new(nodes,
			pack_node(&a->nodes[a->going ? a->by_id[id] : id])); /* or it misses */
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
