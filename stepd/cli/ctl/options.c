/* SPDX-License-Identifier: BSD-3-Clause */
#include "stepd/cli/ctl/options.h"

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "stepd/base/parse.h"
#include "stepd/cli/ctl/ctl.h"

#define INTERVAL_LEAST_MS 100 /* the interface's */

struct option_row;

/* Takes an option's argument; its error does not name the option yet. */
typedef int (*take_fn)(struct ctl *ctl, const struct option_row *row, const char *arg);

struct option_row {
	const char *name;
	char letter;     /* 0: none */
	const char *arg; /* what help calls its argument; NULL: it takes none */
	take_fn take;
	size_t offset; /* of the member of struct ctl_options */
	const char *doc;
};

static int take_flag(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	(void)arg;
	*(bool *)((char *)&ctl->opt + row->offset) = true;
	return 0;
}

static int take_text(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	*(const char **)((char *)&ctl->opt + row->offset) = arg;
	return 0;
}

static int take_number(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	if (parse_u64(arg, 0, INT64_MAX, (uint64_t *)((char *)&ctl->opt + row->offset)) < 0)
		return err_say(&ctl->err, -EINVAL, "'%.200s' is no number", arg);
	return 0;
}

static int take_count(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	if (parse_u64(arg, 1, INT64_MAX, (uint64_t *)((char *)&ctl->opt + row->offset)) < 0)
		return err_say(&ctl->err, -EINVAL, "'%.200s' is no number from 1", arg);
	return 0;
}

static int take_pid(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	if (parse_u64(arg, 1, INT_MAX, (uint64_t *)((char *)&ctl->opt + row->offset)) < 0)
		return err_say(&ctl->err, -EINVAL, "'%.200s' is no pid", arg);
	return 0;
}

static int parse_duration(struct ctl *ctl, const char *arg, uint64_t *ret_ms)
{
	if (parse_duration_ms(arg, ret_ms) < 0 || *ret_ms > INT_MAX)
		return err_say(&ctl->err, -EINVAL, "'%.200s' is no duration such as 5s", arg);
	return 0;
}

static int take_timeout(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	(void)row;
	ctl->opt.timeout_given = true;
	return parse_duration(ctl, arg, &ctl->opt.timeout_ms);
}

static int take_grace(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	uint64_t ms = 0;
	int r = parse_duration(ctl, arg, &ms);

	(void)row;
	ctl->opt.grace_ms = (int64_t)ms;
	return r;
}

static int take_interval(struct ctl *ctl, const struct option_row *row, const char *arg)
{
	int r = parse_duration(ctl, arg, &ctl->opt.interval_ms);

	(void)row;
	if (r == 0 && ctl->opt.interval_ms < INTERVAL_LEAST_MS)
		return err_say(&ctl->err, -EINVAL, "'%.200s' is less than 100ms", arg);
	return r;
}

#define AT(member) offsetof(struct ctl_options, member)

static const struct option_row rows[CTL_OPT_MAX] = {
	[CTL_OPT_SIGNAL] = {"signal", 's', "SIG", take_text, AT(signal),
		"TERM, SIGTERM, 15 or RTMIN+3 (TERM)"},
	[CTL_OPT_LEADER] = {"leader", 0, NULL, take_flag, AT(leader),
		"the tasks' first processes, or PID, alone"},
	[CTL_OPT_PID] = {"pid", 0, "PID", take_pid, AT(pid),
		"this process of the step and its descendants"},
	[CTL_OPT_TASKS] = {"tasks", 0, NULL, take_flag, AT(tasks),
		"the rank of each one's task behind it"},
	[CTL_OPT_NAMES] = {"names", 0, NULL, take_flag, AT(names),
		"only NODE/STEP, one a line, for scripts"},
	[CTL_OPT_NAMESPACE] = {"namespace", 0, "PID|INODE", take_text, AT(namespace),
		"the numbers are those of this pid namespace, or of this process's"},
	[CTL_OPT_NOW] = {"now", 0, NULL, take_flag, AT(now), "by SIGKILL, at once"},
	[CTL_OPT_GRACE] = {"grace", 0, "DURATION", take_grace, AT(grace_ms),
		"time after each signal but the last"},
	[CTL_OPT_KILL_SEQUENCE] = {"kill-sequence", 0, "SIGNAL[:WAIT],...", take_text,
		AT(kill_sequence), "this one in place of the step's own"},
	[CTL_OPT_FROM] = {"from", 0, "N", take_number, AT(from),
		"from event number N on (1); 0: new ones only"},
	[CTL_OPT_FOLLOW] = {"follow", 'f', NULL, take_flag, AT(follow),
		"go on until the step ends"},
	[CTL_OPT_INTERVAL] = {"interval", 'i', "DURATION", take_interval, AT(interval_ms),
		"again and again, 100ms at least"},
	[CTL_OPT_ROUNDS] = {"count", 'n', "N", take_count, AT(rounds), "stop after N samples"},
	[CTL_OPT_BATCH] = {"batch", 'b', NULL, take_flag, AT(batch),
		"print tables, for files and pipes"},
	[CTL_OPT_SORT] = {"sort", 0, "KEY", take_text, AT(sort),
		"by step, user, cpu, mem, procs or time (cpu)"},
	[CTL_OPT_DRY_RUN] = {"dry-run", 0, NULL, take_flag, AT(dry_run),
		"only list what would be removed"},
	[CTL_OPT_JSON] = {"json", 0, NULL, take_flag, AT(json), "print JSON"},
	[CTL_OPT_TIMEOUT] = {"timeout", 0, "DURATION", take_timeout, AT(timeout_ms),
		"how long to wait for a reply"},
	[CTL_OPT_RUNTIME_DIR] = {"runtime-dir", 0, "DIR", take_text, AT(runtime_dir),
		"where the node's steps are registered"},
	[CTL_OPT_PLUGIN_DIR] = {"plugin-dir", 0, "DIR", take_text, AT(plugin_dir),
		"where the plugins are"},
	[CTL_OPT_HELP] = {"help", 'h', NULL, take_flag, AT(help), "show this"},
};

static bool has(const struct verb *verb, size_t id)
{
	return id == CTL_OPT_HELP || verb->options >> id & 1;
}

void ctl_print_verb_help(const struct verb *verb, FILE *out)
{
	char left[80], letter[8];
	size_t i;

	fprintf(out, "Usage: stepctl %s [OPTION...]%s%s\n%c%s.\n\n", verb->name,
		*verb->arguments ? " " : "", verb->arguments, verb->doc[0] - 'a' + 'A',
		verb->doc + 1);
	for (i = 0; i < CTL_OPT_MAX; i++) {
		if (!has(verb, i))
			continue;
		(void)snprintf(letter, sizeof(letter), "-%c, ", rows[i].letter);
		(void)snprintf(left, sizeof(left), "%s--%s%s%s", rows[i].letter ? letter : "    ",
			rows[i].name, rows[i].arg ? " " : "", rows[i].arg ? rows[i].arg : "");
		fprintf(out, "  %-29s %s\n", left, rows[i].doc);
	}
}

/* getopt_long(3)'s view of the verb's rows; shorts gets "+..." of the letters. */
static void make_getopt(const struct verb *verb, struct option *longs, char *shorts)
{
	size_t i;

	*shorts++ = ':'; /* the messages are ours */
	for (i = 0; i < CTL_OPT_MAX; i++) {
		if (!has(verb, i))
			continue;
		*longs++ = (struct option){.name = rows[i].name,
			.has_arg = rows[i].arg ? required_argument : no_argument,
			.val = CHAR_MAX + 1 + (int)i};
		if (rows[i].letter)
			*shorts++ = rows[i].letter;
		if (rows[i].letter && rows[i].arg)
			*shorts++ = ':';
	}
	*shorts = '\0';
	*longs = (struct option){0};
}

static size_t find_row(int opt)
{
	size_t i;

	if (opt > CHAR_MAX)
		return (size_t)(opt - CHAR_MAX - 1);
	for (i = 0; i < CTL_OPT_MAX && rows[i].letter != opt; i++)
		;
	return i;
}

static int wrong_option(struct ctl *ctl, int opt, const char *word)
{
	if (opt == ':')
		return err_say(&ctl->err, -EINVAL,
			"'%.200s' needs an argument (see 'stepctl %s --help')", word,
			ctl->verb->name);
	return err_say(&ctl->err, -EINVAL, "'%.200s' is no option of it (see 'stepctl %s --help')",
		word, ctl->verb->name);
}

static int check_count(struct ctl *ctl)
{
	const struct verb *verb = ctl->verb;

	if (ctl->count < verb->least)
		return err_say(&ctl->err, -EINVAL, "give it %s (see 'stepctl %s --help')",
			verb->arguments, verb->name);
	if (verb->most >= 0 && ctl->count > verb->most)
		return err_say(&ctl->err, -EINVAL,
			"'%.200s' is one argument too many (see 'stepctl %s --help')",
			ctl->args[verb->most], verb->name);
	return 0;
}

int ctl_parse_options(struct ctl *ctl)
{
	struct option longs[CTL_OPT_MAX + 1];
	char shorts[2 * CTL_OPT_MAX + 2];
	int argc = ctl->argc, opt;
	char **argv = ctl->argv;
	size_t id;

	make_getopt(ctl->verb, longs, shorts);
	opterr = 0;
	while ((opt = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		if (opt == '?' || opt == ':')
			return wrong_option(ctl, opt, argv[optind - 1]);
		id = find_row(opt);
		if (rows[id].take(ctl, &rows[id], optarg) < 0)
			return err_prefix(&ctl->err, "--%s", rows[id].name);
	}
	ctl->args = argv + optind;
	ctl->count = argc - optind;
	return ctl->opt.help ? 0 : check_count(ctl);
}
