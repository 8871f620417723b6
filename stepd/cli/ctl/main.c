/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <string.h>

#include "config.h"
#include "stepd/cli/ctl/ctl.h"

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
	{"set-limits", ctl_set_limits, "STEP", 1, 1, 0, "change the limits of a step, or of a task",
		0},
	{"notify", ctl_notify, "STEP MESSAGE", 2, 2, CALLS,
		"write a line to a step's standard error", 0},
	{"add", ctl_add, "STEP PID...", 2, -1, CALLS, "make running processes members of a step",
		0},
	{"reexec", ctl_reexec, "STEP...", 1, -1, CALLS,
		"let agents execute their new program, in place", 0},
	{"clean", ctl_clean, "", 0, 0, DIRS | CTL_BIT(DRY_RUN) | CTL_BIT(PLUGIN_DIR),
		"remove what dead agents have left", 0},
};

static void print_help(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: stepctl VERB [OPTION...] [ARGUMENT...]\n\n");
	for (i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(out, "  %-10s %-16s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].doc);
	fprintf(out,
		"\nSTEP is 7.0, node/7.0, or a beginning of it that no other step has.\n"
		"'stepctl VERB --help', or 'help VERB', shows the options. Exit status:\n\n");
	for (i = 0; i < CTL_EXIT_MAX; i++)
		fprintf(out, "  %zu  %s\n", i, ctl_exits[i].doc);
	fprintf(out, "\n'wait' exits with the step's own status, or %d if it is not known.\n",
		CTL_WAIT_FAILED);
}

/* Output that could not be written is a failure: half of it must not pass for the whole. */
static int finish(const char *name, int status)
{
	bool failed = ferror(stdout) != 0;

	if (fclose(stdout) == 0 && !failed)
		return status;
	if (errno != EPIPE) /* the reader has closed the pipe: it has seen enough */
		fprintf(stderr, "stepctl %s: can't write to standard output: %m\n", name);
	return CTL_OUTPUT;
}

/* A closed descriptor below 3 would become a connection: put one there whose use is an error. */
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

/* One sentence, which the list of all verbs would push off the screen. */
static int no_such_verb(const char *name)
{
	if (*name == '-')
		fprintf(stderr,
			"stepctl: '%.200s' before the verb: options stand behind it, as in 'stepctl "
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
		return finish(verb->name, CTL_OK);
	}
	if (r == 0)
		r = run(&ctl);
	if (r < 0) {
		ctl_report_err(&ctl, NULL, &ctl.err, NULL);
		ctl.out.status = verb->failure ? verb->failure : (int)ctl_exit_of(ctl.err.code);
	}
	return finish(verb->name, ctl.out.status);
}

int main(int argc, char **argv)
{
	char flag[] = "--help", *help[] = {flag, flag, NULL};
	const char *name = argc > 1 ? argv[1] : "";
	const struct verb *verb = find_verb(name);

	(void)setlocale(LC_CTYPE, ""); /* without one that is known, "C" stays */
	if (reserve_standard_fds() < 0) {
		fprintf(stderr, "stepctl: open '/dev/null': %m\n");
		return CTL_FAILED;
	}
	if (verb)
		return run_verb(verb, argc - 1, argv + 1);
	if (strcmp(name, "--version") == 0) {
		printf("stepctl %s\n", PACKAGE_VERSION);
		return finish(name, CTL_OK);
	}
	if (strcmp(name, "help") == 0 && argc > 2) {
		verb = find_verb(argv[2]);
		return verb ? run_verb(verb, 2, help) : no_such_verb(argv[2]);
	}
	if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
		print_help(stdout);
		return finish(name, CTL_OK);
	}
	if (*name)
		return no_such_verb(name);
	print_help(stderr);
	return CTL_USAGE;
}
