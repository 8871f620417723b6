/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd usage: what a running step uses now, asked of the registry and of the step's tracker. No
 * agent is needed to answer; what only the agent knows, of processes that have ended, is not told.
 */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/account/usage_table.h"
#include "stepd/agent/account/usage_values.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/query.h"

struct usage_query {
	struct query query;
	bool json;
	stepd_usage_t step;
	stepd_usage_t *tasks;
	stepd_step_task_info_t *task;
	size_t n;
};

static void usage_query_clear(struct usage_query *u)
{
	free(u->tasks);
	free(u->task);
	query_clear(&u->query);
}

/* The tasks of the step as it is registered. */
static int read_tasks(struct usage_query *u, const struct step_entry *entry)
{
	const json_t *tasks = json_object_get(entry->doc, "tasks"), *task;
	size_t i;

	u->n = json_array_size(tasks);
	u->task = calloc(u->n + 1, sizeof(*u->task));
	u->tasks = calloc(u->n + 1, sizeof(*u->tasks));
	if (!u->task || !u->tasks)
		return err_set(&u->query.err, -ENOMEM, "read the tasks of step %s", entry->step);
	json_array_foreach (tasks, i, task) {
		u->task[i].id = (uint32_t)i;
		u->task[i].gtid = (uint32_t)json_integer_value(json_object_get(task, "rank"));
		u->task[i].pid = (pid_t)json_integer_value(json_object_get(task, "pid"));
	}
	return 0;
}

static json_t *pack_tasks(const struct usage_query *u)
{
	json_t *tasks = json_array(), *task;
	int r = tasks ? 0 : -1;
	size_t i;

	for (i = 0; r == 0 && i < u->n; i++) {
		task = json_pack("{s:I, s:i}", "rank", (json_int_t)u->task[i].gtid, "pid",
			(int)u->task[i].pid);
		r = task ? usage_pack(task, &u->tasks[i]) : -1;
		r |= json_array_append_new(tasks, task);
	}
	if (r == 0)
		return tasks;
	json_decref(tasks);
	return NULL;
}

static int print_json(const struct usage_query *u, const struct step_entry *entry)
{
	json_t *doc = json_pack(
		"{s:s, s:s, s:s}", "step", entry->step, "node", entry->node, "state", entry->state);
	_cleanup_free_ char *text = NULL;
	int r = doc ? usage_pack(doc, &u->step) : -1;

	if (r == 0)
		r = json_object_set_new(doc, "tasks", pack_tasks(u));
	text = r == 0 ? json_dumps(doc, JSON_INDENT(2)) : NULL;
	json_decref(doc);
	if (!text)
		return -ENOMEM;
	printf("%s\n", text);
	return 0;
}

static int print_table(const struct usage_query *u, const struct step_entry *entry)
{
	const struct usage_view view = {.label = entry->step,
		.live = true,
		.step = &u->step,
		.tasks = u->tasks,
		.task = u->task,
		.n = u->n};
	_cleanup_free_ char *text = usage_table_format(&view);

	if (!text)
		return -ENOMEM;
	fputs(text, stdout);
	return 0;
}

static int print_entry(const struct step_entry *entry, void *userdata)
{
	struct usage_query *u = userdata;
	struct query *q = &u->query;
	int r;

	if (!query_names_entry(q->step, entry))
		return 0;
	q->found = true;
	if (!query_can_ask(entry))
		return err_say(&q->err, -ESRCH,
			"the agent of step %s has died, and with %s nobody else knows its processes",
			entry->step, entry->proctrack);
	r = query_use_backend(q, entry);
	if (r == 0)
		r = read_tasks(u, entry);
	if (r < 0)
		return r;
	r = proctrack_usage_tasks(q->pt, entry->cont_id, u->task, u->n, &u->step, u->tasks);
	if (r == -ESRCH)
		return err_say(&q->err, r, "step %s has ended", entry->step);
	if (r == 0)
		r = u->json ? print_json(u, entry) : print_table(u, entry);
	return r < 0 ? err_set(&q->err, r, "look at what step %s uses", entry->step) : 1;
}

/* The index of the first argument behind the options; -1: wrong usage, 0: help was shown. */
static int parse_arguments(struct usage_query *u, int argc, char **argv)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, 'j'},
		{"runtime-dir", required_argument, NULL, 'r'},
		{"plugin-dir", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (opt == 'j') {
			u->json = true;
		} else if (opt == 'r') {
			u->query.runtime_dir = optarg;
		} else if (opt == 'p') {
			u->query.plugin_dir_given = optarg;
		} else {
			fputs("Usage: stepd usage [--json] [--runtime-dir DIR] [--plugin-dir DIR] "
			      "[NODE/]JOB.STEP\n",
				opt == 'h' ? stdout : stderr);
			return opt == 'h' ? 0 : -1;
		}
	}
	return optind;
}

int cli_usage(int argc, char **argv)
{
	_cleanup_(usage_query_clear) struct usage_query u = {0};
	int first = parse_arguments(&u, argc, argv);

	if (first <= 0)
		return first == 0 ? 0 : STATUS_FAILED;
	if (argc - first != 1) {
		fprintf(stderr, "stepd usage: give one step, such as 7.0\n");
		return STATUS_FAILED;
	}
	u.query.step = argv[first];
	if (steps_each(u.query.runtime_dir, print_entry, &u, &u.query.err) < 0) {
		fprintf(stderr, "stepd usage: %s\n", u.query.err.text);
		return STATUS_FAILED;
	}
	return u.query.found ? 0 : query_say_no_step(&u.query, "usage");
}
