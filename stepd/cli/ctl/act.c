/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs that act on steps: signal, terminate, suspend, resume, notify, add, reexec, wait, clean
 * and set-limits.
 */
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proctrack/proctrack.h"
#include "stepd/account/apply_limits.h"
#include "stepd/base/clock.h"
#include "stepd/base/err.h"
#include "stepd/base/fs.h"
#include "stepd/base/json.h"
#include "stepd/base/parse.h"
#include "stepd/base/proc.h"
#include "stepd/base/strv.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/cli/options.h"
#include "stepd/cli/run/run_convert.h"
#include "stepd/cli/run/run_options.h"
#include "stepd/client/client.h"
#include "stepd/record/clean.h"
#include "stepd/record/registry.h"
#include "stepd/record/report.h"

#define DEFAULT_SIGNAL "TERM"

/* ---- signal, terminate --------------------------------------------------------------------- */

static int signal_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const struct stepd_signal_target to = {
		.ranks = target->ranks, .pid = (pid_t)ctl->opt.pid, .leader = ctl->opt.leader};

	if (to.pid && to.ranks)
		return client_error(error, -EINVAL, "give either a pid or ranks");
	return stepd_signal(target->client, ctl->opt.signal, &to, error);
}

int ctl_signal(struct ctl *ctl)
{
	static const struct request request = {
		.run = signal_step, .done = true, .with_ranks = true};

	if (!ctl->opt.signal)
		ctl->opt.signal = DEFAULT_SIGNAL;
	if (signals_parse(ctl->opt.signal) < 0)
		return err_set_text(&ctl->err, -EINVAL,
			"--signal: '%.200s' is not a signal such as TERM, 15 or RTMIN+3",
			ctl->opt.signal);
	return request_steps(ctl, &request);
}

static int terminate_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const char *kill_sequence = ctl->opt.now ? "KILL" : ctl->opt.kill_sequence;

	return stepd_terminate(target->client, kill_sequence, ctl->opt.grace_ms, error);
}

int ctl_terminate(struct ctl *ctl)
{
	static const struct request request = {.run = terminate_step, .done = true};

	if (ctl->opt.now && (ctl->opt.kill_sequence || ctl->opt.grace_ms >= 0))
		return err_set_text(&ctl->err, -EINVAL,
			"--now sends SIGKILL alone, and conflicts with --kill-sequence and --grace");
	return request_steps(ctl, &request);
}

/* ---- suspend, resume: the same but for the call -------------------------------------------- */

/* If a step's agent has died, the container is suspended or resumed directly, for its owner only,
 * and state.json records it for an agent that takes the step over. */
static int suspend_container(struct ctl *ctl, const struct orphan *o, bool suspend, struct err *err)
{
	int r;

	if (suspend)
		return proctrack_suspend(o->pt, o->entry.cont_id, ctl_timeout_ms(ctl), err);
	r = proctrack_resume(o->pt, o->entry.cont_id, err);
	return r < 0 ? err_prefix(err, "can't resume it") : 0;
}

/* What an agent would have written: the state, and how long the step has been suspended. */
static int change_state(json_t *doc, bool suspend)
{
	const json_int_t now = (json_int_t)clock_now_ns();
	json_int_t since = json_get_int(doc, "suspended_since_ns", 0);
	json_int_t total = json_get_int(doc, "suspended_ns", 0);

	if (since && !suspend)
		total += now - since;
	if (!suspend)
		since = 0;
	else if (!since)
		since = now;
	return json_object_update_new(doc,
		json_pack("{s:s, s:I, s:I, s:b}", "state", suspend ? "suspended" : "running",
			"suspended_since_ns", since, "suspended_ns", total, "suspending", 0));
}

/* Only of a step that was running or suspended: the next agent ends one that was being started or
 * ended. */
static int record_state(const struct orphan *o, bool suspend, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	json_auto_t *doc = NULL;
	const char *state;
	mode_t mask;
	int r;

	/* Read again under the lock: another process may have changed it since it was listed. */
	r = steps_read_state(o->entry.dir_fd, &doc);
	state = json_get_text(doc, "state", "");
	if (r == 0 && strcmp(state, "running") != 0 && strcmp(state, "suspended") != 0)
		return 0;
	if (r == 0 && change_state(doc, suspend) == 0)
		text = json_dumps(doc, JSON_COMPACT);
	if (r == 0 && !text)
		r = -ENOMEM;
	if (text) {
		mask = umask(022);
		r = fs_write_atomic(o->entry.dir_fd, "state.json", text, strlen(text), 0644, false);
		(void)umask(mask); /* can't fail */
	}
	return r < 0 ? err_set(err, r,
			       "it is %s, but state.json could not be changed, and 'stepd adopt' "
			       "would undo this",
			       suspend ? "suspended" : "resumed")
		     : 0;
}

/* While the lock is held no agent can take the step over. */
static int lock_step(const struct orphan *o, struct err *err)
{
	int fd = registry_lock_for_cleaning(o->entry.dir_fd);

	if (fd == -EWOULDBLOCK)
		return err_set_text(err, -EBUSY,
			"its agent has died, and another process is taking the step over; try again");
	return fd < 0 ? err_set(err, fd, "its agent has died; lock its directory") : fd;
}

static int suspend_without_agent(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	const bool suspend = ctl->verb->run == ctl_suspend;
	_cleanup_orphan_ struct orphan o = ORPHAN_INIT;
	_cleanup_close_ int lock_fd = -1;
	struct err err = ERR_INIT;
	int r = orphan_open(ctl, target, ORPHAN_OWNER | ORPHAN_PROCESSES, &o, &err);

	if (r == 0)
		r = lock_fd = lock_step(&o, &err);
	if (r >= 0)
		r = suspend_container(ctl, &o, suspend, &err);
	if (r == 0)
		r = record_state(&o, suspend, &err);
	if (r == -ESRCH)
		return client_error(error, r,
			"its agent has died, and none of its processes is left or can be found");
	return r < 0 ? client_error_forward(error, &err) : 0;
}

static int suspend_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	return ctl->verb->run == ctl_suspend ? stepd_suspend(target->client, error)
					     : stepd_resume(target->client, error);
}

int ctl_suspend(struct ctl *ctl)
{
	static const struct request request = {.run = suspend_step,
		.without_agent = suspend_without_agent,
		.without_agent_if = STEPD_ORPHAN,
		.done = true};

	return request_steps(ctl, &request);
}

int ctl_resume(struct ctl *ctl)
{
	return ctl_suspend(ctl);
}

/* ---- notify, add, reexec ------------------------------------------------------------------- */

static int notify_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *message = report_json_text(ctl->args[1]);

	return message ? stepd_notify(target->client, json_string_value(message), error)
		       : client_no_memory(error);
}

int ctl_notify(struct ctl *ctl)
{
	static const struct request request = {.run = notify_step, .done = true, .steps = 1};

	if (!ctl->args[1][0])
		return err_set_text(&ctl->err, -EINVAL, "the message is empty");
	return request_steps(ctl, &request);
}

/* One call for each pid: each has a result of its own. */
static int add_pids(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *added = json_array();
	uint32_t pid = 0;
	int i, r = 0;

	for (i = 1; r == 0 && i < ctl->count; i++) {
		struct stepd_error failure = {0};

		(void)!parse_u32(ctl->args[i], 1, INT_MAX, &pid); /* was checked */
		if (stepd_add_pid(target->client, (pid_t)pid, 0, &failure) == -ESRCH)
			(void)client_error(
				&failure, -ESRCH, "there is no process %u on this node", pid);
		if (failure.code)
			ctl_report(ctl, target->label, &failure, target->entry);
		else
			r = json_array_append_new(added, json_integer(pid));
	}
	if (r == 0)
		r = ctl_put(target->entry, "added", json_incref(added));
	return r < 0 ? client_no_memory(error) : 0;
}

int ctl_add(struct ctl *ctl)
{
	static const struct request request = {.run = add_pids, .in_turn = true, .steps = 1};
	uint32_t pid;
	int i;

	for (i = 1; i < ctl->count; i++) {
		if (parse_u32(ctl->args[i], 1, INT_MAX, &pid) < 0)
			return err_set_text(
				&ctl->err, -EINVAL, "'%.200s' is not a pid", ctl->args[i]);
	}
	return request_steps(ctl, &request);
}

static int reexec_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	_cleanup_free_ char *version = NULL, *safe = NULL;
	int r = stepd_reexec(target->client, &version, error);

	if (r < 0)
		return r;
	safe = term_printable(&ctl->term, version, TERM_WHOLE);
	if (!safe || ctl_put(target->entry, "version", json_string(version)) < 0)
		return client_error(error, -ENOMEM, "it is done, with no memory left to report it");
	if (!ctl->opt.json)
		printf("step %s: its agent runs version %s\n", target->label, safe);
	return 0;
}

int ctl_reexec(struct ctl *ctl)
{
	static const struct request request = {.run = reexec_step};

	return request_steps(ctl, &request);
}

/* ---- wait ---------------------------------------------------------------------------------- */

static int take_result(
	struct ctl *ctl, struct target *target, json_t *result, struct stepd_error *error)
{
	const json_t *code = json_object_get(result, "exit_code");

	if (!json_is_integer(code))
		return client_error(
			error, -EPROTO, "it has ended, and its result has no exit status");
	if (json_integer_value(code) > ctl->out.step_status)
		ctl->out.step_status = (int)json_integer_value(code);
	return ctl_put(target->entry, "result", json_incref(result)) < 0 ? client_no_memory(error)
									 : 0;
}

static int wait_step(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *reply = NULL;
	int r = client_call_take(target->client, "Wait", NULL, &reply, error);

	return r < 0 ? r : take_result(ctl, target, json_object_get(reply, "result"), error);
}

/* A step that has ended before: its result is read as long as it is retained. */
static int wait_ended(struct ctl *ctl, struct target *target, struct stepd_error *error)
{
	json_auto_t *result = NULL;
	int r = target_read_result(target, &result, error);

	return r < 0 ? r : take_result(ctl, target, result, error);
}

/* Exits with the status of the step, of several with the largest. */
int ctl_wait(struct ctl *ctl)
{
	static const struct request request = {.run = wait_step,
		.without_agent = wait_ended,
		.without_agent_if = STEPD_ENDED,
		.for_ever = true};
	int r = request_steps(ctl, &request);

	if (r == 0 && ctl->out.status == CTL_OK)
		ctl->out.status = ctl->out.step_status;
	return r;
}

/* ---- stepctl clean ------------------------------------------------------------------------- */

/* Removes results whose retention time is over, and what dead agents left of steps without a
 * living process (stepd/record/clean.h). Doubtful cases stay, with a warning. */

struct cleaning {
	struct ctl *ctl;
	json_t *removed;
};

/* By stepd: taking a step over is agent code. */
static int clean_settle(const char *step, const struct clean_options *options)
{
	_cleanup_strv_ struct strv args = {0};
	_cleanup_free_ char *program = NULL;
	struct err err = ERR_INIT;
	int fd, r = program_find("stepd", STEPD_PROGRAM, &program, &err);

	if (r < 0)
		return r;
	r |= strv_add(&args, program);
	r |= strv_add(&args, "adopt");
	r |= strv_add(&args, "--ended-only");
	if (options->runtime_dir)
		r |= strv_addf(&args, "--runtime-dir=%s", options->runtime_dir);
	if (options->plugin_dir)
		r |= strv_addf(&args, "--plugin-dir=%s", options->plugin_dir);
	r |= strv_add(&args, "--"); /* a directory's name may begin with a dash */
	r |= strv_add(&args, step);
	if (r < 0)
		return -ENOMEM;
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return -errno;
	(void)unsetenv("NOTIFY_SOCKET"); /* of the caller's own */
	(void)execv(program, args.v);
	return -errno;
}

static json_t *clean_pack(const struct clean_found *found)
{
	const char *under = strrchr(found->directory, '_');
	_cleanup_free_ char *node =
		strndup(found->directory, under ? (size_t)(under - found->directory) : 0);

	return node ? json_pack("{s:o, s:o, s:o, s:s}", "step",
			      report_json_text(under ? under + 1 : found->directory), "node",
			      report_json_text(node), "directory", report_json_text(found->path),
			      "what", clean_names[found->what])
		    : NULL;
}

static void clean_on_found(const struct clean_found *found, void *userdata)
{
	struct cleaning *c = userdata;
	_cleanup_free_ char *safe = term_printable(&c->ctl->term, found->path, TERM_WHOLE);
	struct err err = ERR_INIT;

	if (found->what == CLEAN_ALONE && found->code == 0) {
		ctl_warn(c->ctl, found->directory, found->text);
	} else if (found->what == CLEAN_ALONE) {
		(void)err_set_text(&err, found->code, "%s", found->text);
		ctl_report_err(c->ctl, found->directory, &err, NULL);
	} else {
		if (!c->ctl->opt.json)
			printf("%s: %s\n", safe ? safe : "?", clean_names[found->what]);
		(void)json_array_append_new(
			c->removed, clean_pack(found)); /* without memory the line is missing */
	}
}

int ctl_clean(struct ctl *ctl)
{
	json_auto_t *removed = json_array();
	struct cleaning c = {.ctl = ctl, .removed = removed};
	const struct clean_options options = {.runtime_dir = ctl->opt.runtime_dir,
		.plugin_dir = ctl->opt.plugin_dir,
		.dry_run = ctl->opt.dry_run,
		.settle = clean_settle,
		.report = clean_on_found,
		.userdata = &c};
	int r = clean_all(&options, &ctl->err);

	if (r == 0 && ctl->opt.json)
		r = ctl_print_json(ctl,
			json_pack(
				"{s:b, s:O}", "dry_run", (int)ctl->opt.dry_run, "removed", removed),
			false);
	return r;
}

/* ---- stepctl set-limits -------------------------------------------------------------------- */

/* Changes the limits of a running step, or of one of its tasks. The options are
 * those of "stepd run", and the same code parses them; its agent applies them. Where that has died
 * the container is limited directly, for its owner only. */

#define FIELD "limits"

struct set_limits {
	struct ctl *ctl;
	struct run_options options; /* the directories, and help */
	struct run_build build;
	uint32_t rank;
	struct limits limits;
	enum limits_mode mode;
};

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

/* The rows of "stepd run" that this verb has, and its own. */
static size_t set_limits_make_rows(struct cli_option *rows)
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
		return err_set_text(err, -EINVAL, "--task: '%.200s' is not a rank", s->build.task);
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
		.n = set_limits_make_rows(rows),
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

/* Checked first, as a backend would create what a task's limits need also for a rank that is not
 * here. */
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
	/* A backend without counts for a task returns another error, but may be able to limit it.
	 */
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
