/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl set-limits: changes the limits of a running step, or of one of its tasks. The options are
 * those of "stepd run", and the same code parses them; its agent applies them. Where that has died
 * the container is limited directly, for its owner only.
 */
#include <string.h>

#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/json.h"
#include "stepd/base/log.h"
#include "stepd/base/parse.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/cli/ctl/tracker.h"
#include "stepd/cli/run/run_convert.h"
#include "stepd/cli/run/run_options.h"
#include "stepd/client/client.h"

#define FIELD "limits"

struct set_limits {
	struct ctl *ctl;
	struct run_options options; /* the directories, and help */
	struct run_build build;
	uint32_t rank;
	struct limits limits;
	enum limits_mode mode;
};

/* ---- arguments ---------------------------------------------------------------------------- */

static const struct cli_option own_rows[] = {
	{.name = "task",
		.arg = "RANK",
		.take = cli_take_text,
		.offset = offsetof(struct run_build, task),
		.doc = "of this task, not of the whole step"},
	{.name = "json",
		.take = run_take_own_flag,
		.offset = offsetof(struct run_options, json),
		.doc = "print JSON"},
};

static bool is_ours(const struct cli_option *row)
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

/* The rows of "stepd run" that this verb has, and its own; as many as fit into rows. */
static size_t make_rows(struct cli_option *rows)
{
	const struct cli_option *table;
	size_t n, i, count;

	for (count = 0; count < ARRAY_SIZE(own_rows); count++)
		rows[count] = own_rows[count];
	table = run_option_table(&n);
	for (i = 0; i < n; i++) {
		if (!is_ours(&table[i]))
			continue;
		rows[count] = table[i];
		rows[count++].heading = NULL;
	}
	return count;
}

static void print_limits_help(const struct cli_options *options)
{
	fputs("Usage: stepctl set-limits [OPTION...] STEP\n"
	      "Changes the limits of a running step, stepd-limits(7); max takes one away.\n\n",
		stdout);
	cli_options_print(options->rows, options->n, stdout);
}

/* As the agent reads them; an error names the option. */
static int read_limits(struct set_limits *s, const struct cli_options *options)
{
	const json_t *doc = json_object_get(s->build.overlay, FIELD);
	const char *mode = json_string_value(json_object_get(s->build.overlay, "limits_mode"));
	struct err *err = &s->ctl->err;
	const struct cli_option *option;
	int r;

	if (mode && limits_mode_parse(mode, &s->mode) < 0)
		return err_set_text(
			err, -EINVAL, "--limits: '%.200s' is not one of strict, best-effort", mode);
	if (s->build.task && parse_u32(s->build.task, 0, UINT32_MAX, &s->rank) < 0)
		return err_set_text(err, -EINVAL, "--task: '%.200s' is no rank", s->build.task);
	if (!doc)
		return err_set_text(err, -EINVAL,
			"no limit given, such as --mem 4G (see stepctl set-limits --help)");
	r = limits_from_json(FIELD, doc, &s->limits, err);
	if (r == 0)
		return 0;
	option = run_find_option(options, false, err);
	return option ? run_name_option(option, err) : r;
}

static int parse_arguments(struct set_limits *s)
{
	struct ctl *ctl = s->ctl;
	struct cli_option rows[CLI_OPTIONS_MAX];
	struct cli_options options = {.rows = rows,
		.n = make_rows(rows),
		.command = "stepctl set-limits",
		.anywhere = true,
		.most = -1};
	int rest = ctl->argc, r;

	s->build.options = &s->options;
	s->build.overlay = json_object();
	if (!s->build.overlay)
		return err_set(&ctl->err, -ENOMEM, "read the options");
	r = cli_options_parse(&options, ctl->argc, ctl->argv, &s->build, &rest, &ctl->err);
	if (r < 0)
		return r;
	if (s->options.help) {
		print_limits_help(&options);
		return 0;
	}
	if (ctl->argc - rest != 1)
		return err_set_text(&ctl->err, -EINVAL, "give it one STEP, such as 7.0");
	ctl->args = ctl->argv + rest;
	ctl->count = 1;
	ctl->opt.runtime_dir = s->options.runtime_dir;
	ctl->opt.plugin_dir = s->options.plugin_dir;
	ctl->opt.json = s->options.json;
	return read_limits(s, &options);
}

/* ---- by the agent ------------------------------------------------------------------------- */

static int print_warnings(struct ctl *ctl, struct target *target, const json_t *reply)
{
	json_t *warnings = json_object_get(reply, "warnings"), *warning;
	size_t i;

	json_array_foreach (warnings, i, warning) {
		if (json_is_string(warning))
			ctl_warn(ctl, target->label, json_string_value(warning));
	}
	return ctl_put(target->entry, "warnings",
		json_is_array(warnings) ? json_incref(warnings) : json_array());
}

static int set_by_agent(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const struct set_limits *s = target->userdata;
	json_t *doc = json_pack("{s:O, s:s*, s:b}", FIELD, json_object_get(s->build.overlay, FIELD),
		"ranks", s->build.task, "best_effort", (int)(s->mode == LIMITS_BEST_EFFORT));
	json_auto_t *reply = NULL;
	int r = doc ? client_call_take(target->client, "SetLimits", doc, &reply, error)
		    : client_no_memory(error);

	if (r == 0 && print_warnings(ctl, target, reply) < 0)
		r = client_no_memory(error);
	return r;
}

/* ---- without an agent --------------------------------------------------------------------- */

/* A backend creates what a task's limits need: not for a rank that the step doesn't have here, or
 * no longer has. */
static int check_rank(const struct set_limits *s, const struct orphan *o, struct err *err)
{
	const json_t *tasks = json_object_get(o->entry.doc, "tasks"), *task;
	stepd_usage_t usage;
	size_t i;

	if (!s->build.task)
		return 0;
	json_array_foreach (tasks, i, task) {
		if (json_get_int(task, "rank", -1) == s->rank)
			break;
	}
	if (i == json_array_size(tasks))
		return err_set_text(err, -ESRCH, "it has no task of rank %u on this node", s->rank);
	/* A backend that counts nothing for a task returns another error, and may limit it all the
	 * same. */
	if (proctrack_usage(o->pt, o->entry.cont_id, &s->rank, &usage) == -ESRCH)
		return err_set_text(err, -ESRCH, "task %u has ended", s->rank);
	return 0;
}

static int set_by_tracker(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const struct set_limits *s = target->userdata;
	const struct log log = {
		.fd = STDERR_FILENO, .most = LOG_LEVEL_WARNING, .ident = "stepctl set-limits"};
	struct limits_target container = {.mode = s->mode, .where = FIELD, .log = &log};
	_cleanup_orphan_ struct orphan o = ORPHAN_INIT;
	struct err err = ERR_INIT;
	int r = orphan_open(ctl, target, ORPHAN_OWNER, &o, &err);

	if (r == 0)
		r = check_rank(s, &o, &err);
	if (r < 0)
		return client_error_forward(error, &err);
	container.pt = o.pt;
	container.cont_id = o.entry.cont_id;
	r = limits_apply(&container, &s->limits, s->build.task ? &s->rank : NULL,
		s->build.task ? 1 : 0, &err);
	if (r == -ESRCH)
		return client_error(error, r, "its agent has died, and its processes have ended");
	return r < 0 ? client_error_forward(error, &err) : 0;
}

static void set_limits_clear(struct set_limits *s)
{
	json_decref(s->build.overlay);
	limits_clear(&s->limits);
	run_options_clear(&s->options);
}

int ctl_set_limits(struct ctl *ctl)
{
	_cleanup_(set_limits_clear) struct set_limits s = {.ctl = ctl, .options = RUN_OPTIONS_INIT};
	const struct request request = {.run = set_by_agent,
		.in_turn = true,
		.without_agent = set_by_tracker,
		.without_agent_if = STEPD_ORPHAN,
		.done = true,
		.userdata = &s};
	int r = parse_arguments(&s);

	return r < 0 || s.options.help ? r : request_steps(ctl, &request);
}
