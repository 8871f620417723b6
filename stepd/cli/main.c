/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stepd/cli/cli.h"
#include "stepd/cli/version.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *doc;
} commands[] = {
	{"run", cli_run, "run a step: stepd run -n 4 -- PROGRAM [ARG...]"},
	{"serve", cli_serve, "run the step of a spec file, for a node daemon"},
	{"adopt", cli_adopt, "be the agent of a step whose agent has died"},
	{"continue", cli_continue,
		"goes on with an agent's step: an agent that is upgraded calls it"},
	{"relay", cli_relay, "steprun's relay on a node"},
	{"check-spec", cli_check_spec, "check spec files without running them"},
	{"plugins", cli_plugins, "the installed plugins and what they can do here"},
	{"doctor", cli_doctor, "what works on this machine, what doesn't, and the remedy"},
};

static void print_help(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: stepd COMMAND [OPTION...] [ARGUMENT...]\n\n");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].doc);
	fprintf(out,
		"\n'stepd COMMAND --help' shows the options of a command; stepd(8) describes all.\n");
}

/* What was printed has to arrive, or the command has failed. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "stepd: write to standard output: %s\n", strerror(errno));
	return status ? status : STATUS_FAILED;
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
		printf("stepd %s\n", stepd_version);
		return finish(0);
	}
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		print_help(stdout);
		return finish(0);
	}
	for (i = 0; argc >= 2 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return finish(commands[i].run(argc - 1, argv + 1));
	}
	if (argc < 2)
		fprintf(stderr, "stepd: no command given\n");
	else
		fprintf(stderr, "stepd: there is no command '%s'\n", argv[1]);
	print_help(stderr);
	return STATUS_FAILED;
}
