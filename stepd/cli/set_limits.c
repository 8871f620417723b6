/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepd set-limits: changes what a running step, or one of its tasks, may use. The options are
 * those of "stepd run", and all behind them is the same code; no agent is needed.
 */
#include <jansson.h>
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/agent/limits.h"
#include "stepd/base/log.h"
#include "stepd/base/parse.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/query.h"
#include "stepd/cli/run_convert.h"
#include "stepd/cli/run_options.h"

#define COMMAND "set-limits"
#define FIELD   "limits"

struct set_limits {
	struct query query;
	struct run_options options; /* the directories, and help */
	const char *rank_text;      /* of the task; NULL: the step */
	uint32_t rank;
	struct limits limits;
	enum limits_mode mode;
	struct log log;
};

/* ---- arguments ---------------------------------------------------------------------------- */

static const struct run_option task_row = {
	.name = "task",
	.arg = "RANK",
	.take = run_take_keep,
	.offset = offsetof(struct run_build, task),
	.doc = "of this task, not of the whole step",
};

static bool is_ours(const struct run_option *row)
{
	static const char *const others[] = {"runtime-dir", "plugin-dir", "help"};
	size_t i;

	if (row->path)
		return strncmp(row->path, FIELD ".", strlen(FIELD ".")) == 0 ||
			strcmp(row->path, "limits_mode") == 0;
	for (i = 0; i < ARRAY_SIZE(others) && strcmp(others[i], row->name) != 0; i++)
		;
	return i < ARRAY_SIZE(others);
}

/* The rows of "stepd run" that this command has, and --task; as many as fit into rows. */
static size_t make_rows(struct run_option *rows)
{
	const struct run_option *table;
	size_t n, i, count = 0;

	rows[count++] = task_row;
	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		if (!is_ours(&table[i]))
			continue;
		rows[count] = table[i];
		rows[count++].heading = NULL;
	}
	return count;
}

static void print_help(const struct run_option_set *set)
{
	fputs("Usage: stepd set-limits [--task=RANK] OPTION... [NODE/]JOB.STEP\n"
	      "Changes the limits of a running step, stepd-limits(7); max takes one away.\n\n",
		stdout);
	run_print_rows(set->rows, set->n, stdout);
}

static int read_limits(struct set_limits *s, const struct run_option_set *set,
	const struct run_build *build, const struct run_given *given, struct err *err)
{
	const json_t *doc = json_object_get(build->overlay, FIELD);
	const char *mode = json_string_value(json_object_get(build->overlay, "limits_mode"));
	const struct run_option *option;
	int r;

	if (mode && limits_mode_parse(mode, &s->mode) < 0)
		return err_say(
			err, -EINVAL, "--limits: '%.200s' is not one of strict, best-effort", mode);
	if (build->task && parse_u32(build->task, 0, UINT32_MAX, &s->rank) < 0)
		return err_say(err, -EINVAL, "--task: '%.200s' is no rank", build->task);
	s->rank_text = build->task;
	if (!doc)
		return err_say(err, -EINVAL,
			"no limit given, such as --mem 4G (see stepd set-limits --help)");
	r = limits_from_json(FIELD, doc, &s->limits, err);
	if (r == 0)
		return 0;
	option = run_find_option(set, given, false, err);
	return option ? run_name_option(option, err) : r;
}

static void build_clear(struct run_build *build)
{
	json_decref(build->overlay);
}

static int parse_arguments(struct set_limits *s, int argc, char **argv, struct err *err)
{
	_cleanup_(build_clear) struct run_build build = {
		.options = &s->options, .overlay = json_object()};
	struct run_option rows[RUN_OPTIONS_MAX];
	struct run_option_set set = {
		.rows = rows, .n = make_rows(rows), .command = COMMAND, .anywhere = true};
	struct run_given given = {0};
	int rest = argc, r;

	if (!build.overlay)
		return err_set(err, -ENOMEM, "read the options");
	r = run_take_options(&set, argc, argv, &build, &given, &rest, err);
	if (r < 0)
		return r;
	if (s->options.help) {
		print_help(&set);
		return 0;
	}
	if (argc - rest != 1)
		return err_say(err, -EINVAL, "give one step, such as 7.0");
	s->query.step = argv[rest];
	s->query.runtime_dir = s->options.runtime_dir;
	s->query.plugin_dir_given = s->options.plugin_dir;
	return read_limits(s, &set, &build, &given, err);
}

/* ---- the step ----------------------------------------------------------------------------- */

/* A backend makes what a task's limits need: not for a rank that the step doesn't have here, or no
 * longer has. */
static int check_rank(
	const struct set_limits *s, const struct step_entry *entry, struct err *err)
{
	const json_t *tasks = json_object_get(entry->doc, "tasks"), *task;
	stepd_usage_t usage;
	size_t i;

	if (!s->rank_text)
		return 0;
	json_array_foreach (tasks, i, task) {
		if (json_integer_value(json_object_get(task, "rank")) == s->rank)
			break;
	}
	if (i == json_array_size(tasks))
		return err_say(err, -ENOENT, "step %s has no task of rank %u on this node",
			entry->step, s->rank);
	/* A backend that counts nothing for a task says so, and may limit it all the same. */
	if (proctrack_usage(s->query.pt, entry->cont_id, &s->rank, &usage) == -ESRCH)
		return err_say(err, -ENOENT, "task %u of step %s has ended", s->rank, entry->step);
	return 0;
}

static int set_entry(const struct step_entry *entry, void *userdata)
{
	struct set_limits *s = userdata;
	struct query *q = &s->query;
	struct limits_target target = {
		.cont_id = entry->cont_id, .mode = s->mode, .where = FIELD, .log = &s->log};
	int r;

	if (!query_names_entry(q->step, entry))
		return 0;
	q->found = true;
	r = query_check_owner(entry, &q->err);
	if (r == 0)
		r = query_use_backend(q, entry);
	if (r == 0)
		r = check_rank(s, entry, &q->err);
	if (r < 0)
		return r;
	target.pt = q->pt;
	r = limits_apply(
		&target, &s->limits, s->rank_text ? &s->rank : NULL, s->rank_text ? 1 : 0, &q->err);
	if (r == -ESRCH)
		return err_say(&q->err, r, "step %s has ended", entry->step);
	return r < 0 ? r : 1;
}

static void set_limits_clear(struct set_limits *s)
{
	limits_clear(&s->limits);
	query_clear(&s->query);
	run_options_clear(&s->options);
}

static int fail(const struct err *err)
{
	fprintf(stderr, "stepd " COMMAND ": %s\n", err->text);
	return STATUS_FAILED;
}

int cli_set_limits(int argc, char **argv)
{
	_cleanup_(set_limits_clear) struct set_limits s = {
		.options = RUN_OPTIONS_INIT,
		.log = {.fd = STDERR_FILENO, .most = LOG_LEVEL_WARNING, .ident = "stepd " COMMAND},
	};
	struct err err = ERR_INIT;

	if (parse_arguments(&s, argc, argv, &err) < 0)
		return fail(&err);
	if (s.options.help)
		return 0;
	if (steps_each(s.query.runtime_dir, set_entry, &s, &s.query.err) < 0)
		return fail(&s.query.err);
	if (s.query.found)
		return 0;
	return query_say_no_step(&s.query, COMMAND);
}
