/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stepd/base/fs.h"
#include "stepd/cli/cli.h"
#include "stepd/cli/options.h"
#include "stepd/spec/spec.h"

/* ---- stepd check-spec ---------------------------------------------------------------------- */

static void check_print_usage(FILE *out)
{
	fputs("Usage: stepd check-spec FILE...\n"
	      "Checks step specs, stepd-spec(5), without running them; - is stdin. The status is 0 if "
	      "all\nare fine, 1 if one is wrong, 125 if one can't be read.\n",
		out);
}

static void print_errors(const char *file, const struct err *err)
{
	size_t i;

	for (i = 0; i < err->list->count; i++)
		fprintf(stderr, "%s: %s\n", file, err->list->texts[i]);
	if (err->list->more > 0)
		fprintf(stderr, "%s: and %zu more\n", file, err->list->more);
	if (err->text[0])
		fprintf(stderr, "%s: %s\n", file, err->text);
}

static int read_file(const char *file, char **ret_text, size_t *ret_size, struct err *err)
{
	_cleanup_close_ int fd = cli_open_file(file, err);
	int r = fd < 0 ? fd : fs_read_fd(fd, SPEC_SIZE_MAX, ret_text, ret_size);

	if (fd < 0)
		return fd;
	if (r == -EFBIG)
		return err_set_text(err, r, "the document has more than %u bytes", SPEC_SIZE_MAX);
	return r < 0 ? err_set(err, r, "read the step spec") : 0;
}

/* The exit status for this file, with the reasons on stderr. */
static int check_file(const char *file)
{
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_err_list_ struct err_list list = {.count = 0};
	_cleanup_free_ char *text = NULL;
	struct err err = ERR_INIT;
	size_t size = 0;
	int r = read_file(file, &text, &size, &err);
	bool is_read = r == 0 || r == -EFBIG;

	err.list = &list;
	if (r == 0)
		r = spec_from_text(text, size, &spec, &err);
	if (r < 0) {
		print_errors(file, &err);
		return is_read && r != -ENOMEM ? 1 : STATUS_FAILED;
	}
	printf("%s: ok (%u.%s, %u task%s)\n", file, spec->job_id, spec->step_name,
		spec->local_ntasks, spec->local_ntasks == 1 ? "" : "s");
	return 0;
}

static const struct cli_option check_rows[] = {
	{.name = "help", .letter = 'h', .take = cli_take_help, .doc = "show this"},
};

int cli_check_spec(int argc, char **argv)
{
	struct cli_options options = {.rows = check_rows,
		.n = ARRAY_SIZE(check_rows),
		.command = "stepd check-spec",
		.most = -1};
	struct err err = ERR_INIT;
	bool help = false;
	int i, r, status = 0;

	if (cli_options_parse(&options, argc, argv, &help, &i, &err) < 0) {
		fprintf(stderr, "stepd check-spec: %s\n", err.text);
		return STATUS_FAILED;
	}
	if (help) {
		check_print_usage(stdout);
		return 0;
	}
	if (i == argc) {
		fputs("stepd check-spec: no file given\n", stderr);
		check_print_usage(stderr);
		return STATUS_FAILED;
	}
	for (; i < argc; i++) {
		r = check_file(argv[i]);
		status = r > status ? r : status;
	}
	if (fflush(stdout) != 0) {
		perror("stepd check-spec: write");
		return STATUS_FAILED;
	}
	return status;
}

/* ---- stepd --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *doc;
} commands[] = {
	{"run", cli_run, "run a step: stepd run -n 4 -- PROGRAM [ARG...]"},
	{"serve", cli_serve, "run the step of a spec file, for a node daemon"},
	{"adopt", cli_adopt, "take over a step whose agent has died"},
	{"continue", cli_continue,
		"continue a step in a new program, for an agent that is upgraded"},
	{"relay", cli_relay, "steprun's relay on a node"},
	{"check-spec", cli_check_spec, "check spec files without running them"},
	{"plugins", cli_plugins, "the installed plugins and what they can do here"},
	{"doctor", cli_doctor, "what works on this machine, what doesn't, and the remedy"},
};

static void stepd_print_help(FILE *out)
{
	size_t i;

	fprintf(out, "Usage: stepd COMMAND [OPTION...] [ARGUMENT...]\n\n");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(out, "  %-12s%s\n", commands[i].name, commands[i].doc);
	fprintf(out,
		"\n'stepd COMMAND --help' shows the options of a command; stepd(8) describes all.\n");
}

/* The command has failed if its output could not be written. */
static int stepd_finish(int status)
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
		return stepd_finish(0);
	}
	if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)) {
		stepd_print_help(stdout);
		return stepd_finish(0);
	}
	for (i = 0; argc >= 2 && i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return stepd_finish(commands[i].run(argc - 1, argv + 1));
	}
	if (argc < 2)
		fprintf(stderr, "stepd: no command given\n");
	else
		fprintf(stderr, "stepd: there is no command '%s'\n", argv[1]);
	stepd_print_help(stderr);
	return STATUS_FAILED;
}
