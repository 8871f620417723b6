/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl show: a step and its tasks, by its agent; of a step that has ended, its result.
 */
#include <string.h>
#include <time.h>

#include "stepd/base/json.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"

/* ---- for people ---------------------------------------------------------------------------- */

enum kind {
	AS_TEXT,
	AS_TIME,
	AS_DURATION,
};

static const struct field {
	const char *key, *title;
	enum kind kind;
} fields[] = {
	{"step", "step", AS_TEXT},
	{"node", "node", AS_TEXT},
	{"kind", "kind", AS_TEXT},
	{"user", "user", AS_TEXT},
	{"state", "state", AS_TEXT},
	{"reason", "ends by", AS_TEXT},
	{"exit_code", "exit status", AS_TEXT},
	{"start_time_usec", "started", AS_TIME},
	{"elapsed_usec", "elapsed", AS_DURATION},
	{"suspended_usec", "suspended", AS_DURATION},
	{"time_limit_usec", "time limit", AS_DURATION},
	{"ntasks", "tasks", AS_TEXT},
	{"local_tasks", "on this node", AS_TEXT},
	{"running_tasks", "running", AS_TEXT},
	{"proctrack", "tracker", AS_TEXT},
	{"container_id", "container", AS_TEXT},
	{"mpi", "mpi", AS_TEXT},
	{"agent_pid", "agent", AS_TEXT},
	{"adopted", "adopted", AS_TEXT},
	{"version", "version", AS_TEXT},
};

static void print_time(int64_t usec)
{
	time_t seconds = (time_t)(usec / 1000000);
	struct tm tm;
	char text[64] = "-";

	if (localtime_r(&seconds, &tm))
		(void)strftime(text, sizeof(text), "%F %T %z", &tm);
	fputs(text, stdout);
}

static void print_value(const struct ctl *ctl, const struct field *field, const json_t *value)
{
	_cleanup_free_ char *text = NULL;
	char buf[CTL_TEXT_SIZE];
	enum term_paint paint = TERM_PLAIN;

	if (json_is_string(value)) {
		text = term_printable(&ctl->term, json_string_value(value), TERM_WHOLE);
		if (strcmp(field->key, "state") == 0)
			paint = term_paint_of(json_string_value(value));
		printf("%s%s%s", term_paint(&ctl->term, paint), text ? text : "",
			term_unpaint(&ctl->term, paint));
	} else if (json_is_boolean(value)) {
		fputs(json_is_true(value) ? "yes" : "no", stdout);
	} else if (field->kind == AS_TIME) {
		print_time(json_integer_value(value));
	} else if (field->kind == AS_DURATION) {
		fputs(ctl_duration_text((uint64_t)json_integer_value(value), buf), stdout);
	} else {
		printf("%lld", (long long)json_integer_value(value));
	}
}

/* A result's version is that of the document; the program's is a text. */
static bool is_of_document(const struct field *field, const json_t *value)
{
	return strcmp(field->key, "version") == 0 && !json_is_string(value);
}

static void print_fields(const struct ctl *ctl, const json_t *doc)
{
	const json_t *value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		value = json_object_get(doc, fields[i].key);
		if (!value || json_is_null(value) || is_of_document(&fields[i], value))
			continue;
		printf("%-14s", fields[i].title);
		print_value(ctl, &fields[i], value);
		putchar('\n');
	}
}

/* "-" for 0. */
static void number_text(const json_t *object, const char *key, char *text, size_t size)
{
	int64_t number = json_get_int(object, key, 0);

	(void)snprintf(text, size, number ? "%lld" : "-", (long long)number);
}

static bool has_spawned(const json_t *tasks)
{
	const json_t *task;
	size_t i;

	json_array_foreach (tasks, i, task) {
		if (json_get_int(task, "spawn", 0) > 0)
			return true;
	}
	return false;
}

static void add_task(struct table *table, const json_t *task, bool spawns)
{
	const char *state = json_get_text(task, "state", "ended");
	char rank[24], pid[24], spawn[24];
	const char *cells[] = {rank, pid, spawn, state, json_get_text(task, "text", "")};
	const char *plain[] = {rank, pid, state, cells[4]};

	(void)snprintf(rank, sizeof(rank), "%lld", (long long)json_get_int(task, "rank", 0));
	number_text(task, "pid", pid, sizeof(pid));
	number_text(task, "spawn", spawn, sizeof(spawn));
	table_add(table, spawns ? cells : plain);
	table_paint(table, spawns ? 3 : 2, term_paint_of(state));
}

/* tasks: of ListTasks, or of a result, whose tasks have ended all. Few steps spawn. */
static int print_tasks(struct ctl *ctl, const json_t *tasks)
{
	static const struct column columns[] = {
		{"RANK", true, 0, 0},
		{"PID", true, 0, 1},
		{"STATE", false, 0, 2},
		{"WHAT BECAME OF IT", false, 12, 0},
	};
	static const struct column with_spawn[] = {
		{"RANK", true, 0, 0},
		{"PID", true, 0, 1},
		{"SPAWN", true, 0, 1},
		{"STATE", false, 0, 2},
		{"WHAT BECAME OF IT", false, 12, 0},
	};
	bool spawns = has_spawned(tasks);
	_cleanup_table_ struct table table = TABLE_INIT(columns, &ctl->term);
	const json_t *task;
	size_t i;

	if (json_array_size(tasks) == 0)
		return 0;
	if (spawns)
		table = (struct table)TABLE_INIT(with_spawn, &ctl->term);
	json_array_foreach (tasks, i, task)
		add_task(&table, task, spawns);
	putchar('\n');
	return table_print(&table, stdout, 0);
}

static int print_step(struct ctl *ctl, const json_t *doc, const json_t *tasks)
{
	if (ctl->out.shown++ > 0)
		putchar('\n');
	print_fields(ctl, doc);
	return print_tasks(ctl, tasks);
}

/* ---- by the agent, or by the result -------------------------------------------------------- */

/* All pieces of ListTasks: a new array. */
static int list_tasks(struct target *target, json_t **ret_tasks, struct stepd_error *error)
{
	json_auto_t *all = json_array();
	bool continues = true;
	int r = client_start_take(target->client, "ListTasks", NULL, STEPD_CALL_MORE, error);

	while (r == 0 && continues) {
		_cleanup_reply_ struct reply piece = {0};

		r = client_next(target->client, -1, &piece, error);
		if (r == 0 &&
			json_array_extend(all, json_object_get(piece.parameters, "tasks")) < 0)
			r = client_error(error, -EPROTO, "its agent's reply has no tasks");
		continues = piece.continues;
	}
	if (r == 0)
		*ret_tasks = take_ptr(all);
	return r;
}

static int show_doc(struct ctl *ctl, struct target *target, json_t *doc, const json_t *tasks,
	struct stepd_error *error)
{
	int r = ctl->opt.json ? json_object_update_missing(target->entry, doc)
			      : print_step(ctl, doc, tasks);

	return r < 0 ? client_no_memory(error) : 0;
}

static int show_living(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *doc = NULL, *tasks = NULL;
	int r = client_call_take(target->client, "Describe", NULL, &doc, error);

	if (r == 0)
		r = list_tasks(target, &tasks, error);
	if (r == 0)
		r = show_doc(ctl, target, doc, tasks, error);
	if (r == 0 && ctl_put(target->entry, "tasks", json_incref(tasks)) < 0)
		r = client_no_memory(error);
	return r;
}

static int show_ended(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *result = NULL;
	int r = target_read_result(target, &result, error);

	return r < 0 ? r : show_doc(ctl, target, result, json_object_get(result, "tasks"), error);
}

int ctl_show(struct ctl *ctl)
{
	static const struct request request = {
		.run = show_living, .without_agent = show_ended, .without_agent_if = STEPD_ENDED};

	return request_steps(ctl, &request);
}
