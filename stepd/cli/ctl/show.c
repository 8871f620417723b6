/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl list, show and events: what is printed of steps.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"
#include "stepd/record/events.h"
#include "stepd/record/report.h"

/* ---- stepctl list -------------------------------------------------------------------------- */

/* The steps of this node, as recorded in their directories. No agent is contacted.
 */

static const char *const presence_names[] = {
	[STEPD_LIVES] = "lives",
	[STEPD_ORPHAN] = "died",
	[STEPD_ENDED] = "ended",
};

static json_t *list_pack(const struct stepd_step *step)
{
	return json_pack("{s:o, s:o, s:o, s:I, s:s, s:s, s:o, s:I, s:o, s:o}", "step",
		report_json_text(step->step), "node", report_json_text(step->node), "user",
		report_json_text(step->user), "uid", (json_int_t)step->uid, "state", step->state,
		"agent", presence_names[step->presence], "proctrack",
		report_json_text(step->proctrack), "container_id", (json_int_t)step->container_id,
		"agent_pid", step->agent_pid > 0 ? json_integer(step->agent_pid) : json_null(),
		"directory", report_json_text(step->directory));
}

static int list_on_step(const struct stepd_step *step, void *userdata)
{
	return json_array_append_new(userdata, list_pack(step)) < 0 ? -ENOMEM : 0;
}

/* Sorts numbers in the names by their value: 7.0, 7.1, 10.0. */
static int list_compare(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	int r = strcmp(json_get_text(x, "node", ""), json_get_text(y, "node", ""));

	return r ? r : strverscmp(json_get_text(x, "step", ""), json_get_text(y, "step", ""));
}

static int list_sort(json_t *steps)
{
	size_t n = json_array_size(steps), i;
	_cleanup_free_ json_t **v = calloc(n + 1, sizeof(*v));
	int r = v ? 0 : -ENOMEM;

	for (i = 0; r == 0 && i < n; i++)
		v[i] = json_incref(json_array_get(steps, i));
	if (r == 0 && n > 0)
		qsort(v, n, sizeof(*v), list_compare);
	for (i = 0; r == 0 && i < n; i++)
		r = json_array_set_new(steps, i, v[i]);
	return r;
}

static void list_add_row(struct table *table, const json_t *step)
{
	const char *state = json_get_text(step, "state", "");
	const char *agent = json_get_text(step, "agent", "");
	const char *proctrack = json_get_text(step, "proctrack", "");
	bool died = strcmp(agent, presence_names[STEPD_ORPHAN]) == 0;
	char text[24] = "-";

	if (strncmp(proctrack, "proctrack/", 10) == 0)
		proctrack += 10;
	/* The agent of a step that could not be killed has exited by itself, with a result. */
	if (died)
		(void)snprintf(text, sizeof(text), "%s",
			strcmp(state, "unkillable") == 0 ? "gone" : agent);
	else if (strcmp(agent, presence_names[STEPD_LIVES]) == 0)
		(void)snprintf(
			text, sizeof(text), "%lld", (long long)json_get_int(step, "agent_pid", 0));
	table_add(table,
		(const char *const[]){json_get_text(step, "step", ""),
			json_get_text(step, "node", ""), json_get_text(step, "user", ""), state,
			proctrack, text});
	table_paint(table, 3, term_paint_of(state));
	if (died)
		table_paint(table, 5, TERM_BAD);
}

static int list_print(const struct ctl *ctl, const json_t *steps)
{
	static const struct column columns[] = {
		{"STEP", false, 0, 0},
		{"NODE", false, 6, 3},
		{"USER", false, 6, 2},
		{"STATE", false, 0, 0},
		{"TRACKER", false, 6, 4},
		{"AGENT", true, 0, 1},
	};
	_cleanup_table_ struct table table = TABLE_INIT(columns, &ctl->term);
	const json_t *step;
	size_t i;

	json_array_foreach (steps, i, step) {
		_cleanup_free_ char *node = NULL;

		if (!ctl->opt.names) {
			list_add_row(&table, step);
			continue;
		}
		node = term_printable(&ctl->term, json_get_text(step, "node", ""), TERM_WHOLE);
		printf("%s/%s\n", node ? node : "", json_get_text(step, "step", ""));
	}
	return ctl->opt.names ? 0 : table_print(&table, stdout, 0);
}

int ctl_list(struct ctl *ctl)
{
	struct stepd_error error = {0};
	int r = stepd_each_step(ctl->opt.runtime_dir, list_on_step, ctl->out.steps, &error);

	if (r < 0 && r != -ENOMEM)
		return err_set_text(&ctl->err, r, "%s", error.text);
	if (r == 0)
		r = list_sort(ctl->out.steps);
	if (r == 0 && !ctl->opt.json)
		r = list_print(ctl, ctl->out.steps);
	return r < 0 ? err_set(&ctl->err, -ENOMEM, "list the steps") : 0;
}

/* ---- stepctl show -------------------------------------------------------------------------- */

/* A step and its tasks, from its agent; of a step that has ended, from its result. */

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

/* ---- stepctl events ------------------------------------------------------------------------ */

/* the events of a step, from its first one or from a given one, and with --follow
 * those until it ends. Where its agent has died they are read from the file that it wrote. */

static void print_number(const json_t *event, const char *key, const char *title)
{
	const json_t *value = json_object_get(event, key);

	if (json_is_integer(value))
		printf(" %s %lld", title, (long long)json_integer_value(value));
}

static void events_print(const struct ctl *ctl, const json_t *event)
{
	int64_t usec = json_get_int(event, "time_usec", 0);
	_cleanup_free_ char *text =
		term_printable(&ctl->term, json_get_text(event, "text", ""), TERM_WHOLE);
	_cleanup_free_ char *kind =
		term_printable(&ctl->term, json_get_text(event, "kind", ""), TERM_WHOLE);
	_cleanup_free_ char *state =
		term_printable(&ctl->term, json_get_text(event, "state", ""), TERM_WHOLE);
	time_t seconds = (time_t)(usec / 1000000);
	enum term_paint paint = term_paint_of(state ? state : "");
	char when[32] = "-";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		(void)strftime(when, sizeof(when), "%F %T", &tm);
	printf("%s.%06d %5lld %-10s", when, (int)(usec % 1000000),
		(long long)json_get_int(event, "sequence", 0), kind ? kind : "");
	if (state && *state)
		printf(" %s%s%s", term_paint(&ctl->term, paint), state,
			term_unpaint(&ctl->term, paint));
	print_number(event, "rank", "task");
	print_number(event, "pid", "pid");
	print_number(event, "count", "count");
	if (text && *text)
		printf(" %s", text);
	putchar('\n');
}

/* 0, or -EIO where the reader has gone. */
static int events_show(struct ctl *ctl, const json_t *event)
{
	if (!ctl->opt.json)
		events_print(ctl, event);
	else if (ctl_print_json(ctl, json_incref((json_t *)event), true) < 0)
		return -ENOMEM;
	return ctl->opt.follow && fflush(stdout) == EOF ? -EIO : 0;
}

/* The number of the last event that has happened. */
static int events_get_last(struct target *target, uint64_t *ret_last, struct stepd_error *error)
{
	json_auto_t *doc = NULL;
	int r = client_call_take(target->client, "Describe", NULL, &doc, error);

	if (r == 0)
		*ret_last = (uint64_t)json_get_int(doc, "last_event", 0);
	return r;
}

/* 1: there are more. */
static int events_take(
	struct ctl *ctl, struct target *target, uint64_t last, struct stepd_error *error)
{
	_cleanup_reply_ struct reply reply = {0};
	const json_t *event;
	bool continues;
	int r = client_next(target->client, -1, &reply, error);

	if (r < 0)
		return r;
	continues = reply.continues;
	event = json_object_get(reply.parameters, "event");
	if (json_is_object(event)) {
		r = events_show(ctl, event);
		if (!ctl->opt.follow)
			continues &= (uint64_t)json_get_int(event, "sequence", 0) < last;
	}
	if (r == -EIO)
		return 0; /* main() reports the write error */
	return r < 0 ? client_no_memory(error) : continues;
}

static int events_follow(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	uint64_t from = ctl->opt.from, last = UINT64_MAX;
	int r = ctl->opt.follow ? 0 : events_get_last(target, &last, error);

	if (r < 0 || (!ctl->opt.follow && (from > last || from == 0)))
		return r;
	r = stepd_follow(target->client, from, error);
	if (r < 0)
		return r;
	do
		r = events_take(ctl, target, last, error);
	while (r > 0);
	return r;
}

static int events_read_line(struct ctl *ctl, const char *line)
{
	json_auto_t *event = json_loads(line, 0, NULL);

	/* The last line of a killed agent may be incomplete. */
	if (!json_is_object(event) || (uint64_t)json_get_int(event, "sequence", 0) < ctl->opt.from)
		return 0;
	return events_show(ctl, event);
}

static int events_read_file(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *file = NULL;
	char line[EVENT_LINE_MAX + 1];
	int r = 0, fd;

	if (asprintf(&path, "%s/events.jsonl", target->directory) < 0) {
		path = NULL;
		return client_no_memory(error);
	}
	fd = fs_open_regular(AT_FDCWD, path);
	if (fd == -EACCES)
		return client_error(error, fd,
			"its agent has died, and only root, the step's owner and the operator group "
			"may read '%s'",
			path);
	if (fd < 0)
		return client_error(error, fd, "read '%s': %s", path, strerror(-fd));
	file = fdopen(fd, "r");
	if (!file) {
		(void)close(fd);
		return client_no_memory(error);
	}
	/* No agent writes longer lines: a truncated one is not an event. */
	while (r == 0 && fgets(line, sizeof(line), file))
		r = events_read_line(ctl, line);
	if (r == -ENOMEM)
		return client_no_memory(error);
	ctl_warn(ctl, target->label,
		"its agent has died: these are the events that it wrote; 'stepd adopt' takes the step over");
	return 0;
}

int ctl_events(struct ctl *ctl)
{
	static const struct request request = {.run = events_follow,
		.in_turn = true,
		.without_agent = events_read_file,
		.without_agent_if = STEPD_ORPHAN};

	ctl->out.printed = ctl->opt.json; /* lines, even if there is none */
	return request_steps(ctl, &request);
}
