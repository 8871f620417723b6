/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stepctl: its options, its output and the table of its verbs.
 */
#include "config.h"

#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <locale.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "stepd/account/usage.h"
#include "stepd/base/parse.h"
#include "stepd/cli/ctl/ctl.h"
#include "stepd/cli/ctl/target.h"
#include "stepd/client/client.h"
#include "stepd/record/report.h"

/* ---- options ------------------------------------------------------------------------------- */

/* The options of all verbs, a row each, and how a command line is parsed. */

#define INTERVAL_LEAST_MS 100 /* the interface's */

static int take_u64(const struct cli_option *o, const char *arg, uint64_t least, uint64_t most,
	struct ctl_options *into, const char *what, struct err *err)
{
	if (parse_u64(arg, least, most, (uint64_t *)((char *)into + o->offset)) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is not a %s", arg, what);
	return 0;
}

static int take_number(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return take_u64(o, arg, 0, INT64_MAX, into, "number", err);
}

static int take_count(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return take_u64(o, arg, 1, INT64_MAX, into, "number from 1", err);
}

static int take_pid(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	return take_u64(o, arg, 1, INT_MAX, into, "pid", err);
}

static int take_duration(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	uint64_t ms;

	if (parse_duration_ms(arg, &ms) < 0 || ms > INT_MAX)
		return err_set_text(err, -EINVAL, "'%.200s' is not a duration such as 5s", arg);
	*(int64_t *)((char *)into + o->offset) = (int64_t)ms;
	return 0;
}

static int take_interval(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	int r = take_duration(o, arg, into, err);

	if (r == 0 && ((struct ctl_options *)into)->interval_ms < INTERVAL_LEAST_MS)
		return err_set_text(err, -EINVAL, "'%.200s' is less than 100ms", arg);
	return r;
}

static int take_stream(const struct cli_option *o, const char *arg, void *into, struct err *err)
{
	if (strcmp(arg, "stdout") != 0 && strcmp(arg, "stderr") != 0 && strcmp(arg, "both") != 0)
		return err_set_text(err, -EINVAL, "'%.200s' is none of stdout, stderr, both", arg);
	return cli_take_text(o, arg, into, err);
}

#define AT(member_) offsetof(struct ctl_options, member_)

/* clang-format off */
static const struct cli_option rows[CTL_OPT_MAX] = {
	[CTL_OPT_SIGNAL] = {.name = "signal", .letter = 's', .arg = "SIG", .take = cli_take_text, .offset = AT(signal),
	 .doc = "TERM, SIGTERM, 15 or RTMIN+3 (TERM)"},
	[CTL_OPT_LEADER] = {.name = "leader", .take = cli_take_flag, .offset = AT(leader),
	 .doc = "the tasks' first processes, or PID, alone"},
	[CTL_OPT_PID] = {.name = "pid", .arg = "PID", .take = take_pid, .offset = AT(pid),
	 .doc = "this process of the step and its descendants"},
	[CTL_OPT_TASKS] = {.name = "tasks", .take = cli_take_flag, .offset = AT(tasks),
	 .doc = "with the rank of each process's task"},
	[CTL_OPT_NAMES] = {.name = "names", .take = cli_take_flag, .offset = AT(names),
	 .doc = "only NODE/STEP, one a line, for scripts"},
	[CTL_OPT_NAMESPACE] = {.name = "namespace", .arg = "PID|INODE", .take = cli_take_text, .offset = AT(namespace),
	 .doc = "pids are of this pid namespace, or that of this process"},
	[CTL_OPT_NOW] = {.name = "now", .take = cli_take_flag, .offset = AT(now),
	 .doc = "by SIGKILL, at once"},
	[CTL_OPT_GRACE] = {.name = "grace", .arg = "DURATION", .take = take_duration, .offset = AT(grace_ms),
	 .doc = "time after each signal but the last"},
	[CTL_OPT_KILL_SEQUENCE] = {.name = "kill-sequence", .arg = "SIGNAL[:WAIT],...", .take = cli_take_text, .offset = AT(kill_sequence),
	 .doc = "this sequence instead of the step's own"},
	[CTL_OPT_FROM] = {.name = "from", .arg = "N", .take = take_number, .offset = AT(from),
	 .doc = "from event number N on (1); 0: new ones only"},
	[CTL_OPT_FOLLOW] = {.name = "follow", .letter = 'f', .take = cli_take_flag, .offset = AT(follow),
	 .doc = "follow until the step ends"},
	[CTL_OPT_INTERVAL] = {.name = "interval", .letter = 'i', .arg = "DURATION", .take = take_interval, .offset = AT(interval_ms),
	 .doc = "repeat at this interval, at least 100ms"},
	[CTL_OPT_ROUNDS] = {.name = "count", .letter = 'n', .arg = "N", .take = take_count, .offset = AT(rounds),
	 .doc = "stop after N samples"},
	[CTL_OPT_BATCH] = {.name = "batch", .letter = 'b', .take = cli_take_flag, .offset = AT(batch),
	 .doc = "print tables, for files and pipes"},
	[CTL_OPT_SORT] = {.name = "sort", .arg = "KEY", .take = cli_take_text, .offset = AT(sort),
	 .doc = "sort by step, user, cpu, mem, procs or time (cpu)"},
	[CTL_OPT_STDIN] = {.name = "stdin", .take = cli_take_flag, .offset = AT(input),
	 .doc = "standard input goes to the tasks' standard input, too"},
	[CTL_OPT_SINCE] = {.name = "since", .arg = "N", .take = take_number, .offset = AT(since),
	 .doc = "from byte N of each stream on (from now on)"},
	[CTL_OPT_TAIL] = {.name = "tail", .take = cli_take_flag, .offset = AT(tail),
	 .doc = "from what the agent holds of each stream"},
	[CTL_OPT_STREAM] = {.name = "stream", .arg = "stdout|stderr|both", .take = take_stream, .offset = AT(stream),
	 .doc = "only this stream (both)"},
	[CTL_OPT_LABEL] = {.name = "label", .letter = 'l', .take = cli_take_flag, .offset = AT(label),
	 .doc = "begin each line with its task's rank"},
	[CTL_OPT_DETACH_KEYS] = {.name = "detach-keys", .arg = "KEYS", .take = cli_take_text, .offset = AT(detach_keys),
	 .doc = "keys that detach from a task's terminal; none if empty (ctrl-p,ctrl-q)"},
	[CTL_OPT_DRY_RUN] = {.name = "dry-run", .take = cli_take_flag, .offset = AT(dry_run),
	 .doc = "only list what would be removed"},
	[CTL_OPT_JSON] = {.name = "json", .take = cli_take_flag, .offset = AT(json),
	 .doc = "print JSON"},
	[CTL_OPT_TIMEOUT] = {.name = "timeout", .arg = "DURATION", .take = take_duration, .offset = AT(timeout_ms),
	 .doc = "how long to wait for a reply"},
	[CTL_OPT_RUNTIME_DIR] = {.name = "runtime-dir", .arg = "DIR", .take = cli_take_text, .offset = AT(runtime_dir),
	 .doc = "where the node's steps are registered"},
	[CTL_OPT_PLUGIN_DIR] = {.name = "plugin-dir", .arg = "DIR", .take = cli_take_text, .offset = AT(plugin_dir),
	 .doc = "where the plugins are"},
	[CTL_OPT_HELP] = {.name = "help", .letter = 'h', .take = cli_take_help, .offset = AT(help),
	 .doc = "show this"},
};
/* clang-format on */

static size_t ctl_make_rows(const struct verb *verb, struct cli_option *ret_rows)
{
	size_t i, n = 0;

	for (i = 0; i < CTL_OPT_MAX; i++) {
		if (i == CTL_OPT_HELP || verb->options >> i & 1)
			ret_rows[n++] = rows[i];
	}
	return n;
}

static void ctl_print_verb_help(const struct verb *verb, FILE *out)
{
	struct cli_option own[CTL_OPT_MAX];

	fprintf(out, "Usage: stepctl %s [OPTION...]%s%s\n%c%s.\n\n", verb->name,
		*verb->arguments ? " " : "", verb->arguments, verb->doc[0] - 'a' + 'A',
		verb->doc + 1);
	cli_options_print(own, ctl_make_rows(verb, own), out);
}

/* Parses ctl->argv, which begins with the verb: options may stand anywhere, up to "--". -EINVAL
 * with the sentence in ctl->err. */
static int ctl_parse_options(struct ctl *ctl)
{
	const struct verb *verb = ctl->verb;
	struct cli_option own[CTL_OPT_MAX];
	char command[32];
	struct cli_options options = {.rows = own,
		.n = ctl_make_rows(verb, own),
		.command = command,
		.anywhere = true,
		.most = verb->most};
	int rest, r;

	(void)snprintf(command, sizeof(command), "stepctl %s", verb->name);
	r = cli_options_parse(&options, ctl->argc, ctl->argv, &ctl->opt, &rest, &ctl->err);
	if (r < 0 || ctl->opt.help)
		return r;
	ctl->args = ctl->argv + rest;
	ctl->count = ctl->argc - rest;
	if (ctl->count < verb->least)
		return err_set_text(&ctl->err, -EINVAL, "give it %s (see '%s --help')",
			verb->arguments, command);
	return 0;
}

/* ---- output -------------------------------------------------------------------------------- */

/* Output of the verbs: failures and their exit statuses, warnings, JSON. */

const struct ctl_exit_row ctl_exits[CTL_EXIT_MAX] = {
	[CTL_OK] = {"ok", "done"},
	[CTL_NOT_FOUND] = {"not_found", "no such step, task or process, or it has ended"},
	[CTL_USAGE] = {"usage", "wrong usage"},
	[CTL_PERMISSION] = {"permission", "permission denied"},
	[CTL_AGENT_GONE] = {"agent_gone", "the step's agent has died"},
	[CTL_TIMED_OUT] = {"timed_out", "no reply in time, or processes did not stop"},
	[CTL_WRONG_STATE] = {"wrong_state", "the step is in another state"},
	[CTL_NOT_SUPPORTED] = {"not_supported", "not supported by tracker, machine, step or agent"},
	[CTL_FAILED] = {"failed", "another failure: see the message"},
	[CTL_OUTPUT] = {"output", "standard output could not be written"},
};

/* The exit status of a failure. */
static enum ctl_exit ctl_exit_of(int code)
{
	static const struct {
		int code;
		enum ctl_exit exit;
	} table[] = {
		{0, CTL_OK},
		{-ENOENT, CTL_NOT_FOUND},
		{-ESRCH, CTL_NOT_FOUND},
		{-EINVAL, CTL_USAGE},
		{-ENOTUNIQ, CTL_USAGE},
		{-EPERM, CTL_PERMISSION},
		{-EACCES, CTL_PERMISSION},
		{-ECONNREFUSED, CTL_AGENT_GONE},
		{-ECONNRESET, CTL_AGENT_GONE},
		{-ETIMEDOUT, CTL_TIMED_OUT},
		{-EBUSY, CTL_WRONG_STATE},
		{-EOPNOTSUPP, CTL_NOT_SUPPORTED},
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].code == code)
			return table[i].exit;
	}
	return CTL_FAILED;
}

/* Texts of agents, plugins and state files must not control the terminal. */
void ctl_warn(const struct ctl *ctl, const char *label, const char *text)
{
	_cleanup_free_ char *step = term_printable(&ctl->term, label ? label : "", TERM_WHOLE);
	_cleanup_free_ char *safe = term_printable(&ctl->term, text, TERM_WHOLE);

	(void)fflush(stdout); /* in order; its own failure is seen later */
	fprintf(stderr, "stepctl %s: %s%s%s%s\n", ctl->verb->name, label ? "step " : "",
		step ? step : "", label ? ": " : "", safe ? safe : "no memory left");
}

void ctl_report(struct ctl *ctl, const char *label, const struct stepd_error *error, json_t *entry)
{
	enum ctl_exit status = ctl_exit_of(error->code);

	if (ctl->out.status == CTL_OK)
		ctl->out.status = ctl->verb->failure ? ctl->verb->failure : (int)status;
	/* libstepd names the step itself. */
	ctl_warn(ctl, strncmp(error->text, "step ", 5) == 0 ? NULL : label, error->text);
	if (ctl_put(entry, "error",
		    json_pack("{s:s, s:o, s:o}", "code", ctl_exits[status].name, "name",
			    error->name[0] ? report_json_text(error->name) : json_null(), "text",
			    report_json_text(error->text))) < 0)
		ctl->out.status = CTL_FAILED;
}

void ctl_report_err(struct ctl *ctl, const char *label, const struct err *err, json_t *entry)
{
	struct stepd_error error;

	(void)client_error_forward(&error, err);
	ctl_report(ctl, label, &error, entry);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

int ctl_put(json_t *entry, const char *key, json_t *value)
{
	if (!entry) {
		json_decref(value);
		return 0;
	}
	return json_object_set_new(entry, key, value) < 0 ? -ENOMEM : 0;
}

json_t *ctl_add_entry(struct ctl *ctl, const struct target *target)
{
	json_t *entry;

	if (!ctl->opt.json)
		return NULL;
	entry = json_pack("{s:o, s:o}", "step", report_json_text(target->label), "node",
		target->node[0] ? report_json_text(target->node) : json_null());
	if (json_array_append_new(ctl->out.steps, entry) == 0)
		return entry;
	ctl->out.status = CTL_FAILED; /* no memory: the document can't be whole */
	return NULL;
}

json_t *ctl_rank_json(int64_t rank)
{
	return rank == STEPD_NO_RANK ? json_null() : json_integer(rank);
}

int ctl_print_json(struct ctl *ctl, json_t *doc, bool one_line)
{
	_cleanup_free_ char *text =
		doc ? json_dumps(doc, one_line ? JSON_COMPACT : JSON_INDENT(2)) : NULL;

	json_decref(doc);
	ctl->out.printed = true;
	if (!text)
		return err_set(&ctl->err, -ENOMEM, "print JSON");
	printf("%s\n", text); /* main() checks for write errors at the end */
	return 0;
}

/* ---- small things -------------------------------------------------------------------------- */

int ctl_timeout_ms(const struct ctl *ctl)
{
	return ctl->opt.timeout_ms >= 0 ? (int)ctl->opt.timeout_ms : STEPD_TIMEOUT_MS;
}

/* One value, as the tables of usage write it. */
static const char *value_text(uint64_t value, enum stepd_usage_value which, char *buf)
{
	stepd_usage_t usage = {0};

	usage.value[which] = value;
	usage.source[which] = STEPD_USAGE_PROC;
	return usage_text(&usage, which, buf);
}

const char *ctl_duration_text(uint64_t usec, char *buf)
{
	return value_text(usec, STEPD_USAGE_CPU_USER_USEC, buf);
}

const char *ctl_bytes_text(uint64_t bytes, char *buf)
{
	return value_text(bytes, STEPD_USAGE_MEMORY_BYTES, buf);
}

/* ---- verbs --------------------------------------------------------------------------------- */

#define DIRS  (CTL_BIT(RUNTIME_DIR) | CTL_BIT(JSON))
#define CALLS (DIRS | CTL_BIT(TIMEOUT))
#define TRACK (CALLS | CTL_BIT(PLUGIN_DIR))

static const struct verb verbs[] = {
	{"list", ctl_list, "", 0, 0, DIRS | CTL_BIT(NAMES), "list the steps of this node", 0},
	{"show", ctl_show, "STEP...", 1, -1, CALLS, "show steps and their tasks", 0},
	{"ps", ctl_ps, "STEP[/RANKS]...", 1, -1, TRACK, "show the processes of steps as a tree", 0},
	{"pids", ctl_pids, "STEP[/RANKS]...", 1, -1, TRACK | CTL_BIT(TASKS),
		"list the processes of steps, one pid a line", 0},
	{"find", ctl_find, "PID...|-", 1, -1, TRACK | CTL_BIT(NAMESPACE),
		"find the step and task of processes", 0},
	{"signal", ctl_signal, "STEP[/RANKS]...", 1, -1,
		CALLS | CTL_BIT(SIGNAL) | CTL_BIT(LEADER) | CTL_BIT(PID),
		"send a signal to steps, tasks or a process", 0},
	{"suspend", ctl_suspend, "STEP...", 1, -1, TRACK,
		"stop all processes of steps, and wait for that", 0},
	{"resume", ctl_resume, "STEP...", 1, -1, TRACK, "continue suspended steps", 0},
	{"terminate", ctl_terminate, "STEP...", 1, -1,
		CALLS | CTL_BIT(NOW) | CTL_BIT(GRACE) | CTL_BIT(KILL_SEQUENCE), "end steps", 0},
	{"wait", ctl_wait, "STEP...", 1, -1, CALLS, "wait for the end, with the step's exit status",
		CTL_WAIT_FAILED},
	{"events", ctl_events, "STEP", 1, 1, CALLS | CTL_BIT(FROM) | CTL_BIT(FOLLOW),
		"print the events of a step, and follow them", 0},
	{"usage", ctl_usage, "STEP...", 1, -1, TRACK | CTL_BIT(INTERVAL) | CTL_BIT(ROUNDS),
		"print what steps and their tasks use now", 0},
	{"top", ctl_top, "[STEP...]", 0, -1,
		DIRS | CTL_BIT(INTERVAL) | CTL_BIT(ROUNDS) | CTL_BIT(BATCH) | CTL_BIT(SORT),
		"watch steps and tasks on a live screen", 0},
	{"attach", ctl_attach, "STEP[/RANKS]", 1, 1,
		CTL_BIT(RUNTIME_DIR) | CTL_BIT(TIMEOUT) | CTL_BIT(STDIN) | CTL_BIT(SINCE) |
			CTL_BIT(TAIL) | CTL_BIT(STREAM) | CTL_BIT(LABEL) | CTL_BIT(DETACH_KEYS),
		"show the tasks' output while it comes, and type", 0},
	{"set-limits", ctl_set_limits, "STEP", 1, 1, 0, "change the limits of a step, or of a task",
		0},
	{"notify", ctl_notify, "STEP MESSAGE", 2, 2, CALLS,
		"write a line to a step's standard error", 0},
	{"add", ctl_add, "STEP PID...", 2, -1, CALLS, "make running processes members of a step",
		0},
	{"reexec", ctl_reexec, "STEP...", 1, -1, CALLS,
		"upgrade agents: execute their new program in place", 0},
	{"clean", ctl_clean, "", 0, 0, DIRS | CTL_BIT(DRY_RUN) | CTL_BIT(PLUGIN_DIR),
		"remove what dead agents have left", 0},
};

static void ctl_print_help(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: stepctl VERB [OPTION...] [ARGUMENT...]\n\n");
	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-10s %-16s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].doc);
	fprintf(out,
		"\nSTEP is 7.0, node/7.0, or an unambiguous beginning of it.\n'stepctl VERB "
		"--help', or 'help VERB', shows the options. Exit status:\n\n");
	for (i = 0; i < CTL_EXIT_MAX; i++)
		fprintf(out, "  %zu  %s\n", i, ctl_exits[i].doc);
	fprintf(out, "\n'wait' exits with the step's own status, or %d if it is not known.\n",
		CTL_WAIT_FAILED);
}

/* Output that could not be written is a failure: it must not pass for complete. */
static int ctl_finish(const char *name, int status)
{
	bool failed = ferror(stdout) != 0;

	if (fclose(stdout) == 0 && !failed)
		return status;
	if (errno != EPIPE) /* the reader has closed the pipe: it has seen enough */
		fprintf(stderr, "stepctl %s: can't write to standard output: %m\n", name);
	return CTL_OUTPUT;
}

/* A closed descriptor below 3 would become a connection: reserves it by one whose use is an
 * error. */
static int reserve_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_PATH | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd < 0 ? -errno : close(fd);
}

static const struct verb *find_verb(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	}
	return NULL;
}

/* Runs the verb, and prints what it has collected for --json. */
static int run(struct ctl *ctl)
{
	int r;

	ctl->out.steps = json_array();
	if (!ctl->out.steps)
		return err_set(&ctl->err, -ENOMEM, "begin");
	r = ctl->verb->run(ctl);
	if (r == 0 && ctl->opt.json && !ctl->out.printed)
		r = ctl_print_json(
			ctl, json_pack("{s:o}", "steps", take_ptr(ctl->out.steps)), false);
	json_decref(ctl->out.steps);
	return r;
}

/* One sentence: the list of all verbs would scroll it away. */
static int no_such_verb(const char *name)
{
	if (*name == '-')
		fprintf(stderr,
			"stepctl: '%.200s' before the verb: options follow the verb, as in 'stepctl "
			"list --json'\n",
			name);
	else
		fprintf(stderr, "stepctl: there is no verb '%.200s'; 'stepctl --help' lists them\n",
			name);
	return CTL_USAGE;
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
	struct ctl ctl = {.verb = verb, .argc = argc, .argv = argv, .opt = CTL_OPTIONS_INIT};
	int r = 0;

	ctl.term = term_detect(STDOUT_FILENO);
	if (verb->options)
		r = ctl_parse_options(&ctl);
	if (r == 0 && ctl.opt.help) {
		ctl_print_verb_help(verb, stdout);
		return ctl_finish(verb->name, CTL_OK);
	}
	if (r == 0)
		r = run(&ctl);
	if (r < 0) {
		ctl_report_err(&ctl, NULL, &ctl.err, NULL);
		ctl.out.status = verb->failure ? verb->failure : (int)ctl_exit_of(ctl.err.code);
	}
	return ctl_finish(verb->name, ctl.out.status);
}

int main(int argc, char **argv)
{
	char flag[] = "--help", *help[] = {flag, flag, NULL};
	const char *name = argc > 1 ? argv[1] : "";
	const struct verb *verb = find_verb(name);

	(void)setlocale(LC_CTYPE, ""); /* without a known locale, "C" stays */
	if (reserve_standard_fds() < 0) {
		fprintf(stderr, "stepctl: open '/dev/null': %m\n");
		return CTL_FAILED;
	}
	if (verb)
		return run_verb(verb, argc - 1, argv + 1);
	if (strcmp(name, "--version") == 0) {
		printf("stepctl %s\n", PACKAGE_VERSION);
		return ctl_finish(name, CTL_OK);
	}
	if (strcmp(name, "help") == 0 && argc > 2) {
		verb = find_verb(argv[2]);
		return verb ? run_verb(verb, 2, help) : no_such_verb(argv[2]);
	}
	if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		ctl_print_help(stdout);
		return ctl_finish(name, CTL_OK);
	}
	if (*name)
		return no_such_verb(name);
	ctl_print_help(stderr);
	return CTL_USAGE;
}
