/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of all verbs, a row each, and how a command line is parsed.
 */
#include <limits.h>
#include <stddef.h>

#include "stepd/base/parse.h"
#include "stepd/cli/ctl/ctl.h"

#define INTERVAL_LEAST_MS 100 /* the interface's */

static int take_u64(const struct cli_option *o, const char *arg, uint64_t least, uint64_t most,
	struct ctl_options *into, const char *what, struct err *err)
{
	if (parse_u64(arg, least, most, (uint64_t *)((char *)into + o->offset)) < 0)
		return err_set_text(err, -EINVAL, "'%.200s' is no %s", arg, what);
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
		return err_set_text(err, -EINVAL, "'%.200s' is no duration such as 5s", arg);
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
	 .doc = "the rank of each one's task behind it"},
	[CTL_OPT_NAMES] = {.name = "names", .take = cli_take_flag, .offset = AT(names),
	 .doc = "only NODE/STEP, one a line, for scripts"},
	[CTL_OPT_NAMESPACE] = {.name = "namespace", .arg = "PID|INODE", .take = cli_take_text, .offset = AT(namespace),
	 .doc = "the numbers are those of this pid namespace, or of this process's"},
	[CTL_OPT_NOW] = {.name = "now", .take = cli_take_flag, .offset = AT(now),
	 .doc = "by SIGKILL, at once"},
	[CTL_OPT_GRACE] = {.name = "grace", .arg = "DURATION", .take = take_duration, .offset = AT(grace_ms),
	 .doc = "time after each signal but the last"},
	[CTL_OPT_KILL_SEQUENCE] = {.name = "kill-sequence", .arg = "SIGNAL[:WAIT],...", .take = cli_take_text, .offset = AT(kill_sequence),
	 .doc = "this one in place of the step's own"},
	[CTL_OPT_FROM] = {.name = "from", .arg = "N", .take = take_number, .offset = AT(from),
	 .doc = "from event number N on (1); 0: new ones only"},
	[CTL_OPT_FOLLOW] = {.name = "follow", .letter = 'f', .take = cli_take_flag, .offset = AT(follow),
	 .doc = "go on until the step ends"},
	[CTL_OPT_INTERVAL] = {.name = "interval", .letter = 'i', .arg = "DURATION", .take = take_interval, .offset = AT(interval_ms),
	 .doc = "again and again, 100ms at least"},
	[CTL_OPT_ROUNDS] = {.name = "count", .letter = 'n', .arg = "N", .take = take_count, .offset = AT(rounds),
	 .doc = "stop after N samples"},
	[CTL_OPT_BATCH] = {.name = "batch", .letter = 'b', .take = cli_take_flag, .offset = AT(batch),
	 .doc = "print tables, for files and pipes"},
	[CTL_OPT_SORT] = {.name = "sort", .arg = "KEY", .take = cli_take_text, .offset = AT(sort),
	 .doc = "by step, user, cpu, mem, procs or time (cpu)"},
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

static size_t make_rows(const struct verb *verb, struct cli_option *ret_rows)
{
	size_t i, n = 0;

	for (i = 0; i < CTL_OPT_MAX; i++) {
		if (i == CTL_OPT_HELP || verb->options >> i & 1)
			ret_rows[n++] = rows[i];
	}
	return n;
}

void ctl_print_verb_help(const struct verb *verb, FILE *out)
{
	struct cli_option own[CTL_OPT_MAX];

	fprintf(out, "Usage: stepctl %s [OPTION...]%s%s\n%c%s.\n\n", verb->name,
		*verb->arguments ? " " : "", verb->arguments, verb->doc[0] - 'a' + 'A',
		verb->doc + 1);
	cli_options_print(own, make_rows(verb, own), out);
}

int ctl_parse_options(struct ctl *ctl)
{
	const struct verb *verb = ctl->verb;
	struct cli_option own[CTL_OPT_MAX];
	char command[32];
	struct cli_options options = {.rows = own,
		.n = make_rows(verb, own),
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
