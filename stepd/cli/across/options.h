/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The options of steprun: those of "stepd run" but for what is one node's affair, and a few of
 * its own. What comes out is the step's document, the names of its nodes and the ranks of each.
 */
#ifndef STEPD_CLI_ACROSS_OPTIONS_H
#define STEPD_CLI_ACROSS_OPTIONS_H

#include "stepd/base/strv.h"
#include "stepd/cli/across/launch.h"
#include "stepd/cli/layout.h"
#include "stepd/cli/run/run_options.h"

/* Of "steprun attach". */
struct steprun_attach {
	bool input, tail, label;
	int64_t since; /* -1: not given */
	const char *stream, *detach_keys;
	char *step;        /* "7.0" */
	const char *ranks; /* of argv; NULL: all */
	uint32_t nodes;    /* 0: those of this machine that have the step */
};

struct steprun_options {
	struct run_options run; /* first: the options of "stepd run" are set in here */

	/* As they were given, texts in argv; NULL, 0: not given. */
	const char *hosts, *hostfile, *launcher_text, *program, *distribution;
	uint32_t nodes_requested, per_node;
	bool overcommit;
	uint64_t launch_timeout_ms;

	/* What follows from them. */
	char *found_program; /* where none was given */
	struct launcher launcher;
	bool here;         /* one agent, without a launcher */
	bool allocated;    /* its nodes are those of an allocation, unless others are given */
	struct strv nodes; /* names; empty where only the launcher knows them */
	struct layout layout;

	struct steprun_attach attach;
};

#define STEPRUN_OPTIONS_INIT                                                                       \
	{                                                                                          \
		.run = RUN_OPTIONS_INIT, .attach = {.since = -1 }                                  \
	}

/* argv[0] is ignored. environment is what --export takes from, and where a launcher's variables
 * are. */
int steprun_options_parse(int argc, char **argv, char **environment,
	struct steprun_options *ret_options, struct err *err) _must_check_;

/* The command line of "steprun attach": argv[0] is ignored. */
int steprun_attach_parse(int argc, char **argv, char **environment,
	struct steprun_options *ret_options, struct err *err) _must_check_;

void steprun_options_print_help(FILE *out);
void steprun_attach_print_help(FILE *out);
void steprun_options_clear(struct steprun_options *options);

#endif
