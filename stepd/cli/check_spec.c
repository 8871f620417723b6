/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "stepd/agent/spec/spec.h"
#include "stepd/cli/cli.h"

static void print_usage(FILE *out)
{
	fputs("Usage: stepd check-spec FILE...\n"
	      "Checks step specs, stepd-spec(5), without running them; - is stdin. The status is 0 if "
	      "all\nare fine, else 1.\n",
		out);
}

/* 0, or -errno with the reason on stderr. */
static int check_file(const char *file)
{
	bool is_stdin = strcmp(file, "-") == 0;
	_cleanup_spec_ struct spec *spec = NULL;
	_cleanup_close_ int opened = -1;
	struct err err = ERR_INIT;
	int r = 0;

	if (!is_stdin) {
		opened = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (opened < 0)
			r = err_set(&err, -errno, "open");
	}
	if (r == 0)
		r = spec_from_fd(is_stdin ? STDIN_FILENO : opened, &spec, &err);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", file, err.text);
		return r;
	}
	printf("%s: ok (%u.%s, %u task%s)\n", file, spec->job_id, spec->step_name,
		spec->local_ntasks, spec->local_ntasks == 1 ? "" : "s");
	return 0;
}

int cli_check_spec(int argc, char **argv)
{
	static const struct option longs[] = {{.name = "help", .val = 'h'}, {0}};
	bool failed = false;
	int c, i;

	optind = 0; /* glibc: from the start */
	while ((c = getopt_long(argc, argv, "+h", longs, NULL)) != -1) {
		if (c == 'h') {
			print_usage(stdout);
			return 0;
		}
		print_usage(stderr);
		return STATUS_FAILED;
	}
	if (optind == argc) {
		fputs("stepd check-spec: no file given\n", stderr);
		print_usage(stderr);
		return STATUS_FAILED;
	}
	for (i = optind; i < argc; i++)
		failed |= check_file(argv[i]) < 0;
	if (fflush(stdout) != 0) {
		perror("stepd check-spec: write");
		return STATUS_FAILED;
	}
	return failed ? 1 : 0;
}
